"""Partial evaluation: split off what depends on bound parameters alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.body import Fill, Move, View
from ...ir.graph import Graph, Node, Value
from ...ir.record import record
from .inline_calls import expand, inline_calls
from .loops import frontier, is_pure, rebuilt
from .rebuild import dedupe


@record
class Parts:
    """A graph split into a part that runs once and one that runs in each call."""

    early: Graph  # takes the fixed parameters
    late: Graph  # takes the others, the fixed ones of `kept`, then the results of `early`
    kept: tuple[int, ...]  # numbers of fixed parameters

    @property
    def count(self) -> int:
        """How many of the last parameters of `late` are fixed."""
        return len(self.kept) + len(self.early.results)


def split_fixed(graph: Graph, fixed: Sequence[int], wants: Collection[str] = ()) -> Parts:
    """Split a graph into nodes of its fixed parameters and all others.

    before: `(w, x) -> dot(x, transpose(exp(w)))` with `w` fixed; after: `(w) -> exp(w)` early, and
    `(x, e) -> dot(x, transpose(e))` late. What only moves all elements is left to those who read
    them, and so is what would take up more memory than the parameters that it is made of.
    """
    graph = dedupe(expand(inline_calls(graph), wants))
    params = [graph.params[i] for i in fixed]
    sources = _sources(graph, [p for p in params if p.type.is_static])
    early = [node for node in graph.nodes if any(sources.get(r) for r in node.results)]
    known = [node for node in graph.nodes if any(r in sources for r in node.results)]
    given, read = frontier(graph, early, lambda r: _is_kept(r, sources[r]))
    kept = tuple(i for i in fixed if graph.params[i] in read or not graph.params[i].type.is_static)
    free = [p for i, p in enumerate(graph.params) if i not in set(fixed)]
    inputs = [*free, *(graph.params[i] for i in kept), *given]
    first = Graph(graph.name, params, known)
    parts = rebuilt(first, params, given), rebuilt(graph, inputs, graph.results)
    for part, origins in zip(parts, (params, inputs), strict=True):
        for new, old in zip(part.params, origins, strict=True):
            new.origin = old.origin if old.node is None else ""
    return Parts(*parts, kept)


def _sources(graph: Graph, fixed: Sequence[Value]) -> dict[Value, frozenset[Value]]:
    """The parameters of each value that depends on fixed ones alone; none of a constant."""
    found = {param: frozenset([param]) for param in fixed}
    for node in graph.nodes:
        is_static = all(r.type.is_static for r in node.results)
        if is_static and is_pure(node) and all(a in found for a in node.args):
            origins = frozenset(x for a in node.args for x in found[a])
            found.update((r, origins) for r in node.results)
    return found


def _is_kept(value: Value, sources: Collection[Value]) -> bool:
    """Whether a value is worth computing early and keeping."""
    node: Node | None = value.node
    assert node is not None, "what is computed is no parameter"
    body, most = node.op.rules.body, sum(source.type.nbytes for source in sources)
    if isinstance(body, View | Fill):
        return False
    return value.type.nbytes < most if isinstance(body, Move) else value.type.nbytes <= most
