"""Masks that are not known while tracing: an update chooses among elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.builder import user_source
from ..ir.errors import BoundsError, ConcretizationError, ShapeError
from .apply import apply, operand_type
from .axes import Shape
from .index_items import full_items, is_advanced, is_mask, width
from .operators import FUNCTIONS
from .promotion import convert, convert_exactly
from .tensor import TracedTensor


def traced_mask(items: list[Any]) -> int | None:
    """The place of a mask among the items of an index whose elements are not known."""
    for i, item in enumerate(items):
        if isinstance(item, TracedTensor) and is_mask(item):
            return i
    return None


def masked(
    x: Any, index: Any, values: Any, meaning: Callable[[Any, Any], Any], options: dict[str, Any]
) -> Any:
    """`x.at[index]` changed where a traced mask among the items of the index holds.

    None if there is no such mask. All that the other items name is read, chosen from, and written
    back, both with the options of the update.
    """
    items = full_items(index, x.shape)
    place = traced_mask(items)
    if place is None:
        return None
    mask = items[place]
    _check_mask(x, items, place)
    whole = (*items[:place], *[slice(None)] * mask.ndim, *items[place + 1 :])
    view, before = x.at[whole].get(**options), _axes_of(items[:place])
    rest = (*view.shape[:before], *view.shape[before + mask.ndim :])
    front = _front(items, place)
    if not _is_one_value(values, len(rest) + 1, front):
        if mask.concrete is not None:
            return None
        raise _one_value(x, mask, values)
    given = _without_count(convert_exactly(values, x.dtype), rest, front, x)
    shape = tuple(given.shape)
    given = apply("reshape", given, shape=(*shape[:before], *[1] * mask.ndim, *shape[before:]))
    axes = tuple(range(before, before + mask.ndim))
    flags = apply("broadcast", mask, shape=tuple(view.shape), axes=axes)
    changed = convert(meaning(view, given), x.dtype)
    return x.at[whole].set(FUNCTIONS["where"](flags, changed, view), **options)


def _axes_of(items: list[Any]) -> int:
    """How many axes items give that are no index arrays."""
    return sum(item is None or isinstance(item, slice) for item in items)


def _front(items: list[Any], place: int) -> int:
    """Before which of the other axes NumPy counts the places of the mask."""
    taken = [i for i, item in enumerate(items) if is_advanced(item)]
    together = taken[-1] - taken[0] + 1 == len(taken)
    return _axes_of(items[: taken[0]]) if together else 0


def _is_one_value(values: Any, rank: int, front: int) -> bool:
    """Whether the values are the same for each place of the mask."""
    shape = operand_type(values).shape
    at = len(shape) - rank + front
    return at < 0 or shape[at] == 1


def _without_count(values: Any, rest: Shape, front: int, x: Any) -> Any:
    """Values for each of the other axes: the axis of size 1 for the places is gone."""
    shape, count = tuple(values.shape), len(rest) + 1
    while len(shape) > count and shape[0] == 1:
        shape = shape[1:]
    shape = (*[1] * (count - len(shape)), *shape)
    kept = (*shape[:front], *shape[front + 1 :])
    if not fits(kept, rest):
        raise misfit(kept, rest, x)
    return apply("reshape", values, shape=kept)


def fits(given: Shape, wanted: Shape) -> bool:
    """Whether values of a shape broadcast to another shape."""
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    return len(given) <= len(wanted) and all(n in (1, m) for n, m in pairs)


def misfit(given: Shape, wanted: Shape, x: Any) -> ShapeError:
    """The error for values that do not broadcast to the elements an index names."""
    return ShapeError(
        f"values of the shape {tuple(given)} do not fit the {tuple(wanted)} elements of an index",
        where=str(user_source()),
        notes=[f"x: {x.type}"],
        fix="give values that broadcast to the shape of x[index]",
    )


def _check_mask(x: Any, items: list[Any], place: int) -> None:
    mask = items[place]
    axis = sum(map(width, items[:place]))
    covered = tuple(x.shape[axis : axis + mask.ndim])
    if tuple(mask.shape) != covered:
        raise BoundsError(
            f"the mask {mask.type} does not fit axes of the sizes {covered} of {x.type}",
            where=str(user_source()),
            fix="give the mask the sizes of the axes it picks from",
        )
    for i, item in enumerate(items):
        if i != place and is_advanced(item) and getattr(item, "shape", ()) != ():
            raise ConcretizationError(
                "an index array beside a mask whose elements are not known while tracing",
                where=str(user_source()),
                notes=[f"the mask is {mask.type}"],
                fix="write rlx.numpy.where for the elements that the mask picks, and index the "
                "result",
            )


def _one_value(x: Any, mask: Any, values: Any) -> ShapeError:
    shape = tuple(operand_type(values).shape)
    return ShapeError(
        f"x.at[mask] takes one value for all places, not values of the shape {shape}",
        where=str(user_source()),
        notes=[f"x: {x.type}", f"mask: {mask.type}"],
        fix="give a number, or write rlx.numpy.where(mask, values_for_all_of_x, x)",
    )
