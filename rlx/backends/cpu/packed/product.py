"""The product of a program: lines of x by all packed lines, shared by threads.

Of many lines of x each thread takes some, of few ones it takes some tiles. Blocks of 64 lines are
prepared in a thread's memory, then multiplied by tile after tile. What is no constant is packed in
each call, a tile at a time.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ....ir.dims import Size, likely, static
from ....ir.record import record, replace
from ....ir.types import Type
from ....lower.lir.program import Buffer, LibraryCall, Step
from ..llvm.host import Host
from ..llvm.text import KERNEL, Function, Module, Vector
from ..loops.kernels import Layout
from ..runtime.polls import is_due, leave_if_stopped
from .layout import BLOCK, LINES, Packed, packed_layout
from .lines import Method, lines_function, method_of
from .pack import pack_function
from .tile import tile_function

ROWS = 64  # lines of x that are prepared at a time
GROUPS = {16: (8, 4, 2, 1), 8: (4, 2, 1), 4: (4, 1)}  # lanes -> lines of x in registers
SHARED_ROWS = 16  # lines of x of a thread, from which on each takes some
RATE = {"words": 200.0, "pairs": 80.0, "floats": 70.0}  # products in a nanosecond
BYTES = 20.0  # that are read in one
INT = Vector("int64")


@record
class BlockProduct:
    """A claimed step: its sizes, and how it is computed."""

    step: LibraryCall
    method: Method
    rows: Size  # lines of x
    lines: Size  # packed ones
    depth: int  # blocks of a line

    @classmethod
    def of(cls, step: LibraryCall, host: Host) -> BlockProduct:
        """Plan a claimed step."""
        x, w = step.input_types
        packed = packed_layout(step.attrs["format"], host)
        method = method_of(packed, step.attrs["compute"], host)
        rows: Size = 1
        for size in x.shape[:-1]:
            rows *= size
        return cls(step, method, rows, w.shape[0], static(x.shape[-1]) // BLOCK)

    @property
    def is_packed(self) -> bool:
        """Whether its lines are packed before the call."""
        return self.step.inputs[1].type != self.step.input_types[1]

    @property
    def tile_bytes(self) -> int:
        """The bytes of a tile."""
        return self.depth * self.method.packed.nbytes

    @property
    def prepared_bytes(self) -> int:
        """The bytes of prepared lines of x."""
        rows = min(self.rows, ROWS) if isinstance(self.rows, int) else ROWS
        return rows * self.depth * self.method.nbytes

    @property
    def scratch_bytes(self) -> int:
        """The bytes that a thread needs, in whole cache lines."""
        return -(-(self.prepared_bytes + (0 if self.is_packed else self.tile_bytes)) // 64) * 64

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes that its time grows with."""
        return self.rows, self.lines, self.depth

    @property
    def cost(self) -> float:
        """Rough nanoseconds on one thread."""
        lines = likely(self.lines)
        products = 2.0 * likely(self.rows) * lines * self.depth * BLOCK
        nbytes = self.method.packed.panel_bytes(lines, self.depth)
        rate = RATE[self.method.kind] / self.method.digits
        return max(products / rate, nbytes / BYTES)

    @property
    def has_rest(self) -> bool:
        """Whether something is left to do after all parts."""
        return False

    def emit(self, module: Module, f: Function, layout: Layout, is_shared: bool) -> None:
        """Emit the product, or the share `%part` of it."""
        step, name = self.step, _product_function(module, self)
        x, w = (layout.pointer(f, b) for b in step.inputs)
        out, scratch = layout.pointer(f, step.outputs[0]), layout.scratch(f)
        part, parts = ("%part", "%parts") if is_shared else ("0", "1")
        scratch = f.offset(scratch, "i8", f.emit(f"mul i64 {part}, {self.scratch_bytes}"))
        pointers = ", ".join(f"ptr {p}" for p in (x, w, out, scratch))
        sizes = f.number(self.rows), f.number(self.lines)
        numbers = (*sizes, self.depth, self.prepared_bytes)
        given = ", ".join(f"i64 {n}" for n in (*numbers, part, parts))
        f.do(f"call void @{name}({pointers}, {given})")

    def emit_rest(self, f: Function, layout: Layout) -> None:
        """Emit nothing: parts leave nothing."""


