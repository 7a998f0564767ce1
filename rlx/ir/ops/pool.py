"""Reductions of windows: reduce_window_sum, _prod, _max, _min."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..errors import GradientError
from ..graph import Value
from ..op import Op
from ..types import Size, Type, as_dtype, check_size, empty_result
from .arithmetic import add, div, mul, rem
from .constant import iota, like
from .conv.windows import (
    Pads,
    all_windows,
    check_pads,
    check_steps,
    padded,
    padded_size,
    pads_of_transpose,
    window_count,
    windows_of_padded,
)
from .convert import widened
from .families import NUMBERS, ORDERED, check_kind
from .index import take_along
from .movement import reshape
from .reduce import (
    argmax,
    argmin,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
)

_MANUAL = """
    There is a number for each axis: windows of `window` elements, `window_dilation` places apart,
    begin `strides` places after each other. Before, the elements are spread `base_dilation` places
    apart and `padding` (before, after) neutral numbers put around, or elements cut off where it is
    negative. There are as many windows as fit.
    """


def _type_rule(
    x: Type,
    *,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Pads,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> Type:
    check_steps(
        x.rank,
        window=window,
        strides=strides,
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )
    check_pads(x.rank, padding)
    check_size(tuple(window))
    lines = zip(x.shape, window, strides, window_dilation, base_dilation, padding, strict=True)
    return x.with_shape(tuple(window_count(*line) for line in lines))


def _reduction(
    name: str, doc: str, kinds: Sequence[str], how: str, ufunc: np.ufunc, whole: Op
) -> Op:
    @wraps(_type_rule)
    def type_rule(x: Type, **attrs: Any) -> Type:
        check_kind(x, kinds)
        return _type_rule(x, **attrs)

    def reference(x: np.ndarray, **attrs: Any) -> np.ndarray:
        x = widened(x)
        steps = [attrs[name] for name in ("window", "strides", "base_dilation", "window_dilation")]
        many = windows_of_padded(x, empty_result(how, x.dtype), attrs["padding"], *steps)
        return ufunc.reduce(many, axis=tuple(range(x.ndim, many.ndim)), dtype=x.dtype)

    def reduce_window_expand(x: Value, **attrs: Any) -> Value:
        many, _ = _seen(x, empty_result(how, x.dtype), **attrs)
        return whole(many, axes=tuple(range(x.rank, many.rank)))

    def reduce_window_batch(args: Sequence[Value], batched: Any, **attrs: Any) -> Value:
        return made(args[0], **_with_kept_axis(attrs))

    made = Op(name, type_rule, f"{doc}\n{_MANUAL}")
    made.reference(reference)
    made.expand(reduce_window_expand)
    made.batch(reduce_window_batch)
    made.samples((6,), **attrs_of(window=(3,)))
    made.samples((2, 4, 5), **attrs_of(window=(1, 2, 3), strides=(1, 1, 2)))
    made.samples(
        (5, 4),
        window=(2, 3),
        strides=(2, 1),
        padding=((1, -1), (2, 1)),
        base_dilation=(2, 1),
        window_dilation=(3, 2),
    )
    return made


def attrs_of(window: Sequence[int], **given: Any) -> dict[str, Any]:
    """All attributes, where those not given are as if they were not there."""
    ones = (1,) * len(window)
    return {
        "window": tuple(window),
        "strides": ones,
        "padding": ((0, 0),) * len(window),
        "base_dilation": ones,
        "window_dilation": ones,
        **given,
    }


def _with_kept_axis(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes for one more axis in front, which stays as it is."""
    kept = attrs_of(window=(1,))
    return {name: (*kept[name], *numbers) for name, numbers in attrs.items()}


def _seen(x: Value, number: Any, **attrs: Any) -> tuple[Value, list[int]]:
    """What the windows see, and the axes along which they see several elements.

    The elements of a window come last.
    """
    wide = padded(x, attrs["padding"], attrs["base_dilation"], number)
    steps = attrs["window"], attrs["strides"], attrs["window_dilation"]
    axes = [i for i in range(x.rank) if attrs["window"][i] != 1 or attrs["strides"][i] != 1]
    return all_windows(wide, axes, *([numbers[i] for i in axes] for numbers in steps)), axes


# -- sums and products ----------------------------------------------------------------------------

reduce_window_sum = _reduction(
    "reduce_window_sum",
    "Sum of each window. Half-size floats are summed in float32.",
    NUMBERS,
    "add",
    np.add,
    reduce_sum,
)


@reduce_window_sum.transpose
def reduce_window_sum_transpose(ct: Value, x: Any, **attrs: Any) -> list[Value]:
    """Windows of the cotangents: what was a stride is a base dilation."""
    if 0 in (*x.shape, *ct.shape):
        return [like(x, 0)]
    base, strides, window = attrs["base_dilation"], attrs["strides"], attrs["window"]
    steps = zip(base, strides, attrs["window_dilation"], strict=True)
    lines = zip(x.shape, window, ct.shape, attrs["padding"], steps, strict=True)
    turned = {"strides": base, "base_dilation": strides}
    padding = [pads_of_transpose(*line) for line in lines]
    return [reduce_window_sum(ct, **{**attrs, **turned, "padding": padding})]


