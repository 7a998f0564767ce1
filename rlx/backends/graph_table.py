"""Graph backends: graphs computed by a library of array functions, by a table.

A table has a row for each op that the library computes. `prepare` lowers a traced graph to ops that
have a row, `walk` calls the rows, `report` tells what became of each op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

from ..ir.errors import RlxError, UnsupportedOp
from ..ir.graph import Graph, Node, Value
from ..ir.record import record
from ..ir.types import DTYPES, NAMES, Type
from ..ir.verify import verify
from ..lower.hir import (
    dedupe,
    expand,
    fold_constants,
    inline_calls,
    lighten_loops,
    simplify,
    split_complex,
)
from ..lower.target import EXPANDED, LIBRARY, NATIVE

ON_HOST = f"{LIBRARY}: on the host"
Ways = Counter[tuple[str, str]]  # (name of an op, what became of it) -> how often
Emit: TypeAlias = Callable[..., Any]
Takes: TypeAlias = Callable[..., bool]
EVERY_DTYPE = frozenset(DTYPES)


def _always(types: Sequence[Type], **attrs: Any) -> bool:
    return True


@record
class Row:
    """How a library computes an op; where it cannot, the op is as one without a row."""

    emit: Emit  # (*arrays, **attrs) -> the array of the result, or a tuple of several
    dtypes: frozenset[str] = EVERY_DTYPE  # names of those that operands and results may have
    takes: Takes = _always  # (types of the operands, **attrs) -> whether the library can do it


@record
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


def has_elements(types: Sequence[Type], **attrs: Any) -> bool:
    """Whether no operand is empty: libraries mean other things by nothing, or fail."""
    return all(type.size > 0 for type in types)


def prepare(
    graph: Graph,
    takes: Callable[[Node], bool],
    *,
    check: bool = False,
    keep_recomputed: bool = False,
    folds: bool = True,
) -> dict[str, Graph]:
    """Lower a traced graph; gives each stage by its name, the last one is to be run.

    Ops that a table `takes` stay whole; others are written in simpler ops where their rooms say
    how, and of these complex ones as their parts. With `check` each stage is verified, with
    `keep_recomputed` calls that compute again stay, with `folds` constants are computed.
    """
    graphs: dict[str, Graph] = {}

    def after(name: str, graph: Graph) -> Graph:
        if check:
            verify(graph)
        graphs[name] = graph
        return graph

    graph = after("hir", graph)
    graph = after("inlined", inline_calls(graph, keep_recomputed))
    graph = after("simplified", simplify(dedupe(graph)))
    graph = after("folded", fold_constants(graph) if folds else graph)
    graph = after("expanded", expand(graph, takes))
    graph = after("split", expand(split_complex(graph, lambda dtype: False, takes), takes))
    graph = after("lightened", lighten_loops(graph))
    # folds and batched loops may bring composites back
    graph = fold_constants(graph) if folds else graph
    graph = after("simplified again", expand(simplify(graph), takes))
    after("mir", dedupe(graph))
    return graphs


def walk(nodes: Iterable[Node], table: Table, known: MutableMapping[Value, Any]) -> None:
    """Compute nodes in order on the library's arrays, and add results to `known`."""
    for node in nodes:
        results = computed(node, table, [known[a] for a in node.args])
        known.update(zip(node.results, results, strict=True))


def computed(node: Node, table: Table, arrays: Sequence[Any]) -> Sequence[Any]:
    """Compute a node by the library, with errors that name the op and the user's line."""
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


def ways_of(hir: Graph, mir: Graph, takes: Callable[[Node], bool]) -> dict[str, Counter[str]]:
    """The ops of a graph by what becomes of them, as `Backend.examine` tells."""
    nodes = [node for node in mir.walk() if not node.op.is_constant]
    left = {node.op.name for node in nodes}
    found = {NATIVE: Counter[str](), EXPANDED: Counter[str](), LIBRARY: Counter[str]()}
    found[NATIVE].update(n.op.name for n in nodes if takes(n) or n.graphs)
    found[LIBRARY].update(n.op.name for n in nodes if not takes(n) and not n.graphs)
    gone = (n for n in hir.walk() if n.op.name not in left and not n.op.is_constant)
    found[EXPANDED].update(n.op.name for n in gone if n.op.rules.expand is not None)
    return found


def report(ways: Ways) -> str:
    """A line for each op, by their names: how it runs, and how often it is there."""
    lines = [
        f"{name}: {way}" + (f" ({count})" if count > 1 else "")
        for (name, way), count in sorted(ways.items())
    ]
    return "\n".join(lines)
