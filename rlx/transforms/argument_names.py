"""The arguments that `jit` is told about, by name or by place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.errors import StaticArgumentError
from ..trace.arguments import members
from ..trace.axes import integer
from ..trace.make_graph import check_function, function_name


def known_names(fn: Callable[..., Any], names: Sequence[str] | str, what: str) -> tuple[str, ...]:
    """Names of arguments, which must be those of the function."""
    check_function(fn, "what jit compiles")
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, Sequence):
        raise StaticArgumentError(
            f"{what} is {names!r}, not a name",
            fix="give the names of arguments: a text or a list of them",
        )
    known = inspect.signature(fn).parameters if names else {}
    for name in names:
        if name not in known:
            raise StaticArgumentError(
                f"{function_name(fn)} has no argument {name!r} to be in {what}",
                fix=f"its arguments are {', '.join(known)}",
            )
    return tuple(names)


def names_of(fn: Callable[..., Any], numbers: Sequence[int] | int, what: str) -> tuple[str, ...]:
    """The names of arguments by their places."""
    check_function(fn, "what jit compiles")
    many = [numbers] if isinstance(numbers, int) else list(members(what, numbers))
    if not many:
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fn).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds]
    found = []
    for number in many:
        place = integer(what, number)
        if not -len(names) <= place < len(names):
            raise StaticArgumentError(
                f"{function_name(fn)} has no argument {place} to be in {what}",
                fix=f"its arguments by place are {', '.join(names) or 'none'}",
            )
        found.append(names[place])
    return tuple(found)
