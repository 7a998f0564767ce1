"""Arrays made larger: pad, resize, block."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import ArgumentError, AttributeValueError
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice, wrong
from ..trace.array import Array
from ..trace.axes import MOST_AXES, as_shape, integer, one_axis
from ..trace.host import no_memory
from ..trace.promotion import broadcast_to, convert_exactly
from .arithmetic import astype, clip
from .creation import arange, zeros
from .distribution import median
from .division import remainder
from .elementwise import Tensor, add, maximum, minimum, multiply, subtract
from .indexing import take
from .manipulation import concatenate, moveaxis, ravel, repeat, reshape
from .reductions import max, min
from .statistics import mean

_BY_INDEX = ("edge", "reflect", "symmetric", "wrap")
_BY_STATISTIC: dict[str, Callable[..., Any]] = {
    "maximum": max,
    "minimum": min,
    "mean": mean,
    "median": median,
}


def pad(array: Tensor, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Array:
    """Pad an array at both ends of each axis.

    `pad_width` is a number, a pair, or a pair for each axis. Each `mode` has its own keywords,
    `kwargs`: "constant" (`constant_values`), "edge", "reflect", "symmetric" (both `reflect_type`),
    "wrap", "linear_ramp" (`end_values`), "maximum", "minimum", "mean", "median" (`stat_length`),
    "empty". A negative width is an `ArgumentError`, and so is an axis without elements that would
    have to grow in another mode than "constant" and "empty".
    """
    array = as_tensor(array)
    given = _pairs("pad_width", pad_width, array.ndim)
    widths = [(integer("pad: pad_width", a), integer("pad: pad_width", b)) for a, b in given]
    if not isinstance(mode, str):
        raise wrong("pad: mode", mode, "a text", 'use "constant" or another of the modes')
    if any(n < 0 for pair in widths for n in pair):
        raise ArgumentError(
            f"pad: pad_width {pad_width} has a negative size",
            fix="cut elements off by a slice, x[1:-1]",
        )
    _check_memory(array, widths)
    if mode in ("constant", "empty"):
        return _pad_constant(array, widths, kwargs.pop("constant_values", 0))
    if mode in _BY_INDEX:
        border = _index_border(mode, kwargs.pop("reflect_type", "even"))
    elif mode == "linear_ramp":
        border = _ramp_border(_pairs("end_values", kwargs.pop("end_values", 0), array.ndim))
    elif mode in _BY_STATISTIC:
        border = _statistic_border(_BY_STATISTIC[mode], kwargs.pop("stat_length", None), array.ndim)
    else:
        modes = ["constant", "empty", "linear_ramp", *_BY_INDEX, *_BY_STATISTIC]
        raise AttributeValueError(
            f"pad: there is no mode {mode!r}",
            fix=f"use one of {', '.join(modes)}",
        )
    for axis, (before, after) in enumerate(widths):
        if before or after:
            if array.shape[axis] == 0:
                raise ArgumentError(
                    f"pad: axis {axis} of {array.shape} has no element for mode {mode!r}",
                    fix='use mode "constant", which fills with a number',
                )
            first, last = border(array, axis, before, after)
            parts = [part for part, n in ((first, before), (array, 1), (last, after)) if n]
            array = concatenate(parts, axis)
    return array


def _check_memory(array: Any, widths: Sequence[tuple[int, int]]) -> None:
    """Raise if no memory could hold the padded array."""
    shape = [n + sum(pair) for n, pair in zip(array.shape, widths, strict=True)]
    if all(isinstance(n, int) for n in shape):
        try:
            np.empty(shape, array.dtype)  # is not written to, so it costs nothing
        except (MemoryError, ValueError) as error:
            raise no_memory("pad", MemoryError(str(error))) from None


def _pairs(name: str, given: Any, rank: int) -> list[tuple[Any, Any]]:
    """A (before, after) for each axis."""
    if isinstance(given, dict):
        pairs: list[Any] = [(0, 0)] * rank
        for axis, pair in given.items():
            pairs[one_axis(name, axis, rank)] = pair if isinstance(pair, Sequence) else (pair, pair)
        return pairs
    try:
        table = np.broadcast_to(np.asarray(given), (rank, 2))
    except ValueError:
        raise ArgumentError(
            f"pad: {name} is {given!r}",
            fix="give a number, a (before, after), or one such pair for each axis",
        ) from None
    return [(a, b) for a, b in table.tolist()]


def _pad_constant(x: Any, widths: Sequence[tuple[int, int]], values: Any) -> Array:
    if not isinstance(values, Sequence | np.ndarray):
        low, high = zip(*widths, strict=True) if widths else ((), ())
        fill = convert_exactly(values, x.dtype)
        return apply("pad", x, fill, low=low, high=high, interior=(0,) * x.ndim)
    for axis, (width, pair) in enumerate(
        zip(widths, _pairs("constant_values", values, x.ndim), strict=True)
    ):
        for side in (0, 1):
            low, high = [0] * x.ndim, [0] * x.ndim
            (low, high)[side][axis] = width[side]
            fill = as_tensor(np.asarray(pair[side], x.dtype))
            x = apply("pad", x, fill, low=low, high=high, interior=(0,) * x.ndim)
    return x


def _index_border(mode: str, reflect_type: str) -> Callable[..., Any]:
    """The border repeats elements, at places that NumPy finds for the row of indices."""
    choice("pad: reflect_type", reflect_type, ("even", "odd"))

    def border(x: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
        size = x.shape[axis]
        if reflect_type == "odd" and mode in ("reflect", "symmetric"):
            return _odd_border(x, axis, before, after, int(mode == "reflect"))
        if isinstance(size, Dim):
            left, right = arange(-before, 0), add(size, arange(after))
            first, last = (take(x, _mirrored(mode, part, size), axis) for part in (left, right))
            return first, last
        # the mode is one of those in _BY_INDEX, a text to the checker
        places = np.pad(np.arange(size, dtype="int32"), (before, after), mode=mode)  # type: ignore[call-overload]
        ends = (places[:before], places[before + size :])
        first, last = (take(x, end, axis) if len(end) else None for end in ends)
        return first, last

    return border


def _mirrored(mode: str, places: Array, size: Dim) -> Array:
    """The places in an axis of an open size that stand for `places` beside it."""
    if mode == "edge":
        return clip(places, 0, subtract(size, 1))
    if mode == "wrap":
        return remainder(places, size)
    skipped = int(mode == "reflect")  # which mirrors in an element, and "symmetric" beside it
    period = maximum(subtract(multiply(2, size), 2 * skipped), 1)
    turned = remainder(places, period)
    return minimum(turned, subtract(subtract(period, 1 - skipped), turned))


def _odd_border(x: Any, axis: int, before: int, after: int, skipped: int) -> tuple[Array, Array]:
    """The border mirrored in the edges' elements, again and again where it is wide."""
    turned = moveaxis(x, axis, 0)
    if turned.shape[0] == skipped:  # nothing is left to mirror: NumPy repeats the one element
        first, last = (repeat(turned, n, 0) for n in (before, after))
        return moveaxis(first, 0, axis), moveaxis(last, 0, axis)
    whole, left, right = turned, before, after
    while left or right:
        step = builtins.min(whole.shape[0] - skipped, builtins.max(left, right))
        edges = whole[:1], whole[-1:]
        first = subtract(multiply(2, edges[0]), whole[skipped : skipped + step][::-1])
        stop = whole.shape[0] - skipped
        last = subtract(multiply(2, edges[1]), whole[stop - step : stop][::-1])
        taken = builtins.min(left, step), builtins.min(right, step)
        parts = [first[step - taken[0] :], whole, last[: taken[1]]]
        whole = concatenate([part for part in parts if part.shape[0]])
        left, right = left - taken[0], right - taken[1]
    first, last = whole[:before], whole[before + turned.shape[0] :]
    return moveaxis(first, 0, axis), moveaxis(last, 0, axis)


