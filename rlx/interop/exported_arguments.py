"""The arguments of exported functions: their names, and errors in calls."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ir.errors import DtypeError, ShapeError, StructureError
from ..ir.types import Type
from .trees import LEAF, count_leaves


class Parameter(NamedTuple):
    """An argument: its name, whether it is passed by it, and what it is."""

    name: str
    by_name: bool
    what: str

    def __str__(self) -> str:
        return f"{self.name}={self.what}" if self.by_name else f"{self.name}: {self.what}"


def parameters_of(inputs: Any, origins: Sequence[str], types: Sequence[Type]) -> list[Parameter]:
    """The arguments of what was exported, with the names of their leaves.

    An origin is `argument 0 of loss, params["w"]`.
    """
    positional, named = inputs["tuple"]
    rows = [(None, tree) for tree in positional["tuple"]] + [tuple(row) for row in named["dict"]]
    found: list[Parameter] = []
    start = 0
    for i, (key, tree) in enumerate(rows):
        count = count_leaves(tree)
        path = origins[start].partition(", ")[2] if count else ""
        name = key or path.partition("[")[0].partition(".")[0]
        if not name.isidentifier() or name in [p.name for p in found]:
            name = f"argument_{i}"
        what = str(types[start]) if tree == LEAF else _container_name(tree)
        found.append(Parameter(name, key is not None, what))
        start += count
    return found


def _container_name(tree: Any) -> str:
    return "None" if tree is None else f"a {next(iter(tree))} of {count_leaves(tree)} arrays"


def is_call(inputs: Any) -> bool:
    """Whether a structure is one of positional arguments and named ones."""
    match inputs:
        case {"tuple": [{"tuple": [*_]}, {"dict": [*rows]}]}:
            return all(isinstance(key, str) for key, _ in rows)
    return False


def signature_of(parameters: Sequence[Parameter]) -> inspect.Signature:
    """What Python's tools show."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([inspect.Parameter(p.name, kinds[p.by_name]) for p in parameters])


def wrong_arguments(
    function: str, wanted: Sequence[Parameter], exported: Any, given: Any
) -> StructureError:
    """The error for arguments in other containers, or passed in another way."""
    positional, named = given["tuple"]
    count, keys = len(positional["tuple"]), [key for key, _ in named["dict"]]
    expected = [p.name for p in wanted if p.by_name]
    if count == len(wanted) - len(expected) and sorted(keys) == sorted(expected):
        return StructureError(
            f"{function} was exported for other containers of arguments",
            notes=[f"exported: {json.dumps(exported)}", f"given: {json.dumps(given)}"],
            fix="call it with the containers, keys and lengths it was exported for",
        )
    words = [p.name if not p.by_name else f"{p.name}=..." for p in wanted]
    return StructureError(
        f"{function} takes {_listed(wanted)}; it was given {_given(count, keys)}",
        fix=f"call it as {function}({', '.join(words)})",
    )


def _listed(wanted: Sequence[Parameter]) -> str:
    if not wanted:
        return "no arguments"
    ways = {p.by_name for p in wanted}
    way = "" if len(ways) == 2 else " by keyword" if ways == {True} else " by position"
    return ", ".join(map(str, wanted)) + way


def _given(count: int, keys: Sequence[str]) -> str:
    parts = [f"{count} positional argument{'s' * (count != 1)}"] if count else []
    parts += [f"{', '.join(keys)} by keyword"] if keys else []
    return " and ".join(parts) or "no arguments"


def check_type(function: str, given: Type, wanted: Type, name: str) -> None:
    """Raise if an argument has another dtype, rank or known size than was exported."""
    what = f"{function} was exported for {name}: {wanted}, it was given {given}"
    if given.dtype != wanted.dtype:
        fix = f"convert it: x.astype({wanted.dtype.name!r})"
        raise DtypeError(what, fix=fix)
    if given.rank != wanted.rank:
        fix = f"pass an array of {wanted.rank} axes"
        fix += "; x[None] has one more in front" if given.rank == wanted.rank - 1 else ""
        raise ShapeError(what, fix=fix)
    for axis, (n, size) in enumerate(zip(given.shape, wanted.shape, strict=True)):
        if isinstance(size, int) and n != size:
            fix = f"pass an array whose axis {axis} has the size {size}"
            raise ShapeError(what, fix=fix)
