"""Constant operands of products, packed once for all calls.

The last inputs of a program may be fixed: the caller gives the same arrays again and again. A
matrix product that packs such an operand reads panels instead, which `prepare` makes of the fixed
arrays. Panels are further inputs; a fixed array that nothing else reads is an input no longer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....ir.dims import static
from ....ir.record import record, replace
from ....ir.types import Type
from ....lower.lir.access import reads
from ....lower.lir.expr import Expr, Load
from ....lower.lir.index import Index, Variable
from ....lower.lir.program import Buffer, Contraction, LibraryCall, Program
from ..llvm.host import Host
from ..llvm.text import AS_WRITTEN, Function, Module, Vector
from ..loops.kernels import KERNEL_PARAMETERS, Layout, buffers_of, open_scope
from ..loops.scope import Scope
from ..runtime.pool import parallel
from .contraction import (
    ROW_BLOCKS,
    contracts_natively,
    is_matrix,
    plan_contraction,
    row_blocks,
    rows_along_columns,
    sides,
)
from .emit import emit_pack
from .problem import BYTES, HALVES, NARROW, UNTUNED, Blocking, Tuning, memory_type
from .view import OperandView, emit_view_pack

if TYPE_CHECKING:
    from ..packed.product import BlockPacking

# rows of small numbers, which packing would widen, and so double or quadruple what is read
FEW_ROWS = {**dict.fromkeys(HALVES, 96), **dict.fromkeys(BYTES, NARROW)}
PART, SMALL_PART = 1 << 23, 1 << 19  # bytes that a thread packs at a time: of panels, of blocks
AT_ONCE = 16  # panels of which memory is read row by row: they need no room in a cache


@record
class PackedConstants:
    """What a compiled program takes instead of its constants."""

    fixed: int  # how many constants there are
    kept: tuple[int, ...]  # the indices of those that it still reads
    panels: tuple[int, ...]  # the bytes of each panel that it takes after them


@record
class Packing:
    """One operand to pack: `which` side of a product that is cut in a certain way."""

    operand: Expr
    line: Variable
    depth: Variable
    blocking: Blocking
    which: str
    panels: Buffer


def pack_constants(
    program: Program, count: int, host: Host, tuning: Tuning = UNTUNED
) -> tuple[PackedConstants, list[Packing | BlockPacking]]:
    """Let products read packed panels of the last `count` inputs; changes the program."""
    first = len(program.inputs) - count
    free, fixed = program.inputs[:first], program.inputs[first:]
    packings: list[Packing] = []
    program.steps = [
        _reading_panels(step, set(fixed), host, tuning, packings)
        if isinstance(step, Contraction) and step.has_static_columns and contracts_natively(step)
        else step
        for step in program.steps
    ]
    blocks: list[BlockPacking] = []
    if any(isinstance(step, LibraryCall) and step.is_wanted for step in program.steps):
        from ..packed.product import with_packed_blocks  # few programs have such steps

        program.steps, blocks = with_packed_blocks(program.steps, set(fixed), host)
    read = {b for step in program.steps for b in reads(step)}
    kept = tuple(i for i, b in enumerate(fixed) if b in read)
    every: list[Packing | BlockPacking] = [*packings, *blocks]
    panels = tuple(p.panels for p in every)
    program.inputs = (*free, *(fixed[i] for i in kept), *panels)
    return PackedConstants(count, kept, tuple(b.nbytes for b in panels)), every


def _reading_panels(
    step: Contraction,
    fixed: Collection[Buffer],
    host: Host,
    tuning: Tuning,
    packings: list[Packing],
) -> Contraction:
    """The step with panels for what is constant and worth packing."""
    if isinstance(step.row.extent, int):
        return _with_panels(step, fixed, host, tuning, packings)
    if not _is_fixed(step.rhs, step, fixed):
        return step
    buffer = _panels(len(packings))
    tried = replace(step, rhs_panels=buffer, panel_rows=ROW_BLOCKS[0])
    block = row_blocks(tried)[0]
    blocking = plan_contraction(block, host, 1).blocking
    if rows_along_columns(block) is not block or blocking is None or not _suits_all(blocking, host):
        return step
    buffer.type = _bytes(blocking.panels_bytes("b"))
    packings.append(Packing(step.rhs, step.column, step.depth, blocking, "b", buffer))
    return tried


def _suits_all(blocking: Blocking, host: Host) -> bool:
    """Whether blocks of any number of rows can read the panels, which are no larger than B."""
    if blocking.swapped or blocking.dot_lanes or blocking.turns_columns or not blocking.pack_b:
        return False
    problem = blocking.problem
    return not host.has_tiles if blocking.uses_tiles else problem.dtype == problem.accumulator


def _with_panels(
    step: Contraction,
    fixed: Collection[Buffer],
    host: Host,
    tuning: Tuning,
    packings: list[Packing],
) -> Contraction:
    """The step with panels, in the layout of one plan, for constant operands worth packing."""
    step = rows_along_columns(step)
    lhs, rhs = sides(step)
    operands: dict[str, tuple[Expr, Variable, Buffer | None]] = {"lhs": lhs, "rhs": rhs}
    chosen = [side for side, (x, *_) in operands.items() if _is_fixed(x, step, fixed)]
    while chosen:
        panels = {side: _panels(len(packings) + i) for i, side in enumerate(chosen)}
        tried = replace(step, **{f"{side}_panels": buffer for side, buffer in panels.items()})
        blocking = plan_contraction(tried, host, 1, tuning).blocking
        if blocking is None or blocking.dot_lanes or blocking.turns_columns:
            break
        which = {side: "a" if (side == "lhs") != blocking.swapped else "b" for side in chosen}
        worth = [side for side in chosen if _is_worth(blocking, which[side])]
        if worth == chosen:
            for side in chosen:
                (operand, line, _), buffer = operands[side], panels[side]
                buffer.type = _bytes(blocking.panels_bytes(which[side]))
                packing = Packing(operand, line, step.depth, blocking, which[side], buffer)
                packings.append(packing)
            return tried
        chosen = worth
    return step


def _is_fixed(operand: Expr, step: Contraction, fixed: Collection[Buffer]) -> bool:
    is_fixed = all(load.buffer in fixed for load in operand.loads)
    return is_fixed and operand.variables.isdisjoint(step.batch)


def _panels(number: int) -> Buffer:
    return Buffer(f"panels{number}", _bytes(0), "input")


def _bytes(count: int) -> Type:
    return Type(np.dtype(np.uint8), (count,))


def _is_worth(blocking: Blocking, which: str) -> bool:
    """Whether panels are read no slower than the operand in place."""
    problem = blocking.problem
    if blocking.uses_tiles or problem.dtype == problem.accumulator:
        return True  # they are no larger, and lie in the order in which they are read
    return (problem.m if which == "b" else problem.n) > FEW_ROWS[problem.dtype]


def emit_prepare(
    module: Module, packings: Sequence[Packing | BlockPacking], fixed: Sequence[Buffer], host: Host
) -> None:
    """Emit `void prepare(ptr table)`, which packs all constants.

    The table has the fixed arrays, then all panels. Threads share what is large.
    """
    sizes = [static(packing.panels.nbytes) for packing in packings]
    counts = [
        -(-size // (PART if isinstance(packing, Packing) else SMALL_PART))
        for packing, size in zip(packings, sizes, strict=True)
    ]
    f = module.function("prepare", [("ptr", "%table")], attributes=AS_WRITTEN)
    if sum(sizes) > SMALL_PART:
        parallel(f, "@prepare_part", "%table", str(sum(counts)))
    else:
        with f.loop("0", str(sum(counts))) as loop:
            f.do(f"call void @prepare_part(ptr %table, i64 {loop.index}, i64 {sum(counts)})")
    f.do("ret void")
    f = module.function("prepare_part", KERNEL_PARAMETERS, "void", AS_WRITTEN, "internal")
    table = (*fixed, *(p.panels for p in packings))
    layout = Layout({b: i for i, b in enumerate(table)}, -1, {})
    packers: dict[tuple[Blocking, str], str] = {}
    for number, (packing, count) in enumerate(zip(packings, counts, strict=True)):
        name = f"prepare_{number}"
        own = f.emit(f"sub i64 %part, {sum(counts[:number])}")
        with f.when(f.emit(f"icmp ult i64 {own}, {count}")):
            f.do(f"call void @{name}(ptr %table, i64 {own}, i64 {count})")
        inner = module.function(name, KERNEL_PARAMETERS, "void", AS_WRITTEN, "internal")
        if isinstance(packing, Packing):
            _emit_packing(module, inner, packing, f"pack_{number}", layout, host, packers)
        else:
            packing.emit(module, inner, layout)
        inner.do("ret void")
    f.do("ret void")


def _emit_packing(
    module: Module,
    f: Function,
    packing: Packing,
    name: str,
    layout: Layout,
    host: Host,
    packers: dict[tuple[Blocking, str], str],
) -> None:
    """Fill the panels of one operand, by a function that equal ones share."""
    blocking, which, operand = packing.blocking, packing.which, packing.operand
    if isinstance(operand, Load) and is_matrix(operand, packing.line, packing.depth):
        known = packers.setdefault((blocking, which), name)
        if known == name:
            emit_pack(module, name, blocking, which, AT_ONCE)
        corner = operand.index.substitute({packing.line: Index(), packing.depth: Index()})
        scope = open_scope(f, layout, host, [operand.buffer])
        kind = memory_type(operand.dtype.name)
        source = f.offset(scope.pointers[operand.buffer], kind, scope.index(corner))
        _emit_panels(f, packing, layout, f"@{known}(ptr {source}", "")
        return
    view = OperandView(operand, packing.line, packing.depth)

    def opened(inside: Function) -> Scope:
        return open_scope(inside, layout, host, buffers_of([operand]))

    emit_view_pack(module, name, blocking, view, which, opened, [("ptr", "%table")])
    _emit_panels(f, packing, layout, f"@{name}(ptr null", ", ptr %table")


def _emit_panels(f: Function, packing: Packing, layout: Layout, call: str, extra: str) -> None:
    """Pack a part of the panels, piece after piece of the depth."""
    blocking, target = packing.blocking, layout.pointer(f, packing.panels)
    tile, k = blocking.tile, blocking.problem.k
    count = tile.row_panels if packing.which == "a" else tile.column_panels
    step = blocking.panels_bytes(packing.which) // blocking.pieces
    first, last = f.share(count)
    target = f.offset(target, "i8", f.emit(f"mul i64 {first}, {step // max(count, 1)}"))
    with f.loop("0", str(blocking.pieces)) as pieces:
        start = f.emit(f"mul i64 {pieces.index}, {blocking.depth}")
        left = f.emit(f"sub i64 {k}, {start}")
        depth = f.intrinsic("umin", Vector("int64"), left, str(blocking.depth))
        place = f.offset(target, "i8", f.emit(f"mul i64 {pieces.index}, {step}"))
        numbers = ", ".join(f"i64 {n}" for n in (first, last, start, depth))
        f.do(f"call void {call}, ptr {place}, {numbers}{extra})")
