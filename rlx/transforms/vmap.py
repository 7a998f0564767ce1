"""`vmap`: a function of one member as a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ir.builder import build, inline, user_source
from ..ir.errors import ArgumentError, AxisError, ShapeError
from ..ir.graph import OPS, Graph, Value
from ..ir.types import Type
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.make_graph import trace
from .batch import batch_graph
from .grad import _plain
from .run import run_graph


def vmap(
    fn: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None
) -> Callable[..., Any]:
    """Give a function that applies `fn` to every member of a batch at once.

    `in_axes` is the batch axis of each argument (None: the same for all members), as one number,
    or a tuple with a number or a tree for each argument; `out_axes` likewise for the results.

    >>> import rlx
    >>> rlx.vmap(lambda x, y: x * y, in_axes=(0, None))(rlx.array([1.0, 2.0]), 10.0).tolist()
    [10.0, 20.0]
    """

    @functools.wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, _ = pytree.flatten((args, kwargs))
        axes = _spread_axes(in_axes, args, "in_axes") + [0] * len(pytree.leaves(kwargs))
        types = [operand_type(as_operand(x)) for x in leaves]
        axes = [_checked(a, t) for a, t in zip(axes, types, strict=True)]
        size = _size(axes, types, axis_size)
        members = [_member(t, a) for t, a in zip(types, axes, strict=True)]
        given = pytree.unflatten(pytree.structure((args, kwargs)), members)
        traced = trace(fn, given[0], given[1])
        batched = [a is not None for a in axes] + [False] * len(traced.captures)
        graph, out_batched = batch_graph(traced.graph, batched, size)
        results = traced.unflatten([0] * len(graph.results))
        wanted = _spread_axes(out_axes, (results,), "out_axes", whole=True)
        moved = _with_axes(graph, axes, wanted, out_batched, size)
        found = run_graph(moved, [*leaves, *traced.captures])
        return traced.unflatten([_plain(r) for r in found])

    return wrapped


def _spread_axes(axes: Any, args: tuple[Any, ...], what: str, whole: bool = False) -> list[Any]:
    """One axis for each leaf."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(pytree.leaves(args))
    prefixes = (axes,) if whole else tuple(axes)
    if len(prefixes) != len(args):
        raise ArgumentError(
            f"vmap: {what} has {len(prefixes)} entries for {len(args)} arguments",
            where=str(user_source()),
            fix="give one entry for each argument",
        )
    found: list[Any] = []
    for prefix, arg in zip(prefixes, args, strict=True):
        found += _broadcast_prefix(prefix, arg)
    return found


def _broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    if prefix is None or isinstance(prefix, int):
        return [prefix] * len(pytree.leaves(tree))
    if isinstance(prefix, dict):
        return [a for key in sorted(prefix) for a in _broadcast_prefix(prefix[key], tree[key])]
    return [a for p, t in zip(prefix, tree, strict=True) for a in _broadcast_prefix(p, t)]


def _checked(axis: int | None, type: Type) -> int | None:
    if axis is None:
        return None
    if not -type.rank <= axis < type.rank:
        raise AxisError(
            f"vmap: axis {axis} is outside {type}",
            where=str(user_source()),
            fix="pick another in_axes, or None for an argument that all members share",
        )
    return axis % type.rank


def _size(axes: list[Any], types: list[Type], given: int | None) -> Any:
    sizes = {t.shape[a] for a, t in zip(axes, types, strict=True) if a is not None}
    sizes |= {given} if given is not None else set()
    if len(sizes) != 1:
        what = f"batch sizes {sorted(map(str, sizes))} differ" if sizes else "there is no batch"
        raise ShapeError(
            f"vmap: {what}",
            where=str(user_source()),
            fix="batch all arguments along axes of one size, or give axis_size",
        )
    return sizes.pop()


def _member(type: Type, axis: int | None) -> Type:
    if axis is None:
        return type
    return type.with_shape(type.shape[:axis] + type.shape[axis + 1 :])


def _with_axes(
    graph: Graph, axes: list[Any], out_axes: list[Any], out_batched: list[bool], size: Any
) -> Graph:
    """Move the batch axes to where the user has and wants them."""
    types = []
    for i, p in enumerate(graph.params):
        axis = axes[i] if i < len(axes) else None
        shape = list(p.shape)
        if axis:
            shape.insert(axis, shape.pop(0))
        types.append(p.type.with_shape(tuple(shape)))

    def run(*xs: Value) -> list[Value]:
        moved = [
            _moved(x, axes[i], 0) if i < len(axes) and axes[i] else x for i, x in enumerate(xs)
        ]
        results = inline(graph, moved)
        return [
            _placed(r, axis, is_batched, size)
            for r, axis, is_batched in zip(results, out_axes, out_batched, strict=True)
        ]

    return build(run, types, graph.name, [p.origin for p in graph.params])


def _moved(x: Value, origin: int, target: int) -> Value:
    axes = [a for a in range(x.rank) if a != origin]
    axes.insert(target, origin)
    return OPS["transpose"](x, axes=tuple(axes))


def _placed(x: Value, axis: int | None, is_batched: bool, size: Any) -> Value:
    if axis is None:
        if is_batched:
            raise ArgumentError(
                "vmap: a result differs between members, but its out_axes is None",
                where=str(user_source()),
                fix="give it an axis in out_axes",
            )
        return x
    if not is_batched:
        x = OPS["broadcast"](x, shape=(size, *x.shape), axes=tuple(range(1, x.rank + 1)))
    axis = axis % x.rank
    return _moved(x, 0, axis) if axis else x
