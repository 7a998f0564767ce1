"""The vocabulary of libraries with the names of JAX: the same words for JAX and for rlx."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..models.recurrent import lstm_by_scan, rnn_by_scan
from .library import Function, Library, Places

IMAGES = ("NHWC", "HWIO", "NHWC")


class JaxNames(Library):
    """What is alike; the modules come from the two libraries."""

    lax: Any
    nn: Any
    ops: Any
    jit: Any
    value_and_grad: Any
    batched: Any
    places: ClassVar[Places] = {
        "image": (0, 2, 3, 1),
        "kernel": (2, 3, 1, 0),
        "transposed kernel": (2, 3, 1, 0),
        "heads": (0, 2, 1, 3),
    }

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def compile(self, f: Function, loops: bool = False) -> Function:
        return self.jit(f)

    def gradient(self, f: Function, alone: bool = False) -> Function:
        both = self.value_and_grad(f)
        return (lambda *xs: both(*xs)[1]) if alone else both

    def stream(self, f: Function, state: Any) -> Function:
        compiled, kept = self.jit(f, donate_argnums=0), [state]

        def step(*args: Any) -> Any:
            result, kept[0] = compiled(kept[0], *args)
            return result

        return step

    def vmap(self, f: Function, axes: tuple[int | None, ...]) -> Function:
        return self.batched(f, axes)

    def scan(self, f: Function, first: Any, xs: Any) -> tuple[Any, Any]:
        return self.lax.scan(f, first, xs)

    def lstm(self, p: Any, xs: Any) -> Any:
        return lstm_by_scan(self, p, xs)

    def rnn(self, p: Any, xs: Any) -> Any:
        return rnn_by_scan(self, p, xs)

    # -- sums, order, places ----------------------------------------------------------------------

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.xp.sum(x, axis, keepdims=keepdims)

    def variance(self, x: Any) -> Any:
        return self.xp.var(x, -1)

    def max(self, x: Any, axis: int) -> Any:
        return self.xp.max(x, axis)

    def sort(self, x: Any) -> Any:
        return self.xp.sort(x)

    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:
        values, places = self.lax.top_k(-x, count)
        return -values, places

    def scatter_add(self, x: Any, places: Any, values: Any) -> Any:
        return x.at[places].add(values)

    def with_element(self, x: Any, place: int, value: Any) -> Any:
        return x.at[place].set(value)

    def segment_sum(self, x: Any, ids: Any, count: int) -> Any:
        return self.ops.segment_sum(x, ids, num_segments=count)

    def transposed(self, x: Any) -> Any:
        return x.T

    def astype(self, x: Any, like: Any) -> Any:
        return x.astype(like.dtype)

    # -- products ---------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return x @ weight + bias

    def int8_product(self, x: Any, y: Any) -> Any:
        return self.lax.dot(x, y, preferred_element_type=np.int32)

    def conv(self, x: Any, kernel: Any, stride: int = 1, groups: int = 1, pad: int = 1) -> Any:
        return self.lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            [(pad, pad), (pad, pad)],
            dimension_numbers=IMAGES,
            feature_group_count=groups,
        )

    def conv_transpose(self, x: Any, kernel: Any) -> Any:
        return self.lax.conv_transpose(
            x, kernel, (2, 2), [(1, 2), (1, 2)], dimension_numbers=IMAGES, transpose_kernel=True
        )

    # -- layers -----------------------------------------------------------------------------------

    def softmax(self, x: Any) -> Any:
        return self.nn.softmax(x)

    def gelu(self, x: Any) -> Any:
        return self.nn.gelu(x)

    def relu(self, x: Any) -> Any:
        return self.nn.relu(x)

    def sigmoid(self, x: Any) -> Any:
        return self.nn.sigmoid(x)

    def erf(self, x: Any) -> Any:
        return self.lax.erf(x)

    def heads(self, x: Any, count: int) -> Any:
        return x.reshape((*x.shape[:2], count, x.shape[2] // count))

    def merged(self, x: Any) -> Any:
        return x.reshape((*x.shape[:2], x.shape[2] * x.shape[3]))

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        mask = None if mask is None else mask[None, None]
        return self.nn.dot_product_attention(q, k, v, mask=mask, is_causal=causal)

    def written(self, cache: Any, new: Any, position: Any) -> Any:
        return self.lax.dynamic_update_slice_in_dim(cache, new, position, 1)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        picked = self.xp.take_along_axis(self.nn.log_softmax(logits), labels[..., None], -1)
        return -self.xp.mean(picked)

    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        if not training:
            factor = p["scale"] / self.xp.sqrt(p["var"] + 1e-5)
            return x * factor + (p["bias"] - p["mean"] * factor)
        mean = self.xp.mean(x, (0, 1, 2))
        var = self.xp.mean(self.xp.square(x), (0, 1, 2)) - self.xp.square(mean)  # as in Flax
        return (x - mean) / self.xp.sqrt(var + 1e-5) * p["scale"] + p["bias"]

    def spatial_mean(self, x: Any) -> Any:
        return self.xp.mean(x, (1, 2))

    def tokens(self, x: Any) -> Any:
        return x.reshape((x.shape[0], -1, x.shape[3]))
