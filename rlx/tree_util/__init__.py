"""jax.tree_util's names for `rlx.tree`, and the registration of classes.

Enters: pytrees. Leaves: pytrees. Uses `trace`; read `rlx/trace/pytree.py` first.
"""

from __future__ import annotations

from ..trace.key_paths import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from ..trace.pytree import Structure as PyTreeDef
from ..trace.pytree import all as tree_all
from ..trace.pytree import broadcast as tree_broadcast
from ..trace.pytree import flatten as tree_flatten
from ..trace.pytree import flatten_with_path as tree_flatten_with_path
from ..trace.pytree import leaves as tree_leaves
from ..trace.pytree import leaves_with_path as tree_leaves_with_path
from ..trace.pytree import map as tree_map
from ..trace.pytree import map_with_path as tree_map_with_path
from ..trace.pytree import reduce as tree_reduce
from ..trace.pytree import reduce_associative as tree_reduce_associative
from ..trace.pytree import structure as tree_structure
from ..trace.pytree import transpose as tree_transpose
from ..trace.pytree import unflatten as tree_unflatten
from .registry import (
    Partial,
    all_leaves,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)

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
