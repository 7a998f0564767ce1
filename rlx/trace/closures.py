"""Traced functions as nested graphs of control flow, with their captures.

Captures become operands, and carried types settle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir import builder
from ..ir.errors import DtypeError, ShapeError, StructureError
from ..ir.graph import OPS, Graph
from ..ir.types import Type
from . import pytree
from .apply import as_operand, as_tensor, operand_type
from .array import Array
from .host import is_python_scalar, scalar_to_numpy
from .make_graph import Traced, trace
from .promotion import convert, result_dtype
from .tensor import TracedTensor


def union(traced: Sequence[Traced]) -> list[Any]:
    """The captures of all functions, each once."""
    found: dict[int, Any] = {}
    for each in traced:
        found.update((id(thing), thing) for thing in each.captures)
    return list(found.values())


def with_captures(traced: Traced, captures: Sequence[Any], types: Sequence[Type]) -> Graph:
    """The graph with all `captures` as parameters and results of the given types."""
    graph, count = traced.graph, traced.n_args
    if len(captures) == len(traced.captures) and tuple(types) == graph.result_types:
        if all(a is b for a, b in zip(captures, traced.captures, strict=True)):
            return graph
    places = {id(thing): count + i for i, thing in enumerate(captures)}

    def run(*xs: Any) -> list[Any]:
        hidden = [xs[places[id(thing)]] for thing in traced.captures]
        results = builder.inline(graph, [*xs[:count], *hidden])
        return [cast_value(r, t) for r, t in zip(results, types, strict=True)]

    given = [*graph.param_types[:count], *(operand_type(as_operand(c)) for c in captures)]
    return builder.build(run, given, graph.name, [p.origin for p in graph.params[:count]])


def cast_value(value: Any, type: Type) -> Any:
    """A value in the dtype of a type."""
    return value if value.dtype == type.dtype else OPS["convert"](value, dtype=type.dtype)


def lift_leaves(tree: Any, traced: Traced) -> list[Any]:
    """The leaves of arguments as operands; Python numbers get the parameters' dtypes."""
    types = traced.graph.param_types
    return [lift_leaf(x, t) for x, t in zip(pytree.leaves(tree), types, strict=False)]


def lift_leaf(leaf: Any, type: Type) -> Any:
    """A leaf as an operand of the dtype of a type."""
    if is_python_scalar(leaf):
        return Array(scalar_to_numpy(leaf, type.dtype))
    return convert(as_tensor(leaf), type.dtype)


def with_weak(results: Sequence[Any], weak: Sequence[bool]) -> list[Any]:
    """Results with the given weak types."""
    return [
        TracedTensor(r.value, w) if isinstance(r, TracedTensor) else r
        for r, w in zip(results, weak, strict=True)
    ]


def trace_body(
    name: str, body: Callable[..., Any], carry: Any, take: Callable[[Any], Any], *rest: Any
) -> tuple[Traced, list[Any]]:
    """Record a loop's body until the carried types reach a fixed point.

    The result includes the initial leaves. `take` picks the carried part of what the body returns.
    An initial Python number takes the dtype that the body gives it.
    """
    leaves, tree = pytree.flatten(carry)
    paths = pytree.paths(tree, "carry")
    for _ in range(len(leaves) + 2):
        traced = trace(body, (pytree.unflatten(tree, leaves), *rest), owned=len(leaves))
        after, weak = _carried(name, traced, tree, take)
        changed = _settle(leaves, after, weak)
        if changed is None:
            break
        leaves = changed
    types = traced.graph.param_types[: len(leaves)]
    for path, before, now, is_weak in zip(paths, types, after, weak, strict=True):
        _check_carry(name, path, before, now, is_weak)
    return traced, leaves


def _carried(
    name: str, traced: Traced, tree: pytree.Structure, take: Callable[[Any], Any]
) -> tuple[list[Type], list[bool]]:
    """The types and weak types that the body carries on."""
    numbered = pytree.unflatten(traced.out_tree, range(traced.out_tree.num_leaves))
    carried = take(numbered)
    places, found = pytree.flatten(carried)
    part = pytree.difference(tree, found, "carry", ("the initial value", "what comes back"))
    if part:
        raise StructureError(
            f"{name}: {traced.graph.name} changes the structure of the carried value: {part}",
            fix="return the carried value in the containers in which it came",
        )
    results = traced.graph.results
    return [results[i].type for i in places], [traced.out_weak[i] for i in places]


def _settle(leaves: Sequence[Any], after: Sequence[Type], weak: Sequence[bool]) -> Any:
    """Weakly typed initial leaves in the body's dtype, or None if all fit."""
    changed = False
    settled = []
    for leaf, now, is_result_weak in zip(leaves, after, weak, strict=True):
        given = as_operand(leaf)
        is_loose = is_python_scalar(given) or (isinstance(given, TracedTensor) and given.weak)
        if is_loose and operand_type(given).dtype != now.dtype:
            meeting = result_dtype(given, scalar_to_numpy(0, now.dtype))
            leaf = lift_leaf(given, now) if meeting == now.dtype else leaf
        elif is_loose and not is_result_weak:
            leaf = lift_leaf(given, now)
            leaf = TracedTensor(leaf.value) if isinstance(leaf, TracedTensor) else leaf
        changed = changed or leaf is not leaves[len(settled)]
        settled.append(leaf)
    return settled if changed else None


def _check_carry(name: str, path: str, before: Type, after: Type, is_weak: bool) -> None:
    if before == after:
        return
    if before.shape == after.shape and is_weak:
        return
    kind = ShapeError if before.shape != after.shape else DtypeError
    fix = (
        f"convert the new value: .astype({before.dtype.name!r}), or start with {after.dtype.name}"
        if kind is DtypeError
        else "keep the shape from step to step; start with the shape the body returns"
    )
    raise kind(f"{name}: {path} is {before} before the body and {after} after it", fix=fix)


def constants_first(traced: Traced, types: Sequence[Type]) -> Graph:
    """The graph with its captures before other parameters, and results of given types."""
    graph, count = traced.graph, traced.n_args
    if not traced.captures and tuple(types) == graph.result_types:
        return graph
    hidden = len(traced.captures)

    def run(*xs: Any) -> list[Any]:
        results = builder.inline(graph, [*xs[hidden:], *xs[:hidden]])
        return [cast_value(r, t) for r, t in zip(results, types, strict=True)]

    params = [*graph.params[count:], *graph.params[:count]]
    return builder.build(run, [p.type for p in params], graph.name, [p.origin for p in params])
