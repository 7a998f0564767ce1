"""Trees of dicts, tuples and lists, walked alike for every library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """What a tree holds, in order; dicts in the order of their keys."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, tuple | list):
        return [leaf for item in tree for leaf in leaves(item)]
    return [] if tree is None else [tree]


def tree_map(f: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree of `f` of the leaves that stand at one place of all trees."""
    if isinstance(tree, dict):
        return {key: tree_map(f, tree[key], *(o[key] for o in others)) for key in tree}
    if isinstance(tree, tuple | list):
        made = [tree_map(f, *items) for items in zip(tree, *others, strict=True)]
        return type(tree)(made)
    return None if tree is None else f(tree, *others)


def refilled(tree: Any, new: Iterator[Any]) -> Any:
    """The tree with other leaves, given in the order of `leaves`."""
    if isinstance(tree, dict):
        return {key: refilled(tree[key], new) for key in sorted(tree)}
    if isinstance(tree, tuple | list):
        return type(tree)([refilled(item, new) for item in tree])
    return None if tree is None else next(new)


def first_leaf(tree: Any) -> str:
    """How Python writes the way to the first leaf: `[0]['weight']`."""
    if isinstance(tree, dict):
        key = next(iter(tree))
        return f"[{key!r}]{first_leaf(tree[key])}"
    if isinstance(tree, tuple | list):
        return f"[0]{first_leaf(tree[0])}"
    return ""
