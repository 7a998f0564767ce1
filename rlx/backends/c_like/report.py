"""What became of the ops of a program that runs as kernels."""

from __future__ import annotations

from ...lower.lir.program import LibraryCall
from ...lower.pipeline import Lowered
from .plan import Plan


def report(lowered: Lowered, made: Plan, *more: str) -> str:
    """A line for each op, the number of kernels, and what runs on the host."""
    lines = [lowered.report, f"kernels: {len(made.kernels)}"]
    for program in made.program.programs:
        for step in program.steps:
            if isinstance(step, LibraryCall):
                lines.append(f"{step.op.name}: library: on the host, with copies to and fro")
    return "\n".join([*lines, *more])
