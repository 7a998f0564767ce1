"""The pipeline of lowering: all passes in order."""

from __future__ import annotations

from ..ir.body import Call, Repeat, While
from ..ir.graph import Graph
from ..ir.policy import AS_WRITTEN, Policy
from ..ir.record import record, replace
from ..ir.text import show
from ..ir.types import is_complex
from ..ir.verify import verify
from .hir import (
    dedupe,
    expand,
    fold_constants,
    inline_calls,
    lighten_loops,
    simplify,
    split_complex,
)
from .legalize import legalize
from .lir.program import Program
from .lir.verify_program import verify_program
from .precision import Precise, has_policies, precise
from .report import report
from .schedule import finish, schedule
from .target import Target


@record(frozen=False)
class Lowered:
    """The result of lowering: the program, the graph after each pass, a report."""

    hir: Graph
    mir: Graph
    program: Program
    graphs: dict[str, Graph]
    report: str

    @property
    def stages(self) -> dict[str, str]:
        """The text of the graph after each pass that changed it, and of the program."""
        texts: dict[str, str] = {}
        last = ""
        for name, graph in self.graphs.items():
            text = show(graph)
            if text != last:
                texts[name] = last = text
        return texts | {"lir": str(self.program)}


def prepare(graph: Graph, policy: Policy) -> Precise:
    """Insert the casts of a precision policy into a traced graph.

    This comes before `lower`, and before what devices do that lower graphs in their own ways, so a
    policy means the same on each. A graph without any policy stays as it is.
    """
    if policy == AS_WRITTEN and (Call not in _bodies(graph) or not has_policies(graph)):
        return Precise(graph, policy)
    graph = dedupe(inline_calls(graph, keep_precise=True))
    made = precise(fold_constants(simplify(graph)), policy)
    return replace(made, graph=dedupe(simplify(made.graph)))


def _bodies(graph: Graph) -> set[type]:
    """The kinds of ops in a graph and the nested ones: passes for others are left out."""
    return {type(node.op.rules.body) for node in graph.walk()}


def _has_complex(graph: Graph) -> bool:
    values = [v for node in graph.walk() for v in (*node.args, *node.results)]
    return any(is_complex(v.dtype) for v in values)


def lower(graph: Graph, target: Target, check: bool = False) -> Lowered:
    """Lower a traced graph to a loop program.

    With `check` the graph is verified after every pass. The program always is verified: that costs
    a hundredth of a compile, and a buffer that no step writes would reach the user as numbers.
    """
    graphs: dict[str, Graph] = {}

    def after(name: str, graph: Graph) -> Graph:
        if check:
            verify(graph, "mir" if name == "mir" else "hir")
        graphs[name] = graph
        return graph

    hir = after("hir", graph)
    graph = after("inlined", inline_calls(graph))
    graph = after("deduped", dedupe(graph))  # first, for the others have less to do then
    graph = after("simplified", simplify(graph))
    graph = after("folded", fold_constants(graph))
    graph = after("expanded", expand(graph, target.wants))
    if _has_complex(graph):
        invariant = target.batch_invariant
        graph = after("split", split_complex(graph, target.computes, batch_invariant=invariant))
    if _bodies(graph) & {Repeat, While}:
        graph = after("lightened", lighten_loops(graph))
    graph = after("simplified again", simplify(fold_constants(graph)))
    graph = after("deduped again", dedupe(graph))
    # recomputed graphs are opened after the last dedupe, which would merge them with the first run
    recomputed = expand(inline_calls(graph, keep_recomputed=False), target.wants)
    if recomputed is not graph:
        graph = after("recomputed", lighten_loops(recomputed))
    mir = after("mir", legalize(graph, target))
    program = verify_program(finish(schedule(mir, target), target))
    return Lowered(hir, mir, program, graphs, report(hir, mir, program))
