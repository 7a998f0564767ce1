"""Pytrees: nested containers whose leaves are arrays.

Tuples, lists, dicts (in the order of sorted keys), named tuples and registered classes are
nodes; None is a node without leaves; everything else is a leaf. Exported as `rlx.tree`.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final
from weakref import WeakKeyDictionary

import numpy as np

from ..ir.errors import ArgumentError, AttributeValueError, StructureError
from ..ir.exact import exact
from ..ir.lazy import late, listed
from .arguments import members
from .key_paths import KeyPath, key_paths, keystr as keystr

__dir__ = listed(__name__)

if TYPE_CHECKING:
    import optree
else:
    optree = late("optree", "rlx.trace.containers")

NAMESPACE = "rlx"
Structure: TypeAlias = "optree.PyTreeSpec"
IsLeaf = Callable[[Any], bool] | None
_map = map
_all = all


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """Give the leaves of a tree, and its structure.

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
    """Set the function that registers foreign containers, and tells whether it did."""
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
    """Put leaves in a structure."""
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
    """Call a function on the leaves of trees of one structure.

    The result is a tree of what it returns.

    >>> map(lambda x, y: x + y, {"a": 1}, {"a": 10})
    {'a': 11}
    """
    _check_callable("tree.map", f)
    first, spec = flatten(tree, is_leaf)
    columns = [first, *(flatten_like(spec, other, "tree.map") for other in rest)]
    return optree.tree_unflatten(spec, [f(*row) for row in zip(*columns, strict=True)])


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Like `map`, with the path of the leaf, a tuple of keys, for a first argument.

    >>> map_with_path(lambda path, x: keystr(path), {"w": [1, 2]})
    {'w': ["['w'][0]", "['w'][1]"]}
    """
    _check_callable("tree.map_with_path", f)
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
    """Combine the leaves from left to right, after the `initializer` if there is one."""
    _check_callable("tree.reduce", function)
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

    `identity` is for a tree without leaves.
    """
    _check_callable("tree.reduce_associative", operation)
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
    """Give (path, leaf) for each leaf of a tree, and its structure.

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

    The structure of the inner trees is by default that of the first one.
    """
    check_structure("tree.transpose: outer_treedef", outer_treedef)
    rows = flatten_like(outer_treedef, pytree_to_transpose, "tree.transpose")
    inner = structure(rows[0] if rows else None) if inner_treedef is None else inner_treedef
    check_structure("tree.transpose: inner_treedef", inner)
    columns = zip(*(flatten_like(inner, row, "tree.transpose") for row in rows), strict=True)
    return unflatten(inner, [unflatten(outer_treedef, column) for column in columns])


def check_structure(what: str, spec: Any) -> None:
    """Raise an error unless it is the structure of a tree."""
    if not isinstance(spec, optree.PyTreeSpec):
        raise ArgumentError(
            f"{what} is of type {type(spec).__name__}, not the structure of a tree",
            fix="pass what rlx.tree.structure(tree) gives",
        )


def _check_callable(name: str, fn: Any) -> None:
    if not callable(fn):
        raise ArgumentError(
            f"{name}: the first argument is of type {type(fn).__name__}, not a function",
            fix=f"pass the function first: rlx.{name}(lambda x: x * 2, params)",
        )


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true."""
    return _all(leaves(tree, is_leaf))


SIDES = ("the first tree", "another")


def flatten_like(
    spec: Structure, tree: Any, name: str, sides: tuple[str, str] = SIDES
) -> list[Any]:
    """Flatten a tree as far as a structure goes; an error names where they part.

    `name` is the function that asks, `sides` say what has the structure and what the tree is.
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

    Example: `["w"] has 'a', 'b' in the primals, 'a', 'c' in the tangents`.
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
    """The path of each leaf as Python text, as `params["w"][0].bias`."""
    return [root + "".join(_map(_entry_text, accessor)) for accessor in spec.accessors()]


def _entry_text(entry: Any) -> str:
    if isinstance(entry, optree.MappingEntry) and isinstance(entry.entry, str):
        import json  # for errors, and for the code of call paths

        return f"[{json.dumps(entry.entry)}]"
    return entry.codify("")


class Fields(NamedTuple):
    """The attributes of a registered class that matter."""

    names: tuple[str, ...]  # of children
    static: tuple[str, ...]  # of what belongs to the structure
    # (class, values) -> an instance; without it the class's own `unflatten` makes it
    make: Callable[[Any, dict[str, Any]], Any] | None = None
    state: tuple[str, ...] = ()  # those of `names` that are not trained


_fields: WeakKeyDictionary[type, Fields] = WeakKeyDictionary()


def fields_of(cls: type) -> Fields | None:
    """The attributes of a registered class, if they were told."""
    return _fields.get(cls)


# -- state: leaves that are not trained ------------------------------------------------------------


def state_mask(treedef: Structure) -> list[bool]:
    """Whether each leaf is state of a module, which is not trained."""
    if treedef.is_leaf():
        return [False]
    fields = None if treedef.type is None else _fields.get(treedef.type)
    state = fields.state if fields else ()
    found: list[bool] = []
    for name, child in zip(treedef.entries(), treedef.children(), strict=True):
        found += [True] * child.num_leaves if name in state else state_mask(child)
    return found


def without_state(tree: Any) -> Any:
    """The tree with None for each leaf that is state."""
    found, spec = flatten(tree)
    mask = state_mask(spec)
    if not any(mask):
        return tree
    return unflatten(spec, [None if m else x for x, m in zip(found, mask, strict=True)])


def restore_state(tree: Any, like: Any) -> Any:
    """What `without_state` gave, with the state of another tree; else the tree itself."""
    found, spec = flatten(like)
    mask, given = state_mask(spec), leaves(tree)
    if not any(mask) or len(given) != mask.count(False):
        return tree
    rest = iter(given)
    return unflatten(spec, [x if m else next(rest) for x, m in zip(found, mask, strict=True)])


def register_class(
    cls: type,
    flatten: Callable[[Any], Any],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    fields: Fields | None = None,
) -> type:
    """Register a class as a container, as a list or a dict is.

    `flatten(x) -> (children, fixed)` and `unflatten(fixed, children)` tell how. A third item from
    `flatten` gives the children's attribute names, or their keys, for paths. `fixed` must be
    hashable and comparable. `fields` tells attributes that come to the same, for code that knows
    the class. Gives the class, so that it can end a decorator.
    """
    if not isinstance(cls, type):
        raise ArgumentError(
            f"{cls!r} is no class, so it cannot be registered", fix="pass a class, not an instance"
        )
    if cls.__module__ == "builtins":
        raise ArgumentError(
            f"{cls.__name__} is a class of Python, which stays what it is in all trees",
            fix="derive a class from it, or make one that holds it",
        )
    for each in (flatten, unflatten):
        _check_callable(f"what makes {cls.__name__} a container", each)
    from .containers import Child  # with optree

    if optree.register_pytree_node.get(cls, namespace=NAMESPACE) is not None:
        raise AttributeValueError(
            f"the class {cls.__name__} is registered already", fix="register each class once"
        )
    if fields is not None:
        _fields[cls] = fields
    optree.register_pytree_node(
        cls,
        flatten,
        # optree gives a tuple of children; its stubs promise any iterable
        unflatten,  # type: ignore[arg-type]
        path_entry_type=Child,
        namespace=NAMESPACE,
    )
    return cls


@final
class Static:
    """A value that belongs to the structure of a tree: a node without leaves.

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
