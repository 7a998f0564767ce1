"""Classes of work of ops, for precision policies and cost models.

An op may declare its class (`op.rules.work`); otherwise it follows from its body, or from the ops
in its expansion.
"""

from __future__ import annotations

from typing import Any

from ..ir.body import (
    Branch,
    Call,
    Concat,
    Contract,
    Fill,
    Gather,
    Move,
    Pointwise,
    Reduce,
    Repeat,
    Scan,
    Scatter,
    Sort,
    TopK,
    View,
    While,
)
from ..ir.builder import build
from ..ir.graph import Node
from ..ir.op import Op
from .lir.expr import INSTRUCTIONS

CONTRACTIONS, POINTWISE, TRANSCENDENTAL = "contractions", "pointwise", "transcendental"
REDUCTIONS, NORMALIZATIONS = "reductions", "normalizations"
MOVEMENT, EXACT, NESTED, CONVERT = "movement", "exact", "nested", "convert"
COSTLY = 10  # additions: div and sqrt cost less, all series more
ROUNDING = ("add", "mul")  # combinations that round; a maximum is one of its numbers


def work_class(node: Node) -> str:
    """The class of work of a node.

    `movement` gives numbers it was given, `exact` work is done in the dtypes it was written in
    (libraries, bits of numbers, complex parts), `nested` runs graphs, `convert` changes the dtype.
    """
    rules = node.op.rules
    if rules.work is not None:
        return rules.work
    if rules.body is not None:
        return _of_body(node.op, rules.body)
    return _of_expansion(node)


def _of_body(op: Op, body: Any) -> str:
    match body:
        case Pointwise(instruction="bitcast"):
            return EXACT
        case Pointwise(instruction="convert"):
            return CONVERT if "dtype" in op.attr_defaults else MOVEMENT
        case Pointwise(instruction=instruction):
            return TRANSCENDENTAL if INSTRUCTIONS[instruction][0] >= COSTLY else POINTWISE
        case Contract():
            return CONTRACTIONS
        case Reduce(combine=combine) | Scan(combine=combine) | Scatter(combine=combine):
            return REDUCTIONS if combine in ROUNDING else MOVEMENT
        case Call() | Branch() | While() | Repeat():
            return NESTED
    is_movement = type(body) in (View, Move, Concat, Gather, TopK, Sort, Fill)
    return MOVEMENT if is_movement else EXACT


def _of_expansion(node: Node) -> str:
    """The class of a composite: the one most sensitive to precision among its ops."""
    rule, types = node.op.rules.expand, [a.type for a in node.args]
    assert rule is not None, f"{node.op.name} is no composite"
    graph = build(lambda *xs: _listed(rule(*xs, **node.attrs)), types, node.op.name)
    found = {work_class(inner) for inner in graph.nodes}
    if found & {EXACT, NESTED}:
        return EXACT
    if CONTRACTIONS in found:
        return CONTRACTIONS
    if found & {REDUCTIONS, NORMALIZATIONS}:
        return NORMALIZATIONS
    return next((kind for kind in (TRANSCENDENTAL, POINTWISE) if kind in found), MOVEMENT)


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]