reduce_window_sum.samples(
    [1.0, 2.0, 4.0, 8.0],
    **attrs_of(window=(2,), strides=(2,), padding=((1, 1),)),
    expect=[1.0, 6.0, 8.0],
)

reduce_window_prod = _reduction(
    "reduce_window_prod",
    "Product of each window. Half-size floats are multiplied in float32.",
    NUMBERS,
    "mul",
    np.multiply,
    reduce_prod,
)
reduce_window_prod.samples(
    [1.0, 2.0, 4.0, 8.0],
    **attrs_of(window=(3,), padding=((2, 0),), window_dilation=(2,)),
    expect=[4.0, 16.0],
)


# -- extremes -------------------------------------------------------------------------------------


def _extreme(made: Op, place: Op, how: str) -> None:
    @made.jvp
    def extreme_jvp(primals: Sequence[Value], tangents: Sequence[Any], **attrs: Any) -> tuple:
        """The tangent of the element that was chosen, the first in a tie."""
        (x,), (t,) = primals, tangents
        out = made(x, **attrs)
        if 0 in out.shape:
            return out, like(out, 0)
        return out, _read(t, _chosen(x, out, place, empty_result(how, x.dtype), attrs), attrs)


def _chosen(x: Value, out: Value, place: Op, number: Any, attrs: dict[str, Any]) -> Value:
    """Where the chosen element of each window stands in the padded array.

    The places are numbered in row-major order.
    """
    many, axes = _seen(x, number, **attrs)
    sizes: Any = many.shape[x.rank :]
    lengths = _lengths(x.shape, attrs)
    rows = reshape(many, shape=(*out.shape, math.prod(sizes)))
    k = place(rows, axis=x.rank, dtype=_index_dtype(lengths))
    inside: dict[int, Value] = {}
    for axis, size in reversed(list(zip(axes, sizes, strict=True))):
        inside[axis] = mul(rem(k, like(k, size)), like(k, attrs["window_dilation"][axis]))
        k = div(k, like(k, size))
    total = like(k, 0)
    for axis in range(x.rank):
        start = iota(shape=out.shape, axis=axis, dtype=k.dtype)
        at = mul(start, like(k, attrs["strides"][axis]))
        at = add(at, inside[axis]) if axis in inside else at
        total = add(mul(total, like(k, lengths[axis])) if axis else total, at)
    return total


def _lengths(shape: Sequence[Size], attrs: dict[str, Any]) -> list[Any]:
    """The sizes of an array once it is spread and padded; the first may be a name."""
    lines = zip(shape, attrs["base_dilation"], attrs["padding"], strict=True)
    lengths = [padded_size(*line) for line in lines]
    if not all(isinstance(n, int) for n in lengths[1:]):
        raise GradientError(
            f"the derivative of windows of the sizes {tuple(shape)} needs their numbers",
            fix="use static sizes, but for axis 0",
        )
    return lengths


def _index_dtype(lengths: Sequence[Any]) -> np.dtype:
    """An integer that numbers all elements of an array of these sizes."""
    count = math.prod(lengths)
    return as_dtype("int64" if isinstance(count, int) and count > 2**31 else "int32")


def _read(t: Value, places: Value, attrs: dict[str, Any]) -> Value:
    """The elements at places of the array, spread and padded with zeros."""
    wide = padded(t, attrs["padding"], attrs["base_dilation"], 0)
    line = reshape(wide, shape=(wide.type.size,))
    found = take_along(line, reshape(places, shape=(places.type.size,)), 0)
    return reshape(found, shape=places.shape)


reduce_window_max = _reduction(
    "reduce_window_max",
    "Greatest number of each window, NaN if there is one. The first of a tie has the tangent.",
    ORDERED,
    "max",
    np.maximum,
    reduce_max,
)
_extreme(reduce_window_max, argmax, "max")
reduce_window_max.samples(
    [1.0, 3.0, np.nan, 2.0, -4.0],
    **attrs_of(window=(2,), padding=((1, 0),)),
    expect=[1.0, 3.0, np.nan, np.nan, 2.0],
)

reduce_window_min = _reduction(
    "reduce_window_min",
    "Least number of each window, NaN if there is one. The first of a tie has the tangent.",
    ORDERED,
    "min",
    np.minimum,
    reduce_min,
)
_extreme(reduce_window_min, argmin, "min")
reduce_window_min.samples(
    [[1.0, 3.0], [2.0, -4.0]], **attrs_of(window=(2, 1)), expect=[[1.0, -4.0]]
)
