"""MLX in the words of the benchmarks."""

from __future__ import annotations

from typing import Any, ClassVar, final

import ml_dtypes
import mlx.core as mx
import mlx.nn as nn
import numpy as np

from ..models.recurrent import lstm_by_scan, rnn_by_scan
from ..trees import leaves, tree_map
from .adam import adam_step
from .library import Function, Lacks, Library, Places


@final
class Mlx(Library):
    """Loops are Python's; long ones run a compiled body."""

    name, packages = "mlx", ("mlx",)
    xp, wait = mx, staticmethod(mx.eval)
    places: ClassVar[Places] = {
        "image": (0, 2, 3, 1),
        "kernel": (0, 2, 3, 1),
        "transposed kernel": (1, 2, 3, 0),
        "weight": (1, 0),
    }

    def array(self, x: np.ndarray) -> Any:
        if x.dtype == ml_dtypes.bfloat16:
            return mx.array(x.astype(np.float32)).astype(mx.bfloat16)
        if x.dtype == np.float64:
            return mx.array(x, dtype=mx.float64)
        return mx.array(x)

    def numpy(self, x: Any) -> np.ndarray:
        return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)

    def compile(self, f: Function, loops: bool = False) -> Function:
        return f if loops else mx.compile(f)

    def finished(self, call: str, result: Any) -> str:
        return f"wait({call})"

    def gradient(self, f: Function, alone: bool = False) -> Function:
        return mx.grad(f) if alone else mx.value_and_grad(f)

    def stream(self, f: Function, state: Any) -> Function:
        compiled, kept = mx.compile(f), [state]

        def step(*args: Any) -> Any:
            result, kept[0] = compiled(kept[0], *args)
            mx.eval(result, leaves(kept[0]))
            return result

        return step

    def trainer(self, loss: Function, parameters: Any, rate: float) -> Function:
        gradient = mx.value_and_grad(loss)

        def step(state: Any, *batch: Any) -> Any:
            value, grads = gradient(state[0], *batch)
            return value, adam_step(mx, state, grads, rate)

        def zeros() -> Any:
            return tree_map(mx.zeros_like, parameters)

        return self.stream(step, (parameters, zeros(), zeros(), mx.array(0)))

    def vmap(self, f: Function, axes: tuple[int | None, ...]) -> Function:
        return mx.vmap(f, axes)

    def scan(self, f: Function, first: Any, xs: Any) -> tuple[Any, Any]:
        body = mx.compile(f) if isinstance(xs, mx.array) and len(xs) > 200 else f
        carry, made = first, []
        for x in xs:
            carry, y = body(carry, x)
            made.append(y)
        return carry, None if made[0] is None else mx.stack(made)

    def lstm(self, p: Any, xs: Any) -> Any:
        return lstm_by_scan(self, p, xs)

    def rnn(self, p: Any, xs: Any) -> Any:
        return rnn_by_scan(self, p, xs)

    # -- sums, order, places ----------------------------------------------------------------------

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return mx.sum(x, axis, keepdims=keepdims)

    def variance(self, x: Any) -> Any:
        return mx.var(x, -1)

    def max(self, x: Any, axis: int) -> Any:
        return mx.max(x, axis)

    def sort(self, x: Any) -> Any:
        return mx.sort(x)

    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:
        places = mx.argpartition(x, count, -1)[:, :count]
        values = mx.take_along_axis(x, places, -1)
        order = mx.argsort(values, -1)
        return mx.take_along_axis(values, order, -1), mx.take_along_axis(places, order, -1)

    def scatter_add(self, x: Any, places: Any, values: Any) -> Any:
        return x.at[places].add(values)

    def with_element(self, x: Any, place: int, value: Any) -> Any:
        return x.at[place].add(value - x[place])

    def segment_sum(self, x: Any, ids: Any, count: int) -> Any:
        return mx.zeros((count, *x.shape[1:]), x.dtype).at[ids].add(x)

    def transposed(self, x: Any) -> Any:
        return mx.contiguous(x.T)

    def astype(self, x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    # -- products ---------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return mx.addmm(bias, x, weight.T)

    def int8_product(self, x: Any, y: Any) -> Any:
        raise Lacks("MLX has no product of integer matrices")

    def conv(self, x: Any, kernel: Any, stride: int = 1, groups: int = 1, pad: int = 1) -> Any:
        return mx.conv2d(x, kernel, stride=stride, padding=pad, groups=groups)

    def conv_transpose(self, x: Any, kernel: Any) -> Any:
        return mx.conv_transpose2d(x, kernel, stride=2, padding=1, output_padding=1)

    # -- layers -----------------------------------------------------------------------------------

    def softmax(self, x: Any) -> Any:
        return mx.softmax(x, -1)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return mx.fast.layer_norm(x, scale, bias, 1e-5)

    def gelu(self, x: Any) -> Any:
        return nn.gelu_approx(x)

    def relu(self, x: Any) -> Any:
        return nn.relu(x)

    def sigmoid(self, x: Any) -> Any:
        return mx.sigmoid(x)

    def erf(self, x: Any) -> Any:
        return mx.erf(x)

    def heads(self, x: Any, count: int) -> Any:
        return mx.unflatten(x, 2, (count, -1)).swapaxes(1, 2)

    def merged(self, x: Any) -> Any:
        return mx.flatten(x.swapaxes(1, 2), 2)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        seen = "causal" if causal else mask
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask=seen)

    def written(self, cache: Any, new: Any, position: Any) -> Any:
        return mx.slice_update(cache, new, position.reshape(1), (2,))

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return nn.losses.cross_entropy(logits, labels, reduction="mean")

    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        if not training:
            factor = p["scale"] * mx.rsqrt(p["var"] + 1e-5)
            return x * factor + (p["bias"] - p["mean"] * factor)
        mean, var = mx.mean(x, (0, 1, 2)), mx.var(x, (0, 1, 2))
        return (x - mean) * mx.rsqrt(var + 1e-5) * p["scale"] + p["bias"]

    def max_pool(self, x: Any) -> Any:
        return nn.MaxPool2d(3, 2, 1)(x)

    def spatial_mean(self, x: Any) -> Any:
        return mx.mean(x, (1, 2))

    def tokens(self, x: Any) -> Any:
        return mx.flatten(x, 1, 2)
