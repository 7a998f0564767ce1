"""Code of one matrix product: tiles in registers, blocks in caches, threads.

A product is cut into register tiles. Where it pays, A and B are first copied into panels one tile
wide that fit the caches; small products read A and B in place. All sizes are known, so a product
that needs no edge, no packing or no second piece of k contains no code for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property

from ....ir.record import record, replace
from ..llvm.text import Function, Module, Vector
from ..loops.scope import Scope
from ..runtime.polls import goes_on
from .choice import GemmPlan
from .few_rows import emit_columns, emit_dots
from .kernel import emit_finish, emit_kernel
from .pack import emit_pack_a, emit_pack_b, panel_start
from .problem import PANELS_AT_ONCE, Blocking, Epilogue, floor_power, memory_type, place_of
from .registers import emit_group_kernel, emit_tile_kernel, emit_tile_pack, tile_registers
from .view import OperandView, emit_view_pack

WHOLE_BYTES = 1 << 14  # of a result whose sums wait in the first cache for the epilogue


@record
class Places:
    """The pointers of a product, and the number of the part to compute."""

    a: str | OperandView  # the view of a computed operand
    b: str | OperandView
    c: str
    scratch: str
    part: str = "0"


def emit_gemm(
    module: Module,
    f: Function,
    plan: GemmPlan,
    places: Places,
    *,
    epilogue: Epilogue | None = None,
    open_scope: Callable[[Function], Scope] | None = None,
    extra: Sequence[tuple[str, str, str]] = (),
    polls: bool = False,
) -> None:
    """Emit into `f` one of several independent parts of a product.

    The parts may run in as many threads. `epilogue(f, vector, sums, i, j)` emits the value to store
    for `C[i, j:j+lanes]`, in the register type of `out_dtype` (float32 for half floats); it is
    applied once to every element, in a function that gets the `extra` parameters: (LLVM type,
    name there, value here). So do the functions that compute operands, in which `open_scope` gives
    what is known. One that `polls` is left between blocks if the program must end.
    """
    if plan.blocking is None:
        return
    if plan.blocking.swapped:
        places = replace(places, a=places.b, b=places.a)
    blocking = plan.blocking
    # a handler may use tile registers, too
    polls = polls and (blocking.in_vectors or not blocking.uses_tiles)
    product = _Emitter(module, f, plan, blocking, places, epilogue, open_scope, list(extra), polls)
    tile = plan.blocking.tile
    is_small = tile.m * tile.n * plan.problem.itemsize <= WHOLE_BYTES
    if plan.blocking.dot_lanes and places.part == "0" and product.converts and is_small:
        product.emit_whole()
    else:
        product.emit()


def _emit_inner(module: Module, name: str, blocking: Blocking) -> Mapping[str, str]:
    """Emit the functions of equal tiles and panels once, and give their names by purpose."""
    if blocking in module.shared:
        return module.shared[blocking]
    if blocking.uses_tiles:
        emit = emit_group_kernel if blocking.in_vectors else emit_tile_kernel
    else:
        emit = emit_columns if blocking.turns_columns else emit_kernel
        emit = emit_dots if blocking.dot_lanes else emit
    emit(module, f"{name}_kernel", blocking)
    if blocking.copies_a and not blocking.problem.a.is_computed:
        emit_pack(module, f"{name}_pack_a", blocking, "a")
    if blocking.copies_b and not blocking.problem.b.is_computed:
        few = blocking.column_panels <= PANELS_AT_ONCE
        emit_pack(module, f"{name}_pack_b", blocking, "b", PANELS_AT_ONCE if few else 1)
    # named by what it is: a product whose functions are all known leaves its number to the next
    element = memory_type(blocking.problem.accumulator)
    zeros = f"zeros_{blocking.tile.columns}_{element}"
    kind = f"[{blocking.tile.columns} x {element}]"
    line = f"@{zeros} = internal constant {kind} zeroinitializer, align 64"
    if blocking.pieces > 1 and not blocking.uses_tiles and line not in module.globals:
        module.globals.append(line)
    names = {what: module.once(f"{name}_{what}") for what in ("kernel", "pack_a", "pack_b")}
    module.shared[blocking] = {**names, "zeros": zeros}
    return module.shared[blocking]


def emit_pack(module: Module, name: str, blocking: Blocking, which: str, at_once: int = 1) -> None:
    """Emit the function that packs a matrix, A or B, some panels `at_once`."""
    if blocking.uses_tiles:
        emit_tile_pack(module, name, blocking, which)
    elif which == "a":
        emit_pack_a(module, name, blocking)
    else:
        emit_pack_b(module, name, blocking, at_once)


@record
class _Memory:
    """The scratch memory of a part: packed panels, partial sums, and a tile."""

    a: str
    b: str
    partial: str
    tile: str


@record
class _Emitter:
    """Emits the loops around the register tile."""

    module: Module
    f: Function
    plan: GemmPlan
    blocking: Blocking
    places: Places
    epilogue: Epilogue | None
    open_scope: Callable[[Function], Scope] | None
    extra: list[tuple[str, str, str]]
    polls: bool

    @property
    def converts(self) -> bool:
        """Whether finished sums differ from what C holds."""
        problem = self.blocking.problem
        is_plain = self.epilogue is None and problem.out_dtype == problem.accumulator
        return self.blocking.swapped or self.blocking.scatters or not is_plain

    @property
    def finishes(self) -> bool:
        """Whether some tile cannot go straight from registers to C."""
        tile = self.blocking.tile
        return self.converts or tile.has_row_edge or tile.has_column_edge

    def emit(self) -> None:
        """Emit the function that stores tiles at edges, and the loops around the tile."""
        if self.finishes:
            self._emit_finish(self.blocking)
        if not self.blocking.uses_tiles or self.blocking.in_vectors:
            self._region()
            return
        with tile_registers(self.module, self.f):
            self._region()

    def emit_whole(self) -> None:
        """Emit the product into memory of its own and one call that stores all of it.

        The tiles of long dot products are narrow: an epilogue for each would leave most lanes
        empty and wait for every result.
        """
        f, problem, tile = self.f, self.blocking.problem, self.blocking.tile
        lanes = floor_power(min(tile.n, 4 * self.blocking.dot_lanes))
        whole = replace(tile, rows=tile.m, lanes=lanes, vectors=-(-tile.n // lanes))
        kind = memory_type(problem.accumulator)
        sums = f.reserve(f"[{whole.rows * whole.columns} x {kind}]", 64)
        plain = replace(problem, c_row=whole.columns, c_lines=(), out_dtype=problem.accumulator)
        blocking = replace(self.blocking, problem=plain, swapped=False)
        places = replace(self.places, c=sums)
        replace(self, blocking=blocking, places=places, epilogue=None, extra=[]).emit()
        self._emit_finish(replace(self.blocking, tile=whole))
        self._call_finish(sums, self.places.c, ("0", "0"), ("0", "0"), "true")

    @cached_property
    def name(self) -> str:
        """The name of this product's own functions."""
        return f"product_{len(self.module.functions)}"

    @cached_property
    def inner(self) -> Mapping[str, str]:
        """The names of what it shares with equal products."""
        return _emit_inner(self.module, self.name, self.blocking)

    def _emit_finish(self, blocking: Blocking) -> None:
        extra = [(kind, name) for kind, name, _ in self.extra]
        emit_finish(self.module, f"{self.name}_finish", blocking, self.epilogue, extra)

    def _call_finish(
        self, tile: str, c: str, place: tuple[str, str], skips: tuple[str, str], final: str
    ) -> None:
        self.f.do(
            f"call void @{self.name}_finish(ptr {tile}, ptr {c}, i64 {place[0]}, i64 {place[1]}, "
            f"i64 {skips[0]}, i64 {skips[1]}, i1 {final}{self._extra})"
        )

    def _region(self) -> None:
        """Emit the loops over the panels of this part."""
        f, tile, shares = self.f, self.blocking.tile, self.plan.shares
        scratch, part = self.places.scratch, self.places.part
        buffer = "null"
        if self.finishes:
            kind = memory_type(self.blocking.problem.accumulator)
            buffer = f.reserve(f"[{tile.rows * tile.columns} x {kind}]", 64)
        if part == "0":
            first, last, left, right = map(str, shares[0])
            self._blocks(buffer, scratch, (first, last), (left, right))
            return
        with f.when(f.emit(f"icmp ult i64 {part}, {len(shares)}")):
            size = f.emit(f"mul i64 {part}, {self.blocking.slice_bytes}")
            first, last, left, right = self._share()
            self._blocks(buffer, f.offset(scratch, "i8", size), (first, last), (left, right))

    def _share(self) -> list[str]:
        """The bounds of this part, from a table."""
        f, table = self.f, f"@{self.name}_shares"
        shares = self.plan.shares
        numbers = ", ".join(f"i64 {x}" for share in shares for x in share)
        kind = f"[{4 * len(shares)} x i64]"
        self.module.globals.append(f"{table} = internal constant {kind} [{numbers}]")
        place = f.offset(table, "i64", f.emit(f"mul i64 {self.places.part}, 4"))
        return [f.emit(f"load i64, ptr {f.offset(place, 'i64', str(i))}") for i in range(4)]

    def _blocks(
        self, buffer: str, scratch: str, rows: tuple[str, str], columns: tuple[str, str]
    ) -> None:
        """Emit the loops over pieces of k and blocks of A and B: a single block of A first.

        A block of the inner loop is packed once for each block of the outer one.
        """
        f, blocking, tile = self.f, self.blocking, self.blocking.tile
        k = blocking.problem.k
        packed_a = f.offset(scratch, "i8", str(blocking.b_bytes))
        partial = f.offset(packed_a, "i8", str(blocking.a_bytes))
        memory = _Memory(packed_a, scratch, partial, buffer)
        if blocking.row_panels >= tile.row_panels:
            with self._cut(("0", str(k)), blocking.depth, k) as (piece, stop):
                depth = self._length(piece, stop)
                self._pack("a", self.places.a, packed_a, rows, piece, depth)
                with (
                    self._cut(columns, blocking.column_panels, tile.column_panels) as columns,
                    self._unless_stopped(),
                ):
                    self._pack("b", self.places.b, scratch, columns, piece, depth)
                    self._tiles(memory, rows, columns, piece, depth)
            return
        with (
            self._cut(columns, blocking.column_panels, tile.column_panels) as columns,
            self._cut(("0", str(k)), blocking.depth, k) as (piece, stop),
        ):
            depth = self._length(piece, stop)
            self._pack("b", self.places.b, scratch, columns, piece, depth)
            with (
                self._cut(rows, blocking.row_panels, tile.row_panels) as inner,
                self._unless_stopped(),
            ):
                self._pack("a", self.places.a, packed_a, inner, piece, depth)
                self._tiles(memory, inner, columns, piece, depth)

    def _unless_stopped(self) -> AbstractContextManager[None]:
        """Skip a block if the program must end."""
        return self.f.when(goes_on(self.f)) if self.polls else nullcontext()

    def _length(self, piece: str, stop: str) -> str:
        """The length of a piece of k."""
        return stop if piece == "0" else self.f.emit(f"sub i64 {stop}, {piece}")

    @contextmanager
    def _cut(self, span: tuple[str, str], step: int, most: int) -> Iterator[tuple[str, str]]:
        """Emit a loop over a span in steps of at most `most`; one step needs no loop."""
        f = self.f
        if step >= most:
            yield span
            return
        with f.loop(*span, str(step)) as loop:
            end = f.emit(f"add i64 {loop.index}, {step}")
            yield loop.index, f.intrinsic("umin", Vector("int64"), end, span[1])

    def _pack(
        self,
        which: str,
        source: str | OperandView,
        target: str,
        panels: tuple[str, str],
        piece: str,
        depth: str,
    ) -> None:
        """Pack panels of A or B, if they are to be packed now."""
        if not (self.blocking.copies_a if which == "a" else self.blocking.copies_b):
            return
        name, given, extra = self.inner[f"pack_{which}"], source, ""
        if isinstance(source, OperandView):
            name, given, extra = f"{self.name}_view_{which}", "null", self._extra
            if name not in self.module.functions:
                assert self.open_scope is not None, "a view is computed from buffers"
                parameters = [(kind, own) for kind, own, _ in self.extra]
                emit_view_pack(
                    self.module, name, self.blocking, source, which, self.open_scope, parameters
                )
        self.f.do(
            f"call void @{name}(ptr {given}, ptr {target}, i64 {panels[0]}, i64 {panels[1]}, "
            f"i64 {piece}, i64 {depth}{extra})"
        )

    @property
    def _extra(self) -> str:
        """The further arguments of the functions that know the program's buffers."""
        return "".join(f", {kind.split()[0]} {value}" for kind, _, value in self.extra)

    def _tiles(
        self,
        memory: _Memory,
        rows: tuple[str, str],
        columns: tuple[str, str],
        piece: str,
        depth: str,
    ) -> None:
        """Emit the loops over the tiles of a block; one panel stays in the first cache."""
        f, tile, along_rows = self.f, self.blocking.tile, self.blocking.along_rows
        outer, inner = (rows, columns) if along_rows else (columns, rows)
        with f.loop(*outer) as slow, f.loop(*inner) as fast:
            down, across = (slow.index, fast.index) if along_rows else (fast.index, slow.index)
            j = panel_start(f, across, tile.columns, tile.n)
            b = self._panel("b", memory.b, across, columns[0], j, piece)
            i = panel_start(f, down, tile.rows, tile.m)
            a = self._panel("a", memory.a, down, rows[0], i, piece)
            skip_i = self._skip(down, tile.rows, i, tile.has_row_edge)
            skip_j = self._skip(across, tile.columns, j, tile.has_column_edge)
            ahead = self._ahead(b, f.emit(f"sub i64 {down}, {rows[0]}"))
            self._tile(memory, (a, b, ahead), (i, j), (skip_i, skip_j), piece, depth)

    def _ahead(self, b: str, number: str) -> str:
        """The place from which a tile prefetches its share of the next panel of B."""
        f, blocking = self.f, self.blocking
        if not blocking.fetches:
            return "null"
        size = blocking.b_panel * blocking.problem.itemsize
        part = blocking.steps * blocking.fetched_bytes
        return f.offset(b, "i8", f.emit(f"add i64 {f.emit(f'mul i64 {number}, {part}')}, {size}"))

    def _panel(
        self, which: str, packed: str, panel: str, first: str, start: str, piece: str
    ) -> str:
        """The start of a tile's panel of A or B, packed or in place."""
        f, blocking, problem = self.f, self.blocking, self.blocking.problem
        source, operand, count = self.places.a, problem.a, blocking.tile.row_panels
        if which == "b":
            source, operand = self.places.b, problem.b.transposed
            count = blocking.tile.column_panels
        along, through = operand.row, operand.column
        if blocking.pack_a if which == "a" else blocking.pack_b:
            size = blocking.a_panel if which == "a" else blocking.b_panel
            if operand.is_packed:
                assert isinstance(source, str), "panels lie in memory"
                packed, number = source, self._panel_number(panel, count, piece)
            else:
                number = f.emit(f"sub i64 {panel}, {first}")
            place = f.emit(f"mul i64 {number}, {size}")
            return f.offset(packed, memory_type(problem.accumulator), place)
        assert isinstance(source, str), "a view is packed"
        if which == "a" and blocking.reads_windows:
            windows, kind = blocking.windows, memory_type(problem.dtype)
            source = f.offset(source, kind, place_of(f, windows.lines, start))
            return f.offset(source, kind, place_of(f, windows.depths, piece))
        place = f.emit(
            f"add i64 {f.emit(f'mul i64 {start}, {along}')}, "
            f"{f.emit(f'mul i64 {piece}, {through}')}"
        )
        return f.offset(source, memory_type(problem.dtype), place)

    def _panel_number(self, panel: str, count: int, piece: str) -> str:
        """The number of a panel among those of all pieces, `count` in each."""
        if self.blocking.pieces == 1:
            return panel
        before = self.f.emit(f"udiv i64 {piece}, {self.blocking.depth}")
        return self.f.emit(f"add i64 {self.f.emit(f'mul i64 {before}, {count}')}, {panel}")

    def _skip(self, panel: str, step: int, start: str, has_edge: bool) -> str:
        """How many rows or columns a panel at the edge shares with the one before."""
        if not has_edge:
            return "0"
        return self.f.emit(f"sub i64 {self.f.emit(f'mul i64 {panel}, {step}')}, {start}")

    def _tile(
        self,
        memory: _Memory,
        pointers: tuple[str, str, str],
        place: tuple[str, str],
        skips: tuple[str, str],
        piece: str,
        depth: str,
    ) -> None:
        """Compute one tile, straight into C or through the buffer."""
        f, blocking = self.f, self.blocking
        problem, tile = blocking.problem, blocking.tile
        (a, b, ahead), (i, j) = pointers, place
        # Without partial sums of its own a part sums in C.
        base = memory.partial if blocking.keeps_partial else self.places.c
        row = place_of(f, blocking.sum_lines, i)
        index = f.emit(f"add i64 {row}, {j}")
        sums = f.offset(base, memory_type(problem.accumulator), index)
        start, start_row, final = "null", "0", "true"
        if blocking.pieces > 1:
            is_first = f.emit(f"icmp eq i64 {piece}, 0")
            start = f.emit(f"select i1 {is_first}, ptr @{self.inner['zeros']}, ptr {sums}")
            start_row = f.emit(f"select i1 {is_first}, i64 0, i64 {blocking.partial_row}")
            final = f.emit(f"icmp uge i64 {f.emit(f'add i64 {piece}, {depth}')}, {problem.k}")
        buffered = final if self.converts else "false"
        if skips != ("0", "0"):
            skipped = f.emit(f"icmp ne i64 {f.emit(f'or i64 {skips[0]}, {skips[1]}')}, 0")
            buffered = f.emit(f"or i1 {buffered}, {skipped}")
        out, out_row = sums, str(blocking.partial_row)
        if self.finishes:
            out = f.emit(f"select i1 {buffered}, ptr {memory.tile}, ptr {sums}")
            out_row = f.emit(f"select i1 {buffered}, i64 {tile.columns}, i64 {out_row}")
        f.do(
            f"call void @{self.inner['kernel']}(ptr {a}, ptr {b}, ptr {start}, i64 {start_row}, "
            f"ptr {out}, i64 {out_row}, i64 {depth}, ptr {ahead})"
        )
        if not self.finishes:
            return
        if blocking.keeps_partial:
            base = f.emit(f"select i1 {final}, ptr {self.places.c}, ptr {base}")
        with f.when(buffered):
            self._call_finish(memory.tile, base, place, skips, final)
