"""The dotted names of a tree's leaves, and what else of the tree a file keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..ir.errors import StructureError
from ..trace import pytree
from ..trace.key_paths import GetAttrKey, KeyPath, key_name
from .contents import refuse, shown

MOST_LEVELS, PER_LEVEL = 100, 256


def name_of(path: KeyPath) -> str:
    """The dotted name of a path: `layers.0.weight`; that of a lone leaf is empty."""
    return ".".join(map(key_name, path))


def named_leaves(tree: Any) -> tuple[dict[str, Any], pytree.Structure]:
    """The leaves of a tree by name, in order, and its structure.

    >>> named_leaves({"layers": [1, 2]})[0]
    {'layers.0': 1, 'layers.1': 2}
    """
    rows, structure = pytree.flatten_with_path(tree)
    found: dict[str, Any] = {}
    for path, leaf in rows:
        name = name_of(path)
        if name in found:
            raise StructureError(
                f"two leaves of the tree have the name {name!r}",
                fix="use keys without dots, and not both 1 and '1'",
            )
        found[name] = leaf
    return found, structure


def nested(flat: Mapping[str, Any], budget: int) -> Any:
    """Nested dicts of what has dotted names.

    >>> nested({"layers.0": 1, "layers.1": 2}, 10_000)
    {'layers': {'0': 1, '1': 2}}
    """
    if list(flat) == [""]:
        return flat[""]
    root: dict[str, Any] = {}
    inner = {id(root)}
    for name, x in flat.items():
        *parents, last = name.split(".", MOST_LEVELS)
        place = root
        for key in parents:
            if key not in place:
                place[key] = {}
                inner.add(id(place[key]))
                budget -= PER_LEVEL
            place = place[key]
            if id(place) not in inner:
                _refuse_mixed(name)
        if last in place:
            _refuse_mixed(name)
        if "." in last or budget < 0:
            refuse(f"the names are nested too deeply: {shown(name)}", "use rlx.io.open(path)")
        place[last] = x
    return root


def _refuse_mixed(name: str) -> None:
    refuse(
        f"{shown(name)} lies within, or holds, another array's name, so that no dict has both",
        "use rlx.io.open(path), which has the arrays by their full names, or load(like=...)",
    )


def static_fields(tree: Any, path: KeyPath = ()) -> dict[str, Any]:
    """The static fields of the modules in a tree by name, those that JSON can tell."""
    found: dict[str, Any] = {}
    rows, _ = pytree.flatten_with_path(tree, is_leaf=lambda x: _fields(x) is not None)
    for below, x in rows:
        fields = _fields(x)
        if fields is None:
            continue
        for name in fields.static:
            value = getattr(x, name)
            if _is_plain(value):
                key = name_of((*path, *below, GetAttrKey(name)))
                found[key] = json.loads(json.dumps(value))
        for name in fields.names:
            found |= static_fields(getattr(x, name), (*path, *below, GetAttrKey(name)))
    return found


def _fields(x: Any) -> pytree.Fields | None:
    return pytree.fields_of(type(x))


def _is_plain(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return all(map(_is_plain, x))
    if isinstance(x, dict):
        return all(type(key) is str and _is_plain(value) for key, value in x.items())
    return x is None or type(x) in (bool, int, float, str)
