"""Images read between their pixels, under the names of `jax.scipy.ndimage`."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import lax, numpy as rnp
from ..ir.errors import ShapeError
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of, members
from ..trace.array import Array
from ..trace.promotion import convert
from .operands import Tensor


def _mirrored(index: Any, size: int) -> Any:
    if size == 1:
        return 0 * index
    last = size - 1
    return rnp.abs((index + last) % (2 * last) - last)


# what stands beyond the edges, as the place within to read instead
PLACES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: rnp.clip(index, 0, size - 1),
    "nearest": lambda index, size: rnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": lambda index, size: (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
}


def map_coordinates(
    input: Tensor,
    coordinates: Sequence[Tensor],
    order: int,
    mode: str = "constant",
    cval: Tensor = 0.0,
) -> Array:
    """Interpolate the array `input` at `coordinates`, one array of them for each axis.

    `order` 0 takes the nearest element, 1 interpolates linearly. Outside of the array `mode` gives
    `cval` ("constant"), the "nearest" element, or continues the array: "wrap", "mirror" (around the
    last element) or "reflect" (around the edge).

    >>> map_coordinates([[0.0, 1.0], [2.0, 3.0]], [[0.5], [0.5]], order=1).tolist()
    [1.5]
    """
    given = members("map_coordinates: coordinates", coordinates)
    x, places = as_tensor(input), [as_tensor(c) for c in given]
    choice("map_coordinates: mode", mode, PLACES)
    order = count_of("map_coordinates: order", order, most=1)
    if len(places) != x.ndim:
        raise ShapeError(
            f"map_coordinates: there are {len(places)} coordinates for {x.type}",
            fix="give one coordinate for each axis",
        )
    fill = convert(as_tensor(cval), x.dtype)
    corners = [_neighbors(c, n, order, mode) for c, n in zip(places, x.shape, strict=True)]
    total: Any = 0
    for corner in itertools.product(*corners):
        value = x[tuple(index for index, _, _ in corner)]
        if mode == "constant":
            is_inside = functools.reduce(lambda a, b: a & b, [inside for _, inside, _ in corner])
            value = rnp.where(is_inside, value, fill)
        total = total + math.prod([weight for _, _, weight in corner], start=1.0) * value
    if x.dtype.kind in "iu":
        total = _rounded(rnp.asarray(total))
    return convert(as_tensor(total), x.dtype)


def _neighbors(place: Any, size: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """Elements near a coordinate: where to read, whether it is inside, the weight."""
    if order == 0:
        near = [(_rounded(place), 1.0)]
    else:
        below = rnp.floor(place)
        share = place - below
        near = [(below, 1 - share), (below + 1, share)]
    result = []
    for index, weight in near:
        index = convert(as_tensor(index), rnp.int32.dtype)
        result.append((PLACES[mode](index, size), (index >= 0) & (index < size), weight))
    return result


def _rounded(x: Any) -> Any:
    """The nearest integer; ties round away from zero."""
    return x if x.dtype.kind in "iu" else lax.round(x)
