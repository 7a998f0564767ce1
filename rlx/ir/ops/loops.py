"""A nested graph that runs as long as a condition holds: while_loop."""

from __future__ import annotations

from collections.abc import Sequence
from operator import and_
from typing import Any

import numpy as np

from ..body import While
from ..builder import build, inline, rewrite
from ..errors import DtypeError, GradientError
from ..graph import OPS, Graph, Node, Value
from ..interpret import interpret
from ..number_check import asked
from ..op import define, live_nodes
from ..rules import batch_size, spread_those
from ..types import Type, as_dtype
from .compare import lt
from .control import (
    check_carry,
    check_operands,
    cut_groups,
    filled,
    interleaved,
    only_of,
    permuted,
    pick,
    settled,
    weave,
    with_tangents,
)


@define
def while_loop(
    *operands: Type, condition: Graph, body: Graph, n_condition: int = 0, n_body: int = 0
) -> Any:
    """Run `body` on carried values as long as `condition` holds.

    Operands: constants of the condition, constants of the body, then the carried values.
    """
    ours, theirs, carry = cut_groups(operands, n_condition, n_body)
    check_operands([*ours, *carry], condition, "the condition")
    check_operands([*theirs, *carry], body, "the body")
    if condition.result_types != (Type(as_dtype("bool")),):
        raise DtypeError(
            f"the condition gives {condition.result_types[0]}, not bool[]",
            fix="return one boolean from the condition",
        )
    check_carry(carry, body.result_types)
    return tuple(carry)


@while_loop.reference
def while_loop_reference(*operands, condition, body, n_condition, n_body):
    ours, theirs, carry = cut_groups(operands, n_condition, n_body)
    while interpret(condition, [*ours, *carry])[0]:
        carry = interpret(body, [*theirs, *carry])
    return tuple(carry)


while_loop.body(While())
while_loop.rules.multiple = True


@while_loop.jvp
def while_loop_jvp(jvp_graph, primals, tangents, *, condition, body, n_condition, n_body):
    ours, theirs, carry = cut_groups(primals, n_condition, n_body)
    _, their_tangents, carry_tangents = cut_groups(tangents, n_condition, n_body)
    constant_active = [t is not None for t in their_tangents]
    active = [t is not None for t in carry_tangents]
    active, _ = settled(active, lambda flags: jvp_graph(body, constant_active + flags)[1])
    pushed, _ = jvp_graph(body, constant_active + active, active)
    every = [t is not None for t in their_tangents] + active
    pushed = permuted(
        pushed,
        interleaved([n_body, len(carry)], every),
        interleaved([len(carry)], active),
    )
    extended = build(
        lambda *xs: inline(condition, xs[: len(condition.params)]),
        [*condition.param_types, *pick([c.type for c in carry], active)],
        condition.name,
    )
    moving = pick(filled(carry_tangents, carry), active)
    given = [t for t in their_tangents if t is not None]
    results = while_loop(
        *[*ours, *theirs, *given, *carry, *moving],
        condition=extended,
        body=pushed,
        n_condition=n_condition,
        n_body=n_body + len(given),
    )
    return with_tangents(results, active)


@while_loop.transpose
def while_loop_transpose(transpose_graph, ct, *args, **attrs):
    raise GradientError(
        "while_loop: reverse mode needs the number of steps, which a while loop does not know",
        fix="give an upper bound, while_loop(..., max_steps=n), use rlx.scan, or "
        "rlx.fori_loop with bounds that are Python numbers or static arguments",
    )


