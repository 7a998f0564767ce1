"""Windows that slide along an axis: the room of `windows`, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...body import Move, Read
from ...dims import is_at_least
from ...errors import AttributeValueError, ShapeError
from ...graph import Value
from ...op import ALIGNED, define
from ...types import Size, Type
from ..arithmetic import add, mul
from ..constant import iota, like, maker, scalar_like
from ..families import check_axis
from ..movement import reshape, transpose
from ..pad_slice import pad, pad_reference, part_along
from ..scatter import scatter_add

Pads = tuple[tuple[int, int], ...]
TERMS = 32  # a sum of more is not written out term by term


def spread_size(size: Size, step: int) -> Size:
    """How long `size` elements are that stand `step` places apart."""
    if isinstance(size, int):
        return max((size - 1) * step + 1, 0)
    return (size - 1) * step + 1


def window_count(
    length: Size,
    size: Size,
    stride: int = 1,
    dilation: int = 1,
    base: int = 1,
    pads: tuple[int, int] = (0, 0),
) -> Any:
    """How many windows of elements `dilation` apart fit, `stride` places apart.

    The axis is spread out by `base` before, with pads.
    """
    length, window = padded_size(length, base, pads), spread_size(size, dilation)
    assert isinstance(window, int), "windows have a static size"
    if isinstance(length, int):
        return (length - window) // stride + 1 if length >= window else 0
    if not is_at_least(length, window - 1):
        raise ShapeError(
            f"the size {length} may be too small for a window of {window}",
            fix="give the named size a lower bound: rlx.dim(name, min=...)",
        )
    return (length - window) // stride + 1


def padded_size(size: Size, base: int, pads: tuple[int, int]) -> Size:
    """The length of an axis spread out by `base`, with pads, which may be negative."""
    length = spread_size(size, base) + pads[0] + pads[1]
    if isinstance(length, int) and length < 0:
        raise ShapeError(
            f"a padding of {pads[0]} and {pads[1]} leaves less than nothing of size {size}",
            fix="cut off no more elements than there are",
        )
    return length


def pads_of_transpose(
    length: Size, size: int, count: Size, pads: tuple[int, int], steps: tuple[int, int, int]
) -> tuple[int, int]:
    """The pads with which windows of their cotangents give those of x.

    x has `length` elements, each `steps[0]` places after the one before and `pads` around them.
    There are `count` windows of `size` elements, `steps[2]` places apart, and `steps[1]` places
    lie between windows. With these places y[o] = Σₖ x[o·stride + k·dilation - low], so the
    cotangent of x at place i sums those of y at (i + low - k·dilation) / stride.
    """
    base, stride, dilation = steps
    reach: Any = spread_size(size, dilation) - 1
    low = reach - pads[0]
    high: Any = spread_size(length, base) + reach - low - spread_size(count, stride)
    if not isinstance(high, int):
        raise ShapeError(
            f"the derivative of windows along the size {length} needs its number",
            fix="use a static size",
        )
    return low, high


def check_steps(count: int, **named: Sequence[int]) -> None:
    """Raise unless there is one positive integer for each of `count` axes."""
    for name, numbers in named.items():
        if not all(isinstance(n, int) for n in numbers):
            raise ShapeError(f"`{name}` {numbers} are not all integers", fix="use static numbers")
        if len(numbers) != count:
            raise ShapeError(
                f"`{name}` {numbers} has {len(numbers)} numbers for {count} axes",
                fix=f"give {count} integers",
            )
        if any(n < 1 for n in numbers):
            raise AttributeValueError(
                f"`{name}` {numbers} is not positive", fix="use numbers of 1 or more"
            )


def check_pads(count: int, padding: Any) -> None:
    """Raise unless there is a pair of integers for each of `count` axes."""
    pairs = [p if isinstance(p, tuple) else (p,) for p in padding]
    if len(pairs) != count or any(len(p) != 2 for p in pairs):
        raise ShapeError(
            f"`padding` {padding} does not hold two numbers for each of {count} axes",
            fix=f"give {count} pairs (before, after)",
        )
    if not all(isinstance(n, int) for p in pairs for n in p):
        raise AttributeValueError(f"`padding` {padding} holds no integers", fix="use integers")


@define
def windows(x: Type, *, axis: int, size: int, stride: int = 1, dilation: int = 1) -> Type:
    """Windows of `size` elements along an axis; their elements come last.

    `f32[5, 2] → f32[4, 2, 2]` for axis 0 and size 2. Element k of window o stands at
    `o * stride + k * dilation`. There are as many windows as fit.
    """
    check_axis(x, axis)
    if size < 0:
        raise AttributeValueError(f"the size {size} is negative", fix="use 0 or more")
    check_steps(1, stride=(stride,), dilation=(dilation,))
    count = window_count(x.shape[axis], size, stride, dilation)
    return x.with_shape((*x.shape[:axis], count, *x.shape[axis + 1 :], size))


@windows.reference
def windows_reference(
    x: np.ndarray, *, axis: int, size: int, stride: int, dilation: int
) -> np.ndarray:
    window: Any = spread_size(size, dilation)
    if not 0 < window <= x.shape[axis]:
        count = window_count(x.shape[axis], size, stride, dilation)
        return np.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :], size), x.dtype)
    bits = x.view(f"V{x.dtype.itemsize}")  # NumPy's view of windows does not know every dtype
    every = np.lib.stride_tricks.sliding_window_view(bits, window, axis)
    return every[(np.s_[:],) * axis + (np.s_[::stride],)][..., ::dilation].view(x.dtype)


def _windows_read(
    index: Sequence[Any], types: Any, *, axis: int, stride: int, dilation: int, **size: int
) -> Read:
    place = index[axis] * stride + index[-1] * dilation
    return Read(0, (*index[:axis], place, *index[axis + 1 : -1]))


windows.body(Move(_windows_read))


@windows.transpose
def windows_transpose(
    ct: Value, x: Any, *, axis: int, size: int, stride: int, dilation: int
) -> list[Value]:
    """The sum of the windows' parts, for each place in them.

    If the windows are fewer, it is the sum of these; if both are many, all are added one by one.
    """
    zeros = like(x, 0)
    if 0 in (*x.shape, *ct.shape):
        return [zeros]
    order = [i for i in range(ct.rank - 1) if i != axis]
    count, length = ct.shape[axis], x.shape[axis]
    if isinstance(count, int) and count < size and count <= TERMS:
        parts = transpose(ct, axes=(axis, *order[:axis], ct.rank - 1, *order[axis:]))
        return [laid_over(parts, axis, length=length, step=stride, base=dilation)]
    if size <= TERMS:
        parts = transpose(ct, axes=(ct.rank - 1, *range(ct.rank - 1)))
        return [laid_over(parts, axis, length=length, step=dilation, base=stride)]
    starts, inside = (iota(shape=(count, size), axis=i, dtype="int32") for i in (0, 1))
    places = add(mul(starts, like(starts, stride)), mul(inside, like(inside, dilation)))
    places = reshape(places, shape=(count, size, 1))
    at = {"window_axes": order, "inserted_axes": (axis,), "scatter_axes": (axis,)}
    return [scatter_add(zeros, places, ct, **at, mode="promise")]


def laid_over(parts: Value, axis: int, *, length: Size, step: int, base: int) -> Value:
    """The sum of parts, each of which has its place along an axis.

    They follow along axis 0. Part k begins at `k * step` of `length` places, its elements stand
    `base` apart; what lies outside is cut off. `axis` is that of a part.
    """
    zero = scalar_like(parts, 0)
    total: Value | None = None
    count: Any = parts.shape[0]
    for k in range(count):
        part = reshape(part_along(parts, 0, k, k + 1), shape=parts.shape[1:])
        low, high, between = [0] * part.rank, [0] * part.rank, [0] * part.rank
        low[axis], between[axis] = k * step, base - 1
        rest: Any = length - low[axis] - spread_size(part.shape[axis], base)
        high[axis] = rest
        term = pad(part, zero, low=low, high=high, interior=between)
        total = term if total is None else add(total, term)
    assert total is not None, "there is a part"
    return total


windows.batch(ALIGNED, "axis")


@windows.fold
def windows_fold(x: Value, *, axis: int, size: int, stride: int, dilation: int) -> Value | None:
    if size != 1 or stride != 1:
        return None
    return reshape(x, shape=(*x.shape, 1))


windows.samples((5, 2), axis=0, size=2)
windows.samples((2, 7), axis=1, size=3, stride=2, dilation=2)
windows.samples((2, 6, 2), axis=1, size=4, stride=2)
windows.samples((2, 3), axis=1, size=4)
windows.samples((70, 2), axis=0, size=TERMS + 1)
windows.samples([1.0, 2.0, 3.0, 4.0], axis=0, size=2, expect=[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])


def all_windows(
    x: Value,
    axes: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Windows along several axes; their elements come last, an axis for each."""
    for axis, size, stride, dilation in zip(axes, sizes, strides, dilations, strict=True):
        x = windows(x, axis=axis, size=size, stride=stride, dilation=dilation)
    return x


