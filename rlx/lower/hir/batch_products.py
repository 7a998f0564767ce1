"""Loop fission: hoist or sink the products of a loop's rounds into one product."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from ...ir.body import Contract, Fill, Move, Pointwise, View
from ...ir.dims import likely
from ...ir.graph import Graph, Node, Value
from ...ir.op import live_nodes
from ...ir.ops.constant import uniform
from ...ir.record import record, replace
from ...ir.source import at
from .loops import (
    Repeated,
    has_loops,
    hoist,
    is_pure,
    is_repeat,
    reached,
    rebuilt,
    trim_loops,
)
from .rebuild import again, rebuild

MOST_ROWS = 64  # a product of more rows is as fast in each round
MOST_KEPT = 1 << 24  # numbers of all rounds that are kept for one product, as they were not before
INLINE = (Pointwise, Move, View, Fill)


def batch_products(graph: Graph) -> Graph:
    """Loop fission: do the products of all rounds at once, before or after the loop.

    before: `scan(w, c, xs, body=(w, c, x) -> sin(c) + dot(x, w))`; after: `ys = dot(xs, w)`, then
    `scan(c, ys, body=(c, y) -> sin(c) + y)`. A product of a constant of the loop that no round
    reads comes after it, and so does a carried sum of products: `scan(t, c, xs, body=(t, c, x) ->
    (t + dot(x, c), sin(c)))` is one loop that stacks each `c`, and `t + dot(xs, cs)`.
    """
    if not has_loops(graph):
        return graph

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_repeat(node):
            return again(node, operands, batch_products)
        return _Products(Repeated.of(node, operands, batch_products(node.attrs["body"]))).record()

    return rebuild(graph, visit)


@record
class _Moved:
    """A product that leaves a loop."""

    place: int  # of a result of the loop's body
    product: Node
    path: list[Node]  # from the product to this result
    add: Node | None = None  # adds the product to a carried sum


class _Products:
    def __init__(self, loop: Repeated) -> None:
        self.loop, self.body = loop, loop.body
        self.uses = Counter([*(a for n in self.body.nodes for a in n.args), *self.body.results])
        # what is the same in each round, or known of all rounds: its value out of the loop
        self.constants = dict(zip(self.body.params, loop.constants, strict=False))
        self.rows = dict(zip(loop.row_params, loop.rows, strict=True))

    def record(self) -> list[Value]:
        """Record the loop with its batched products before and after it."""
        if self.loop.node.attrs["length"] in (0, 1):
            return self.loop.record()
        self._move_early()
        moved = {found.place: found for found in (*self._sums(), *self._late())}
        kept = [i for i in range(len(self.body.results)) if i not in moved]
        read = [a for found in moved.values() for a in found.product.args]
        places = {self.body.results[i]: i for i in kept if i >= len(self.loop.carry)}
        stacks = [x for x in dict.fromkeys(read) if x not in self._known and x not in places]
        outputs = [*(self.body.results[i] for i in kept), *stacks]
        carry = [i for i in range(len(self.loop.carry)) if i in kept]
        inputs = [*self.constants, *(self.loop.carry_params[i] for i in carry), *self.rows]
        changed = replace(
            self.loop,
            body=rebuilt(self.body, inputs, outputs),
            carry=[self.loop.carry[i] for i in carry],
            rows=[*self.rows.values()],
        )
        made = changed.record()
        results = dict(zip(kept, made, strict=False))
        stacked = {x: results[i] for x, i in places.items()}
        stacked |= dict(zip(stacks, made[len(kept) :], strict=True))
        for place, found in moved.items():
            results[place] = self._after(found, self.rows | stacked)
        return [results[i] for i in range(len(self.body.results))]

    @property
    def _known(self) -> dict[Value, Value]:
        return self.constants | self.rows

    # -- before the loop -------------------------------------------------------------------------

    def _move_early(self) -> None:
        """Hoist products of rows and constants, whose results become rows of the loop."""
        in_turn = reached(self.body, self.loop.carry_params)
        of_rows = reached(self.body, self.loop.row_params)
        for node in self.body.nodes:
            if not isinstance(node.op.rules.body, Contract):
                continue
            if node.result in in_turn or node.result not in of_rows or not self._is_narrow(node):
                continue
            if not self._fits([node.result]):
                continue
            cone = live_nodes(self.body, [node.result], set(self._known))
            if all(n is node or isinstance(n.op.rules.body, INLINE) for n in cone):
                self.rows[node.result] = self._of_all_rounds(cone)

    def _of_all_rounds(self, cone: Sequence[Node]) -> Value:
        """Record nodes batched over all rounds, and give the last one's result."""
        table = {x: (outer, False) for x, outer in self.constants.items()}
        table |= {x: (outer, True) for x, outer in self.rows.items()}
        for node in cone:
            results, is_batched = _batched(node, [table[a] for a in node.args])
            table.update((r, (x, is_batched)) for r, x in zip(node.results, results, strict=True))
        return table[cone[-1].result][0]

    def _is_narrow(self, product: Node) -> bool:
        """Whether a constant of the loop is multiplied by few rows in each round."""
        flags = [a in self.constants for a in product.args]
        if sum(flags) != 1:
            return False
        side = flags.index(False)
        axes = product.op.rules.body.axes([a.type for a in product.args], **product.attrs)
        inner = {*axes[0][side], *axes[1][side]}
        shape = product.args[side].shape
        return math.prod(likely(n) for i, n in enumerate(shape) if i not in inner) <= MOST_ROWS

    # -- after the loop --------------------------------------------------------------------------

    def _sums(self) -> list[_Moved]:
        """Carried sums: values to which each round adds a product, not read otherwise."""
        found = []
        for place, param in enumerate(self.loop.carry_params):
            add = self.body.results[place].node
            if add is None or self.uses[param] != 1 or self.uses[add.results[0]] != 1:
                continue
            if add.op.rules.body != Pointwise("add") or param not in add.args:
                continue
            product, path = self._product(next(a for a in add.args if a is not param))
            if (
                product is not None
                and product.op.rules.total is not None
                and self._is_large(product)
            ):
                found.append(_Moved(place, product, path, add))
        return found

    def _is_large(self, product: Node) -> bool:
        """Whether a product is larger than the operands stacked to compute it later."""
        if any(a in self.constants for a in product.args):
            return False
        new = self._new(product)
        is_larger = sum(likely(a.type.size) for a in new) <= likely(product.result.type.size)
        return is_larger and self._fits(new)

    def _new(self, product: Node) -> set[Value]:
        """The operands that must be stacked for a product after the loop."""
        stacked = self.body.results[len(self.loop.carry) :]
        return {a for a in product.args if a not in self._known and a not in stacked}

    def _fits(self, values: Collection[Value]) -> bool:
        """Whether the stacked values of all rounds fit the memory limit."""
        size = sum(likely(x.type.size) for x in values)
        return likely(self.loop.node.attrs["length"]) * size <= MOST_KEPT

    def _late(self) -> list[_Moved]:
        """Stacked products with a loop constant that no round reads."""
        found = []
        for place in range(len(self.loop.carry), len(self.body.results)):
            product, path = self._product(self.body.results[place])
            if product is None or not self._is_narrow(product):
                continue
            if self._fits(self._new(product)):
                found.append(_Moved(place, product, path))
        return found

    def _product(self, value: Value) -> tuple[Node | None, list[Node]]:
        """The product behind a value and its movement, if nothing else reads it."""
        path: list[Node] = []
        while self.uses[value] == 1 and value.node is not None and value not in self.rows:
            node = value.node
            body = node.op.rules.body
            if isinstance(body, Contract) and is_pure(node):
                return node, path[::-1]
            if not isinstance(body, Move | View) or len(node.args) != 1:
                break
            path.append(node)
            (value,) = node.args
        return None, []

    def _after(self, found: _Moved, rows: dict[Value, Value]) -> Value:
        """Record a product after the loop, given the stacked values of all rounds."""
        product = found.product
        args = [(rows[a], True) if a in rows else (self._known[a], False) for a in product.args]
        if found.add is None:
            (made,), _ = _batched(product, args)
            for node in found.path:
                (made,), _ = _batched(node, [(made, True)])
            return made
        with at(product.source):
            total = product.op.rules.total
            assert total is not None, "only such products are found"
            made = total(*(x for x, _ in args), **product.attrs)
            for node in found.path:
                (made,) = node.op.apply([made], node.attrs)
        start = self.loop.carry[found.place]
        if uniform(start) == 0:  # the sum begins with 0 by itself
            return made
        with at(found.add.source):
            return found.add.op.apply([start, made], found.add.attrs)[0]


def _batched(node: Node, args: Sequence[tuple[Value, bool]]) -> tuple[Sequence[Value], bool]:
    """Record a node on operands of which some are batched over all rounds."""
    values, flags = [x for x, _ in args], [flag for _, flag in args]
    with at(node.source):
        if not any(flags):
            return node.op.apply(values, node.attrs), False
        rule = node.op.rules.batch
        assert rule is not None, "only such nodes are found"
        results = rule(values, flags, **node.attrs)
    return (results if isinstance(results, tuple | list) else (results,)), True


# -- let loops do less in each round ---------------------------------------------------------------


def lighten_loops(graph: Graph) -> Graph:
    """Optimize loops: invariant code motion, dead carries, batched products.

    before: `scan(w, c, xs, body=(w, c, x) -> sin(c) + dot(x, transpose(w)))`; after: `ys = dot(xs,
    transpose(w))`, then `scan(c, ys, body=(c, y) -> sin(c) + y)`.
    """
    return trim_loops(batch_products(trim_loops(hoist(graph))))
