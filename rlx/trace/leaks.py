"""The error for a tensor that outlived its trace.

It tells who made it, and who still holds it.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..ir import builder
from ..ir.errors import LeakedTracerError

if TYPE_CHECKING:
    from .tensor import TracedTensor


def leaked(tensor: TracedTensor) -> LeakedTracerError:
    """The error for a tensor used after its trace.

    It names the line that made the tensor, and what holds it.
    """
    error = builder.leaked(tensor.value)
    holder = holder_of(tensor)
    if holder:
        error.notes = (*error.notes, f"held by {holder}")
    return error


def holder_of(thing: object) -> str:
    """Name what outside of the running frames refers to a thing.

    The name is empty if nothing is found.
    """
    for referrer in gc.get_referrers(thing):
        if isinstance(referrer, FrameType):
            continue
        if isinstance(referrer, dict):
            name = _name_in_dict(referrer, thing)
        elif isinstance(referrer, list | set | tuple):
            name = _name_of_container(referrer)
        else:
            name = _name_in_object(referrer, thing)
        if name:
            return name
    return ""


def _name_in_dict(table: dict[Any, Any], thing: object) -> str:
    key = next((k for k, v in table.items() if v is thing), None)
    if key is None:
        return ""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module) is table:
            return f'the global variable "{key}" of module {module.__name__}'
    for owner in gc.get_referrers(table):
        if _attributes(owner) is table:
            return f"the attribute .{key} of a {type(owner).__name__}"
    return f"a dict, under the key {key!r}" + _variable_of(table)


def _name_of_container(container: list[Any] | set[Any] | tuple[Any, ...]) -> str:
    name = _variable_of(container)
    # nameless tuples are mostly the arguments of the running call
    if isinstance(container, tuple) and not name:
        return ""
    return f"a {type(container).__name__}{name}"


def _name_in_object(owner: object, thing: object) -> str:
    if type(owner).__name__ == "cell":
        for function in gc.get_referrers(*gc.get_referrers(owner)):
            if isinstance(function, FunctionType) and function.__closure__:
                pairs = zip(function.__code__.co_freevars, function.__closure__, strict=True)
                name = next((n for n, cell in pairs if cell is owner), None)
                if name:
                    return f'the variable "{name}" used by the function {function.__qualname__}'
        return ""
    attributes = _attributes(owner) or {}
    name = next((k for k, v in attributes.items() if v is thing), None)
    return f"the attribute .{name} of a {type(owner).__name__}" if name else ""


def _attributes(owner: object) -> dict[str, Any] | None:
    if isinstance(owner, ModuleType | FrameType | type | dict | list | tuple):
        return None
    try:
        return vars(owner)
    except TypeError:
        return None


def _variable_of(container: object) -> str:
    """The global variable that names a container, as ` "saved" of module m`."""
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if value is container:
                return f', the global variable "{name}" of module {module.__name__}'
    return ""
