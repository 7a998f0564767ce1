"""Pytrees: nested containers whose leaves are arrays.

Tuples, lists, dicts (in the order of sorted keys), named tuples and registered classes are
nodes; None is a node without leaves; everything else is a leaf. Exported as `rlx.tree`.

`tree` is any such tree; a function `is_leaf`, if given, says at which nodes to stop: it gets a node
and returns a bool. A `treedef`, or `spec`, is a structure, what `structure(tree)` returns; anything
else in its place is an `ArgumentError`, and a tree that does not fit a `StructureError`.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..ir.errors import ArgumentError, StructureError
from ..ir.exact import exact
from ..ir.lazy import late, listed
from .arguments import members
from .key_paths import KeyPath, key_paths, keystr as keystr
from .registration import (
    NAMESPACE as NAMESPACE,
    Fields as Fields,
    Structure as Structure,
    check_callable,
    fields_of as fields_of,
    register_class as register_class,
    state_mask as state_mask,
)

__dir__ = listed(__name__)

__all__ = [
    "Fields",
    "Static",
    "all",
    "broadcast",
    "check_structure",
    "difference",
    "fields_of",
    "flatten",
    "flatten_like",
    "flatten_with_path",
    "in_key_order",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "paths",
    "reduce",
    "reduce_associative",
    "register_class",
    "restore_state",
    "set_adopter",
    "state_mask",
    "structure",
    "too_deep",
    "transpose",
    "unflatten",
    "without_state",
]

if TYPE_CHECKING:
    import optree
else:
    optree = late("optree", "rlx.trace.containers")

IsLeaf = Callable[[Any], bool] | None
_map = map
_all = all


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, and its structure.

    >>> flatten({"b": 1, "a": (2, None)})[0]
    [2, 1]
    """
    is_leaf = None if is_leaf is None else _sure(is_leaf)
    try:
        found, spec = optree.tree_flatten(tree, is_leaf=is_leaf, namespace=NAMESPACE)
    except RecursionError:
        raise too_deep() from None
    if _adopt is not None and is_leaf is None and _adopted(found):
        return flatten(tree)
    return found, spec


def _sure(is_leaf: Any) -> Callable[[Any], bool]:
    """Check that `is_leaf` answers true or false."""
    if not callable(is_leaf):
        raise ArgumentError(
            f"is_leaf is of type {type(is_leaf).__name__}, not a function",
            fix="pass a function that tells whether a node is a leaf, or None",
        )

    def answer(x: Any) -> bool:
        found = is_leaf(x)
        if isinstance(found, bool | np.bool_):
            return bool(found)
        raise ArgumentError(
            f"is_leaf gave a {type(found).__name__} for a {type(x).__name__}, not a bool",
            fix="return True or False, as in is_leaf=lambda x: isinstance(x, tuple)",
        )

    return answer


_adopt: Callable[[Any], bool] | None = None  # of another library's containers, see `set_adopter`
_plain_leaves: set[type] = {bool, int, float, complex, np.ndarray}


def set_adopter(adopt: Callable[[Any], bool]) -> None:
    """Set the function that registers foreign containers, and tells whether it did.

    `adopt` gets a leaf of a class that is not known.
    """
    global _adopt
    _adopt = adopt


def _adopted(leaves: Sequence[Any]) -> bool:
    """Whether a class of these leaves turned out to be a container."""
    unknown = {type(x): x for x in leaves if type(x) not in _plain_leaves}
    found = [cls for cls, x in unknown.items() if _is_adopted(cls, x)]
    _plain_leaves.update(unknown.keys() - set(found))
    return bool(found)


def _is_adopted(cls: type, leaf: Any) -> bool:
    assert _adopt is not None
    try:
        return _adopt(leaf)
    except ValueError:
        # another thread may have registered the class in the meantime
        if optree.register_pytree_node.get(cls, namespace=NAMESPACE) is None:
            raise
        return True


def too_deep() -> StructureError:
    """The error for containers that are nested without end."""
    return StructureError(
        "the containers are nested too deeply, or one holds itself",
        fix="pass flatter containers: arrays in a few levels of lists, tuples and dicts",
    )


def unflatten(treedef: Structure, leaves: Any) -> Any:
    """Put `leaves` in a structure, and return the tree.

    Another number of leaves is a `StructureError`.

    >>> unflatten(structure({"a": 0, "b": [0, 0]}), [1, 2, 3])
    {'a': 1, 'b': [2, 3]}
    """
    if not isinstance(treedef, optree.PyTreeSpec):
        raise StructureError(
            f"unflatten: {type(treedef).__name__} is no structure",
            fix="give what rlx.tree.structure or rlx.tree.flatten gives",
        )
    if type(leaves) not in (list, tuple):
        leaves = members("unflatten: leaves", leaves)
    if len(leaves) != treedef.num_leaves:
        raise StructureError(
            f"a structure with {treedef.num_leaves} leaves was given {len(leaves)}",
            notes=[str(treedef)],
            fix="give one leaf for each place, in the order of flatten",
        )
    return optree.tree_unflatten(treedef, leaves)


