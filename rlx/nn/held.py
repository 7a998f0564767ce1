"""What the fields of modules hold: arrays that nobody assigns to.

A module that is made takes array objects of its own, so an assignment to those of the user leaves
it as it is. Those that a structure is filled with (results of compiled functions, `tree.map`) it
keeps. All are marked where they come out: an assignment to one is an error that names the field.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..trace import pytree
from ..trace.array import Array
from ..trace.ownership import InField, put_in_field, ties_of
from ..trace.tensor import TracedTensor

ARRAYS = (Array, TracedTensor)
UNDER_CONSTRUCTION = "_is_under_construction"


@final
class HeldField:
    """The attribute of a field with parameters: gives them marked.

    While a module is made they are not; then it may assign to them. `default` is empty, or holds
    the one value of the class.
    """

    __slots__ = ("_field", "_name", "default")

    def __init__(self, module: str, name: str, default: tuple[Any, ...]) -> None:
        self._field = InField(module, name, True)
        self._name, self.default = name, default

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self._of_class()
        values = module.__dict__
        try:
            value = values[self._name]
        except KeyError:
            return self._of_class(type(module).__name__)
        if type(value) is Array:  # most are, and marked
            ties = getattr(value, "_ties", None)
            if ties is not None and ties.field is not None:
                return value
        return value if UNDER_CONSTRUCTION in values else self.held(value)

    def __set__(self, module: Any, value: Any) -> None:
        vars(module)[self._name] = value

    def _of_class(self, of: str = "") -> Any:
        if not self.default:
            what = f"{of!r} object" if of else f"the class {self._field.module}"
            raise AttributeError(f"{what} has no attribute {self._name!r}")
        return self.default[0]

    def held(self, value: Any) -> Any:
        """The value, its arrays marked."""
        kind = type(value)
        if kind is Array or kind is TracedTensor:  # both are final
            put_in_field(value, self._field)
        elif not _is_module(value):
            for leaf in pytree.leaves(value, is_leaf=_is_module):
                if isinstance(leaf, ARRAYS):
                    put_in_field(leaf, self._field._replace(is_all=False))
        return value

    def own(self, value: Any) -> Any:
        """The value with array objects of its own; they share memory."""
        if _is_module(value):
            return value
        leaves = pytree.leaves(value, is_leaf=_is_module)
        if not any(_own(leaf) is not leaf for leaf in leaves):
            return self.held(value)
        return self.held(pytree.map(_own, value, is_leaf=_is_module))


def _is_module(x: Any) -> bool:
    fields = pytree.fields_of(type(x))
    return fields is not None and fields.make is not None


def _own(x: Any) -> Any:
    ties = ties_of(x)
    if isinstance(x, np.ndarray) and x.flags.writeable:
        x = x.copy()
        x.flags.writeable = False
        return x
    if not isinstance(x, ARRAYS) or (ties is not None and ties.field is not None):
        return x
    if isinstance(x, TracedTensor):
        return TracedTensor(x.value, x.weak)
    return x.copy()
