"""Parts of trees: split a model in two, put something into a part's place.

    trained, rest = nn.partition(model)
    gradient = rlx.grad(lambda trained: loss(nn.combine(trained, rest), x))(trained)

The names are those of Equinox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..ir.errors import ArgumentError, StructureError
from ..ir.types import is_inexact
from ..trace import pytree
from ..trace.arguments import callable_of, flag, shown, wrong
from ..trace.array import Array
from ..trace.tensor import TracedTensor
from .module import Module

_NOTHING = object()


def is_array(x: Any) -> bool:
    """Whether the leaf `x` is an array of rlx or NumPy, or a traced one.

    >>> is_array(np.ones(3)), is_array(1.0)
    (True, False)
    """
    return isinstance(x, Array | TracedTensor | np.ndarray)


def is_inexact_array(x: Any) -> bool:
    """Whether the leaf `x` is an array of floats or complex numbers.

    >>> is_inexact_array(np.ones(3)), is_inexact_array(np.arange(3))
    (True, False)
    """
    return is_array(x) and is_inexact(x.dtype)


def is_parameter(x: Any) -> bool:
    """Whether the leaf `x` is trained: an array of floats or complex numbers.

    As the spec of `partition` and `filter` it leaves out what fields of `nn.field(state=True)`
    hold, too, which only the tree can tell.

    >>> from rlx import nn
    >>> filter(nn.BatchNorm(2, use_bias=False), is_parameter).mean is None
    True
    """
    return is_inexact_array(x)


Spec = Callable[[Any], bool] | Any  # a function of a leaf, or bools (or functions) for parts


def partition(tree: Any, spec: Spec = is_parameter) -> tuple[Any, Any]:
    """Split a tree in two, each with None for the leaves of the other.

    `spec` is a function of a leaf that gives a bool, or a tree whose containers are the upper ones
    of `tree`, with a bool or a function for each part. `combine` undoes it.

    >>> partition({"w": 1.5, "n": 3}, lambda x: isinstance(x, float))
    ({'w': 1.5, 'n': None}, {'w': None, 'n': 3})
    """
    found, structure = pytree.flatten(tree)
    mask = _mask(tree, spec)
    pairs = list(zip(found, mask, strict=True))
    chosen = pytree.unflatten(structure, [x if is_chosen else None for x, is_chosen in pairs])
    return chosen, pytree.unflatten(structure, [None if is_chosen else x for x, is_chosen in pairs])


def filter(tree: Any, spec: Spec = is_parameter, inverse: bool = False) -> Any:
    """The `tree` with None for leaves that `spec` leaves out; `inverse` swaps them.

    The spec is as for `partition`.

    >>> filter([1, 2.0, "a"], lambda x: x != 2.0)
    [1, None, 'a']
    """
    return partition(tree, spec)[1 if flag("filter: inverse", inverse) else 0]


def combine(*trees: Any) -> Any:
    """Combine `trees` that `partition` split.

    Each leaf of the result is the first at its place that is not None. No tree is an
    `ArgumentError`, trees of other structures are a `StructureError`.

    >>> combine({"w": 1.5, "n": None}, {"w": None, "n": 3})
    {'w': 1.5, 'n': 3}
    """
    if not trees:
        raise ArgumentError("combine: there are no trees", fix="pass what nn.partition gave")
    first, structure = pytree.flatten(trees[0], is_leaf=_is_none)
    rows = [first]
    for i, tree in enumerate(trees[1:], 1):
        found, other = pytree.flatten(tree, is_leaf=_is_none)
        if other != structure:
            sides = "the first tree", f"tree {i}"
            place = pytree.difference(structure, other, "", sides)
            raise StructureError(
                f"combine: the trees differ in structure: {place}",
                fix="pass parts of one tree, as nn.partition gives them",
            )
        rows.append(found)
    merged = (next((x for x in row if x is not None), None) for row in zip(*rows, strict=True))
    return pytree.unflatten(structure, list(merged))


def _is_none(x: Any) -> bool:
    return x is None


def _mask(tree: Any, spec: Spec) -> list[bool]:
    """Whether the spec takes each leaf."""
    found, structure = pytree.flatten(tree)
    parts, upper = pytree.flatten(spec)
    if not upper.is_leaf():  # a module of bools can be called as well, but is no function
        below = pytree.flatten_like(upper, tree, "partition", ("the spec", "the tree"))
        pairs = zip(parts, below, strict=True)
        return [chosen for part, inner in pairs for chosen in _mask(inner, part)]
    if isinstance(spec, bool | np.bool_):
        return [bool(spec)] * len(found)
    if spec is is_parameter:
        state = pytree.state_mask(structure)
        return [is_parameter(x) and not s for x, s in zip(found, state, strict=True)]
    if not callable(spec):
        fix = "give a function of a leaf, such as nn.is_array, or a tree of bools"
        raise wrong("partition: the spec", spec, "a function or a tree of bools", fix)
    return [_answer(spec(x)) for x in found]


def _answer(found: Any) -> bool:
    if isinstance(found, bool | np.bool_):
        return bool(found)
    raise ArgumentError(
        f"partition: the spec gave {shown(found)} for a leaf, not a bool",
        fix="return True or False, as in lambda x: nn.is_array(x) and x.ndim > 1",
    )


# -- a part in another's place ---------------------------------------------------------------------


@final
class _Leaf:
    """What stands for a leaf while `where` picks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ArgumentError(
            f"tree_at: `where` asks for .{name} of a leaf",
            fix="pick a place only, as in lambda m: m.layers[0].weight; compute in replace_fn",
        )


