"""Complex numbers as pairs of real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ...ir.body import AsParts, Concat, Gather, Move, Reduce, Scan, Scatter, View
from ...ir.graph import Graph, Node, Value
from ...ir.op import Parts, each_part
from ...ir.ops.complex_parts import parts_of, whole_of
from ...ir.types import is_complex
from .rebuild import again, rebuild

MOVES = (View, Move, Concat, Gather)
Computes: TypeAlias = Callable[[np.dtype], bool]
Takes: TypeAlias = Callable[[Node], bool]


def _takes_none(node: Node) -> bool:
    return False


def split_complex(
    graph: Graph, computes: Computes, takes: Takes = _takes_none, batch_invariant: bool = False
) -> Graph:
    """Rewrite ops on complex numbers as ops on real and imaginary parts.

    before: `y = mul(a, b)`; after: `re = a.re * b.re - a.im * b.im`, `im` alike, and
    `y = complex(re, im)` where something needs y whole: results, nested graphs, library calls.
    Vanish: ops with a `parts` rule on complex operands; those that only move or add up numbers.
    Dtypes that a target `computes` and nodes that it `takes` stay. If it is `batch_invariant`,
    no rule looks at sizes.
    """

    def is_split(node: Node) -> bool:
        return not takes(node) and _is_split(node, computes)

    if not any(map(is_split, graph.walk())):
        return graph
    known: dict[Value, Parts] = {}

    def parts(x: Value) -> Parts:
        if x not in known:
            known[x] = parts_of(x)
        return known[x]

    def whole(made: Value | Parts) -> Value:
        if isinstance(made, Value):
            return made
        value = whole_of(made)
        known[value] = made
        return value

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_split(node):
            return again(
                node, operands, lambda g: split_complex(g, computes, takes, batch_invariant)
            )
        rules = node.op.rules
        rule = (
            (rules.invariant_parts if batch_invariant else None)
            or rules.parts
            or each_part(node.op)
        )
        made = rule(*(parts(x) if is_complex(x.dtype) else x for x in operands), **node.attrs)
        is_one = isinstance(made, Value | Parts)
        return [whole(made)] if is_one else [whole(each) for each in made]

    return rebuild(graph, visit)


def _is_split(node: Node, computes: Computes) -> bool:
    """Whether a node is rewritten as ops on parts."""
    dtypes = [v.dtype for v in (*node.args, *node.results)]
    if not any(is_complex(dtype) and not computes(dtype) for dtype in dtypes):
        return False
    return node.op.rules.parts is not None or _is_alike_for_both(node.op.rules.body)


def _is_alike_for_both(body: object) -> bool:
    """Whether a body treats the real and the imaginary part independently."""
    if isinstance(body, AsParts):
        return False
    if isinstance(body, Scatter):
        return body.combine in ("set", "add")
    return isinstance(body, MOVES) or (isinstance(body, Reduce | Scan) and body.combine == "add")
