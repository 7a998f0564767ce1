"""A nested graph that runs over the rows of arrays: scan."""

from __future__ import annotations

from collections.abc import Sequence
from operator import and_
from typing import Any

import numpy as np

from ..body import Repeat
from ..builder import build, inline
from ..errors import ShapeError
from ..graph import OPS, Graph, Value
from ..interpret import interpret
from ..op import define, is_linear
from ..rules import batch_size, spread_those
from ..types import Type, as_dtype
from .control import (
    check_carry,
    check_operands,
    cut_groups,
    filled,
    interleaved,
    permuted,
    pick,
    settled,
    weave,
    with_tangents,
    zeros_like,
)
from .trigonometric import sin


@define
def scan(
    *operands: Type,
    body: Graph,
    n_constants: int = 0,
    n_carry: int = 0,
    length: int,
    reverse: bool = False,
) -> Any:
    """Run `body` over the rows of arrays, carrying values from one row to the next.

    Operands: constants, first carried values, then arrays whose axis 0 has `length` rows. Results:
    the last carried values, then the stacked further results of the body.
    """
    constants, carry, rows = cut_groups(operands, n_constants, n_carry)
    for i, x in enumerate(rows):
        if x.rank == 0 or x.shape[0] != length:
            raise ShapeError(
                f"array {i} is {x}, but the scan has length {length}",
                fix="scan over arrays whose first axis has the same size",
            )
    rows = [x.with_shape(x.shape[1:]) for x in rows]
    check_operands([*constants, *carry, *rows], body, "the body")
    check_carry(carry, body.result_types[:n_carry])
    return (*carry, *(y.with_shape((length, *y.shape)) for y in body.result_types[n_carry:]))


@scan.reference
def scan_reference(*operands, body, n_constants, n_carry, length, reverse):
    constants, carry, arrays = cut_groups(operands, n_constants, n_carry)
    stacked = [np.zeros((length, *y.shape), y.dtype) for y in body.result_types[n_carry:]]
    for i in reversed(range(length)) if reverse else range(length):
        results = interpret(body, [*constants, *carry, *(x[i] for x in arrays)])
        carry = results[:n_carry]
        for store, row in zip(stacked, results[n_carry:], strict=True):
            store[i] = row
    return (*carry, *stacked)


scan.body(Repeat())
scan.rules.multiple = True


@scan.jvp
def scan_jvp(jvp_graph, primals, tangents, *, body, n_constants, n_carry, length, reverse):
    active = [t is not None for t in tangents]
    constant_active, carry_active, row_active = cut_groups(active, n_constants, n_carry)
    n_stacked = len(body.results) - n_carry
    carry_active, natural = settled(
        carry_active, lambda flags: jvp_graph(body, constant_active + flags + row_active)[1]
    )
    wanted = carry_active + list(natural[n_carry:])
    pushed, out_active = jvp_graph(body, constant_active + carry_active + row_active, wanted)
    pushed = permuted(
        pushed,
        interleaved(
            [n_constants, n_carry, len(row_active)], constant_active + carry_active + row_active
        ),
        interleaved([n_carry, n_stacked], out_active),
    )
    constants, carry, rows = cut_groups(primals, n_constants, n_carry)
    constant_tangents, carry_tangents, row_tangents = cut_groups(tangents, n_constants, n_carry)
    moving = pick(filled(carry_tangents, carry), carry_active)
    given = [t for t in constant_tangents if t is not None]
    results = scan(
        *[*constants, *given, *carry, *moving, *rows, *(t for t in row_tangents if t is not None)],
        body=pushed,
        n_constants=n_constants + len(given),
        n_carry=n_carry + len(moving),
        length=length,
        reverse=reverse,
    )
    last, last_tangents, ys, y_tangents = cut_groups(results, n_carry, len(moving), n_stacked)
    return with_tangents([*last, *ys, *last_tangents, *y_tangents], wanted)


@scan.transpose
def scan_transpose(transpose_graph, ct, *args, body, n_constants, n_carry, length, reverse):
    """Run backwards: carry the cotangents of linear constants and carried values."""
    constants, carry, rows = cut_groups(args, n_constants, n_carry)
    # a carried value that is known here starts at zero: what stays known was split off before
    is_carry = [n_constants <= i < n_constants + n_carry for i in range(len(args))]
    linear = [is_linear(a) or is_carried for a, is_carried in zip(args, is_carry, strict=True)]
    linear_constants = [c for c in constants if is_linear(c)]
    known_constants = [c for c in constants if not is_linear(c)]
    known_rows = [x for x in rows if not is_linear(x)]
    ct_active = [c is not None for c in ct[n_carry:]]
    pulled = transpose_graph(body, linear, [True] * n_carry + ct_active)
    # pulled takes known constants, known rows, cts of carry, cts of active stacked results
    stack_types = pick([y.type for y in body.results[n_carry:]], ct_active)
    sum_types = [c.type for c in linear_constants]
    carry_types = [c.type for c in carry]
    row_types = [x.type.with_shape(x.shape[1:]) for x in known_rows]

    def step(*xs: Value) -> list[Value]:
        known, sums, ct_carry, row, ct_row = cut_groups(
            xs, len(known_constants), len(sum_types), n_carry, len(row_types)
        )
        results = inline(pulled, [*known, *row, *ct_carry, *ct_row])
        new_sums, new_carry, ct_rows = cut_groups(results, len(sum_types), n_carry)
        added = [a + b for a, b in zip(sums, new_sums, strict=True)]
        return [*added, *new_carry, *ct_rows]

    types = [*[c.type for c in known_constants], *sum_types, *carry_types, *row_types, *stack_types]
    results = scan(
        *known_constants,
        *[zeros_like(t) for t in sum_types],
        *filled(ct[:n_carry], carry_types),
        *known_rows,
        *[c for c in ct[n_carry:] if c is not None],
        body=build(step, types, body.name),
        n_constants=len(known_constants),
        n_carry=len(sum_types) + n_carry,
        length=length,
        reverse=not reverse,
    )
    return weave(linear, results, [None] * len(args))


