"""Items of an index, as written between the brackets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...ir import builder
from ...ir.config import config
from ...ir.dims import Dim
from ...ir.errors import BoundsError, ConcretizationError, DtypeError
from ...ir.graph import Value
from ...ir.ops.custom import Rule
from ...ir.source import user_source
from ...ir.types import DTYPES, Size, is_bool, is_integer
from ..apply import apply, as_operand, as_tensor, bake
from ..array import Array
from ..axes import Shape
from ..operators import Operators
from ..tensor import TracedTensor

# -- are indices inside of their axis? A check, where that is wanted -------------------------------
#
# What a place outside means does not depend on it: a read gives the nearest element, an update is
# left out, or as `mode` says. `rlx.config.checks` compiles the check in, or drops it everywhere.
# Else index arrays that are known are looked at once outside of `jit`, also in `grad` there.


_as_compiled = ContextVar("as_compiled", default=False)


@contextmanager
def as_compiled() -> Iterator[None]:
    """Check indices in a block as compiled functions do, so not by default."""
    token = _as_compiled.set(True)
    try:
        yield
    finally:
        _as_compiled.reset(token)


def are_checked() -> bool:
    """Whether known index arrays are checked for bounds."""
    if config.checks is not None:
        return config.checks
    if _as_compiled.get():
        for recorder in builder.open_builders():
            recorder.was_asked = True  # outside of the block the recording would look
        return False
    return all(b.runs_once or b.is_trial for b in builder.open_builders())


def check_places(places: Any, size: Size, axis: int) -> None:
    """Raise a `BoundsError` if traced places lie outside of an axis.

    It is raised now or when the program runs, or not at all: see above.
    """
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, count: Any = size) -> None:
        if not (-count <= low and high < count):
            raise outside(int(high if low >= -count else low), int(count), axis, where)

    check_ends(places, size, Rule(look, (where, size, axis)))


def check_ends(places: Any, size: Size, look: Rule) -> None:
    """Let `look` see the least and the greatest of some integers, and an open size."""
    if places.size == 0:
        return
    if isinstance(places, Array):
        if are_checked():
            known = places.host()
            look(known.min(), known.max())
    elif config.checks:
        ends = [_end(places, op) for op in ("reduce_min", "reduce_max")]
        # an open size has its number when the program runs
        ends += [as_operand(size)] if isinstance(size, Dim) else []
        apply("debug_callback", *ends, fn=look)
    elif not isinstance(size, Dim) and are_checked() and _is_simple(places.value):
        known = places.concrete
        if known is not None:
            look(known.min(), known.max())


def outside(index: int, size: int, axis: int, where: str | None = None) -> BoundsError:
    """The error for an index outside of an axis."""
    return BoundsError(
        f"index {index} is outside axis {axis} with size {size}",
        where=where,
        fix=f"use an index from {-size} to {size - 1}" if size else "the axis is empty",
    )


def _end(places: TracedTensor, op: str) -> Any:
    return apply(op, places, axes=tuple(range(places.ndim))) if places.ndim else places


def _is_simple(value: Value) -> bool:
    """Whether a value is computed from few integers only, at little cost."""
    waiting, count = [value], 0
    while waiting:
        top, count = waiting.pop(), count + 1
        if top.dtype.kind not in "iu" or count > 32:
            return False
        node = top.node
        if node is not None:
            # what looks at other members, or runs Python, is not computed twice
            if node.op.rules.named is not None or node.op.rules.calls_python or node.graphs:
                return False
            waiting += node.args
    return True


INDEX = DTYPES["int32"]


def index_dtype(given: np.dtype, size: Any) -> np.dtype:
    """The dtype that indices become: that, or one that holds the size of the axis.

    >>> index_dtype(np.dtype("int8"), 1000), index_dtype(np.dtype("int32"), 2**31)
    (dtype('int32'), dtype('int64'))
    """
    if isinstance(size, int) and size >= 2**31 and given != "uint64":
        return DTYPES["int64"]
    return INDEX if given.itemsize < 4 else given


def full_items(index: Any, shape: Shape) -> list[Any]:
    """The items of an index for all axes.

    Full slices stand for ... and what is left out. An ellipsis that stands for no axis stays: like
    a slice it keeps index arrays apart.
    """
    items = [_read_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    count = sum(map(width, items))
    if count > len(shape):
        raise BoundsError(
            f"{count} indices for an array with {len(shape)} axes",
            notes=[f"the shape is {tuple(shape)}"],
            fix="leave some out, or add axes first with x[..., None]",
        )
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise BoundsError(
            "an index has more than one ...",
            fix="write ... once, and full slices `:` for the other axes",
        )
    place = dots[0] if dots else len(items)
    full = [slice(None)] * (len(shape) - count) or [Ellipsis] * len(dots)
    return [*items[:place], *full, *items[place + 1 :]]


def without_masks(items: list[Any], shape: Shape) -> list[Any]:
    """Items with integer arrays for boolean ones, one for each axis they cover."""
    axis, found = 0, []
    for item in items:
        found += _mask_items(item, axis, shape) if is_mask(item) else [item]
        axis += width(item)
    return found


def width(item: Any) -> int:
    """How many axes an item covers."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if is_mask(item) else 1


