"""The interpreter of graphs: the NumPy reference of each op, which defines it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .graph import Graph, Node, Value
from .number_check import asked, check_results

Watch = Callable[[Node, Sequence[np.ndarray], Sequence[np.ndarray]], None]
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Call `watch(node, operands, results)` after each node, nested ones first."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


LARGE = 1 << 26  # bytes of values from which on those that nobody reads any more are given back


def interpret(graph: Graph, arrays: Sequence[Any]) -> list[np.ndarray]:
    """Evaluate a graph on arrays, one for each parameter."""
    assert len(arrays) == len(graph.params), f"{graph.name} takes {len(graph.params)} arrays"
    table: dict[Any, np.ndarray] = dict(zip(graph.params, map(np.asarray, arrays), strict=True))
    is_typed = all(array.dtype == param.type.dtype for param, array in table.items())
    watch, bad = _watch.get(), asked()
    made, ends = 0, None
    with np.errstate(all="ignore"):
        for number, node in enumerate(graph.nodes):
            operands = [table[a] for a in node.args]
            results = _evaluated(node, operands, is_typed)
            if watch:
                watch(node, operands, results)
            if bad:
                check_results(node.op.name, _source_of(node), operands, results, bad)
            table.update(zip(node.results, results, strict=True))
            made += results[0].nbytes if results else 0
            if made > LARGE:
                ends = ends or _ends(graph)
                for value in ends[number]:
                    table.pop(value, None)
    return [table[r] for r in graph.results]


def _ends(graph: Graph) -> list[list[Value]]:
    """For each node the values that it is the last to read or make, but for results."""
    last = {value: 0 for value in graph.params}
    for number, node in enumerate(graph.nodes):
        last.update(dict.fromkeys((*node.args, *node.results), number))
    ends: list[list[Value]] = [[] for _ in graph.nodes]
    for value in last.keys() - set(graph.results):
        ends[last[value]].append(value)
    return ends


def _source_of(node: Node) -> Callable[[], object]:
    return lambda: node.source


def evaluate(node: Node, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Evaluate one node with its reference."""
    is_typed = all(x.dtype == a.type.dtype for x, a in zip(arrays, node.args, strict=True))
    with np.errstate(all="ignore"):
        return _evaluated(node, arrays, is_typed)


def _evaluated(node: Node, arrays: Sequence[np.ndarray], is_typed: bool) -> tuple[np.ndarray, ...]:
    # the type rule need not be asked again, unless it is to check what a user's function gives
    known = is_typed and not node.op.rules.of_user
    types = [r.type for r in node.results] if known else ()
    return node.op.run_quietly(arrays, node.attrs, types=types, source=node.source)
