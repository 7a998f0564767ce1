"""The report of lowering: what became of the user's ops."""

from __future__ import annotations

from collections import Counter

from ..ir.graph import Graph
from .lir.program import Contraction, Kernel, LibraryCall, Program, RowGroup
from .target import EXPANDED, LIBRARY, NATIVE


def report(graph: Graph, mir: Graph, program: Program) -> str:
    """Report how the ops of a graph run: ways, steps, memory, missed fusions."""
    ops = _ops(graph)
    steps = Counter(kind_of(step) for nested in program.programs for step in nested.steps)
    told = ways(graph, mir, program)
    lines = [
        f"{sum(ops.values())} ops became {sum(steps.values())} steps: "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(steps.items())),
        *(f"{way}: {_told(ops)}" for way, ops in told.items() if ops),
        f"temporaries: {program.arena_bytes} bytes",
    ]
    notes = Counter(note for nested in program.programs for note in nested.notes)
    lines += [f"{count} times: {note}" if count > 1 else note for note, count in notes.items()]
    return "\n".join(lines)


def _ops(graph: Graph) -> Counter[str]:
    return Counter(node.op.name for node in graph.walk() if not node.op.is_constant)


def ways(graph: Graph, mir: Graph, program: Program) -> dict[str, Counter[str]]:
    """Lines that say which ops became loops, were expanded, or call NumPy."""
    steps = [step for nested in program.programs for step in nested.steps]
    calls = (step for step in steps if isinstance(step, LibraryCall))
    library = Counter(step.op.name for step in calls if not step.is_wanted)
    left = _ops(mir)
    composites = {node.op.name for node in graph.walk() if node.op.rules.expand is not None}
    expanded = Counter(
        {n: count for n, count in _ops(graph).items() if n in composites - set(left)}
    )
    return {NATIVE: left - library, EXPANDED: expanded, LIBRARY: library}


def _told(ops: Counter[str]) -> str:
    named = sorted(ops.items())
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in named)


def kind_of(step: object) -> str:
    """The word for a kind of step."""
    if isinstance(step, Kernel | RowGroup | Contraction):
        return {Kernel: "kernel", RowGroup: "row kernel", Contraction: "contraction"}[type(step)]
    if isinstance(step, LibraryCall):
        return step.op.name if step.is_wanted else "library call"
    return type(step).__name__.lower()
