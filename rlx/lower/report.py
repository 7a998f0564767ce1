"""What became of the user's ops."""

from __future__ import annotations

from collections import Counter

from ..ir.graph import Graph
from .lir.program import Contraction, Kernel, LibraryCall, Program, Rows


def report(graph: Graph, program: Program) -> str:
    """What became of the ops of a graph: steps, memory, library calls, missed fusions."""
    ops = Counter(node.op.name for node in graph.walk() if not node.op.is_constant)
    steps = Counter(_kind(step) for nested in program.programs for step in nested.steps)
    lines = [
        f"{sum(ops.values())} ops became {sum(steps.values())} steps: "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(steps.items())),
        f"temporaries: {program.arena_bytes} bytes",
    ]
    for nested in program.programs:
        lines += nested.notes
    return "\n".join(lines)


def _kind(step: object) -> str:
    if isinstance(step, Kernel | Rows | Contraction):
        return {Kernel: "kernel", Rows: "row kernel", Contraction: "contraction"}[type(step)]
    return "library call" if isinstance(step, LibraryCall) else type(step).__name__.lower()