def windows_of_padded(
    x: np.ndarray,
    number: Any,
    padding: Pads,
    sizes: Sequence[int],
    strides: Sequence[int],
    base: Sequence[int],
    dilations: Sequence[int],
) -> np.ndarray:
    """The reference of `all_windows` of what is `padded`, along the last axes."""
    none = (0,) * (x.ndim - len(sizes))
    low, high = ((*none, *(p[side] for p in padding)) for side in (0, 1))
    interior = (*none, *(n - 1 for n in base))
    x = pad_reference(x, np.asarray(number).astype(x.dtype), low=low, high=high, interior=interior)
    for axis, steps in enumerate(zip(sizes, strides, dilations, strict=True), len(none)):
        size, stride, dilation = steps
        x = windows_reference(x, axis=axis, size=size, stride=stride, dilation=dilation)
    return x


def padded(x: Value, padding: Pads, base: Sequence[int], number: Any) -> Value:
    """The last axes of x spread out and padded with a number, or a scalar.

    There is a pair of pads and a step for each of these axes. The axes of x stay in their order in
    memory, so that a padded copy is made line by line.
    """
    if not any(map(any, padding)) and all(n == 1 for n in base):
        return x
    none = (0,) * (x.rank - len(padding))
    low, high = ((*none, *(p[side] for p in padding)) for side in (0, 1))
    interior, order = (*none, *(n - 1 for n in base)), range(x.rank)
    if turned := maker(x, "transpose"):
        (x,), order = turned.args, turned.attrs["axes"]
    places = [list(order).index(i) for i in range(x.rank)]
    low, high, interior = (tuple(n[i] for i in places) for n in (low, high, interior))
    value = number if isinstance(number, Value) else scalar_like(x, number)
    made = pad(x, value, low=low, high=high, interior=interior)
    return transpose(made, axes=order) if turned else made