@scan.batch
def scan_batch(batch_graph, args, batched, *, body, n_constants, n_carry, length, reverse):
    size = batch_size(args, batched)
    constants, carry, rows = cut_groups(args, n_constants, n_carry)
    constant_batched, carry_batched, row_batched = cut_groups(batched, n_constants, n_carry)
    carry_wanted, natural = settled(
        carry_batched,
        lambda flags: batch_graph(body, constant_batched + flags + row_batched, size)[1],
    )
    wanted = carry_wanted + list(natural[n_carry:])
    step, _ = batch_graph(body, constant_batched + carry_wanted + row_batched, size, wanted)
    carry = spread_those(carry, carry_batched, size, carry_wanted)
    rows = [_swap(x) if is_there else x for x, is_there in zip(rows, row_batched, strict=True)]
    results = scan(
        *[*constants, *carry, *rows],
        body=step,
        n_constants=n_constants,
        n_carry=n_carry,
        length=length,
        reverse=reverse,
    )
    full = spread_those(results, wanted, size)
    return full[:n_carry] + [
        _swap(r) if is_there else r
        for r, is_there in zip(full[n_carry:], wanted[n_carry:], strict=True)
    ]


def _swap(x: Value) -> Value:
    """Exchange the first two axes."""
    return OPS["transpose"](x, axes=(1, 0, *range(2, x.rank)))


@scan.split
def scan_split(split_graph, args, known, *, body, n_constants, n_carry, length, reverse):
    constant_known, carry_known, row_known = cut_groups(known, n_constants, n_carry)
    carry_known, natural = settled(
        carry_known,
        lambda flags: split_graph(body, constant_known + flags + row_known).out_known,
        and_,
    )
    out_known = carry_known + list(natural[n_carry:])
    body_known = constant_known + carry_known + row_known
    parts = split_graph(body, body_known, out_known)
    constants, carry, rows = cut_groups(args, n_constants, n_carry)
    count, carry_count = sum(out_known), sum(carry_known)
    # a residual that is a constant of the scan is the same in every step: not stacked
    known_constants = pick(constants, constant_known)
    invariant = dict(zip(parts.known.params, known_constants, strict=False))
    residuals = parts.known.results[count:]
    is_fixed = [r in invariant for r in residuals]
    stacked = [count + i for i, fixed in enumerate(is_fixed) if not fixed]
    kept = permuted(parts.known, range(len(parts.known.params)), [*range(count), *stacked])
    attrs: dict[str, Any] = {"length": length, "reverse": reverse}
    first = scan(
        *pick(constants, constant_known),
        *pick(carry, carry_known),
        *pick(rows, row_known),
        body=kept,
        n_constants=sum(constant_known),
        n_carry=carry_count,
        **attrs,
    )
    fixed = [invariant[r] for r in pick(residuals, is_fixed)]
    unknown_constants = pick(constants, constant_known, False)
    unknown_carry = pick(carry, carry_known, False)
    unknown_rows = pick(rows, row_known, False)
    second = scan(
        *[*fixed, *unknown_constants, *unknown_carry, *first[count:], *unknown_rows],
        body=_regrouped(parts.unknown, is_fixed, len(unknown_constants), len(unknown_carry)),
        n_constants=len(fixed) + len(unknown_constants),
        n_carry=len(unknown_carry),
        **attrs,
    )
    return weave(out_known, first[:count], second)


def _regrouped(graph: Graph, is_fixed: Sequence[bool], n_constants: int, n_carry: int) -> Graph:
    """Reorder the parameters to residuals, constants, carry, residuals, rows.

    The first residuals are fixed, the second ones stacked.
    """
    n = len(is_fixed)
    places = list(range(len(graph.params)))
    residuals, constants, carry, rows = cut_groups(places, n, n_constants, n_carry)
    order = [
        *pick(residuals, is_fixed),
        *constants,
        *carry,
        *pick(residuals, is_fixed, False),
        *rows,
    ]
    return permuted(graph, order, range(len(graph.results)))


def _step(c: Value, s: Value, x: Value) -> list[Value]:
    following = s * c + sin(x)
    return [following, following * x]


_NUMBER = Type(as_dtype("float64"))
_BODY = build(_step, [_NUMBER] * 3, "step")
scan.samples((), (), (4,), body=_BODY, n_constants=1, n_carry=1, length=4)
scan.samples((), (), (4,), body=_BODY, n_constants=1, n_carry=1, length=4, reverse=True)
scan.samples(
    np.float64(0.0),
    [1.0, 2.0, 3.0],
    body=build(lambda s, x: [s + x, s], [_NUMBER] * 2, "total"),
    n_carry=1,
    length=3,
    expect=[6.0, [0.0, 1.0, 3.0]],
)
