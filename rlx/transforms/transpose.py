"""Transposition of linear graphs, the second half of reverse mode.

`transpose_graph` walks the nodes backwards and asks each op for its transpose; it names no op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..ir.body import Concat, Gather, Move, Pointwise, Reduce, View
from ..ir.builder import build, heed, inline
from ..ir.errors import GradientError
from ..ir.graph import OPS, Graph, Node, Value
from ..ir.op import Linear
from ..ir.ops.constant import SCALAR, like, uniform
from ..ir.ops.control import filled, pick
from ..ir.record import record
from ..ir.source import at
from .jvp import expanded
from .linearize import split_graph

# -- masks: cotangents that a choice has made zero stay zero ---------------------------------------
#
# In `where(x > 0, log(x), 0)` the cotangent of `log(x)` is zero at x = 0, and 0 times the slope 1
# / 0 would be NaN. So reverse mode remembers with a cotangent where it may differ from zero: what
# is computed from it number by number is zero elsewhere, whatever it is multiplied with; so is
# what moves, repeats or adds numbers. `docs/derivatives.md` says where that ends.

Choice = Callable[[Value], Value]  # from what a node chooses by to the places of one argument


class Mask:
    """A lazy mask of bools: where a cotangent may differ from zero."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._value: Value | None = None

    @property
    def value(self) -> Value:
        """The mask as a value of the current graph."""
        if self._value is None:
            self._value = self._make()
        return self._value


@record
class Masked:
    """A cotangent that is to be zero outside of its mask."""

    value: Value
    mask: Mask | None = None
    is_clean: bool = True  # whether the value has these zeros already

    def settled(self) -> Value:
        """The cotangent with zeros outside of the mask."""
        if self.mask is None or self.is_clean:
            return self.value
        return OPS["select"](self.mask.value, self.value, like(self.value, 0))


def add_masked(first: Masked | None, second: Masked | None) -> Masked | None:
    """The sum of two cotangents, zero outside of both masks."""
    if first is None or second is None:
        return second if first is None else first
    one, two = first.mask, second.mask
    if one is two:
        is_clean = first.is_clean and second.is_clean
        return Masked(_sum(first.value, second.value), one, is_clean)
    total = _sum(first.settled(), second.settled())
    if one is None or two is None:
        return Masked(total)
    return Masked(total, Mask(lambda: OPS["bit_or"](one.value, two.value)))


def _sum(x: Value, y: Value) -> Value:
    """The sum of two cotangents; adjacent parts of an array are concatenated."""
    join = x.node.op.rules.join if x.node and y.node and x.node.op is y.node.op else None
    joined = join(x, y) if join else None
    return OPS["add"](x, y) if joined is None else joined


class Masks:
    """The masks of one transposition, one for equal choices."""

    def __init__(self) -> None:
        self._found: dict[tuple[Value, Choice, Mask | None], Mask] = {}

    def of_choice(
        self, node: Node, args: Sequence[Value | Linear], outer: Mask | None
    ) -> list[Mask | None]:
        """For each argument of a node, the mask of its cotangent.

        `outer` is the mask of the node's own cotangent.
        """
        rules: Sequence[Choice | None] = node.op.rules.choice
        which = args[0] if rules else None
        if not isinstance(which, Value):
            return [None] * len(args)
        return [rule and self._chosen(which, rule, outer) for rule in rules]

    def _chosen(self, which: Value, rule: Choice, outer: Mask | None) -> Mask:
        key = (which, rule, outer)
        if key not in self._found:
            inner = Mask(lambda: rule(which))
            both = outer and Mask(lambda: OPS["bit_and"](outer.value, inner.value))
            self._found[key] = both or inner
        return self._found[key]


def passes_numbers(node: Node) -> bool:
    """Whether a node is elementwise."""
    return isinstance(node.op.rules.body, Pointwise)


def keeps_zeros(args: Sequence[Value | Linear]) -> bool:
    """Whether known operands cannot be infinite, so that zeros stay zeros."""
    return all(isinstance(a, Linear) or _is_finite(a) for a in args)


def _is_finite(x: Value) -> bool:
    if not x.type.is_inexact:
        return True
    number: SCALAR | None = uniform(x)
    return number is not None and number != 0 and math.isfinite(abs(number))


def moves_numbers(node: Node, args: Sequence[Value | Linear]) -> bool:
    """Whether a node only moves or adds numbers."""
    body = node.op.rules.body
    adds = isinstance(body, Reduce) and body.combine == "add"
    moves = adds or isinstance(body, Move | View | Concat | Gather)
    return moves and all(isinstance(a, Linear) or not a.type.is_inexact for a in args)


def moved(node: Node, mask: Mask, pull: Callable[[Value], Sequence[Value | None]]) -> list[Mask]:
    """The masks of the arguments of a node that `moves_numbers`.

    `pull` transposes the node; applied to the mask as 0 and 1, it counts contributions.
    """
    counts: list[Sequence[Value | None]] = []

    def count(place: int) -> Value:
        if not counts:
            ones = OPS["convert"](mask.value, dtype=node.results[0].dtype)
            counts.append(pull(ones))
        total = counts[0][place]
        assert total is not None, "a linear argument has a cotangent"
        return OPS["ne"](total, like(total, 0))

    return [Mask(lambda i=i: count(i)) for i in range(len(node.args))]


Cotangent = Value | None  # None is a zero that is not written down


