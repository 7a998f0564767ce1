"""Compute nodes by the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

from ...ir.errors import RlxError, UnsupportedOp
from ...ir.graph import Node, Value
from .row import Table


def walk(nodes: Iterable[Node], table: Table, known: MutableMapping[Value, Any]) -> None:
    """Compute nodes in order, of the library's arrays of `known` values.

    Those of their results join these.
    """
    for node in nodes:
        results = computed(node, table, [known[a] for a in node.args])
        known.update(zip(node.results, results, strict=True))


def computed(node: Node, table: Table, arrays: Sequence[Any]) -> Sequence[Any]:
    """The library's arrays of a node.

    What the library refuses is an error that names op and line.
    """
    if node.op.is_constant:
        return [table.lift(node.attrs["value"].array)]
    try:
        results = table.rows[node.op.name].emit(*arrays, **node.attrs)
    except (RlxError, MemoryError):
        raise
    except Exception as error:
        raise refused(node, table.device, str(error).partition("\n")[0]) from error
    return results if isinstance(results, tuple | list) else (results,)


def refused(node: Node, device: str, why: str) -> UnsupportedOp:
    """The error that a device does not compute a node."""
    return UnsupportedOp(
        f"{node.op.name}: {device} cannot run it: {why}",
        where=str(node.source),
        notes=[f"operands: {', '.join(str(a.type) for a in node.args)}"],
        fix="run this function on the cpu, or move the op out of the compiled function",
    )
