"""Graphs run op by op in JAX, which records what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax

from ...ir.graph import Graph, Node
from ..graph_table.walk import computed, refused
from .emit import TABLE, table_of
from .host import HostCalls


@dataclass
class Replay:
    """Runs graphs while JAX records.

    Nodes without a row run on the host: `host` makes these calls for the run of this `number`.
    """

    host: HostCalls
    number: jax.Array | None

    def __post_init__(self) -> None:
        self._table = table_of(self.run)

    def run(self, graph: Graph, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """The results of a graph for arrays of its parameters."""
        known = dict(zip(graph.params, arrays, strict=True))
        for node in graph.nodes:
            results = self._results(node, [known[a] for a in node.args])
            found = [(x.dtype, x.shape) for x in results]
            wanted = [(value.dtype, value.shape) for value in node.results]
            assert found == wanted, f"{node.op.name}: {found}, not {wanted}"
            known.update(zip(node.results, results, strict=True))
        return [known[r] for r in graph.results]

    def _results(self, node: Node, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if self._table.takes(node):
            return computed(node, self._table, arrays)
        if node.graphs or node.op.rules.reference is None:
            why = f"there is no row {node.op.name!r} in rlx/backends/xla/emit.py"
            raise refused(node, self._table.device, why)
        assert self.number is not None
        return self.host.call(node, arrays, self.number)


def calls_python(graph: Graph) -> bool:
    """Whether some nodes of a graph run on the host."""
    return not all(map(TABLE.takes, graph.walk()))
