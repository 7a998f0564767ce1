"""Convolutions and pooling, of any number of axes.

Features come last, any axes of batches in front. Sizes, strides and dilations are given for each
axis between; a single integer is one for 1 axis where a kernel or a window is meant, and one for
all axes elsewhere. Padding is "SAME", "VALID", "SAME_LOWER", an integer, or one integer or (before,
after) for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

from .. import lax, numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import promote
from ..trace.apply import as_tensor
from ..trace.arguments import flag
from ..trace.array import Array
from ..trace.axes import integer
from ..trace.promotion import convert, promote_operands, wide_dtype
from . import initializers
from .initializers import Initializer
from .module import Module, field

Numbers = int | Sequence[int]
Pads = str | int | Sequence[int | Sequence[int]]
LETTERS = "DHWXYZ"


def _numbers(what: str, given: Numbers, count: int | None = None) -> tuple[int, ...]:
    """Positive integers, one for each axis.

    A single one is meant for all `count` axes.
    """
    many = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    found = tuple(integer(what, n) for n in many)
    found = found * (count or 1) if not isinstance(given, Sequence) else found
    if min(found, default=1) < 1 or (count is not None and len(found) != count):
        raise ArgumentError(
            f"{what} is {given}, not a positive integer for each of {count or 'some'} axes",
            fix="give an integer of 1 or more, or one for each axis",
        )
    return found


def _pads(name: str, padding: Pads, count: int) -> str | tuple[tuple[int, int], ...]:
    """Padding by its name, or (before, after) for each axis."""
    if isinstance(padding, str):
        lax.padtype_to_pads((), (), (), padding)  # raises if it has no meaning
        return padding.upper()
    each = padding if isinstance(padding, Sequence) else [padding] * count
    pairs = [tuple(p) if isinstance(p, Sequence) else (p, p) for p in each]
    if len(pairs) != count or any(len(p) != 2 for p in pairs):
        raise ArgumentError(
            f"{name}: the padding is {padding}, not one or two integers for each of {count} axes",
            fix='give "SAME", "VALID", an integer, or (before, after) for each axis',
        )
    what = f"{name}: a padding"
    return tuple((integer(what, low), integer(what, high)) for low, high in pairs)


def _with_one_batch_axis(name: str, x: Any, count: int) -> tuple[Any, tuple[Any, ...]]:
    """The array with all axes of batches as one, and those axes' sizes."""
    if x.ndim < count + 1:
        raise ShapeError(
            f"{name}: the input is {x.type}, which has not {count} axes and features",
            fix=f"give an array of {count + 1} axes or more, features last",
        )
    batch = x.shape[: x.ndim - count - 1]
    rest = x.shape[len(batch) :]
    return rnp.reshape(x, (math.prod(batch), *rest)), batch


def check_features(name: str, x: Any, wanted: int, count: int) -> None:
    """Raise unless the last axis has the features that a layer takes."""
    if x.ndim < count + 1 or x.shape[-1] == wanted:
        return
    place = x.ndim - count - 1
    fix = f"give an array whose last axis is {wanted} long"
    if x.shape[place] == wanted:
        order = (*range(place), *range(place + 1, x.ndim), place)
        fix = f"channels come last here: x.transpose({', '.join(map(str, order))})"
    raise ShapeError(
        f"{name}: the layer takes {wanted} features, the input {x.type} has {x.shape[-1]}",
        fix=fix,
    )


def _specs(count: int) -> tuple[str, str, str]:
    axes = LETTERS[:count]
    return f"N{axes}C", f"{axes}IO", f"N{axes}C"