def transpose_graph(
    graph: Graph, linear: Sequence[bool], ct_active: Sequence[bool] | None = None
) -> Graph:
    """Transpose a graph in its linear parameters.

    The new graph takes the known parameters, then a cotangent for each (active) result; it gives
    a cotangent for each linear parameter.
    """
    active = [True] * len(graph.results) if ct_active is None else list(ct_active)
    known = [not is_linear for is_linear in linear]
    parts = split_graph(graph, known, [False] * len(graph.results))

    def run(*xs: Value) -> list[Value]:
        early = inline(parts.known, xs[: sum(known)])
        given = iter(xs[sum(known) :])
        cts = [next(given) if is_active else None for is_active in active]
        pulled = pull(parts.unknown, early, cts)
        return filled(pulled, pick(graph.param_types, linear))

    types = [*pick(graph.param_types, known), *pick(graph.result_types, active)]
    return build(run, types, graph.name)


def pull(graph: Graph, known: Sequence[Value], cts: Sequence[Cotangent]) -> list[Cotangent]:
    """Pull cotangents of the results back to the parameters after the known ones.

    All nodes must be linear in these parameters, or have no operands.
    """
    args = [*known, *(Linear(p.type) for p in graph.params[len(known) :])]
    given = [None if ct is None else Masked(ct) for ct in cts]
    pulled = _pull(graph, args, given, Masks())[len(known) :]
    return [None if ct is None else ct.settled() for ct in pulled]


def _pull(
    graph: Graph, args: Sequence[Value | Linear], cts: Sequence[Masked | None], masks: Masks
) -> list[Masked | None]:
    """The cotangents of a graph's linear arguments; None for the others."""
    heed(graph)
    pairs = list(zip(graph.params, args, strict=True))
    table = {p: a for p, a in pairs if isinstance(a, Value)}
    totals: dict[Value, Masked | None] = {}
    late = _linear_nodes(graph, [p for p, a in pairs if isinstance(a, Linear)], table)
    for result, ct in zip(graph.results, cts, strict=True):
        totals[result] = add_masked(totals.get(result), ct)
    for node in reversed(late):
        node_cts = [totals.pop(r, None) for r in node.results]
        if all(ct is None for ct in node_cts):
            continue
        with at(node.source):
            operands = [table[a] if a in table else Linear(a.type) for a in node.args]
            pulled = _pull_node(node, node_cts, operands, masks)
            for arg, ct in zip(node.args, pulled, strict=True):
                if arg not in table and ct is not None:
                    totals[arg] = add_masked(totals.get(arg), ct)
    return [None if isinstance(a, Value) else totals.get(p) for p, a in pairs]


def _pull_node(
    node: Node, cts: Sequence[Masked | None], args: Sequence[Value | Linear], masks: Masks
) -> Sequence[Masked | None]:
    """The cotangents of a node's arguments with their masks."""
    first = cts[0]
    mask = first.mask if first and len(cts) == 1 else None
    if node.op.rules.transparent and any(ct and ct.mask for ct in cts):
        return _pull(node.attrs["graph"], args, cts, masks)
    if first and mask and passes_numbers(node) and not node.op.rules.choice:
        pulled = node_transpose(node, [first.value], args)
        is_clean = first.is_clean and keeps_zeros(args)
        return [ct and Masked(ct, mask, is_clean) for ct in pulled]
    pulled = node_transpose(node, [ct and ct.settled() for ct in cts], args)
    found = masks.of_choice(node, args, mask)
    if mask and moves_numbers(node, args):
        found = moved(node, mask, lambda ones: node_transpose(node, [ones], args))
    return [ct and Masked(ct, m) for ct, m in zip(pulled, found, strict=True)]


def _linear_nodes(graph: Graph, params: Sequence[Value], table: dict[Value, Value]) -> list[Node]:
    """Nodes that depend on the linear parameters; the others are recorded at once."""
    linear = set(params)
    late = []
    for node in graph.nodes:
        if any(a in linear for a in node.args):
            linear.update(node.results)
            late.append(node)
            continue
        with at(node.source):
            results = node.op.apply([table[a] for a in node.args], node.attrs)
        table.update(zip(node.results, results, strict=True))
    return late


def node_transpose(
    node: Node, cts: Sequence[Cotangent], args: Sequence[Value | Linear]
) -> Sequence[Cotangent]:
    """Apply the transpose rule of a node."""
    rule = node.op.rules.transpose
    engine = (transpose_graph,) if node.graphs else ()
    is_many = node.op.is_multiple(node.results)
    pulled = rule(*engine, tuple(cts) if is_many else cts[0], *args, **node.attrs) if rule else None
    if pulled is None and node.op.rules.expand is not None:
        return _pull_expanded(node, cts, args)
    if pulled is None:
        raise _not_linear(node, node.op.name)
    if node.graphs or any(ct is None for ct in cts):  # these may give zeros, a linear op does not
        return pulled
    for i, (arg, ct) in enumerate(zip(args, pulled, strict=True)):
        if isinstance(arg, Linear) and ct is None:
            raise _not_linear(node, f"{node.op.name} in its argument {i}")
    return pulled


def _pull_expanded(
    node: Node, cts: Sequence[Cotangent], args: Sequence[Value | Linear]
) -> Sequence[Cotangent]:
    known = [a for a in args if isinstance(a, Value)]
    linear = [isinstance(a, Linear) for a in args]
    pulled = transpose_graph(expanded(node), linear, [ct is not None for ct in cts])
    given = iter(inline(pulled, [*known, *(ct for ct in cts if ct is not None)]))
    return [next(given) if is_linear else None for is_linear in linear]


def _not_linear(node: Node, what: str) -> GradientError:
    return GradientError(
        f"{what} is not linear, so it has no transpose",
        where=str(node.source),
        fix=f"give {node.op.name} a jvp rule of linear ops, or a transpose rule, in its room",
    )
