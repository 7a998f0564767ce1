"""Modules as text: on one line or several, and as a table of their layers."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

from ..trace import pytree
from ..trace.arguments import callable_of
from ..trace.array import Array
from ..trace.make_graph import eval_shape, typeof
from ..trace.tensor import TracedTensor

ROOM = 80  # columns that a line may take


def text_of(value: Any, indent: str = "", before: int = 0) -> str:
    """A value with arrays by their types, on several lines where one is too short.

    `before` is how many columns of the first line are taken.
    """
    found = _parts(value)
    if found is None:
        return _leaf_text(value)
    opening, parts, closing = found
    line = opening + ", ".join(name + _line(x) for name, x in parts) + closing
    if before + len(line) <= ROOM or not parts:
        return line
    inner = f"{indent}  "
    lines = [f"{inner}{name}{text_of(x, inner, len(inner) + len(name) + 1)}," for name, x in parts]
    return "\n".join([opening, *lines, f"{indent}{closing.lstrip(',')}"])


def _line(value: Any) -> str:
    """A value on one line."""
    found = _parts(value)
    if found is None:
        return _leaf_text(value)
    opening, parts, closing = found
    return opening + ", ".join(name + _line(x) for name, x in parts) + closing


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
    """What opens a container, its parts with what is before each, what closes it."""
    if is_module(value):
        names = [f.name for f in dataclasses.fields(value)]
        parts = [(f"{name}=", getattr(value, name)) for name in names]
        return f"{type(value).__name__}(", parts, ")"
    if type(value) is tuple:
        return "(", [("", x) for x in value], ",)" if len(value) == 1 else ")"
    if type(value) is list:
        return "[", [("", x) for x in value], "]"
    if type(value) is dict:
        return "{", [(f"{key!r}: ", x) for key, x in value.items()], "}"
    return None


def html_of(value: Any, name: str = "", is_open: bool = True) -> str:
    """A value for notebooks: parts that fold away, arrays by their types and sizes."""
    from ..ir.notebook import plain_html, tree_html  # which notebooks need

    found = _parts(value)
    if found is None:
        return plain_html(name + _leaf_text(value))
    opening, parts, closing = found
    arrays = [x for x in pytree.leaves(value) if isinstance(x, Array | TracedTensor)]
    numbers = sum(math.prod(map(int, x.shape)) for x in arrays)
    title = f"{name}{opening}...{closing}  {len(arrays)} arrays, {numbers:,} numbers"
    if not parts:
        return plain_html(f"{name}{opening}{closing}")
    return tree_html(title, (html_of(x, key, is_open=False) for key, x in parts), is_open)


def _leaf_text(value: Any) -> str:
    if isinstance(value, Array | TracedTensor):
        return str(value.type)
    return getattr(value, "__name__", None) or repr(value)


def is_module(x: Any) -> bool:
    """Whether an object is a module."""
    fields = pytree.fields_of(type(x))
    return fields is not None and fields.make is not None


# -- the table -------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A module of a model: its place, its own arrays, and what it and those in it hold."""

    path: str
    kind: str
    result: str
    arrays: str
    parameters: int
    state: int
    nbytes: int


def summary(model: Any, *args: Any, **kwargs: Any) -> str:
    """A table of the layers of a model, with their parameter counts.

    With arguments, arrays or `rlx.spec`s, it tells the type of each layer's result for a call
    `model(*args, **kwargs)`; nothing is computed, and layers are in inference mode.

    >>> import rlx
    >>> from rlx import nn
    >>> keys = rlx.random.split(rlx.random.key(0))
    >>> model = nn.Sequential([nn.Linear(3, 4, key=keys[0]), nn.BatchNorm(4), nn.relu])
    >>> print(nn.summary(model, rlx.spec(("n", 3))))
    path             class       result     arrays                     parameters  state  bytes
    model            Sequential  f32[n, 4]                                     24      8    128
    model.layers[0]  Linear      f32[n, 4]  weight=f32[3, 4], bias=f32[4]      16      0     64
    ...
    """
    results: dict[str, str] = {}
    if args or kwargs:
        watched = _watched(callable_of("summary: the model", model), "model", results)
        eval_shape(lambda *args, **kwargs: watched(*args, **kwargs), *args, **kwargs)
    rows = _rows(model, "model", results)
    titles = [["path", "class", "result", "arrays", "parameters", "state", "bytes"]]
    cells = titles + [[x if isinstance(x, str) else f"{x:,}" for x in row] for row in rows]
    if not results:
        cells = [[*row[:2], *row[3:]] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first_number = len(widths) - 3
    return "\n".join(
        "  ".join(
            x.ljust(n) if i < first_number else x.rjust(n)
            for i, (x, n) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def _children(tree: Any, path: str) -> list[tuple[str, Any]]:
    """The parts of a container, each with its path."""
    parts, structure = pytree.flatten(tree, is_leaf=lambda x: x is not tree)
    return list(zip(pytree.paths(structure, path), parts, strict=True))


def _rows(tree: Any, path: str, results: dict[str, str]) -> list[_Row]:
    if pytree.structure(tree).is_leaf():
        return []
    children = _children(tree, path)
    below = [row for place, x in children for row in _rows(x, place, results)]
    if not is_module(tree):
        return below
    leaves, structure = pytree.flatten(tree)
    mask, types = pytree.state_mask(structure), [typeof(x) for x in leaves]
    sizes = [math.prod(map(int, t.shape)) for t in types]
    state = sum(n for n, is_state in zip(sizes, mask, strict=True) if is_state)
    nbytes = sum(n * t.dtype.itemsize for n, t in zip(sizes, types, strict=True))
    own = [
        f"{place.removeprefix(path).lstrip('.')}={typeof(x)}"
        for place, x in children
        if x is not None and pytree.structure(x).is_leaf()
    ]
    name, result = type(tree).__name__, results.get(path, "")
    row = _Row(path, name, result, ", ".join(own), sum(sizes) - state, state, nbytes)
    return [row, *below]


def _watched(tree: Any, path: str, results: dict[str, str]) -> Any:
    """A copy in inference mode whose modules tell the types of what they give."""
    if pytree.structure(tree).is_leaf():
        return tree
    inner = [_watched(x, place, results) for place, x in _children(tree, path)]
    fields = pytree.fields_of(type(tree)) if is_module(tree) else None
    if fields is None:
        structure = pytree.structure(tree, is_leaf=lambda x: x is not tree)
        return pytree.unflatten(structure, inner)

    def note(result: Any) -> None:
        results[path] = ", ".join(str(typeof(x)) for x in pytree.leaves(result))

    mode = {"inference": True} if "inference" in fields.static else {}
    made = object.__new__(_watching(type(tree)))
    vars(made).update(vars(tree), **dict(zip(fields.names, inner, strict=True)), **mode)
    vars(made)["_note"] = note
    return made


@functools.cache
def _watching(kind: type) -> type:
    """A class of modules whose instances tell what they give."""
    plain = next((vars(c)["__call__"] for c in kind.__mro__ if "__call__" in vars(c)), None)
    if plain is None:
        return kind
    begin: Any = vars(kind)["__init__"]  # so that the subclass makes none

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        vars(self).get("_note", lambda result: None)(result)
        return result

    return type(kind)(kind.__name__, (kind,), {"__call__": called, "__init__": begin})
