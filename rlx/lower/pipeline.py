"""All of lowering on one screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..ir.graph import Graph
from .hir import dedupe, drop_dead, expand, fold_constants, inline_calls, simplify
from .lir.program import Program
from .mir import legalize
from .report import report
from .schedule import finish, plan_memory, schedule
from .target import Target


@dataclass
class Lowered:
    """What lowering gives: the program, the graphs on the way, and their texts."""

    hir: Graph
    mir: Graph
    program: Program
    stages: dict[str, str] = field(default_factory=dict)
    report: str = ""


@dataclass(frozen=True)
class Options:
    """What the user may ask of lowering.

    `check` is called with each stage's name and graph. `stages` keeps the text of each of them.
    """

    check: Callable[[str, Graph], None] | None = None
    print_graph: Callable[[Graph], str] | None = None


def lower(graph: Graph, target: Target, options: Options = Options()) -> Lowered:
    """Lower a traced graph to a loop program."""
    stages: dict[str, str] = {}

    def after(name: str, graph: Graph) -> Graph:
        if options.check:
            options.check(name, graph)
        if options.print_graph:
            stages[name] = options.print_graph(graph)
        return graph

    hir = after("hir", graph)
    graph = inline_calls(graph)
    graph = fold_constants(graph)
    graph = simplify(graph)
    graph = after("simplified", drop_dead(dedupe(graph)))
    graph = expand(graph, target.wants)
    graph = simplify(graph)
    graph = drop_dead(dedupe(fold_constants(graph)))
    graph = inline_calls(graph, keep_recomputed=False)
    graph = expand(graph, target.wants)
    mir = after("mir", legalize(graph, target))
    program = schedule(mir, target)
    program = finish(program)
    program = plan_memory(program)
    stages["lir"] = str(program)
    return Lowered(hir, mir, program, stages, report(hir, program))
