"""The pipeline of lowering: all passes in order."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.body import Call, Repeat, While
from ..ir.errors import FusionError
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
from .lir.program import (
    Contraction,
    Kernel,
    Program,
    RepeatStep,
    RowGroup,
    Scatter,
    Step,
    WhileStep,
)
from .lir.verify_program import verify_program
from .precision import Precise, has_policies, precise
from .report import report
from .schedule import schedule
from .schedule.chain_products import chain_products, join_products
from .schedule.divide_loops import divide_loops
from .schedule.forward import forward_copies, forward_pads
from .schedule.loops import merge_step_loops, pack_lanes, split_loops
from .schedule.merge import drop_dead_stores, merge_epilogues, merge_kernels
from .schedule.operands import order_operands, turn_operands
from .schedule.plan_memory import plan_memory
from .schedule.rows import group_rows, localize_rows
from .schedule.split import nest_sums, split_reductions, split_scatters
from .target import Target

MOST_MISSED = 8  # lines in an error


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


def _as_it_is(graph: Graph) -> Graph:
    return graph


def prepare(graph: Graph, policy: Policy, folds: bool = True) -> Precise:
    """Insert the casts of a precision policy into a traced graph.

    With `folds` constants are computed.

    This comes before `lower`, and before what devices do that lower graphs in their own ways, so a
    policy means the same on each. A graph without any policy stays as it is.
    """
    if policy == AS_WRITTEN and (Call not in _bodies(graph) or not has_policies(graph)):
        return Precise(graph, policy)
    graph = dedupe(inline_calls(graph, keep_precise=True))
    fold = fold_constants if folds else _as_it_is
    made = precise(fold(simplify(graph)), policy)
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
    fold = fold_constants if target.folds else _as_it_is
    graph = after("folded", fold(graph))
    graph = after("expanded", expand(graph, target.wants))
    if _has_complex(graph):
        invariant = target.batch_invariant
        graph = after("split", split_complex(graph, target.computes, batch_invariant=invariant))
    if _bodies(graph) & {Repeat, While}:
        graph = after("lightened", lighten_loops(graph))
    graph = after("simplified again", simplify(fold(graph)))
    graph = after("deduped again", dedupe(graph))
    # recomputed graphs are opened after the last dedupe, which would merge them with the first run
    recomputed = expand(inline_calls(graph, keep_recomputed=False), target.wants)
    if recomputed is not graph:
        graph = after("recomputed", lighten_loops(recomputed))
    mir = after("mir", legalize(graph, target))
    scheduled = schedule(mir, target)
    if target.asserts_fused:
        check_fused(scheduled)
    program = verify_program(finish(scheduled, target))
    return Lowered(hir, mir, program, graphs, report(hir, mir, program))


def check_fused(program: Program) -> None:
    """Raise if operations are stored that could have been fused, with reasons."""
    missed = [line for each in program.programs for line in each.missed]
    if missed:
        raise FusionError(
            f"{program.name}: {len(missed)} operation{'s' * (len(missed) != 1)} could not be fused",
            notes=missed[:MOST_MISSED],
            fix="leave out assert_fused, or compute what is stored once: rlx.explore(f)(*args) "
            "shows which lines it is",
        )


def finish(program: Program, target: Target) -> Program:
    """Improve the steps of a program and its nested programs, and plan their memory.

    Each pass is for the steps of one program; the inner ones come first. What the program computes
    stays the same.
    """
    programs = list(program.programs)[::-1]
    steps = [step for each in programs for step in each.steps]
    has_loops = any(isinstance(s, RepeatStep | WhileStep) for s in steps)
    has_products = any(isinstance(s, Contraction) for s in steps)
    for each in programs if has_loops and has_products else ():
        turn_operands(each)
    for each in programs if target.has_chains and has_products else ():
        order_operands(each)
    if target.has_chains and has_loops:
        divide_loops(program)
    for each in programs:
        each.steps = improved(each.steps, target)
        plan_memory(each)
    return program


def improved(steps: Sequence[Step], target: Target) -> list[Step]:
    """The steps of one program, split, merged and grouped."""
    made: list[Step] = [split_loops(s) if isinstance(s, Kernel) else s for s in steps]
    fuses = target.fuses
    if len(made) > 1:  # else there is nothing to put together
        made = merge_kernels(nest_sums(made)) if "kernels" in fuses else made
        made = merge_epilogues(made) if "epilogues" in fuses else made
        made = forward_pads(forward_copies(drop_dead_stores(made)))
        made = group_rows(made) if "rows" in fuses else made
    made = split_reductions([merge_step_loops(step) for step in made], target.batch_invariant)
    if not target.batch_invariant and any(isinstance(s, Scatter) for s in made):
        made = split_scatters(made)
    made = pack_lanes(made) if target.packs_lanes else made
    if any(isinstance(s, RowGroup) for s in made):
        made = localize_rows(made, target.local_bytes)
    if target.has_chains and len(made) > 1 and "chains" in fuses:
        made = join_products(chain_products(made, target.threads))
    return made
