"""The code of steps that are loops."""

from __future__ import annotations

from typing import TypeAlias

from ...lower.lir.program import Greatest, Kernel, Rows, Scan, Scatter
from .kernels import Layout, emit_kernel, emit_rows
from .llvm.host import Host
from .llvm.text import Function
from .ranking import emit_greatest
from .scanning import emit_scan
from .scattering import emit_scatter

Loops: TypeAlias = Kernel | Rows | Scan | Greatest | Scatter
LOOPS = (Kernel, Rows, Scan, Greatest, Scatter)


def emit_loops_of(f: Function, step: Loops, layout: Layout, host: Host, split: bool) -> None:
    """Emit the loops of a step, or with `split` the part of them that is asked for."""
    if isinstance(step, Kernel):
        emit_kernel(f, step, layout, host, split)
    elif isinstance(step, Rows):
        emit_rows(f, step, layout, host, split)
    elif isinstance(step, Scan):
        emit_scan(f, step, layout, host, split)
    elif isinstance(step, Greatest):
        emit_greatest(f, step, layout, host, split)
    else:
        emit_scatter(f, step, layout, host, split)
