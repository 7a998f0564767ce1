"""NumPy in the words of the benchmarks: nothing is compiled or fused, nothing has a gradient."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..models.recurrent import lstm_by_scan, rnn_by_scan
from .library import Function, Lacks, Library


@final
class Numpy(Library):
    """Loops are Python's."""

    name, packages = "numpy", ("numpy",)
    xp = np

    def array(self, x: np.ndarray) -> Any:
        if x.dtype.kind == "V" or x.dtype.name == "bfloat16":
            raise Lacks("NumPy has no bfloat16 of its own")
        return np.array(x)

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def compile(self, f: Function, loops: bool = False) -> Function:
        return f

    def finished(self, call: str, result: Any) -> str:
        return call

    def gradient(self, f: Function, alone: bool = False) -> Function:
        raise Lacks("NumPy has no gradients")

    def trainer(self, loss: Function, parameters: Any, rate: float) -> Function:
        raise Lacks("NumPy has no gradients")

    def vmap(self, f: Function, axes: tuple[int | None, ...]) -> Function:
        raise Lacks("NumPy has no vmap")

    def stream(self, f: Function, state: Any) -> Function:
        kept = [state]

        def step(*args: Any) -> Any:
            result, kept[0] = f(kept[0], *args)
            return result

        return step

    def scan(self, f: Function, first: Any, xs: Any) -> tuple[Any, Any]:
        carry, made = first, []
        for x in xs:
            carry, y = f(carry, x)
            made.append(y)
        return carry, None if made[0] is None else np.stack(made)

    def lstm(self, p: Any, xs: Any) -> Any:
        return lstm_by_scan(self, p, xs)

    def rnn(self, p: Any, xs: Any) -> Any:
        return rnn_by_scan(self, p, xs)

    # -- sums, order, places ----------------------------------------------------------------------

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return np.sum(x, axis, keepdims=keepdims)

    def variance(self, x: Any) -> Any:
        return np.var(x, -1)

    def max(self, x: Any, axis: int) -> Any:
        return np.max(x, axis)

    def sort(self, x: Any) -> Any:
        return np.sort(x)

    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:
        places = np.argpartition(x, count, -1)[:, :count]
        values = np.take_along_axis(x, places, -1)
        order = np.argsort(values, -1)
        return np.take_along_axis(values, order, -1), np.take_along_axis(places, order, -1)

    def scatter_add(self, x: Any, places: Any, values: Any) -> Any:
        made = x.copy()
        np.add.at(made, places, values)
        return made

    def with_element(self, x: Any, place: int, value: Any) -> Any:
        made = x.copy()
        made[place] = value
        return made

    def segment_sum(self, x: Any, ids: Any, count: int) -> Any:
        if x.ndim == 1:
            return np.bincount(ids, x, count).astype(x.dtype)
        made = np.zeros((count, *x.shape[1:]), x.dtype)
        np.add.at(made, ids, x)
        return made

    def transposed(self, x: Any) -> Any:
        return np.ascontiguousarray(x.T)

    def astype(self, x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    # -- products ---------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return x @ weight + bias

    def int8_product(self, x: Any, y: Any) -> Any:
        return np.matmul(x, y, dtype=np.int32)

    def conv(self, x: Any, kernel: Any, stride: int = 1, groups: int = 1, pad: int = 1) -> Any:
        raise Lacks("NumPy has no convolution of images")

    def conv_transpose(self, x: Any, kernel: Any) -> Any:
        raise Lacks("NumPy has no convolution of images")

    # -- layers -----------------------------------------------------------------------------------

    def softmax(self, x: Any) -> Any:
        made = np.exp(x - x.max(-1, keepdims=True))
        return made / made.sum(-1, keepdims=True)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        variance = np.mean(centered * centered, -1, keepdims=True)
        return centered / np.sqrt(variance + 1e-5) * scale + bias

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def erf(self, x: Any) -> Any:
        raise Lacks("NumPy has no erf")

    def heads(self, x: Any, count: int) -> Any:
        return x.reshape((*x.shape[:2], count, -1)).swapaxes(1, 2)

    def merged(self, x: Any) -> Any:
        x = x.swapaxes(1, 2)
        return x.reshape((*x.shape[:2], -1))

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        scores = q @ k.swapaxes(-1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
        if causal:
            mask = np.tri(q.shape[2], k.shape[2], dtype=bool)
        if mask is not None:
            scores = np.where(mask, scores, q.dtype.type(-1e30))
        return self.softmax(scores) @ v

    def written(self, cache: Any, new: Any, position: Any) -> Any:
        cache[:, :, int(position) : int(position) + new.shape[2]] = new
        return cache

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        raise Lacks("NumPy has no gradients")

    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        raise Lacks("NumPy has no convolution of images")

    def max_pool(self, x: Any) -> Any:
        raise Lacks("NumPy has no convolution of images")

    def spatial_mean(self, x: Any) -> Any:
        raise Lacks("NumPy has no convolution of images")

    def tokens(self, x: Any) -> Any:
        raise Lacks("NumPy has no convolution of images")