def tree_at(
    where: Callable[[Any], Any],
    tree: Any,
    replace: Any = _NOTHING,
    replace_fn: Callable[[Any], Any] | None = None,
) -> Any:
    """The `tree` with something else at the place, or the places, that `where` picks.

    `where` gets a tree like this one and gives a part of it: a leaf, a layer, None; or a tuple of
    parts, for which `replace` has one item each. `replace_fn` makes it of what was there. Modules
    in which nothing changes stay the same objects. Both ways at once, and a place picked twice, are
    an `ArgumentError`.

    >>> import rlx
    >>> from rlx import nn
    >>> model = nn.MLP([2, 4, 1], key=rlx.random.key(0))
    >>> tree_at(lambda m: m.layers[0].bias, model, None).layers[0]
    Linear(weight=f32[2, 4], bias=None)
    >>> tree_at(lambda m: m.layers[1], model, replace_fn=lambda linear: linear.weight).layers[1]
    Array(...)
    """
    callable_of("tree_at: where", where)
    if (replace is _NOTHING) == (replace_fn is None):
        raise ArgumentError(
            "tree_at takes either replace or replace_fn",
            fix="pass replace=value, or replace_fn=lambda old: ...",
        )
    found, structure = pytree.flatten(tree, is_leaf=_is_none)
    marked = pytree.unflatten(structure, [_Leaf() for _ in found])
    places, is_one = _places(where(marked), marked)
    if replace_fn is not None:
        changes = [callable_of("tree_at: replace_fn", replace_fn)] * len(places)
    else:
        new = [replace] if is_one else _items(replace, len(places))
        changes = [lambda _, x=x: x for x in new]
    table = {id(place): change for place, change in zip(places, changes, strict=True)}
    done: list[int] = []
    changed = _put(tree, marked, table, done)
    if len(done) != len(places):
        raise ArgumentError(
            f"tree_at: `where` picked {len(places)} places, of which {len(done)} are apart",
            fix="pick each place once, and none within another",
        )
    return changed


def _places(picked: Any, marked: Any) -> tuple[list[Any], bool]:
    """The nodes that were picked, and whether it is one, not a tuple of several."""
    nodes: set[int] = set()

    def note(x: Any) -> bool:
        nodes.add(id(x))
        return False

    pytree.flatten(marked, is_leaf=note)
    is_one = id(picked) in nodes or not isinstance(picked, tuple | list)
    places = [picked] if is_one else list(picked)
    for x in places:
        if id(x) not in nodes:
            raise ArgumentError(
                f"tree_at: `where` gave {shown(x)}, which is no part of the tree",
                fix="return parts of its argument, as in lambda m: m.layers[0].weight; "
                "static fields are\nset by module.replace(name=...)",
            )
    return places, is_one


def _items(replace: Any, count: int) -> Sequence[Any]:
    if isinstance(replace, tuple | list) and len(replace) == count:
        return replace
    fix = "give one for each place that `where` gives"
    raise wrong("tree_at: replace", replace, f"a tuple of {count} items", fix)


def _put(old: Any, marked: Any, table: dict[int, Callable[[Any], Any]], done: list[int]) -> Any:
    """A part with the changes below it; itself if there are none."""
    change = table.get(id(marked))
    if change is not None:
        done.append(id(marked))
        return change(old)
    if isinstance(marked, _Leaf):
        return old
    if isinstance(old, Module):
        fields = pytree.fields_of(type(old))
        assert fields is not None, "a class of modules is registered"
        before = {name: vars(old)[name] for name in fields.names}
        after = {n: _put(x, vars(marked)[n], table, done) for n, x in before.items()}
        changed = {name: x for name, x in after.items() if x is not before[name]}
        return old.replace(**changed) if changed else old
    parts, structure = pytree.flatten(old, is_leaf=lambda x: x is not old)
    inner = pytree.leaves(marked, is_leaf=lambda x: x is not marked)
    new = [_put(x, m, table, done) for x, m in zip(parts, inner, strict=True)]
    is_same = all(x is y for x, y in zip(parts, new, strict=True))
    return old if is_same else pytree.unflatten(structure, new)
