"""The products of a graph that have a weight, and their names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from ..ir.builder import build, inline, repeat, rewrite
from ..ir.errors import ArgumentError
from ..ir.graph import Graph, Node, Value
from ..ir.ops.constant import maker
from ..ir.record import record, replace
from ..ir.types import is_float
from ..trace.arguments import members, shown
from .scheme import Scheme
from .weights import Layout, group_of


@record
class Product:
    """A product of the graph, the `number`th of all, and what becomes of it."""

    number: int
    name: str  # the path of its weight
    op: str
    side: int  # which operand is the weight; -1: none of them, or both
    layout: Layout | None
    inputs: str  # the name of the first product with the same inputs, which shares their range
    turned: tuple[
        int, ...
    ] = ()  # how codes, which lie as the weight does in memory, are transposed
    reason: str = ""  # why it stays float

    @property
    def is_quantized(self) -> bool:
        """Whether it has a weight in few bits."""
        return not self.reason

    def is_like(self, other: Product) -> bool:
        """Whether another one has a weight that lies alike, for inputs of any rank."""
        mine, its = (
            x.layout and (x.layout.shape, x.layout.kept, x.layout.summed) for x in (self, other)
        )
        return (self.op, self.side, mine) == (other.op, other.side, its)


def opened(graph: Graph) -> Graph:
    """The graph with the graphs of nested `jit` in place of their calls."""

    def is_call(node: Node) -> bool:
        return node.op.rules.transparent and not node.attrs.get("precision")

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if is_call(node):
            return inline(opened(node.attrs["graph"]), operands)
        return repeat(node, operands)

    if not any(map(is_call, graph.nodes)):
        return graph
    origins = [p.origin for p in graph.params]
    return build(lambda *xs: rewrite(graph, xs, visit), graph.param_types, graph.name, origins)


def is_product(node: Node) -> bool:
    """Whether a node is a product of floats."""
    return node.op.rules.product is not None and is_float(node.result.dtype)


def features(node: Node, product: Product) -> int | None:
    """The one axis of the inputs that is summed over together with one of the weight."""
    assert product.layout is not None, "it has a weight"
    summed = Layout.of(node, 1 - product.side).summed
    is_one = len(summed) == len(product.layout.summed) == 1
    return summed[0] if is_one else None


def find(graph: Graph, names: dict[Value, str]) -> list[tuple[Node, Product]]:
    """The products of a graph, whose parameters with `names` are weights."""
    origins = _origins(graph, names)
    found: list[tuple[Node, Product]] = []
    used: dict[str, int] = {}
    inputs: dict[Value, str] = {}
    for node in filter(is_product, graph.nodes):
        weights = [origins.get(a) for a in node.args]
        sides = [i for i, names_of in enumerate(weights) if names_of]
        if all(names_of is not None for names_of in weights):
            continue  # of weights alone: a weight itself
        side = sides[0] if len(sides) == 1 else -1
        name = _named(weights[side] or [], names) if side >= 0 else f"{node.op.name}, {node.source}"
        used[name] = used.get(name, 0) + 1
        name = name if used[name] == 1 or side < 0 else f"{name}#{used[name]}"
        first = inputs.setdefault(node.args[1 - side], name) if side >= 0 else ""
        layout = Layout.of(node, side) if side >= 0 else None
        reason = "" if side >= 0 else "no operand is a weight"
        turned = maker(node.args[side], "transpose") if side >= 0 else None
        axes = turned.attrs["axes"] if turned else ()
        product = Product(len(found), name, node.op.name, side, layout, first, axes, reason)
        found.append((node, product))
    return found


def _origins(graph: Graph, names: dict[Value, str]) -> dict[Value, list[Value]]:
    """The weights that each value is made of, if it is made of nothing else."""
    found: dict[Value, list[Value]] = {p: [p] for p in graph.params if p in names}
    for node in graph.nodes:
        rules = node.op.rules
        if rules.effect or rules.runs_python or not all(a in found for a in node.args):
            continue
        made_of = list(dict.fromkeys(p for a in node.args for p in found[a]))
        found.update(dict.fromkeys(node.results, made_of))
    return found


def _named(weights: Sequence[Value], names: dict[Value, str]) -> str:
    """The name of the largest of some weights, the first of these."""
    return names[max(weights, key=lambda p: (p.type.size, -weights.index(p)))]


def loops_with_products(graph: Graph) -> list[str]:
    """What holds products in graphs of its own, which are left as they are."""
    return [
        f"{node.op.name}, {node.source}"
        for node in graph.nodes
        for inner in node.graphs
        if any(map(is_product, inner.walk()))
    ]


# -- which of them are quantized -------------------------------------------------------------------


def choose(products: Sequence[Product], scheme: Scheme, skip: Any, only: Any) -> list[Product]:
    """The products, with the reasons of those that stay float."""
    names = [p.name for p in products if p.is_quantized]
    skipped = _matching(names, skip, "skip")
    wanted = set(names) if only is None else _matching(names, only, "only")
    return [_with_reason(p, scheme, skipped, wanted) for p in products]


def _with_reason(product: Product, scheme: Scheme, skipped: set[str], wanted: set[str]) -> Product:
    layout = product.layout
    if layout is None:
        return product
    reason = ""
    if product.name in skipped:
        reason = "it is in skip"
    elif product.name not in wanted:
        reason = "it is not in only"
    elif layout.depth == 0 or 0 in layout.shape:
        reason = "it is empty"
    elif scheme.weights == 4 and not group_of(scheme, layout):
        reason = f"its {layout.depth} inputs do not part in groups of {scheme.granularity}"
    return replace(product, reason=reason)


def _matching(names: Sequence[str], patterns: Any, what: str) -> set[str]:
    """The names that patterns stand for: each for itself and all below it."""
    given = [patterns] if isinstance(patterns, str) else members(f"quantize: {what}", patterns)
    found: set[str] = set()
    for pattern in given:
        if not isinstance(pattern, str):
            raise ArgumentError(
                f"quantize: {what} holds {shown(pattern)}, which is no path",
                fix='give paths of layers: "layers[0]", or "layers[*].weight"',
            )
        form = re.escape(pattern.removeprefix(".")).replace(r"\*", ".*") + r"($|[.\[#].*)"
        matching = [name for name in names if re.fullmatch(form, name)]
        if not matching:
            near = difflib.get_close_matches(pattern, names, 3) or names[:6]
            more = ", ..." if len(names) > len(near) else ""
            raise ArgumentError(
                f"quantize: {what} names {pattern!r}, which is no layer with a product",
                fix=f"layers are {', '.join(near)}{more}" if names else "there are no layers",
            )
        found.update(matching)
    return found
