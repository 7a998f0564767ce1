"""How MLX computes each op: one row an op, by families."""

from __future__ import annotations

from ...ir.record import replace
from ..graph_table import Row, Table
from . import arithmetic, functions, indexing, sums
from .memory import INTEGERS, to_mlx

FAMILIES = (arithmetic, functions, indexing, sums)
ROWS: dict[str, Row] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
# products of integers are made of those of float64, which GPUs lack
ON_GPUS = {
    "dot_general": replace(ROWS["dot_general"], dtypes=ROWS["dot_general"].dtypes - INTEGERS)
}


def table_of(device: str, is_gpu: bool) -> Table:
    """The rows for a device of MLX."""
    return Table({**ROWS, **ON_GPUS} if is_gpu else ROWS, to_mlx, device)
