"""Machine code of LLVM text, linked into the process."""

from __future__ import annotations

from collections.abc import Mapping

from rlx.backends.cpu.llvm import machine


def load(
    text: str, *, tier: str = "auto", symbols: Mapping[str, int] | None = None
) -> machine.Library:
    """Compile a module's text and link it."""
    code, names = machine.compile_beside(text, tier)
    return machine.Library([code], names, symbols)
