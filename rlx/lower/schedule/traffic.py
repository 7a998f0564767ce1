"""Memory traffic: whether a large value costs less computed again than stored."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from ...ir.body import Gather, Pointwise, Reduce
from ...ir.dims import likely
from ...ir.graph import Graph, Node, Value
from ...ir.record import record
from ...ir.types import Size
from ..lir.expr import INSTRUCTIONS
from .rows import FEWEST_ROWS, LARGEST_ROW

CACHED = 1 << 23  # bytes: smaller arrays are still in a cache when the next kernel reads them
PER_BYTE = 3.0  # additions in the time of a byte from memory; of one in a cache, one per number
STORE_COST = 2  # in loads: the line is read before it is written

Site = tuple[Value, tuple[Node, ...]]  # the value whose kernel computes it, and the moves between


@record(frozen=False)
class Traffic:
    """What the kernels of a graph move and compute, in additions.

    `inline` are the values that can be computed in the kernels that read them.
    """

    graph: Graph
    inline: Collection[Value]

    def favors_again(self, value: Value, sites: Mapping[Site, float], stored: set[Value]) -> bool:
        """Whether computing a large value in each kernel that reads it beats storing it.

        A kernel that reads an operand of the value anyway has it for nothing.
        """
        if not is_far(value.type.nbytes) or any(stays_near(path) for _, path in sites):
            return False
        work, operands = self.behind([value], stored)
        once = work + sum(map(cost_to_read, operands)) + STORE_COST * cost_to_read(value)
        again = 0.0
        for roots, times in self.passes(sites):
            _, others = self.behind(roots, stored, without=value)
            once += cost_to_read(value)
            again += times * work + sum(map(cost_to_read, operands - others))
        return again < once

    def passes(self, sites: Mapping[Site, float]) -> Iterable[tuple[list[Value], float]]:
        """The roots of sites by kernel, and how often that computes each element.

        Those become one kernel that have the same loops, and no sum of one before the other. It
        computes an element again for each other way from there, through other slices, say.
        """
        roots, most = defaultdict(list), defaultdict[tuple, dict[tuple, float]](dict)
        for (root, path), times in sites.items():
            key = root.shape, self.levels[root], tuple(step.result.shape for step in path)
            way = tuple(map(_places, path))
            roots[key].append(root)
            most[key][way] = max(most[key].get(way, 0.0), times)
        return [(roots[key], sum(most[key].values())) for key in roots]

    @cached_property
    def levels(self) -> dict[Value, int]:
        """How many kernels in a row are behind each value, at the least."""
        found: dict[Value, int] = {}
        for node in self.graph.nodes:
            level = max((found.get(a, 0) for a in node.args), default=0)
            for result in node.results:
                ends = result not in self.inline or isinstance(node.op.rules.body, Reduce)
                found[result] = level + ends
        return found

    def behind(
        self, values: Iterable[Value], stored: set[Value], without: Value | None = None
    ) -> tuple[float, set[Value]]:
        """The work of computing values, and the arrays they are computed of.

        Nothing is computed twice. Work is infinite if it takes sums or computed places.
        """
        work, found, seen = 0.0, set[Value](), {without}
        stack = [(value, True) for value in values]
        while stack:
            value, is_root = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value not in self.inline or (value in stored and not is_root):
                found.add(value)
                continue
            assert value.node is not None, "parameters are not computed"
            body = value.node.op.rules.body
            if isinstance(body, Pointwise):
                work += INSTRUCTIONS[body.instruction][0] * likely(value.type.size)
            elif isinstance(body, Reduce | Gather):
                work = math.inf
            stack += ((a, False) for a in value.node.args)
        return work, found


def _places(step: Node) -> tuple:
    """Equal for moves that read the same places of an array."""
    return type(step.op.rules.body), *step.attrs.items(), *step.args[1:]


def is_far(nbytes: Size) -> bool:
    """Whether an array of so many bytes is read from memory, not from a cache."""
    return likely(nbytes) > CACHED


def cost_to_read(value: Value) -> float:
    """The cost of reading each number of an array once."""
    nbytes, size = likely(value.type.nbytes), likely(value.type.size)
    return nbytes * PER_BYTE if is_far(nbytes) else float(size)


def stays_near(path: Sequence[Node]) -> bool:
    """Whether a value on its way into a sum of rows may stay in a cache, row by row."""
    for node in path:
        if isinstance(node.op.rules.body, Reduce):
            (arg,) = node.args
            rows = math.prod(map(likely, arg.shape[: min(node.attrs["axes"], default=0)]))
            return rows >= FEWEST_ROWS and likely(arg.type.nbytes) <= rows * LARGEST_ROW
    return False
