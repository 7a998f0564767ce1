"""Updates by masks that are not known while tracing, as a choice of elements.

`x[mask] *= 2` is an update, too: what Python reads, changes and writes back is a `Chosen`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...ir.errors import BoundsError, ConcretizationError, ShapeError
from ...ir.types import Type
from ..apply import apply, as_operand, operand_type
from ..axes import Shape
from ..operators import FUNCTIONS, Operators
from ..promotion import check_fits, convert, convert_exactly
from ..tensor import TracedTensor
from .items import full_items, is_advanced, is_mask, width


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
    front = _front(items)
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


def _front(items: list[Any]) -> int:
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
            fix="give the mask the sizes of the axes it picks from",
        )
    for i, item in enumerate(items):
        if i != place and is_advanced(item) and getattr(item, "shape", ()) != ():
            raise ConcretizationError(
                "an index array beside a mask whose elements are not known while tracing",
                notes=[f"the mask is {mask.type}"],
                fix="write rlx.numpy.where for the elements that the mask picks, and index the "
                "result",
            )


def _one_value(x: Any, mask: Any, values: Any) -> ShapeError:
    shape = tuple(operand_type(values).shape)
    return ShapeError(
        f"x.at[mask] takes one value for all places, not values of the shape {shape}",
        notes=[f"x: {x.type}", f"mask: {mask.type}"],
        fix="give a number, or write rlx.numpy.where(mask, values_for_all_of_x, x)",
    )


# -- x[mask] *= 2 ---------------------------------------------------------------------------------


@final
class Chosen(Operators):
    """`x[mask]` of an unknown mask, for `x[mask] *= 2`; all else raises the error."""

    __slots__ = ("_change", "_elements", "_index", "_of", "error")

    def __init__(self, x: Operators, index: Any, error: ConcretizationError) -> None:
        self._of, self._elements, self._index = x, x._first, index
        self._change: tuple[Callable[[Any, Any], Any], Any] | None = None
        self.error = error

    @property
    def type(self) -> Type:
        """Raise an error, since the number of elements is not known."""
        raise self.error

    def _refuse(self, *given: Any) -> Any:
        raise self.error

    __array__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = __getattr__ = _refuse

    def changed(self, change: Callable[[Any, Any], Any], values: Any) -> Chosen:
        """The elements changed to `change(elements, values)`, where they are put back."""
        if self._change is not None:
            raise self.error
        made = Chosen(self._of, self._index, self.error)
        made._change = change, as_operand(values)
        return made

    def put_back(self, x: Any, index: Any, before: Any) -> Any:
        """The array `before`, which x is, with the changed elements at an index."""
        is_place = x is self._of and x._first is self._elements and index is self._index
        if self._change is None or not is_place:
            raise self.error
        change, values = self._change
        check_fits("x[i] = v", values, x.dtype)
        made = masked(before, index, values, change, {})
        if made is None:  # beside items that are read otherwise
            raise self.error
        return made
