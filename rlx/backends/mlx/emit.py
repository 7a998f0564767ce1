"""How MLX computes each op: one row an op, by families."""

from __future__ import annotations

from ..graph_table import Row
from . import arithmetic, conversion, functions, indexing, layers, movement, products, reductions

FAMILIES = (
    arithmetic,
    functions,
    conversion,
    movement,
    reductions,
    indexing,
    products,
    layers,
)

ROWS: dict[str, Row] = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
