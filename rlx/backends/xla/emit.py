"""The table of the xla device: what each op is in JAX, one line an op.

An op without a row is written in simpler ops by its room; if there are none it runs on the host as
its NumPy reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ...ir.graph import Graph
from ..graph_table.row import Row, Table
from . import emit_elements, emit_matrices, emit_places, emit_sums
from .emit_control import Run, control_rows

ROWS: dict[str, Row] = {
    **emit_elements.ROWS,
    **emit_places.ROWS,
    **emit_sums.ROWS,
    **emit_matrices.ROWS,
}


def table_of(run: Run) -> Table:
    """The rows of all ops; `run(graph, arrays)` replays a nested graph."""
    return Table({**ROWS, **control_rows(run)}, jnp.asarray, "xla")


def _runs_nothing(graph: Graph, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    raise AssertionError("this table only tells which ops have rows")


TABLE = table_of(_runs_nothing)