@while_loop.split
def while_loop_split(split_graph, args, known, *, condition, body, n_condition, n_body):
    """Run what is known by itself, and everything once more for the rest."""
    counts = (n_condition, n_body)
    our_known, their_known, carry_known = cut_groups(known, *counts)
    carry_known, _ = settled(
        carry_known, lambda flags: split_graph(body, their_known + flags).out_known, and_
    )
    attrs = {"n_condition": n_condition, "n_body": n_body}
    test = split_graph(condition, our_known + carry_known)
    if not test.out_known[0] or not any(carry_known):
        return while_loop(*args, condition=condition, body=body, **attrs)
    # what the first run does besides computing is not done once more
    quiet = {"condition": _needed(condition), "body": _needed(body)}
    everything = while_loop(*args, **quiet, **attrs)
    ours, theirs, carry = cut_groups(args, *counts)
    step = split_graph(body, their_known + carry_known, carry_known)
    early = while_loop(
        *pick(ours, our_known),
        *pick(theirs, their_known),
        *pick(carry, carry_known),
        condition=_first(test.known, 1),
        body=_first(step.known, sum(carry_known)),
        n_condition=sum(our_known),
        n_body=sum(their_known),
    )
    return weave(carry_known, early, pick(everything, carry_known, False))


def _needed(graph: Graph) -> Graph:
    """The graph without nodes its results do not need, whatever these do."""
    live = set(live_nodes(graph, with_effects=False))

    def visit(node: Node, args: list[Value]) -> Sequence[Value]:
        return node.op.apply(args, node.attrs) if node in live else node.results

    return build(lambda *xs: rewrite(graph, xs, visit), graph.param_types, graph.name)


def _first(graph: Graph, count: int) -> Graph:
    """The graph without the results after the first ones."""
    return permuted(graph, range(len(graph.params)), range(count))


@while_loop.batch
def while_loop_batch(batch_graph, args, batched, *, condition, body, n_condition, n_body):
    size = batch_size(args, batched)
    ours, theirs, carry = cut_groups(args, n_condition, n_body)
    our_batched, their_batched, carry_batched = cut_groups(batched, n_condition, n_body)

    def after(flags: list[bool]) -> list[bool]:
        _, (is_batched,) = batch_graph(condition, our_batched + flags, size)
        if is_batched:  # each member goes on by itself
            return [True] * len(flags)
        return batch_graph(body, their_batched + flags, size)[1]

    wanted, _ = settled(carry_batched, after)
    test, (test_batched,) = batch_graph(condition, our_batched + wanted, size)
    step, _ = batch_graph(body, their_batched + wanted, size, wanted)
    carry = spread_those(carry, carry_batched, size, wanted)
    extra: list[Value] = []
    if test_batched:
        flags = their_batched + wanted
        test, step = _masked_loop(test, step, ours, theirs, carry, flags)
        extra = ours
    results = while_loop(
        *[*ours, *extra, *theirs, *carry],
        condition=test,
        body=step,
        n_condition=n_condition,
        n_body=n_body + len(extra),
    )
    return spread_those(results, wanted, size)


def _masked_loop(
    test: Graph, step: Graph, ours, theirs, carry, batched: Sequence[bool]
) -> tuple[Graph, Graph]:
    """A batched loop, which goes on while any member does.

    Members that are done keep their values; `batched` tells of the operands of a step.
    """
    types = [[x.type for x in group] for group in (ours, theirs, carry)]

    def any_goes_on(*xs: Value) -> Value:
        return OPS["reduce_or"](inline(test, xs)[0], axes=(0,))

    def step_those(*xs: Value) -> list[Value]:
        for_test, for_step, state = cut_groups(xs, len(ours), len(theirs))
        goes_on = inline(test, [*for_test, *state])[0]
        operands = [*for_step, *state]
        moved = inline(step, only_of(goes_on, operands, batched) if asked() else operands)
        return [
            OPS["select"](OPS["broadcast"](goes_on, shape=new.shape, axes=(0,)), new, old)
            for new, old in zip(moved, state, strict=True)
        ]

    return (
        build(any_goes_on, [*types[0], *types[2]], test.name),
        build(step_those, [*types[0], *types[1], *types[2]], step.name),
    )


_NUMBER = Type(as_dtype("float64"))
while_loop.samples(
    np.float64(20.0),
    np.float64(1.5),
    condition=build(lambda limit, x: [lt(x, limit)], [_NUMBER, _NUMBER], "below"),
    body=build(lambda x: [x * 2.0], [_NUMBER], "double"),
    n_condition=1,
    expect=[24.0],
)
