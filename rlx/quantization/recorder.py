"""Recording of a graph with its products on codes.

What is wanted is found backwards: floats, or codes of a range. A value of which only codes are
wanted is made of codes if its op commutes with rounding: if the op only moves and chooses numbers
(relu, max pooling, reshape, concatenation), which follows from what it is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, final

from ..ir.body import AsParts, Concat, Fill, Gather, Move, Pointwise, Reduce, Scan, View
from ..ir.dims import likely
from ..ir.graph import Graph, Node, Value
from ..ir.op import has_effect
from ..ir.types import is_float
from ..transforms.jvp import expanded
from .codes import Calculation, Range, rounded
from .products import features

FLOAT = ""  # of what is wanted: the floats themselves; else the name of a range
CHOICES = ("max", "min", "select")


def commutes(node: Node) -> bool:
    """Whether an op gives the same before and after a rising function of its numbers."""
    body = node.op.rules.body
    match body:
        case Pointwise(instruction=how) | Reduce(combine=how) | Scan(combine=how):
            return how in CHOICES
        case AsParts():
            return False
        case View() | Move() | Concat() | Gather():
            return True
    if node.op.rules.expand is None or node.graphs:
        return False
    inner = expanded(node).nodes
    return all(isinstance(n.op.rules.body, Fill) or commutes(n) for n in inner)


@final
class Wanted:
    """What of each value is wanted: floats, and codes of which ranges."""

    def __init__(
        self,
        graph: Graph,
        products: Mapping[Node, Any],
        has_ranges: bool,
        with_features: Collection[str] = (),
    ) -> None:
        self.with_features = with_features  # ranges of codes that depend on the feature
        self.of: dict[Value, set[str]] = {}
        self.on_codes: dict[Value, str] = {}  # the range of values that are made of codes
        for result in graph.results:
            self._want(result, FLOAT)
        for node in reversed(graph.nodes):
            if has_effect(node) or any(r in self.of for r in node.results):
                self._visit(node, products, has_ranges)

    def _want(self, value: Value, what: str) -> None:
        self.of.setdefault(value, set()).add(what)

    def _visit(self, node: Node, products: Mapping[Node, Any], has_ranges: bool) -> None:
        if node in products:
            product = products[node]
            self._want(node.args[1 - product.side], product.inputs if has_ranges else FLOAT)
            return
        what = FLOAT
        if len(node.results) == 1 and is_float(node.result.dtype):
            wanted = self.of.get(node.result, {FLOAT})
            (one, *more) = wanted
            is_plain = one != FLOAT and not more and one not in self.with_features
            if is_plain and _pays(node) and commutes(node):
                what = self.on_codes[node.result] = one
        for arg in node.args:
            self._want(arg, what if is_float(arg.dtype) else FLOAT)


def _pays(node: Node) -> bool:
    """Whether to round before rather than after: not where there are far more."""
    floats = [a for a in node.args if is_float(a.dtype)]
    is_less = sum(likely(a.type.size) for a in floats) <= likely(node.result.type.size)
    return is_less or all(a.node is not None for a in floats)


@final
class Carried:
    """A value while it is recorded again: floats, codes, or both."""

    def __init__(self, value: Value | None, codes: dict[str, Value] | None = None) -> None:
        self.value, self.codes = value, codes or {}

    def floats(self) -> Value:
        """The floats, which somebody wanted."""
        assert self.value is not None, "only its codes were wanted"
        return self.value

    def codes_of(self, name: str, ranges: Mapping[str, Range], axis: int | None = None) -> Value:
        """The codes of a range; `axis` is that of the features."""
        if name not in self.codes:
            self.codes[name] = rounded(self.floats(), ranges[name], axis)
        return self.codes[name]


@final
class Recorder:
    """Visits nodes: products by a calculation, others as they are or on codes."""

    def __init__(
        self,
        wanted: Wanted,
        products: Mapping[Node, Any],
        calculation: Calculation,
        ranges: Mapping[str, Range],
    ) -> None:
        self.wanted, self.products = wanted, products
        self.calculation, self.ranges = calculation, ranges

    def visit(self, node: Node, operands: list[Carried]) -> Sequence[Carried]:
        """Record a node, unless nobody wants its results."""
        product = self.products.get(node)
        if not has_effect(node) and not any(r in self.wanted.of for r in node.results):
            return [Carried(None) for _ in node.results]
        if product is not None:
            given = operands[1 - product.side]
            if self.ranges and self.calculation.takes_codes:
                axis = features(node, product)
                x = given.codes_of(product.inputs, self.ranges, axis)
            else:
                x = given.floats()
            return [Carried(self.calculation.product(node, product, x, operands[product.side]))]
        name = self.wanted.on_codes.get(node.result) if len(node.results) == 1 else None
        if name is not None:
            return [Carried(None, {name: self._on_codes(node, operands, name)})]
        results = node.op.apply([x.floats() for x in operands], node.attrs)
        return [Carried(x) for x in results]

    def _on_codes(self, node: Node, operands: Sequence[Carried], name: str) -> Value:
        if node.op.rules.body is None:
            graph = expanded(node)
            table = dict(zip(graph.params, operands, strict=True))
            for inner in graph.nodes:
                if isinstance(inner.op.rules.body, Fill):
                    (filled,) = inner.op.apply([], inner.attrs)
                    table[inner.result] = Carried(filled)
                    continue
                made = self._on_codes(inner, [table[a] for a in inner.args], name)
                table[inner.result] = Carried(None, {name: made})
            return table[graph.results[0]].codes[name]
        given = [
            x.codes_of(name, self.ranges) if is_float(a.dtype) else x.floats()
            for x, a in zip(operands, node.args, strict=True)
        ]
        return node.op.apply(given, node.attrs)[0]


def carried(values: Sequence[Value | None]) -> list[Any]:
    """Values as they are carried."""
    return [Carried(x) for x in values]


def graph_results(graph: Graph, found: Sequence[Carried]) -> list[Value]:
    """The values of what was carried to the results."""
    return [x.floats() for x in found]
