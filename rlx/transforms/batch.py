"""Batching: a graph that computes many members at once.

`batch_graph` walks the nodes once and asks each op for its rule; it names no op. Inside, the
batch is always axis 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..ir.body import Call
from ..ir.builder import build, rewrite
from ..ir.errors import UnsupportedOp
from ..ir.graph import Graph, Node, Value
from ..ir.ops.families import spread
from ..ir.types import Size
from ..trace.named_axes import named_axis
from .jvp import expanded

Member = tuple[Value, bool]  # a value, and whether its axis 0 is the batch
Axis = tuple[Any, Size] | None  # the name of the batch and its size
_axis: ContextVar[Axis] = ContextVar("axis", default=None)


@contextmanager
def batching(axis_name: Any, size: Size) -> Iterator[None]:
    """Name the batch for the block, in what is traced there and in what is batched."""
    token = _axis.set(None if axis_name is None else (axis_name, size))
    try:
        with named_axis(axis_name, size):
            yield
    finally:
        _axis.reset(token)


@dataclass(frozen=True)
class Engine:
    """What rules of nested graphs batch with; it remembers the name of the batch.

    So a user's rule that runs later sees the same members: it runs in `engine.naming()`.
    """

    axis: Axis

    def __call__(
        self,
        graph: Graph,
        batched: Sequence[bool],
        size: Size,
        out_batched: Sequence[bool] | None = None,
    ) -> tuple[Graph, list[bool]]:
        with self.naming():
            return batch_graph(graph, batched, size, out_batched)

    def naming(self) -> AbstractContextManager[None]:
        """Name the batch as it was."""
        return batching(*(self.axis or (None, 0)))


def batch_graph(
    graph: Graph,
    batched: Sequence[bool],
    size: Size,
    out_batched: Sequence[bool] | None = None,
) -> tuple[Graph, list[bool]]:
    """Make the graph of a batch of members; tells which of its results are batched.

    Batched parameters have a new axis 0 of the given size. Results of `out_batched` are repeated
    along a new axis 0 if they are the same for all members.
    """
    flags: list[bool] = []

    def run(*xs: Value) -> list[Value]:
        members = spread_members(graph, list(zip(xs, batched, strict=True)))
        flags[:] = [b for _, b in members]
        if out_batched is not None:
            flags[:] = [a or b for a, b in zip(flags, out_batched, strict=True)]
        return [
            spread(x, size) if is_wanted and not is_there else x
            for (x, is_there), is_wanted in zip(members, flags, strict=True)
        ]

    types = [
        p.type.with_shape((size, *p.shape)) if is_batched else p.type
        for p, is_batched in zip(graph.params, batched, strict=True)
    ]
    return build(run, types, graph.name, [p.origin for p in graph.params]), flags


def spread_members(graph: Graph, members: Sequence[Member]) -> list[Member]:
    """Record a graph for a batch in the current graph."""
    return rewrite(graph, members, _visit)


def _is_named(node: Node, name: Any) -> bool:
    return node.op.rules.named is not None and node.attrs["axis_name"] == name


def _holds_named(node: Node, name: Any) -> bool:
    """Whether a nested graph has an op of the named axis."""
    return any(_is_named(inner, name) for graph in node.graphs for inner in graph.walk())


def _visit(node: Node, members: list[Member]) -> list[Member]:
    args, batched = [x for x, _ in members], [b for _, b in members]
    axis = _axis.get()
    named = node.op.rules.named
    if axis and named is not None and _is_named(node, axis[0]):
        return [named(args, batched, axis[1])]
    if axis and not any(batched) and _holds_named(node, axis[0]):
        has_own = "precision" in node.attrs  # which its nodes alone would not keep
        if isinstance(node.op.rules.body, Call) and not has_own:
            return spread_members(node.attrs["graph"], members)
        args, batched = [spread(x, axis[1]) for x in args], [True] * len(args)
    if not any(batched):
        return [(r, False) for r in node.op.apply(args, node.attrs)]
    rule = node.op.rules.batch
    if rule is None and node.op.rules.expand is not None:
        return spread_members(expanded(node), members)
    if rule is None:
        raise UnsupportedOp(
            f"{node.op.name} cannot be batched: its room has no batch rule",
            where=str(node.source),
            fix=f"write @{node.op.name}.batch, or map over it with rlx.scan",
        )
    engine = (Engine(axis),) if node.graphs else ()
    results = rule(*engine, args, batched, **node.attrs)
    return [(r, True) for r in (results if isinstance(results, list | tuple) else [results])]
