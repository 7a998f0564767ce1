"""Pooling over windows, over all places, or to a number of places.

Features come last. A window has a size for each axis, and any axes of batches may be in front. A
single size is for 1 axis, and an error where there may be more: it is `max_pool(x, (2, 2))` for
images. Strides, paddings and dilations are read as those of `conv.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from .. import lax, numpy as rnp
from ..ir.errors import ArgumentError, AttributeValueError, ShapeError
from ..trace.apply import as_tensor
from ..trace.arguments import count_of, flag, members
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.promotion import promote_operands, rounded_once
from .arguments import (
    Numbers,
    Pads,
    as_given,
    check_one_axis,
    numbers,
    pads_of,
    with_one_batch_axis,
)
from .module import Module, field

Sizes = int | None | Sequence[int | None]

# -- windows of one size ---------------------------------------------------------------------------


def max_pool(
    x: Any,
    window: Numbers,
    strides: Numbers | None = None,
    padding: Pads = "VALID",
    *,
    dilation: Numbers = 1,
) -> Array:
    """Max pooling: the greatest number of each window.

    `f32[batch, ..., n] → f32[batch, ..., n]`: `window` has a number for each axis between, (2, 2)
    for images; so have `strides`, the window's sizes if not given, and `dilation`, the distance of
    places in a window. `padding` is "VALID", "SAME" or a pair for each axis. A single number for
    the window is for 1 axis, and a `ShapeError` for arrays of more than 3.

    >>> max_pool(rnp.array([[1.0], [4.0], [2.0], [3.0]]), 2)
    Array([[4.],
           [3.]], dtype=float32)
    """
    return _pool("max_pool", lax.max, as_tensor(x), window, strides, padding, dilation)


def min_pool(
    x: Any,
    window: Numbers,
    strides: Numbers | None = None,
    padding: Pads = "VALID",
    *,
    dilation: Numbers = 1,
) -> Array:
    """Min pooling: the least number of each window.

    `window`, `strides`, `padding` and `dilation` are as for `max_pool`.
    """
    return _pool("min_pool", lax.min, as_tensor(x), window, strides, padding, dilation)


def avg_pool(
    x: Any,
    window: Numbers,
    strides: Numbers | None = None,
    padding: Pads = "VALID",
    *,
    count_include_pad: bool = True,
) -> Array:
    """Average pooling: the mean of each window.

    `window`, `strides` and `padding` are as for `max_pool`. Padded places count as zeros, or with
    `count_include_pad=False` not at all.

    >>> avg_pool(rnp.array([[1.0], [4.0], [2.0]]), 2, 1)
    Array([[2.5],
           [3. ]], dtype=float32)
    """
    (x,) = map(as_tensor, promote_operands(x, inexact=True))
    total = _pool("avg_pool", lax.add, x, window, strides, padding, 1)
    sizes = numbers("avg_pool: the window", window)
    if flag("avg_pool: count_include_pad", count_include_pad):
        return total / math.prod(sizes)
    ones = rnp.ones((*x.shape[x.ndim - 1 - len(sizes) : -1], 1), x.dtype)
    return total / _pool("avg_pool", lax.add, ones, window, strides, padding, 1)


def lp_pool(
    x: Any,
    norm_type: float,
    window: Numbers,
    strides: Numbers | None = None,
    padding: Pads = "VALID",
) -> Array:
    """Power-average pooling: `(Σ |x|^p)^(1/p)` over each window.

    `norm_type` is p, 1 or more: of 1 it gives sums, of `math.inf` the largest sizes. `window`,
    `strides` and `padding` are as for `max_pool`. The gradient is 0 where all of a window is, as in
    PyTorch, whose layer has no absolute value for an odd p.

    >>> lp_pool(rnp.array([[3.0], [-4.0], [0.0], [0.0]]), 2, 2)
    Array([[5.],
           [0.]], dtype=float32)
    """
    (x,) = map(as_tensor, promote_operands(x, inexact=True))
    p = _norm_type("lp_pool", norm_type)
    if p == math.inf:
        return max_pool(rnp.abs(x), window, strides, padding)
    total = _pool("lp_pool", lax.add, rnp.abs(x) ** p, window, strides, padding, 1)
    is_zero = total == 0
    return rnp.where(is_zero, 0.0, rnp.where(is_zero, 1.0, total) ** (1 / p))


def _norm_type(name: str, given: Any) -> float:
    found = known_real(f"{name}: norm_type", given)
    if not found >= 1:
        raise AttributeValueError(f"{name}: norm_type is {found}", fix="use 1 or more, such as 2")
    return found


NEUTRAL = {"max_pool": -math.inf, "min_pool": math.inf, "avg_pool": 0, "lp_pool": 0}


def _pool(
    name: str,
    combine: Callable[..., Any],
    x: Any,
    window: Numbers,
    strides: Numbers | None,
    padding: Pads,
    dilation: Numbers,
) -> Any:
    sizes = numbers(f"{name}: the window", window)
    count = len(sizes)
    steps = sizes if strides is None else numbers(f"{name}: the strides", strides, count)
    pads = pads_of(name, padding, count)
    check_one_axis(name, "the window", window, x)
    x, batch = with_one_batch_axis(name, x, count)
    start: Any = NEUTRAL[name]
    if x.dtype.kind in "iu" and start != 0:
        limits = rnp.iinfo(x.dtype)
        start = int(limits.min if start < 0 else limits.max)
    y = lax.reduce_window(
        x,
        start,
        combine,
        (1, *sizes, 1),
        (1, *steps, 1),
        pads if isinstance(pads, str) else ((0, 0), *pads, (0, 0)),
        window_dilation=(1, *numbers(f"{name}: the dilation", dilation, count), 1),
    )
    return rnp.reshape(y, (*batch, *y.shape[1:]))


class _Windows(Module):
    """What layers of windows share."""

    window: int | tuple[int, ...] = field(static=True)
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)

    def __init__(
        self, window: Numbers, stride: Numbers | None = None, padding: Pads = "VALID"
    ) -> None:
        name = type(self).__name__
        sizes, self.window = numbers(f"{name}: the window", window), as_given(window)
        self.stride = numbers(
            f"{name}: the stride", sizes if stride is None else stride, len(sizes)
        )
        self.padding = pads_of(name, padding, len(sizes))


@final
class MaxPool(_Windows):
    """Max pooling as a layer: `f32[batch, ..., n] → f32[batch, ..., n]`.

    `window`, `stride`, `padding` and `dilation` are as for `max_pool`.
    """

    dilation: tuple[int, ...] = field(static=True)

    def __init__(
        self,
        window: Numbers,
        stride: Numbers | None = None,
        padding: Pads = "VALID",
        dilation: Numbers = 1,
    ) -> None:
        super().__init__(window, stride, padding)
        self.dilation = numbers("MaxPool: the dilation", dilation, len(self.stride))

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return max_pool(x, self.window, self.stride, self.padding, dilation=self.dilation)


@final
class AvgPool(_Windows):
    """Average pooling as a layer: `f32[batch, ..., n] → f32[batch, ..., n]`.

    `window`, `stride`, `padding` and `count_include_pad` are as for `avg_pool`.
    """

    count_include_pad: bool = field(static=True)

    def __init__(
        self,
        window: Numbers,
        stride: Numbers | None = None,
        padding: Pads = "VALID",
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(window, stride, padding)
        self.count_include_pad = flag("AvgPool: count_include_pad", count_include_pad)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        counted = self.count_include_pad
        return avg_pool(x, self.window, self.stride, self.padding, count_include_pad=counted)


@final
class LPPool(_Windows):
    """Power-average pooling as a layer: `f32[batch, ..., n] → f32[batch, ..., n]`.

    `norm_type`, `window`, `stride` and `padding` are as for `lp_pool`.

    >>> LPPool(2, (2, 2))(rnp.ones((1, 4, 4, 3)))[0, 0, 0].tolist()
    [2.0, 2.0, 2.0]
    """

    norm_type: float = field(static=True)

    def __init__(
        self,
        norm_type: float,
        window: Numbers,
        stride: Numbers | None = None,
        padding: Pads = "VALID",
    ) -> None:
        super().__init__(window, stride, padding)
        self.norm_type = _norm_type("LPPool", norm_type)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return lp_pool(x, self.norm_type, self.window, self.stride, self.padding)


# -- all places ------------------------------------------------------------------------------------


def global_avg_pool(x: Any, *, keepdims: bool = False) -> Array:
    """Global average pooling: `f32[batch, ..., size] → f32[batch, size]`.

    The mean of each feature over all places; with `keepdims` their axes stay, of size 1. From
    "Network In Network", Lin et al., 2014.

    >>> global_avg_pool(rnp.array([[[1.0], [4.0], [1.0]]])).tolist()
    [[2.0]]
    """
    (x,) = promote_operands(x, inexact=True)
    return _of_all_places("global_avg_pool", rnp.mean, as_tensor(x), keepdims)


def global_max_pool(x: Any, *, keepdims: bool = False) -> Array:
    """Global max pooling: `f32[batch, ..., size] → f32[batch, size]`.

    The greatest number of each feature at any place; with `keepdims` their axes stay, of size 1.

    >>> global_max_pool(rnp.array([[[1.0], [4.0], [1.0]]])).tolist()
    [[4.0]]
    """
    return _of_all_places("global_max_pool", rnp.max, as_tensor(x), keepdims)


def _of_all_places(name: str, reduce: Callable[..., Any], x: Any, keepdims: bool) -> Any:
    if x.ndim < 3 or 0 in x.shape[1:-1]:
        raise ShapeError(
            f"{name}: {x.type} has no places between the samples and the features",
            fix="give an array of shape (batch, places, features), with one axis of places or more",
        )
    axes = tuple(range(1, x.ndim - 1))
    return reduce(x, axes, keepdims=flag(f"{name}: keepdims", keepdims))


# -- windows that give a number of places ----------------------------------------------------------


def adaptive_avg_pool(x: Any, output_size: Sizes) -> Array:
    """Adaptive average pooling, to a given output size.

    `f32[..., n, size] → f32[..., output_size, size]`. `output_size` has a number for each axis, or
    None for one that stays; a single one is for 1 axis, and a `ShapeError` for arrays of more than
    3. Window i goes from place `floor(i n / output_size)` up to `ceil((i + 1) n / output_size)`, so
    windows may share places, as in PyTorch.

    >>> adaptive_avg_pool(rnp.array([[1.0], [2.0], [3.0]]), 2)
    Array([[1.5],
           [2.5]], dtype=float32)
    """
    (x,) = promote_operands(x, inexact=True)

    def pool(x: Any) -> Any:
        return _adaptive("adaptive_avg_pool", _mean_of_windows, as_tensor(x), output_size)

    return rounded_once(pool, x)


def adaptive_max_pool(x: Any, output_size: Sizes) -> Array:
    """Adaptive max pooling, to a given output size.

    `f32[..., n, size] → f32[..., output_size, size]`. `adaptive_avg_pool` says which windows these
    are.

    >>> adaptive_max_pool(rnp.array([[1.0], [2.0], [3.0]]), 2)
    Array([[2.],
           [3.]], dtype=float32)
    """
    return _adaptive("adaptive_max_pool", _max_of_windows, as_tensor(x), output_size)


def _adaptive(name: str, pool: Callable[..., Any], x: Any, output_size: Sizes) -> Any:
    targets = _targets(name, output_size)
    check_one_axis(name, "the output size", output_size, x)
    if x.ndim < len(targets) + 1:
        raise ShapeError(
            f"{name}: the input is {x.type}, which has not {len(targets)} axes and features",
            fix=f"give an array of {len(targets) + 1} axes or more, features last",
        )
    for axis, target in enumerate(targets, x.ndim - 1 - len(targets)):
        size = x.shape[axis]
        if target is None or target == size:
            continue
        if not isinstance(size, int) and target > 1:
            raise ShapeError(
                f"{name}: axis {axis} of {x.type} has an open size, so its windows are not known",
                fix="leave it as it is with None, pool it to 1, or give it a size",
            )
        if size == 0:
            raise ShapeError(
                f"{name}: axis {axis} of {x.type} is empty", fix="give an axis with places"
            )
        x = pool(x, axis, size, target)
    return x


def _targets(name: str, output_size: Any) -> tuple[int | None, ...]:
    """The number of places for each axis, None for those that stay."""
    what = f"{name}: the output size"
    is_one = output_size is None or not isinstance(output_size, Sequence)
    each = (output_size,) if is_one else members(what, output_size)
    if not each:
        raise ArgumentError(
            f"{what} is {output_size!r}, for no axis", fix="give a number, or one for each axis"
        )
    return tuple(None if n is None else count_of(what, n, 1) for n in each)


def _kept_size(name: str, output_size: Sizes) -> int | tuple[int | None, ...] | None:
    """The output size, checked: one number, or one for each axis."""
    found = _targets(name, output_size)
    return found if isinstance(output_size, Sequence) else found[0]


def _mean_of_windows(x: Any, axis: int, size: Any, target: int) -> Any:
    if target == 1 or size % target == 0:
        return rnp.mean(_equal_windows(x, axis, target), axis + 1)
    starts, counts = _windows(size, target)
    # places after the end of a window count as zeros, whatever stands there
    steps = np.arange(counts.max())
    is_in = (steps < counts[:, None]).reshape(*counts.shape, -1, *(1,) * (x.ndim - axis - 1))
    found = rnp.take(x, np.minimum(starts[:, None] + steps, size - 1), axis)
    total = rnp.sum(rnp.where(is_in, found, 0.0), axis + 1)
    return total / counts.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - axis - 1))


def _max_of_windows(x: Any, axis: int, size: Any, target: int) -> Any:
    if target == 1 or size % target == 0:
        return rnp.max(_equal_windows(x, axis, target), axis + 1)
    starts, counts = _windows(size, target)
    steps = np.minimum(np.arange(counts.max()), counts[:, None] - 1)  # the last place again
    return rnp.max(rnp.take(x, starts[:, None] + steps, axis), axis + 1)


def _equal_windows(x: Any, axis: int, target: int) -> Any:
    """The array with an axis of windows and one of their places."""
    return rnp.reshape(x, (*x.shape[:axis], target, -1, *x.shape[axis + 1 :]))


def _windows(size: int, target: int) -> tuple[np.ndarray, np.ndarray]:
    """Where windows start, and how many places each has."""
    i = np.arange(target)
    starts = i * size // target
    return starts, -(-(i + 1) * size // target) - starts


@final
class AdaptiveAvgPool(Module):
    """Adaptive average pooling, to a given output size, as a layer.

    `f32[..., n, size] → f32[..., output_size, size]`; `output_size` is as for `adaptive_avg_pool`.

    >>> AdaptiveAvgPool((7, 7))(rnp.ones((2, 9, 16, 3))).shape
    (2, 7, 7, 3)
    """

    output_size: int | tuple[int | None, ...] | None = field(static=True)

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = _kept_size("AdaptiveAvgPool", output_size)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return adaptive_avg_pool(x, self.output_size)


@final
class AdaptiveMaxPool(Module):
    """Adaptive max pooling, to a given output size, as a layer.

    `f32[..., n, size] → f32[..., output_size, size]`; `output_size` is as for `adaptive_avg_pool`.

    >>> AdaptiveMaxPool((1, None))(rnp.ones((2, 9, 16, 3))).shape
    (2, 1, 16, 3)
    """

    output_size: int | tuple[int | None, ...] | None = field(static=True)

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = _kept_size("AdaptiveMaxPool", output_size)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return adaptive_max_pool(x, self.output_size)
