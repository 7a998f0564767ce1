"""How MIL computes each op: one row an op, by families."""

from __future__ import annotations

from ..graph_table import Row, Table
from . import control, elements, places, shapes
from .mil import mb

ROWS: dict[str, Row] = {**elements.ROWS, **shapes.ROWS, **places.ROWS}


def table() -> Table:
    """The rows of all ops, those with nested graphs among them."""
    rows = dict(ROWS)
    made = Table(rows, lambda array: mb.const(val=array), "ane")
    rows.update(control.rows(made))
    return made
