"""Rows that are asked for while the row before them is computed.

Kernels that go through a row several times leave the memory idle but in the first of them, and the
processor, which foresees the next lines, has forgotten them when the next row begins.
"""

from __future__ import annotations

from ...lower.lir.expr import Load, unconditional
from ...lower.lir.program import Buffer, Kernel, Rows
from .llvm.host import Host
from .render import Ahead, Scope, memory_vector

LINE = 64


def next_rows(rows: Rows, host: Host) -> dict[Kernel, Ahead]:
    """What each kernel asks for of large arrays: loads, and how far the next row is.

    Of each array it is the last kernel that has a loop around a load of it.
    """
    if not rows.loops:  # in a chain, whose round has one row
        return {}
    row = rows.loops[-1]
    last: dict[Buffer, tuple[Kernel, Load]] = {}
    for kernel in rows.kernels:
        for e in unconditional([s.expr for s in kernel.stores]):
            if isinstance(e, Load) and len(kernel.loops) == 1:
                steps = e.index.is_affine and e.index.stride_of(kernel.loops[0]) == 1
                if steps and e.index.stride_of(row) != 0 and _is_far(e.buffer, host):
                    last[e.buffer] = kernel, e
    found: dict[Kernel, Ahead] = {}
    for kernel, load in last.values():
        found[kernel] = (*found.get(kernel, ()), (load, load.index.stride_of(row)))
    return found


def _is_far(buffer: Buffer, host: Host) -> bool:
    """Whether the second cache does not hold an array."""
    return isinstance(buffer.nbytes, int) and buffer.nbytes > host.l2 // 2


def fetch(scope: Scope) -> None:
    """Ask for the numbers of the next row at the place of these lanes."""
    f = scope.f
    for load, distance in scope.ahead:
        kind = memory_vector(load.dtype.name, 1).text
        place = scope.index(load.index + distance)
        start = f.offset(scope.pointers[load.buffer], kind, place)
        f.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for x in range(0, scope.lanes * load.dtype.itemsize, LINE):
            line = f.offset(start, "i8", str(x))
            f.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 3, i32 1)")
