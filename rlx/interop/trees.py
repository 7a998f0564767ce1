"""Structures of trees as plain data, which a file can hold.

A leaf is "*", None is null; containers are `{"list": [...]}`, `{"tuple": [...]}`,
`{"dict": [[key, child], ...]}` and `{"namedtuple": [name, [[field, child], ...]]}`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import optree

from ..ir.errors import FileFormatError, StructureError
from ..trace import pytree

LEAF = "*"
FIX = "copy the file again, or export the function anew"


def described(spec: pytree.Structure, what: str) -> Any:
    """A structure as plain data; `what` has it is said in the error."""
    if spec.is_leaf():
        return LEAF
    kind: Any = spec.type
    if kind is None or kind is type(None):
        return None
    children = [described(child, what) for child in spec.children()]
    if kind in (list, tuple):
        return {kind.__name__: children}
    rows = [list(row) for row in zip(spec.entries(), children, strict=True)]
    if kind is dict and all(type(key) in (str, int) for key, _ in rows):
        return {"dict": rows}
    if optree.is_namedtuple_class(kind):
        fields = optree.namedtuple_fields(kind)  # type: ignore[arg-type]  (it is such a class)
        rows = [list(row) for row in zip(fields, children, strict=True)]
        return {"namedtuple": [kind.__name__, rows]}
    raise StructureError(
        f"{what} hold a {kind.__name__}, which a file cannot",
        fix="use lists, tuples, named tuples, and dicts whose keys are texts or integers; a model "
        "may be\nused from outside, its weights are then kept in the file",
    )


def count_leaves(tree: Any) -> int:
    """The number of leaves of a structure, which is checked: it may be anything."""
    if tree is None or tree == LEAF:
        return int(tree == LEAF)
    kind, inside = _container(tree)
    if kind in ("list", "tuple"):
        return sum(map(count_leaves, inside))
    rows = inside
    if kind == "namedtuple":
        name, rows = inside
        namedtuple(name, [field for field, _ in rows])  # raises if these are no names
    elif len({repr(key) for key, _ in rows}) != len(rows):
        raise FileFormatError("the file's structures have a key twice", fix=FIX)
    if not all(type(key) in (str, int) for key, _ in rows):
        raise FileFormatError("the file's structures have keys of another kind", fix=FIX)
    return sum(count_leaves(child) for _, child in rows)


def _container(tree: Any) -> tuple[str, Any]:
    if isinstance(tree, dict) and len(tree) == 1:
        ((kind, inside),) = tree.items()
        if kind in ("list", "tuple", "dict", "namedtuple") and isinstance(inside, list):
            return kind, inside
    raise FileFormatError("the file's structures are damaged", fix=FIX)


def filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """The containers of a structure with leaves."""
    if tree is None:
        return None
    if tree == LEAF:
        return next(leaves)
    kind, inside = _container(tree)
    if kind == "dict":
        return {key: filled(child, leaves) for key, child in inside}
    if kind == "namedtuple":
        name, rows = inside
        children = [filled(child, leaves) for _, child in rows]
        return namedtuple(name, [field for field, _ in rows])(*children)
    children = [filled(child, leaves) for child in inside]
    return children if kind == "list" else tuple(children)