def in_key_order(treedef: Structure) -> Structure:
    """An equal structure whose dicts come with their keys in the order of the leaves.

    >>> unflatten(in_key_order(structure({"b": 1, "a": 2})), [3, 4])
    {'a': 3, 'b': 4}
    """

    def ordered(node: Structure) -> Structure:
        if node.type not in (dict, defaultdict):
            return node
        leaf = optree.treespec_leaf(namespace=node.namespace)
        leaves = dict.fromkeys(node.entries(), leaf)
        if node.type is dict:
            return optree.treespec_dict(leaves, namespace=node.namespace)
        made: Any = node.unflatten(leaves)
        return optree.treespec_defaultdict(made.default_factory, leaves, namespace=node.namespace)

    return treedef.transform(ordered)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> Structure:
    """The structure of a tree: the tree without its leaves."""
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `f` on the leaves of `tree`, and of `rest`, trees of its structure.

    Returns a tree of what it returns. Another structure is a `StructureError`.

    >>> map(lambda x, y: x + y, {"a": 1}, {"a": 10})
    {'a': 11}
    """
    check_callable("tree.map", f)
    first, spec = flatten(tree, is_leaf)
    columns = [first, *(flatten_like(spec, other, "tree.map") for other in rest)]
    return optree.tree_unflatten(spec, [f(*row) for row in zip(*columns, strict=True)])


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Like `map`, with the path of the leaf, a tuple of keys, for a first argument.

    Returns a tree of what `f` returns; `rest` are further trees of the structure.

    >>> map_with_path(lambda path, x: keystr(path), {"w": [1, 2]})
    {'w': ["['w'][0]", "['w'][1]"]}
    """
    check_callable("tree.map_with_path", f)
    first, spec = flatten(tree, is_leaf)
    others = (flatten_like(spec, other, "tree.map_with_path") for other in rest)
    columns = [key_paths(spec), first, *others]
    return optree.tree_unflatten(spec, [f(*row) for row in zip(*columns, strict=True)])


_NOTHING = object()


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _NOTHING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves from left to right, after the `initializer` if there is one.

    Returns what `function(so_far, leaf)` returned last. A tree without leaves is an `ArgumentError`
    without an initializer.
    """
    check_callable("tree.reduce", function)
    found = leaves(tree, is_leaf)
    if not found and initializer is _NOTHING:
        raise ArgumentError(
            "tree.reduce: the tree has no leaves",
            fix="give an initializer, the result for no leaves",
        )
    start = () if initializer is _NOTHING else (initializer,)
    return functools.reduce(function, found, *start)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _NOTHING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine neighbouring leaves in pairs, then these, until one is left.

    Returns what `operation(left, right)` returned last; for a tree without leaves `identity`, and
    without one that is an `ArgumentError`.
    """
    check_callable("tree.reduce_associative", operation)
    found = leaves(tree, is_leaf)
    if not found and identity is _NOTHING:
        raise ArgumentError(
            "tree.reduce_associative: the tree has no leaves",
            fix="give the identity of the operation",
        )
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [operation(x, y) for x, y in pairs] + (found[-1:] if len(found) % 2 else [])
    return found[0] if found else identity


def flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], Structure]:
    """Return (path, leaf) for each leaf of a tree, and its structure.

    >>> flatten_with_path({"w": [1, 2]})[0][1]
    ((DictKey(key='w'), SequenceKey(idx=1)), 2)
    """
    found, spec = flatten(tree, is_leaf)
    return list(zip(key_paths(spec), found, strict=True)), spec


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The (path, leaf) of each leaf of a tree."""
    return flatten_with_path(tree, is_leaf)[0]


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The leaves of one tree, repeated below their places in a larger one.

    `prefix_tree` has the structure of the upper part of `full_tree`.

    >>> broadcast([1, 2], [{"a": 0, "b": 0}, 0])
    [{'a': 1, 'b': 1}, 2]
    """
    first, spec = flatten(prefix_tree, is_leaf)
    below = flatten_like(spec, full_tree, "tree.broadcast")
    filled = [map(lambda _, x=x: x, part) for x, part in zip(first, below, strict=True)]
    return optree.tree_unflatten(spec, filled)


