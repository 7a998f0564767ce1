"""Movement that adds or drops elements: pad, slice, concat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..body import Concat, Move, Read
from ..dims import Dim, is_at_least
from ..errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from ..graph import OPS, Node, Value
from ..op import ALIGNED, Sample, define, is_linear
from ..rules import align
from ..types import Size, Type
from .constant import full, maker, scalar_like, uniform
from .families import check_axis, check_dtypes
from .movement import broadcast, check_count, uniform_fold


@define
def pad(
    x: Type,
    value: Type,
    *,
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
) -> Type:
    """Put a scalar before, after and between the elements of each axis.

    Negative `low` and `high` cut elements off; `interior[i]` scalars come between neighbors.
    """
    if value.rank != 0 or value.dtype != x.dtype:
        raise DtypeError(f"the value is {value}", fix=f"give a {x.with_shape(())} scalar")
    for name, numbers in (("low", low), ("high", high), ("interior", interior)):
        check_count(name, numbers, x)
    if any(n < 0 for n in interior):
        raise AttributeValueError(f"`interior` {interior} is negative", fix="use 0 or more")
    return x.with_shape(tuple(map(_padded, x.shape, low, high, interior)))


def _padded(size: Size, low: int, high: int, interior: int) -> Size:
    if isinstance(size, int):
        padded = low + size + max(size - 1, 0) * interior + high
        if padded < 0:
            raise ShapeError(
                f"a padding of {low} and {high} leaves less than nothing of size {size}",
                fix="cut off no more elements than there are",
            )
        return padded
    return low + size + (size - 1) * interior + high


@pad.reference
def pad_reference(
    x: np.ndarray, value: np.ndarray, *, low: tuple, high: tuple, interior: tuple
) -> np.ndarray:
    spaced = [n + max(n - 1, 0) * k for n, k in zip(x.shape, interior, strict=True)]
    whole = [max(a, 0) + n + max(b, 0) for a, n, b in zip(low, spaced, high, strict=True)]
    result = np.full(whole, value, x.dtype)
    inside = zip(low, spaced, interior, strict=True)
    result[tuple(np.s_[max(a, 0) : max(a, 0) + n : k + 1] for a, n, k in inside)] = x
    cut = zip(low, high, whole, strict=True)
    return result[tuple(np.s_[max(-a, 0) : n - max(-b, 0)] for a, b, n in cut)]


def _pad_read(
    index: Sequence[Any], types: Sequence[Type], *, low: tuple, high: tuple, interior: tuple
) -> Read:
    places, guards, strides = [], [], []
    for i, size in enumerate(types[0].shape):
        place, step = index[i] - low[i], interior[i] + 1
        guards.append((place, 0, (size - 1) * step + 1))
        if step > 1:
            strides.append((place, step))
        places.append(place // step if step > 1 else place)
    return Read(0, tuple(places), tuple(guards), tuple(strides), otherwise=1)


pad.body(Move(_pad_read))


@pad.transpose
def pad_transpose(
    ct: Value, x: Any, value: Any, *, low: tuple, high: tuple, interior: tuple
) -> list[Any]:
    none = (0,) * ct.rank
    undo = {"low": tuple(-n for n in low), "high": tuple(-n for n in high), "interior": none}
    part = pad(ct, scalar_like(ct, 0), **undo)
    if any(interior):
        part = slice(part, start=none, stop=part.shape, step=tuple(k + 1 for k in interior))
    total = None
    if is_linear(value):
        every = tuple(range(ct.rank))
        inside = OPS["reduce_sum"](part, axes=every)
        total = OPS["reduce_sum"](ct, axes=every) - inside
    return [part if is_linear(x) else None, total]


@pad.batch
def pad_batch(
    args: Sequence[Value], batched: Sequence[bool], *, low: tuple, high: tuple, interior: tuple
) -> Value:
    x, value = args
    if not batched[1]:
        return pad(x, value, low=(0, *low), high=(0, *high), interior=(0, *interior))
    # one padding scalar for each example: pad a mask too and choose by it
    x = x if batched[0] else align(args, batched)[0]
    attrs = {"low": (0, *low), "high": (0, *high), "interior": (0, *interior)}
    padded = pad(x, scalar_like(x, 0), **attrs)
    mask = full(shape=x.shape, value=True, dtype="bool")
    inside = pad(mask, scalar_like(mask, False), **attrs)
    return OPS["select"](inside, padded, broadcast(value, shape=padded.shape, axes=(0,)))


@pad.fold
def pad_fold(x: Value, value: Value, *, low: tuple, high: tuple, interior: tuple) -> Value | None:
    if not any(low) and not any(high) and not any(interior):
        return x
    number = uniform(x)
    if number is not None and number == uniform(value):
        shape = tuple(map(_padded, x.shape, low, high, interior))
        return full(shape=shape, value=number, dtype=x.dtype)
    return None


@pad.join
def pad_join(x: Value, y: Value) -> Value | None:
    """The sum of two arrays between zeros, if they lie side by side."""
    nodes = [node for node in (maker(x, "pad"), maker(y, "pad")) if node is not None]
    if any(uniform(n.args[1]) != 0 or any(n.attrs["interior"]) for n in nodes) or len(nodes) < 2:
        return None
    joined = _joined(*nodes)
    return _joined(*reversed(nodes)) if joined is None else joined


def _joined(first: Node, second: Node) -> Value | None:
    """Two padded arrays as one, if the second one follows the first."""
    parts = first.args[0], second.args[0]
    low, low_of_second, high = first.attrs["low"], second.attrs["low"], second.attrs["high"]
    apart = [i for i, n in enumerate(low) if n != low_of_second[i]]
    if len(apart) != 1 or not all(is_at_least(n, 0) for n in (*low, *high)):
        return None
    (axis,) = apart
    if low[axis] + parts[0].shape[axis] != low_of_second[axis]:
        return None
    if _without(parts[0].shape, axis) != _without(parts[1].shape, axis):
        return None
    both = concat(*parts, axis=axis)
    return pad(both, first.args[1], low=low, high=high, interior=first.attrs["interior"])


def _pad_sample(*args: Any, expect: Any = None, **attrs: tuple[int, ...]) -> None:
    """Add a sample of pad with its attributes `low` and `high`.

    `samples` cannot take these keywords of pad: there they bound the numbers.
    """
    pad.sample_list.append(Sample(args, attrs, expect))


_pad_sample((2, 3), (), low=(1, 0), high=(0, 2), interior=(0, 1))
_pad_sample((4, 3), (), low=(-1, 1), high=(1, -1), interior=(1, 0))
_pad_sample([1.0, 2.0], 9.0, low=(1,), high=(0,), interior=(1,), expect=[9.0, 1.0, 9.0, 2.0])
_pad_sample([1.0, 2.0, 3.0], 9.0, low=(-1,), high=(1,), interior=(0,), expect=[2.0, 3.0, 9.0])


@define
def slice(
    x: Type, *, start: tuple[int, ...], stop: tuple[Size, ...], step: tuple[int, ...]
) -> Type:
    """The elements `start, start + step, ...` below `stop` of each axis.

    Steps are positive.
    """
    for name, numbers in (("start", start), ("stop", stop), ("step", step)):
        check_count(name, numbers, x)
    return x.with_shape(tuple(map(_sliced, x.shape, start, stop, step)))


def _sliced(size: Size, start: int, stop: Size, step: int) -> Size:
    if step < 1:
        raise AttributeValueError(f"the step {step} is not positive", fix="use flip to go back")
    if isinstance(size, int) and isinstance(stop, int):
        if not 0 <= start <= stop <= size:
            raise ShapeError(
                f"{start}:{stop} does not lie in an axis of size {size}",
                fix=f"keep 0 <= start <= stop <= {size}",
            )
        return -(-(stop - start) // step)
    return (stop - start + (step - 1)) // step


@slice.reference
def slice_reference(x: np.ndarray, *, start: tuple, stop: tuple, step: tuple) -> np.ndarray:
    return x[tuple(np.s_[a:b:c] for a, b, c in zip(start, stop, step, strict=True))]


def _slice_read(
    index: Sequence[Any], types: Sequence[Type], *, start: tuple, stop: tuple, step: tuple
) -> Read:
    return Read(0, tuple(k * c + a for k, a, c in zip(index, start, step, strict=True)))


slice.body(Move(_slice_read))


@slice.transpose
def slice_transpose(ct: Value, x: Any, *, start: tuple, stop: tuple, step: tuple) -> list[Value]:
    part, fill = ct, scalar_like(ct, 0)
    for attrs in paddings_around(ct.shape, x.shape, start, step):
        part = pad(part, fill, **attrs)
    return [part]


def paddings_around(
    part: Sequence[Size], whole: Sequence[Size], start: Sequence[Any], step: Sequence[int]
) -> list[dict[str, Any]]:
    """The paddings that put a slice back at its places in the shape `whole`.

    Between no elements there is nothing to pad: where a symbolic number of them may be 0, one
    more stands at their end while they are spaced.
    """
    none = (0,) * len(part)
    more = tuple(
        int(isinstance(n, Dim) and c > 1 and not is_at_least(n, 1))
        for n, c in zip(part, step, strict=True)
    )
    counts = [n + extra for n, extra in zip(part, more, strict=True)]
    ends = [
        a + (n - 1) * c + 1 if isinstance(n, Dim) or n else a
        for a, n, c in zip(start, counts, step, strict=True)
    ]
    high = tuple(n - end for n, end in zip(whole, ends, strict=True))
    spaced = {"low": tuple(start), "high": high, "interior": tuple(c - 1 for c in step)}
    return [{"low": none, "high": more, "interior": none}, spaced] if any(more) else [spaced]


@slice.batch
def slice_batch(
    args: Sequence[Value], batched: Sequence[bool], *, start: tuple, stop: tuple, step: tuple
) -> Value:
    (x,) = args
    return slice(x, start=(0, *start), stop=(x.shape[0], *stop), step=(1, *step))


@slice.fold
def slice_fold(x: Value, *, start: tuple, stop: tuple, step: tuple) -> Value | None:
    shape = tuple(map(_sliced, x.shape, start, stop, step))
    if shape == x.shape:
        return x
    before = maker(x, "slice")
    if before is None:
        return uniform_fold(x, shape)
    first = before.attrs
    ends = [n if isinstance(n, int) else None for n in before.args[0].shape]
    begin = [
        a + k * c if n is None else min(a + k * c, n)  # an empty slice may begin behind the end
        for a, k, c, n in zip(first["start"], start, first["step"], ends, strict=True)
    ]
    end = [
        a + (k - 1) * c + 1 if isinstance(k, int) and k > 0 else a + k
        for a, k, c in zip(first["start"], stop, first["step"], strict=True)
    ]
    steps = [c * k for c, k in zip(first["step"], step, strict=True)]
    return slice(before.args[0], start=begin, stop=_ordered(begin, end), step=steps)


def part_along(x: Value, axis: int, start: Any, stop: Any) -> Value:
    """The elements from `start` on, before `stop`, along one axis."""
    low = tuple(start if i == axis else 0 for i in range(x.rank))
    high = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    return slice(x, start=low, stop=high, step=(1,) * x.rank)


def _ordered(begin: Sequence[int], end: Sequence[Size]) -> list[Size]:
    """An empty range stays empty."""
    return [a if isinstance(b, int) and b < a else b for a, b in zip(begin, end, strict=True)]


slice.samples((4, 5), start=(1, 0), stop=(3, 5), step=(1, 2))
slice.samples([1.0, 2.0, 3.0, 4.0], start=(1,), stop=(4,), step=(2,), expect=[2.0, 4.0])


@define
def concat(*xs: Type, axis: int) -> Type:
    """The operands one after another along an axis.

    `f32[2, 3], f32[1, 3] → f32[3, 3]`.
    """
    if not xs:
        raise ArgumentError("there are no operands", fix="give one or more")
    first = xs[0]
    check_axis(first, axis)
    for x in xs[1:]:
        check_dtypes(first, x)
        if x.rank != first.rank or _without(x.shape, axis) != _without(first.shape, axis):
            raise ShapeError(
                f"{first} and {x} differ in an axis other than {axis}",
                fix=f"make all sizes but that of axis {axis} equal",
            )
    total: Size = sum((x.shape[axis] for x in xs[1:]), start=first.shape[axis])
    return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _without(shape: Sequence[Size], axis: int) -> tuple[Size, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


concat.reference(lambda *xs, axis: np.concatenate(xs, axis))
concat.body(Concat())


@concat.transpose
def concat_transpose(ct: Value, *xs: Any, axis: int) -> list[Value | None]:
    ends = list(accumulate(x.shape[axis] for x in xs))
    return [
        part_along(ct, axis, end - x.shape[axis], end) if is_linear(x) else None
        for x, end in zip(xs, ends, strict=True)
    ]


concat.batch(ALIGNED, "axis")


@concat.fold
def concat_fold(*xs: Value, axis: int) -> Value | None:
    parts: list[Value] = []
    for x in xs:
        inner = maker(x, "concat")
        parts += inner.args if inner and inner.attrs["axis"] == axis else [x]
    full_ones = [x for x in parts if x.shape[axis] != 0]
    if len(full_ones) == 1:
        return full_ones[0]
    return concat(*full_ones, axis=axis) if full_ones and full_ones != [*xs] else None


concat.samples((2, 3), (1, 3), (2, 3), axis=0)
concat.samples([1.0], [2.0, 3.0], axis=0, expect=[1.0, 2.0, 3.0])
