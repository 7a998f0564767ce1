"""The table of the xla device: what each op is in JAX, one line an op.

An op without a row is written in simpler ops by its room; if there are none it runs on the host as
its NumPy reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...ir.graph import Graph
from ...ir.ops.control import cut_groups
from ..graph_table import Row, Table
from . import emit_elements, emit_places, emit_sums

Run = Callable[[Graph, Sequence[jax.Array]], list[jax.Array]]  # replays a graph


def control_rows(run: Run) -> dict[str, Row]:
    """The rows of ops that run graphs."""

    def cond(index: jax.Array, *xs: jax.Array, branches: Sequence[Graph]) -> Any:
        return lax.switch(index, [_function(run, graph) for graph in branches], *xs)

    def while_loop(
        *xs: jax.Array, condition: Graph, body: Graph, n_condition: int, n_body: int
    ) -> Any:
        ours, theirs, carry = cut_groups(xs, n_condition, n_body)
        return lax.while_loop(
            lambda state: run(condition, [*ours, *state])[0],
            lambda state: run(body, [*theirs, *state]),
            carry,
        )

    def scan(
        *xs: jax.Array, body: Graph, n_constants: int, n_carry: int, length: int, reverse: bool
    ) -> Any:
        constants, carry, rows = cut_groups(xs, n_constants, n_carry)

        def step(state: list[jax.Array], row: list[jax.Array]) -> tuple[list, list]:
            results = run(body, [*constants, *state, *row])
            return results[:n_carry], results[n_carry:]

        last, stacked = lax.scan(step, carry, rows, length=length, reverse=reverse)
        return [*last, *stacked]

    def checkpoint(*xs: jax.Array, graph: Graph, recompute: bool, **attrs: Any) -> Any:
        # behind the barrier XLA does not see that a second run computes what the first one did
        return run(graph, lax.optimization_barrier(xs) if recompute and xs else xs)

    rows = {"cond": cond, "while_loop": while_loop, "scan": scan, "checkpoint": checkpoint}
    return {name: Row(row) for name, row in rows.items()}


def _function(run: Run, graph: Graph) -> Callable[..., list[jax.Array]]:
    return lambda *xs: run(graph, xs)


ROWS: dict[str, Row] = {
    **emit_elements.ROWS,
    **emit_places.ROWS,
    **emit_sums.ROWS,
}


def table_of(run: Run) -> Table:
    """The rows of all ops; `run(graph, arrays)` replays a nested graph."""
    return Table({**ROWS, **control_rows(run)}, jnp.asarray, "xla")


def _runs_nothing(graph: Graph, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    raise AssertionError("this table only tells which ops have rows")


TABLE = table_of(_runs_nothing)