def transpose(
    outer_treedef: Structure, inner_treedef: Structure | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out: `[(a, b), (c, d)]` becomes `([a, c], [b, d])`.

    `pytree_to_transpose` has the structure `outer_treedef`, with trees of the structure
    `inner_treedef` for leaves; it is by default that of the first one. Returns a tree of trees.

    >>> transpose(structure([0, 0]), None, [(1, 2), (3, 4)])
    ([1, 3], [2, 4])
    """
    check_structure("tree.transpose: outer_treedef", outer_treedef)
    rows = flatten_like(outer_treedef, pytree_to_transpose, "tree.transpose")
    inner = structure(rows[0] if rows else None) if inner_treedef is None else inner_treedef
    check_structure("tree.transpose: inner_treedef", inner)
    columns = zip(*(flatten_like(inner, row, "tree.transpose") for row in rows), strict=True)
    return unflatten(inner, [unflatten(outer_treedef, column) for column in columns])


def check_structure(what: str, spec: Any) -> None:
    """Raise an `ArgumentError` unless `spec` is the structure of a tree.

    `what` is what the error calls it.
    """
    if not isinstance(spec, optree.PyTreeSpec):
        raise ArgumentError(
            f"{what} is of type {type(spec).__name__}, not the structure of a tree",
            fix="pass what rlx.tree.structure(tree) gives",
        )


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true."""
    return _all(leaves(tree, is_leaf))


SIDES = ("the first tree", "another")


def flatten_like(
    spec: Structure, tree: Any, name: str, sides: tuple[str, str] = SIDES
) -> list[Any]:
    """Flatten a tree as far as a structure goes; an error names where they part.

    Returns the list of what is at the leaves of `spec`. `name` is the function that asks, `sides`
    say what has the structure and what the tree is; a `StructureError` where they differ.
    """
    check_structure(f"{name}: the structure", spec)
    try:
        return list(spec.flatten_up_to(tree))
    except (ValueError, TypeError) as error:
        place = difference(spec, structure(tree), "", sides) or str(error).splitlines()[0]
        raise StructureError(
            f"{name}: {sides[0]} and {sides[1]} differ in structure: {place}",
            fix="give trees with the same containers, keys and lengths",
        ) from None


def difference(
    first: Structure, second: Structure, path: str = "", sides: tuple[str, str] = SIDES
) -> str:
    """Describe the first difference of two structures; empty if they are equal.

    Returns a text such as `["w"] has 'a', 'b' in the primals, 'a', 'c' in the tangents`, in which
    `path` comes before `["w"]`, and `sides` are the names of `first` and `second`.
    """
    place = path or "the whole tree"
    if first.is_leaf() and second.is_leaf():
        return ""
    if first.is_leaf() or second.is_leaf() or first.type is not second.type:
        return f"{place} is {_kind(first)} in {sides[0]}, {_kind(second)} in {sides[1]}"
    ours, theirs = first.entries(), second.entries()
    if ours != theirs:
        if first.type in (list, tuple):
            return f"{place} has {len(ours)} items in {sides[0]}, {len(theirs)} in {sides[1]}"
        names = [", ".join(_map(repr, keys)) or "nothing" for keys in (ours, theirs)]
        return f"{place} has {names[0]} in {sides[0]}, {names[1]} in {sides[1]}"
    rows = zip(_steps(first), first.children(), second.children(), strict=True)
    found = next(filter(None, (difference(a, b, path + step, sides) for step, a, b in rows)), "")
    if not found and first != second:
        return f"{place} has the same children but other fixed data"
    return found


def _kind(spec: Structure) -> str:
    if spec.is_leaf():
        return "a leaf"
    return "None" if spec.type is None or spec.type is type(None) else f"a {spec.type.__name__}"


def _steps(spec: Structure) -> list[str]:
    """The path of each child from its parent."""
    one_level = spec.one_level()
    return paths(one_level) if one_level else []


def paths(spec: Structure, root: str = "") -> list[str]:
    """The path of each leaf of `spec` as Python text, as `params["w"][0].bias`.

    `root` is what comes first, `params` here.
    """
    return [root + "".join(_map(_entry_text, accessor)) for accessor in spec.accessors()]


def _entry_text(entry: Any) -> str:
    if isinstance(entry, optree.MappingEntry) and isinstance(entry.entry, str):
        import json  # for errors, and for the code of call paths

        return f"[{json.dumps(entry.entry)}]"
    return entry.codify("")


def without_state(tree: Any) -> Any:
    """The tree with None for each leaf that is state.

    >>> from rlx import nn
    >>> without_state(nn.BatchNorm(2)).mean is None
    True
    """
    found, spec = flatten(tree)
    mask = state_mask(spec)
    if not any(mask):
        return tree
    return unflatten(spec, [None if m else x for x, m in zip(found, mask, strict=True)])


def restore_state(tree: Any, like: Any) -> Any:
    """What `without_state` gave, or has its structure, with the state of another tree.

    The state is that of `like`. Trees of other structures are given back.

    >>> from rlx import nn
    >>> norm = nn.BatchNorm(2)
    >>> restore_state(without_state(norm), norm).mean.tolist()
    [0.0, 0.0]
    """
    found, spec = flatten(like)
    mask, given = state_mask(spec), leaves(tree)
    if not any(mask) or len(given) != mask.count(False):
        return tree
    rest = iter(given)
    return unflatten(spec, [x if m else next(rest) for x, m in zip(found, mask, strict=True)])


@final
class Static:
    """A `value` that belongs to the structure of a tree: a node without leaves.

    Calls with equal static values have equal structures; 1, 1.0 and True are not equal here, nor
    are values that hold them.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and exact(self.value) == exact(other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Static({self.value!r})"