def _ramp_border(ends: Sequence[tuple[Any, Any]]) -> Callable[..., Any]:
    def border(x: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
        found = []
        for place, count, end in zip((0, -1), (before, after), ends[axis], strict=True):
            edge = take(x, np.array([place], "int32"), axis)
            share = np.arange(count) / builtins.max(count, 1)
            share = share if place == 0 else 1 - np.arange(1, count + 1) / builtins.max(count, 1)
            share = share.reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))
            ramp = add(end, multiply(subtract(edge, end), share.astype("float32")))
            found.append(astype(ramp, x.dtype))
        return found[0], found[1]

    return border


def _statistic_border(fn: Callable[..., Any], length: Any, rank: int) -> Callable[..., Any]:
    lengths = None if length is None else _pairs("stat_length", length, rank)

    def border(x: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
        whole = (slice(None),) * axis
        size = x.shape[axis]
        spans = (size, size) if lengths is None else lengths[axis]
        ends = (x[(*whole, slice(0, spans[0]))], x[(*whole, slice(size - spans[1], size))])
        found = []
        for end, count in zip(ends, (before, after), strict=True):
            value = fn(end, axis=axis, keepdims=True)
            value = value.round() if x.dtype.kind in "iu" and value.dtype.kind == "f" else value
            shape = tuple(count if i == axis else n for i, n in enumerate(x.shape))
            found.append(broadcast_to(astype(value, x.dtype), shape))
        return found[0], found[1]

    return border


def resize(a: Tensor, new_shape: Any) -> Array:
    """The elements repeated to fill the shape `new_shape`."""
    a, shape = ravel(a), as_shape(new_shape)
    count = integer("resize: the number of elements", math.prod(shape))
    size = integer("resize: the size", a.shape[0])
    if not size:
        return zeros(shape, a.dtype)
    numbers = arange(count, dtype="int32") % size
    return reshape(take(a, numbers), shape)


def block(arrays: Any) -> Array:
    """Assemble an array from nested lists of blocks, `arrays`.

    The innermost lists are joined along the last axis, the next ones along the axis before it.
    """
    depth = _depth(arrays)
    rank = _rank(arrays)
    return _block(arrays, depth, builtins.max(rank, depth)).copy()


def _depth(arrays: Any) -> int:
    depth = 0
    while isinstance(arrays, list):
        if not arrays or depth > MOST_AXES:
            raise wrong("block: arrays", arrays, "lists of blocks", "give a block for each place")
        arrays, depth = arrays[0], depth + 1
    return depth


def _rank(arrays: Any) -> int:
    ranks = [_rank(a) for a in arrays] if isinstance(arrays, list) else [as_tensor(arrays).ndim]
    return builtins.max(ranks)


def _block(arrays: Any, depth: int, rank: int) -> Array:
    if isinstance(arrays, list):
        return concatenate([_block(a, depth - 1, rank) for a in arrays], axis=-depth)
    x = as_tensor(arrays)
    return reshape(x, (1,) * (rank - x.ndim) + tuple(x.shape))