def is_mask(item: Any) -> bool:
    """Whether an item of an index is an array of booleans."""
    return is_array_index(item) and is_bool(item.dtype)


def _read_item(item: Any) -> Any:
    """One item: None, ..., a slice, a number, or an integer or boolean array."""
    if item is None or item is Ellipsis or isinstance(item, slice | Dim):
        return item
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, bool):
        return np.asarray(item)
    if not isinstance(item, Operators | np.ndarray | np.generic | list | tuple):
        raise _bad_item(item)
    array = _index_array(item)
    if is_bool(array.dtype):
        return array if isinstance(array, TracedTensor) else np.asarray(array)
    if not is_integer(array.dtype):
        raise _bad_item(item)
    is_number = not isinstance(item, Operators) and isinstance(array, np.ndarray | np.generic)
    return int(array) if is_number and not array.shape else array


def _index_array(item: Any) -> Any:
    """An integer or boolean array in the host's memory, or traced."""
    array = as_tensor(item) if isinstance(item, list | tuple) else as_operand(item)
    if isinstance(array, Array):
        bake(array)
        array = array.host()
    if isinstance(array, np.ndarray) and not array.size and isinstance(item, list | tuple):
        return array.astype(INDEX)  # [] has no integers to tell its dtype from
    return array


def _bad_item(item: Any) -> DtypeError:
    what = str(item.type) if isinstance(item, Operators) else f"{item!r}"
    return DtypeError(
        f"{what} is no index",
        fix="use integers, slices, None, ..., integer arrays or boolean arrays",
    )


def _mask_items(mask: Any, axis: int, shape: Shape) -> list[np.ndarray]:
    """The places where a mask holds, an array for each axis it covers."""
    covered = tuple(shape[axis : axis + mask.ndim])
    # as in NumPy a mask without elements fits any axis
    if any(m not in (n, 0) for m, n in zip(mask.shape, covered, strict=True)):
        raise BoundsError(
            f"a mask of the shape {tuple(mask.shape)} does not fit axes of the sizes {covered}",
            fix="give the mask the shape of the axes it picks from",
        )
    known = mask.concrete if isinstance(mask, TracedTensor) else mask
    if known is None:
        raise ConcretizationError(
            "a boolean mask picks a number of elements that is not known while tracing",
            notes=[f"the mask is {mask.type}"],
            fix="write rlx.numpy.where(mask, x, other), x.at[mask].set(v), or "
            "x[rlx.numpy.nonzero(mask, size=n)]",
        )
    return list(np.nonzero(known))


def is_advanced(item: Any) -> bool:
    """Whether an item takes places, as numbers do beside arrays too."""
    return not (item is None or item is Ellipsis or isinstance(item, slice))


def is_array_index(item: Any) -> bool:
    """Whether an item is an array, of integers or booleans."""
    return isinstance(item, np.ndarray | TracedTensor)


def with_flags(x: Any, index: Any) -> tuple[Any, Any]:
    """Replace Python booleans in an index by new axes of the array.

    Such an axis is read at 0 if the boolean is true, else nowhere.
    """
    items = index if isinstance(index, tuple) else (index,)
    if all(type(item) in _PLAIN for item in items) or not any(map(_is_flag, items)):
        return x, index
    shape, found, axis = list(x.shape), [], 0
    for item in full_items(index, x.shape):
        if is_mask(item) and not item.ndim and not isinstance(item, TracedTensor):
            shape.insert(axis, 1)
            axis += 1
            found.append(np.zeros(int(item), INDEX))
        else:
            axis += width(item)
            found.append(item)
    return apply("reshape", x, shape=tuple(shape)), tuple(found)


_PLAIN = (slice, int, type(None), type(...))


def _is_flag(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return True
    return isinstance(item, Array | np.ndarray) and not item.shape and is_bool(item.dtype)
