"""`x[i] = v` and `x += v`.

An assignment gives the object x another value: every name for the object sees it, as in NumPy, and
arrays made from x before do not. While a function is traced it is recorded as an update. `x += v`
gives the name x a new object, so other names keep the old one.
"""

from __future__ import annotations

from typing import Any

from ...ir import builder
from ...ir.errors import ShapeError
from ..apply import as_operand, as_tensor, forget_recipe, operand_type, to_value
from ..array import Array
from ..by_numpy import changed
from ..operators import FUNCTIONS, Operators
from ..promotion import can_cast, convert, no_cast
from ..tensor import TracedTensor
from . import aliasing
from .masks import Chosen
from .read import places_of
from .update import Place


def assign(x: Any, index: Any, values: Any) -> None:
    """Change elements of an array, `x[index] = values`; the object gets new memory.

    >>> import rlx
    >>> x = rlx.array([1.0, 2.0, 3.0])
    >>> x[1:] = 0.0
    >>> x.tolist()
    [1.0, 0.0, 0.0]
    """
    check_may_change(x, "x[i] = v")
    before = x.copy()
    is_chosen = isinstance(values, Chosen)
    after = (
        values.put_back(x, index, before) if is_chosen else changed("x[i] = v", x, index, values)
    )
    if after is None:
        after = Place(before, index, "x[i] = v").set(values)
    parts = aliasing.has_parts(x)
    places = places_of(index, x.shape) if parts else None
    if isinstance(x, Array) and aliasing.is_tracing():
        _leave_to(x, before)
    _become(x, as_tensor(after))
    if parts:
        aliasing.outdate_parts(x, places)


def check_may_change(x: Any, action: str) -> None:
    """Raise unless nobody but the running function would see a change of the array."""
    if isinstance(x, Chosen):
        raise x.error
    aliasing.check_free(x, action)
    recorder = builder.current()
    if isinstance(x, TracedTensor):
        x = as_operand(x)  # which raises if its trace has ended
        if recorder is None or not recorder.graph.owns(x.value):
            why = f"it belongs to {x.value.graph.name}, around the function that is traced here"
            raise aliasing.taken(x, action, why)
    elif aliasing.is_tracing() and not aliasing.is_born_here(x):
        name = f"{recorder.graph.name}, which is traced here" if recorder else "the branch"
        raise aliasing.taken(x, action, f"it was made outside of {name}")


def _leave_to(x: Array, before: Array) -> None:
    """Let what was recorded with an array refer to its elements before the change."""
    for recorder in builder.open_builders():
        recorder.replace_capture(x, before)
        forget_recipe(recorder, x, before)


def _become(x: Any, new: Any) -> None:
    """Give an object the value of another."""
    if isinstance(x, TracedTensor) or isinstance(new, TracedTensor):
        # both classes have the same slots, so an array that meets traced values can turn
        object.__setattr__(x, "__class__", TracedTensor)
        x.value, x.weak = to_value(new), False
    else:
        x._data, x._device = new._data, new._device


def in_place(name: str, x: Operators, y: Any) -> Any:
    """What the name x stands for after `x += y`."""

    def change(x: Any, y: Any) -> Any:
        return like_before(name, x, FUNCTIONS[name](x, y))

    return x.changed(change, y) if isinstance(x, Chosen) else change(x, y)


def like_before(name: str, x: Operators, result: Any) -> Any:
    """The result of `x += v` in the dtype of x.

    A result of a higher kind, or of another shape, is an error.
    """
    if result is NotImplemented or (isinstance(x, TracedTensor) and x.weak):
        return result
    if tuple(result.shape) != tuple(x.shape):
        raise ShapeError(
            f"{name} in place: the result has the shape {tuple(result.shape)}, x {tuple(x.shape)}",
            notes=[f"x: {x.type}"],
            fix="write x = x + v, which may give x another shape",
        )
    if result.dtype == x.dtype:
        return result
    if not can_cast(operand_type(result).dtype, x.dtype):
        raise no_cast(name, operand_type(result).dtype, x.dtype)
    return convert(result, x.dtype)
