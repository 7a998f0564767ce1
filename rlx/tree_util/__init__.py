"""jax.tree_util's names for `rlx.tree`, and the registration of classes.

A function `is_leaf`, if given, says at which nodes of a `tree` to stop; a `treedef` is a structure.
Read `rlx/trace/pytree.py` first.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from optree import PyTreeSpec as PyTreeDef

from ..ir.errors import ArgumentError as ArgumentError
from ..ir.lazy import listed as listed
from ..trace import pytree as pytree
from ..trace.arguments import callable_of as callable_of, members as members, wrong as wrong
from ..trace.key_paths import (
    DictKey as DictKey,
    FlattenedIndexKey as FlattenedIndexKey,
    GetAttrKey as GetAttrKey,
    KeyEntry as KeyEntry,
    KeyPath as KeyPath,
    SequenceKey as SequenceKey,
    keystr as keystr,
)
from ..trace.pytree import (
    IsLeaf as IsLeaf,
    all as tree_all,
    broadcast as tree_broadcast,
    flatten as tree_flatten,
    flatten_with_path as tree_flatten_with_path,
    leaves as tree_leaves,
    leaves_with_path as tree_leaves_with_path,
    map as tree_map,
    map_with_path as tree_map_with_path,
    reduce as tree_reduce,
    reduce_associative as tree_reduce_associative,
    structure as tree_structure,
    transpose as tree_transpose,
    unflatten as tree_unflatten,
)

__dir__ = listed(__name__)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


# -- classes as containers -------------------------------------------------------------------------


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a container: `flatten_func(x) -> (children, fixed)` and back.

    `unflatten_func(fixed, children)` makes an instance of `nodetype`.
    `flatten_with_keys_func(x) -> (((key, child), ...), fixed)` gives paths their keys.

    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xs: Pair(*xs))
    >>> pytree.leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    if flatten_with_keys_func is not None:
        register_pytree_with_keys(nodetype, flatten_with_keys_func, unflatten_func)
        return
    pytree.register_class(nodetype, flatten_func, _with_tuple(unflatten_func))


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_func: Callable[[Any], Any] | None = None,
) -> None:
    """Make a class a container with keys: `-> (((key, child), ...), fixed)`.

    That is what `flatten_with_keys(x)` returns; `unflatten_func(fixed, children)` makes an instance
    of `nodetype`. `flatten_func` is taken for JAX's sake and not needed.
    """
    callable_of("register_pytree_with_keys: flatten_with_keys", flatten_with_keys)

    def flatten(x: Any) -> tuple[tuple[Any, ...], Any, tuple[Any, ...]]:
        pairs, fixed = flatten_with_keys(x)
        pairs = tuple(pairs)
        return tuple(child for _, child in pairs), fixed, tuple(key for key, _ in pairs)

    pytree.register_class(nodetype, flatten, _with_tuple(unflatten_func))


def register_pytree_node_class(cls: type) -> type:
    """Make a class with `tree_flatten` and `tree_unflatten` a container; returns it.

    `cls` has `tree_flatten(self) -> (children, fixed)`, and the class method
    `tree_unflatten(cls, fixed, children)`; without them it is an `ArgumentError`.
    """
    register_pytree_node(cls, _method(cls, "tree_flatten"), _method(cls, "tree_unflatten"))
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Make a class with `tree_flatten_with_keys` a container; returns it.

    `cls` is as for `register_pytree_node_class`.
    """
    flatten = _method(cls, "tree_flatten_with_keys")
    register_pytree_with_keys(cls, flatten, _method(cls, "tree_unflatten"))
    return cls


def register_dataclass(
    nodetype: type,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type:
    """Make a dataclass, `nodetype`, a container of its `data_fields`.

    The `meta_fields` belong to the structure. Without them, fields with the metadata `static=True`
    are meta fields, all others data, except `drop_fields`. Returns the class. What is no dataclass
    needs both, else it is an `ArgumentError`.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class State:
    ...     x: float
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> pytree.map(lambda x: x * 2, State(1.5, "a"))
    State(x=3.0, name='a')
    """
    if not isinstance(nodetype, type):
        raise wrong("register_dataclass: nodetype", nodetype, "a class", "pass a class")
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise ArgumentError(
                f"register_dataclass: {nodetype.__name__} is no dataclass",
                fix="decorate it with dataclasses.dataclass, or give data_fields and meta_fields",
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init]
        static = {f.name for f in fields if f.metadata.get("static", False)}
        names = [f.name for f in fields if f.name not in drop_fields]
        data_fields = [name for name in names if name not in static]
        meta_fields = [name for name in names if name in static]
    data = members("register_dataclass: data_fields", data_fields)
    meta = members("register_dataclass: meta_fields", meta_fields)
    for name in (*data, *meta):
        if not isinstance(name, str):
            raise wrong("register_dataclass: a field", name, "a name", "name fields by texts")

    def flatten(x: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
        fixed = tuple(getattr(x, name) for name in meta)
        return tuple(getattr(x, name) for name in data), fixed, data

    def unflatten(fixed: Any, children: Sequence[Any]) -> Any:
        known = {**dict(zip(data, children, strict=True)), **dict(zip(meta, fixed, strict=True))}
        return nodetype(**known)

    return pytree.register_class(nodetype, flatten, unflatten, pytree.Fields(data, meta))


def register_static(cls: type) -> type:
    """Make instances of a hashable class a part of the structure, without leaves.

    Returns the class, `cls`.
    """
    return pytree.register_class(cls, lambda x: ((), x), lambda fixed, _: fixed)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether no item of `iterable` is a container."""
    items = members("all_leaves: iterable", iterable)
    return all(
        len(found) == 1 and found[0] is x for x in items for found in [pytree.leaves(x, is_leaf)]
    )


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure `treedef` is that of a single leaf."""
    pytree.check_structure("treedef_is_leaf: treedef", treedef)
    return treedef.num_nodes == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the structure `treedef`."""
    pytree.check_structure("treedef_children: treedef", treedef)
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of the structures `treedefs`."""
    given = members("treedef_tuple: treedefs", treedefs)
    for spec in given:
        pytree.check_structure("treedef_tuple: one of treedefs", spec)
    trees = [pytree.unflatten(d, [0] * d.num_leaves) for d in given]
    return pytree.structure(tuple(trees))


def _with_tuple(unflatten: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[Any, Any], Any]:
    return lambda fixed, children: unflatten(fixed, tuple(children))


def _method(cls: type, name: str) -> Callable[..., Any]:
    if not isinstance(cls, type):
        raise wrong("register_pytree_node_class: cls", cls, "a class", "decorate a class")
    found = getattr(cls, name, None)
    if found is None:
        raise ArgumentError(
            f"{cls.__name__} has no method {name}",
            fix="define tree_flatten(self) -> (children, fixed) and the class method "
            "tree_unflatten(cls, fixed, children)",
        )
    return found


# -- a partial function that is a pytree of the arguments it holds ---------------------------------


class Partial(functools.partial):
    """`functools.partial` as a pytree: the arguments are leaves.

    It calls `func` with `args` and `keywords` before those of the call.

    >>> import rlx
    >>> add = Partial(lambda x, y: x + y, 2.0)
    >>> rlx.jit(lambda f, y: f(y))(add, 3.0).item()
    5.0
    """

    def __new__(cls, func: Any, /, *args: Any, **keywords: Any) -> Partial:
        """Hold the first arguments of a function."""
        return super().__new__(cls, callable_of("Partial: func", func), *args, **keywords)


pytree.register_class(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func, ("args", "keywords")),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
