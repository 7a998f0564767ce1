"""How MIL computes each op: one row an op, by families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from coremltools.converters.mil.mil import Var

from ...ir.graph import Graph, Value
from ...ir.ops.control import cut_groups
from ...ir.types import Type
from ..graph_table import Row, Table, walk
from . import elements, shapes
from .elements import mb, same

UNROLLED = 4096  # nodes of a loop written out round by round, which MIL has no other form for


def run(graph: Graph, arrays: Sequence[Var], table: Table) -> list[Var]:
    """The results of a graph, written to the open program."""
    known: dict[Value, Any] = dict(zip(graph.params, arrays, strict=True))
    walk(graph.nodes, table, known)
    return [known[r] for r in graph.results]


def _hidden(x: Var) -> Var:
    """The value as one that MIL does not take for a constant of every step."""
    made = same(x)
    made._sym_val = None
    return made


def control_rows(table: Table) -> dict[str, Row]:
    """The rows of ops with nested graphs, which are written by a table."""

    def cond(index: Var, *xs: Var, branches: Sequence[Graph]) -> Sequence[Var]:
        def chosen(first: int) -> tuple[Var, ...]:
            if first == len(branches) - 1:
                return tuple(map(same, run(branches[first], xs, table)))
            made = mb.cond(
                pred=mb.less_equal(x=index, y=np.int32(first)),
                _true_fn=lambda: tuple(map(same, run(branches[first], xs, table))),
                _false_fn=lambda: chosen(first + 1),
            )
            return tuple(made) if isinstance(made, tuple | list) else (made,)

        return chosen(0)

    def while_loop(
        *xs: Var, condition: Graph, body: Graph, n_condition: int, n_body: int
    ) -> Sequence[Var]:
        ours, theirs, carry = cut_groups(xs, n_condition, n_body)
        made = mb.while_loop(
            _cond=lambda *state: run(condition, [*ours, *state], table)[0],
            _body=lambda *state: tuple(map(same, run(body, [*theirs, *state], table))),
            loop_vars=tuple(map(_hidden, carry)),
        )
        return made if isinstance(made, tuple | list) else [made]

    def scan(
        *xs: Var, body: Graph, n_constants: int, n_carry: int, length: int, reverse: bool
    ) -> Sequence[Var]:
        constants, carry, arrays = cut_groups(xs, n_constants, n_carry)
        made: list[list[Var]] = []
        for i in reversed(range(length)) if reverse else range(length):
            given = [mb.gather(x=x, indices=np.int32(i), axis=0) for x in arrays]
            results = run(body, [*constants, *carry, *given], table)
            carry = results[:n_carry]
            made.append(results[n_carry:])
        made = made[::-1] if reverse else made
        return [
            *map(same, carry),
            *(mb.stack(values=each, axis=0) for each in zip(*made, strict=True)),
        ]

    def unrolls(types: Sequence[Type], *, body: Graph, length: int, **attrs: Any) -> bool:
        return 0 < length * len(body.nodes) <= UNROLLED

    return {"cond": Row(cond), "while_loop": Row(while_loop), "scan": Row(scan, takes=unrolls)}


ROWS: dict[str, Row] = {**elements.ROWS, **shapes.ROWS}


def table() -> Table:
    """The rows of all ops, those with nested graphs among them."""
    rows = dict(ROWS)
    made = Table(rows, lambda array: mb.const(val=array), "ane")
    rows.update(control_rows(made))
    return made
