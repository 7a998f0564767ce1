"""Ops that the cpu takes whole: it has better code than their expansions are."""

from __future__ import annotations

from typing import Protocol

from ...ir.dims import Size
from ...lower.lir.program import LibraryCall
from .llvm.host import Host
from .llvm.text import Function, Module
from .loops.kernels import Layout

WHOLE = frozenset({"block_dot", "paged_attention", "segmented_dot"})


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


def whole_op(step: LibraryCall, host: Host) -> Whole:
    """Plan a call of an op that is wanted; its code is loaded when one comes."""
    if step.op.name == "paged_attention":
        from .paged_attention import PagedAttention

        return PagedAttention.of(step, host)
    if step.op.name == "segmented_dot":
        from .segmented_dot import SegmentedDot

        return SegmentedDot.of(step, host)
    from .packed.product import BlockProduct

    return BlockProduct.of(step, host)
