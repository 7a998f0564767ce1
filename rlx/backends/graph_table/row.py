"""A table: how a library computes each op, one row an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...ir.graph import Node
from ...ir.types import DTYPES, NAMES, Type

Emit: TypeAlias = Callable[..., Any]
Takes: TypeAlias = Callable[..., bool]
EVERY_DTYPE = frozenset(DTYPES)


def _always(types: Sequence[Type], **attrs: Any) -> bool:
    return True


@dataclass(frozen=True)
class Row:
    """How a library computes an op, and when it can.

    `emit(*arrays, **attrs)` gives the array of the result, or a tuple of those of several. It is
    called where operands and results have `dtypes` (names) only and `takes(types, **attrs)`, of
    the operands' types, holds. Elsewhere the op is as one without a row.
    """

    emit: Emit
    dtypes: frozenset[str] = EVERY_DTYPE
    takes: Takes = _always


@dataclass(frozen=True)
class Table:
    """The rows of a device by the names of ops; `lift` makes its array of an ndarray."""

    rows: Mapping[str, Row]
    lift: Callable[[Any], Any]
    device: str = "the library"

    def takes(self, node: Node) -> bool:
        """Whether a row computes a node; constants need none."""
        if node.op.is_constant:
            return True
        row = self.rows.get(node.op.name)
        if row is None:
            return False
        if not all(NAMES[v.dtype] in row.dtypes for v in (*node.args, *node.results)):
            return False
        return row.takes([a.type for a in node.args], **node.attrs)
