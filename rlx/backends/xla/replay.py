"""Graphs run op by op in JAX, which records what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import jax

from ...ir.errors import RlxError, UnsupportedOp
from ...ir.graph import Graph, Node
from .emit import table_of
from .host import HostCalls


@dataclass
class Replay:
    """Runs graphs while JAX records.

    Nodes without a row run on the host: `host` makes these calls, `left` counts them.
    """

    host: HostCalls = field(default_factory=HostCalls)
    left: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._table = table_of(self.run)

    def run(self, graph: Graph, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """The results of a graph for arrays of its parameters."""
        known = dict(zip(graph.params, arrays, strict=True))
        for node in graph.nodes:
            results = self._results(node, [known[a] for a in node.args])
            known.update(zip(node.results, results, strict=True))
        return [known[r] for r in graph.results]

    def _results(self, node: Node, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if not self._table.takes(node):
            return self._on_host(node, arrays)
        try:
            made = self._table.rows[node.op.name].emit(*arrays, **node.attrs)
        except RlxError:
            raise
        except (TypeError, ValueError, NotImplementedError) as error:
            raise _refused(node, f"JAX refuses it: {error}".partition("\n")[0]) from error
        results = made if isinstance(made, tuple | list) else (made,)
        for result, value in zip(results, node.results, strict=True):
            found = (result.dtype, result.shape)
            assert found == (value.dtype, value.shape), f"{node.op.name}: {found}, not {value.type}"
        return results

    def _on_host(self, node: Node, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if node.graphs or "reference" not in node.op.rules:
            raise _refused(node, f"there is no row {node.op.name!r} in rlx/backends/xla/emit.py")
        self.left[node.op.name] += 1
        return self.host.call(node, arrays)


def _refused(node: Node, why: str) -> UnsupportedOp:
    return UnsupportedOp(
        f"{node.op.name}: xla cannot run it: {why}",
        where=str(node.source),
        notes=[f"operands: {', '.join(str(a.type) for a in node.args)}"],
        fix="run this function on the cpu, or move the op out of the compiled function",
    )