def _sizes_of_layer(
    name: str, in_size: int, out_size: int, kernel_size: Numbers, groups: int
) -> tuple[int, ...]:
    """The shape of a kernel: its axes, the inputs of a group, all outputs."""
    kernel = _numbers(f"{name}: the kernel size", kernel_size)
    (groups,) = _numbers(f"{name}: the number of groups", groups, 1)
    sizes = [_numbers(f"{name}: a number of features", n, 1)[0] for n in (in_size, out_size)]
    if not 1 <= len(kernel) <= len(LETTERS):
        raise ArgumentError(
            f"{name}: a kernel of {len(kernel)} axes",
            fix=f"give 1 to {len(LETTERS)} sizes, one for each axis",
        )
    if any(n % groups for n in sizes):
        raise ArgumentError(
            f"{name}: {sizes[0]} inputs and {sizes[1]} outputs do not part in {groups} groups",
            fix=f"make both a multiple of {groups}",
        )
    return (*kernel, sizes[0] // groups, sizes[1])


# -- convolutions -------------------------------------------------------------------------------


@final
class Conv(Module):
    """A convolution: `f32[..., length, in] → f32[..., length, out]`.

    There may be several axes; `kernel_size` has a number for each, and so may `stride` and
    `dilation`. `padding` is "SAME", "VALID", or a pair for each axis. With `groups`, each group of
    outputs sees its group of inputs alone; with as many as inputs that is a depthwise convolution.
    `weight` has the shape (*kernel_size, in / groups, out).

    >>> from rlx import random
    >>> Conv(3, 16, (3, 3), key=random.key(0), use_bias=False).weight.shape
    (3, 3, 3, 16)
    """

    weight: Array
    bias: Array | None
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    dilation: tuple[int, ...] = field(static=True)
    groups: int = field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        kernel_size: Numbers,
        *,
        key: Any,
        stride: Numbers = 1,
        padding: Pads = "SAME",
        dilation: Numbers = 1,
        groups: int = 1,
        use_bias: bool = True,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        shape = _sizes_of_layer("Conv", in_size, out_size, kernel_size, groups)
        count = len(shape) - 2
        self.stride = _numbers("Conv: the stride", stride, count)
        self.padding = _pads("Conv", padding, count)
        self.dilation = _numbers("Conv: the dilation", dilation, count)
        self.groups = groups
        self.weight = (initializer or initializers.lecun_normal())(key, shape, dtype)
        self.bias = rnp.zeros((shape[-1],), dtype) if use_bias else None

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        x, weight = map(as_tensor, promote_operands(x, self.weight))
        check_features("Conv", x, weight.shape[-2] * self.groups, len(self.stride))
        x, batch = _with_one_batch_axis("Conv", x, len(self.stride))
        y = lax.conv_general_dilated(
            x,
            weight,
            self.stride,
            self.padding,
            rhs_dilation=self.dilation,
            dimension_numbers=_specs(len(self.stride)),
            feature_group_count=self.groups,
            preferred_element_type=None if self.bias is None else wide_dtype(weight.dtype),
        )
        return _with_bias(rnp.reshape(y, (*batch, *y.shape[1:])), self.bias, weight.dtype)


@final
class ConvTranspose(Module):
    """A transposed convolution, which enlarges its input by `stride`.

    `f32[..., length, in] → f32[..., stride * length, out]` with the `padding` "SAME": what the
    gradient of a convolution does. Numbers pad the input once it is spread by the stride, as in
    `lax.conv_transpose`. `kernel_size` and `dilation` are as for `Conv`; `weight` has the shape
    (*kernel_size, in, out).
    """

    weight: Array
    bias: Array | None
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    dilation: tuple[int, ...] = field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        kernel_size: Numbers,
        *,
        key: Any,
        stride: Numbers = 1,
        padding: Pads = "SAME",
        dilation: Numbers = 1,
        use_bias: bool = True,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        shape = _sizes_of_layer("ConvTranspose", in_size, out_size, kernel_size, 1)
        count = len(shape) - 2
        self.stride = _numbers("ConvTranspose: the stride", stride, count)
        self.padding = _pads("ConvTranspose", padding, count)
        self.dilation = _numbers("ConvTranspose: the dilation", dilation, count)
        self.weight = (initializer or initializers.lecun_normal())(key, shape, dtype)
        self.bias = rnp.zeros((shape[-1],), dtype) if use_bias else None

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        x, weight = map(as_tensor, promote_operands(x, self.weight))
        check_features("ConvTranspose", x, weight.shape[-2], len(self.stride))
        x, batch = _with_one_batch_axis("ConvTranspose", x, len(self.stride))
        y = lax.conv_transpose(
            x,
            weight,
            self.stride,
            self.padding,
            rhs_dilation=self.dilation,
            dimension_numbers=_specs(len(self.stride)),
            preferred_element_type=None if self.bias is None else wide_dtype(weight.dtype),
        )
        return _with_bias(rnp.reshape(y, (*batch, *y.shape[1:])), self.bias, weight.dtype)


def _with_bias(y: Any, bias: Any, dtype: Any) -> Any:
    """The sum in the dtype that operands and bias meet in, rounded once."""
    if bias is None:
        return y
    return convert(y + bias, promote(dtype, bias.dtype))


# -- pooling ------------------------------------------------------------------------------------


def max_pool(
    x: Any,
    window: Numbers,
    strides: Numbers | None = None,
    padding: Pads = "VALID",
    *,
    dilation: Numbers = 1,
) -> Array:
    """Max pooling: the greatest number of each window.

    `f32[batch, ..., n] → f32[batch, ..., n]`: `window` has a number for each axis between; so have
    `strides`, the window's sizes if not given, and `dilation`, the distance of places in a window.
    `padding` is "VALID", "SAME" or a pair for each axis.

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
    if flag("avg_pool: count_include_pad", count_include_pad):
        return total / math.prod(_numbers("avg_pool: the window", window))
    shape = (*x.shape[x.ndim - 1 - len(_numbers("avg_pool: the window", window)) : -1], 1)
    ones = rnp.ones(shape, x.dtype)
    return total / _pool("avg_pool", lax.add, ones, window, strides, padding, 1)


NEUTRAL = {"max_pool": -math.inf, "min_pool": math.inf, "avg_pool": 0}


def _pool(
    name: str,
    combine: Callable[..., Any],
    x: Any,
    window: Numbers,
    strides: Numbers | None,
    padding: Pads,
    dilation: Numbers,
) -> Array:
    sizes = _numbers(f"{name}: the window", window)
    count = len(sizes)
    steps = sizes if strides is None else _numbers(f"{name}: the strides", strides, count)
    pads = _pads(name, padding, count)
    x, batch = _with_one_batch_axis(name, x, count)
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
        window_dilation=(1, *_numbers(f"{name}: the dilation", dilation, count), 1),
    )
    return rnp.reshape(y, (*batch, *y.shape[1:]))


@final
class MaxPool(Module):
    """Max pooling as a layer: `f32[batch, ..., n] → f32[batch, ..., n]`.

    `window`, `stride`, `padding` and `dilation` are as for `max_pool`.
    """

    window: tuple[int, ...] = field(static=True)
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    dilation: tuple[int, ...] = field(static=True)

    def __init__(
        self,
        window: Numbers,
        stride: Numbers | None = None,
        padding: Pads = "VALID",
        dilation: Numbers = 1,
    ) -> None:
        self.window = _numbers("MaxPool: the window", window)
        count = len(self.window)
        steps = self.window if stride is None else stride
        self.stride = _numbers("MaxPool: the stride", steps, count)
        self.padding = _pads("MaxPool", padding, count)
        self.dilation = _numbers("MaxPool: the dilation", dilation, count)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return max_pool(x, self.window, self.stride, self.padding, dilation=self.dilation)


@final
class AvgPool(Module):
    """Average pooling as a layer: `f32[batch, ..., n] → f32[batch, ..., n]`.

    `window`, `stride`, `padding` and `count_include_pad` are as for `avg_pool`.
    """

    window: tuple[int, ...] = field(static=True)
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    count_include_pad: bool = field(static=True)

    def __init__(
        self,
        window: Numbers,
        stride: Numbers | None = None,
        padding: Pads = "VALID",
        count_include_pad: bool = True,
    ) -> None:
        self.window = _numbers("AvgPool: the window", window)
        count = len(self.window)
        steps = self.window if stride is None else stride
        self.stride = _numbers("AvgPool: the stride", steps, count)
        self.padding = _pads("AvgPool", padding, count)
        self.count_include_pad = count_include_pad

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        counted = self.count_include_pad
        return avg_pool(x, self.window, self.stride, self.padding, count_include_pad=counted)
