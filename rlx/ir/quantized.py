"""The values of few bits in a graph: a view, no table beside it.

What is quantized is a node like any other, so passes that rewrite a graph keep it, and so do its
text and files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

from .graph import Graph, Node, Value
from .record import record


@record
class Quantized:
    """A value of few bits: its scheme, and the node that makes or reads it so."""

    name: str  # as in the text of its graph
    value: Value
    scheme: str
    node: Node

    def __str__(self) -> str:
        is_result = any(self.value is r for r in self.node.results)
        origin = f" {self.value.origin}" if self.value.origin else ""
        source = f"   {self.node.source}" if self.node.source else ""
        how = "made" if is_result else "read"
        return f"{self.name}: {self.value.type}{origin}   {self.scheme}, {how} by " + (
            f"{self.node.op.name}{source}"
        )


@final
class QuantizedValues(Mapping[Value, Quantized]):
    """The values of few bits in a graph, nested graphs included, in order.

    Printing it shows a line for each. `graph.quant[value].scheme` says how a value is quantized.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found: dict[Value, Quantized] = {}
        self._collect(graph, "")

    def __getitem__(self, value: Value) -> Quantized:
        return self._found[value]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        lines = [str(found) for found in self._found.values()]
        count = f"{len(lines)} quantized value" + ("" if len(lines) == 1 else "s")
        return "\n".join([f"{self._graph.name}: {count}", *lines])

    def _collect(self, graph: Graph, prefix: str) -> None:
        values = [*graph.params, *(r for node in graph.nodes for r in node.results)]
        names = {value: f"{prefix}%{i}" for i, value in enumerate(values)}
        for node in graph.nodes:
            rule = node.op.rules.scheme
            schemes = rule(*(a.type for a in node.args), **node.attrs) if rule else ()
            for value, scheme in zip((*node.args, *node.results), schemes, strict=False):
                if scheme:
                    found = Quantized(names[value], value, scheme, node)
                    self._found.setdefault(value, found)
            for number, nested in enumerate(node.graphs):
                place = names[node.results[0]] if node.results else prefix
                self._collect(nested, f"{place}.{number}.")
