"""Make the loops of all kernels as good as they get."""

from __future__ import annotations

from ..lir.program import Program


def finish(program: Program) -> Program:
    """Make the loops of all kernels as good as they get."""
    return program
