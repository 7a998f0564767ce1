"""Classes as containers of trees, and which of their fields are not trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from ..ir.errors import ArgumentError, AttributeValueError
from ..ir.lazy import late

if TYPE_CHECKING:
    import optree
else:
    optree = late("optree", "rlx.trace.containers")

NAMESPACE = "rlx"
Structure: TypeAlias = "optree.PyTreeSpec"


def check_callable(name: str, fn: Any) -> None:
    """Raise an error unless the first argument of a function of trees is a function."""
    if not callable(fn):
        raise ArgumentError(
            f"{name}: the first argument is of type {type(fn).__name__}, not a function",
            fix=f"pass the function first: rlx.{name}(lambda x: x * 2, params)",
        )


class Fields(NamedTuple):
    """The attributes of a registered class that matter."""

    names: tuple[str, ...]  # of children
    static: tuple[str, ...]  # of what belongs to the structure
    # (class, values) -> an instance; without it the class's own `unflatten` makes it
    make: Callable[[Any, dict[str, Any]], Any] | None = None
    state: tuple[str, ...] = ()  # those of `names` that are not trained


_fields: WeakKeyDictionary[type, Fields] = WeakKeyDictionary()


def fields_of(cls: type) -> Fields | None:
    """The attributes of a registered class `cls`, if they were told."""
    return _fields.get(cls)


def register_class(
    cls: type,
    flatten: Callable[[Any], Any],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    fields: Fields | None = None,
) -> type:
    """Register `cls` as a container, as a list or a dict is.

    `flatten(x) -> (children, fixed)` and `unflatten(fixed, children)` tell how. A third item from
    `flatten` gives the children's attribute names, or their keys, for paths. `fixed` must be
    hashable and comparable. `fields` tells attributes that come to the same, for code that knows
    the class. Returns the class, so that it can end a decorator. What is no class, or one of
    Python's own, is an `ArgumentError`, one that is registered already an `AttributeValueError`.
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
        check_callable(f"what makes {cls.__name__} a container", each)
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


def state_mask(treedef: Structure) -> list[bool]:
    """Whether each leaf is state of a module, which is not trained.

    Gradients with respect to it are zero, and optimizers pass it by.

    >>> from rlx import nn, tree
    >>> structure = tree.structure(nn.BatchNorm(2))
    >>> dict(zip(tree.paths(structure, "norm"), state_mask(structure)))
    {'norm.scale': False, 'norm.bias': False, 'norm.mean': True, 'norm.var': True}
    """
    if treedef.is_leaf():
        return [False]
    fields = None if treedef.type is None else _fields.get(treedef.type)
    state = fields.state if fields else ()
    found: list[bool] = []
    for name, child in zip(treedef.entries(), treedef.children(), strict=True):
        found += [True] * child.num_leaves if name in state else state_mask(child)
    return found