def _product_function(module: Module, product: BlockProduct) -> str:
    """The function that multiplies a part of all lines of x by all packed lines."""
    method, is_packed = product.method, product.is_packed
    name = f"blocks_{method.name}_{is_packed:d}"
    if name in module.functions:
        return name
    module.shared.setdefault(name, name)
    prepare = lines_function(module, method)
    f = module.internal(
        name,
        "ptr %x, ptr %w, ptr %out, ptr %scratch, i64 %rows, i64 %lines, i64 %depth, "
        "i64 %prepared, i64 %part, i64 %parts",
        attributes=KERNEL,
    )
    tiles = f.emit(f"udiv i64 {f.emit(f'add i64 %lines, {LINES - 1}')}, {LINES}")
    shares_rows = f.emit(f"icmp uge i64 %rows, {f.emit(f'mul i64 %parts, {SHARED_ROWS}')}")
    own_rows, own_tiles = (
        _share(f, shares_rows, "%rows"),
        _share(f, f.emit(f"xor i1 {shares_rows}, true"), tiles),
    )
    line = f.emit(f"mul i64 %depth, {method.nbytes}")
    tile_bytes = f.emit(f"mul i64 %depth, {method.packed.nbytes}")
    with f.loop(own_rows[0], own_rows[1], str(ROWS)) as chunks:
        left = f.emit(f"sub i64 {own_rows[1]}, {chunks.index}")
        count = f.intrinsic("umin", INT, left, str(ROWS))
        start = f.emit(f"mul i64 {f.emit(f'mul i64 {chunks.index}, %depth')}, {BLOCK}")
        begin = f.offset("%x", "float", start)
        blocks = f.emit(f"mul i64 {count}, %depth")
        f.do(f"call void @{prepare}(ptr {begin}, ptr %scratch, i64 {blocks})")
        out = f.offset("%out", "float", f.emit(f"mul i64 {chunks.index}, %lines"))
        with f.loop(*own_tiles) as loop:
            with f.when(is_due(f, loop.index, 2_000)):
                leave_if_stopped(f)
            first = f.emit(f"mul i64 {loop.index}, {LINES}")
            if is_packed:
                w = f.offset("%w", "i8", f.emit(f"mul i64 {loop.index}, {tile_bytes}"))
            else:
                w = _pack_tile(f, pack_function(module, method.packed), loop.index)
            there = f.emit(f"sub i64 %lines, {first}")
            _rows(module, f, method, (w, line, f.offset(out, "float", first), there), count)
    f.do("ret void")
    return name


def _pack_tile(f: Function, pack: str, number: str) -> str:
    """Pack one tile, behind the prepared lines of x."""
    target = f.offset("%scratch", "i8", "%prepared")
    after = f.emit(f"add i64 {number}, 1")
    given = f"i64 %lines, i64 %depth, i64 {number}, i64 {after}"
    f.do(f"call void @{pack}(ptr %w, ptr {target}, {given})")
    return target


def _share(f: Function, is_shared: str, count: str) -> tuple[str, str]:
    """The part of a count, or all of it where it is not shared."""
    first, last = f.share(count)
    return f.select(INT, is_shared, first, "0"), f.select(INT, is_shared, last, count)


def _rows(
    module: Module, f: Function, method: Method, given: tuple[str, str, str, str], count: str
) -> None:
    """Multiply prepared lines by a tile: many at a time, then fewer."""
    w, line, out, there = given
    done = "0"

    def group(rows: int, first: str) -> None:
        name = tile_function(module, method, rows)
        begin = f.offset("%scratch", "i8", f.emit(f"mul i64 {first}, {line}"))
        end = f.offset(out, "float", f.emit(f"mul i64 {first}, %lines"))
        numbers = f"i64 {line}, ptr {end}, i64 %lines, i64 %depth, i64 {there}"
        f.do(f"call void @{name}(ptr {w}, ptr {begin}, {numbers})")

    for rows in GROUPS[method.lanes]:
        end = f.emit(f"and i64 {count}, {-rows}")
        with f.loop(done, end, str(rows)) as loop:
            group(rows, loop.index)
        done = end


# -- constants -------------------------------------------------------------------------------------


@record
class BlockPacking:
    """Lines of a constant, which are packed before all calls."""

    blocks: Buffer
    packed: Packed
    lines: int
    depth: int
    panels: Buffer

    def emit(self, module: Module, f: Function, layout: Layout) -> None:
        """Emit the packing of a part of the tiles."""
        name = pack_function(module, self.packed)
        source, target = (layout.pointer(f, b) for b in (self.blocks, self.panels))
        first, last = f.share(-(-self.lines // LINES))
        start = f.emit(f"mul i64 {first}, {self.depth * self.packed.nbytes}")
        target = f.offset(target, "i8", start)
        numbers = ", ".join(f"i64 {n}" for n in (self.lines, self.depth, first, last))
        f.do(f"call void @{name}(ptr {source}, ptr {target}, {numbers})")


def with_packed_blocks(
    steps: list[Step], fixed: Collection[Buffer], host: Host
) -> tuple[list[Step], list[BlockPacking]]:
    """The steps of a program with packed numbers in place of constants."""
    packings: dict[tuple[Buffer, Packed], BlockPacking] = {}
    made: list[Step] = []
    for step in steps:
        if not isinstance(step, LibraryCall) or not _is_fixed(step, fixed):
            made.append(step)
            continue
        product, blocks = BlockProduct.of(step, host), step.inputs[1]
        packed, lines = product.method.packed, static(product.lines)
        key = blocks, packed
        if key not in packings:
            count = packed.panel_bytes(lines, product.depth)
            panels = Buffer(f"blocks{len(packings)}", Type(np.dtype(np.uint8), (count,)), "input")
            packings[key] = BlockPacking(blocks, packed, lines, product.depth, panels)
        made.append(replace(step, inputs=(step.inputs[0], packings[key].panels)))
    return made, list(packings.values())


def _is_fixed(step: LibraryCall, fixed: Collection[Buffer]) -> bool:
    if not step.is_wanted or step.op.name != "block_dot":
        return False
    return step.inputs[1] in fixed and step.input_types[1].is_static
