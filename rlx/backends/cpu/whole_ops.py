"""Ops that the cpu takes whole: it has better code than their expansions are."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from ...ir.dims import Size
from ...lower.lir.program import LibraryCall
from .llvm.host import Host
from .llvm.text import Function, Module
from .loops.kernels import Layout

WHOLE = {  # op: the file with its code, and the class there
    "block_dot": (".packed.product", "BlockProduct"),
    "paged_attention": (".paged.attention", "PagedAttention"),
    "segmented_dot": (".segmented_dot", "SegmentedDot"),
}


class Whole(Protocol):
    """A call of such an op, as the writer of programs sees it."""

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes that its time grows with."""
        ...

    @property
    def cost(self) -> float:
        """Rough nanoseconds on one thread."""
        ...

    @property
    def scratch_bytes(self) -> int:
        """The bytes of memory that each thread needs."""
        ...

    def emit(self, module: Module, f: Function, layout: Layout, is_shared: bool) -> None:
        """Write its code, or that of the share `%part` of `%parts`."""

    @property
    def has_rest(self) -> bool:
        """Whether something is left to do after all parts."""
        ...

    def emit_rest(self, f: Function, layout: Layout) -> None:
        """Write what is done after all parts."""


def whole_op(step: LibraryCall, host: Host) -> Whole:
    """Plan a call of an op that is wanted; its code is loaded when one comes."""
    file, name = WHOLE[step.op.name]
    return getattr(import_module(file, __package__), name).of(step, host)
