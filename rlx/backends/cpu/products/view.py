"""Packing of operands that are not strided matrices: windows, padding.

They are computed as they are packed. A line (row of A, column of B) and the depth are flat
variables; where an index divides them, they are split into digits, the last of which steps through
memory. A vector of lanes that goes over the end of a digit is put together from several loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ....ir.dims import Size
from ....ir.record import record
from ....ir.types import as_dtype
from ....lower.lir.digits import Digits, step_of
from ....lower.lir.expr import Expr, Guard, Load, apply, guard, load, load_of, substitute, walk
from ....lower.lir.index import Index, Quotient, Remainder, Variable, as_index, is_long
from ..llvm.text import Function, Module, Vector
from ..loops.scope import Scope
from ..loops.vectors import first_lanes, transpose
from .kernel import store
from .pack import PARAMETERS, panel_start
from .problem import BYTES, Blocking, clipped_offsets, floor_power, memory_type

FULL = 16  # neighbors that fill any vector


def _joined(e: Expr, variable: Variable, divisor: int) -> Expr:
    """The digits of a variable below and above `divisor` as one, in conditions and places.

    Pixels of three colors lie side by side: columns 0 to w are numbers 0 to 3 w. The condition
    on the column would cut the run of a window's row into columns.
    """

    def whole(atom: object) -> Index | None:
        """What is divided by the divisor to give the atom."""
        if isinstance(atom, Quotient) and atom.divisor == divisor:
            return atom.index if step_of(atom.index, variable) == 1 else None
        if isinstance(atom, Remainder) and len(atom.index.terms) == 1:
            inner = whole(atom.index.terms[0][0])
            is_plain = atom.index == Index(((atom.index.terms[0][0], 1),))
            return inner % (atom.divisor * divisor) if inner and is_plain else None
        return None

    def condition(index: Index, low: Size, high: Size) -> tuple[Index, Size, Size]:
        for atom, coefficient in index.terms:
            joined = whole(atom) if coefficient == 1 else None
            if joined is not None:
                rest = index - Index(((atom, 1),))
                return joined + rest * divisor, low * divisor, high * divisor
        return index, low, high

    def place(index: Index) -> Index:
        for atom, coefficient in index.terms:
            joined = whole(atom)
            if joined is not None and coefficient % divisor == 0:
                step = coefficient // divisor
                parts = Index(((atom, coefficient),)) + as_index(variable) % divisor * step
                return index - parts + joined * step
        return index

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load):
            return load(e.buffer, place(e.index))
        if not isinstance(e, Guard):
            return None
        inside, outside = (_joined(x, variable, divisor) for x in (e.inside, e.outside))
        return guard([condition(*bound) for bound in e.bounds], e.steps, inside, outside)

    return substitute(e, {}, leaf)


@record
class OperandView:
    """An operand as an expression of its `line`, the `depth` and the batch variables."""

    given: Expr
    line: Variable
    depth: Variable

    @cached_property
    def expr(self) -> Expr:
        """The expression, with conditions that leave neighbors in memory together."""
        cuts = _digits(self.depth, self.given)
        if cuts.period % FULL == 0 or len(cuts.parts) == 1:
            return self.given
        joined = _joined(self.given, self.depth, cuts.period)
        digits = _digits(self.depth, joined)
        place = load_of(joined).index.substitute({self.depth: digits.index})
        return joined if place.stride_of(digits.parts[-1]) == 1 else self.given

    @cached_property
    def lines(self) -> Digits:
        """The digits of the line."""
        return _digits(self.line, self.expr)

    @cached_property
    def depths(self) -> Digits:
        """The digits of the depth."""
        return _digits(self.depth, self.expr)

    @cached_property
    def element(self) -> Expr:
        """The expression in terms of all digits."""
        table = {
            variable: digits.index
            for variable, digits in ((self.line, self.lines), (self.depth, self.depths))
            if is_long(variable)
        }
        return substitute(self.expr, table)

    @property
    def run(self) -> int:
        """The length of contiguous runs along the depth; 0 if they go across it."""
        return self._run(self.depths) if self.goes_along_depth else 0

    @property
    def goes_along_depth(self) -> bool:
        """Whether longer runs in memory go along the depth than along the lines."""
        return self._run(self.depths) > self._run(self.lines)

    def _run(self, digits: Digits) -> int:
        stride = load_of(self.element).index.stride_of(digits.parts[-1])
        # every second number is taken from two vectors, which are masked alike
        return digits.period if stride == 1 else digits.period // 4 if stride == 2 else 0


def emit_view_pack(
    module: Module,
    name: str,
    blocking: Blocking,
    view: OperandView,
    which: str,
    open_scope: Callable[[Function], Scope],
    extra: Sequence[tuple[str, str]],
) -> None:
    """Emit the function, like `emit_pack_a`'s, that packs panels of a view.

    The scope that `open_scope` gives has the buffers and the batch variables.
    """
    f = module.function(name, [*PARAMETERS, *extra], linkage="internal")
    tile, kind = blocking.tile, memory_type(blocking.problem.accumulator)
    is_a = which == "a"
    step, size = (tile.rows, tile.m) if is_a else (tile.columns, tile.n)
    numbers = blocking.a_panel if is_a else blocking.b_panel
    scope = open_scope(f)
    with f.loop("%first", "%last") as panels:
        panel = f.emit(f"sub i64 {panels.index}, %first")
        target = f.offset("%target", kind, f.emit(f"mul i64 {panel}, {numbers}"))
        start = panel_start(f, panels.index, step, size)
        packer = _Packer(f, blocking, view, scope, target, start)
        if is_a and blocking.a_chunk > 1:
            packer.rows()
        elif is_a:
            packer.columns(tile.rows, min(tile.lanes, floor_power(tile.rows)), is_spread=False)
        else:
            packer.columns(tile.columns, tile.lanes, is_spread=True)
    f.do("ret void")


@record
class _Packer:
    """The code for one panel, which begins at the line `start`."""

    f: Function
    blocking: Blocking
    view: OperandView
    scope: Scope
    target: str
    start: str

    @cached_property
    def element(self) -> Expr:
        """The element of the view, in the dtype that is multiplied."""
        problem, element = self.blocking.problem, self.view.element
        if problem.dtype not in BYTES:
            return element
        return apply("convert", as_dtype(problem.accumulator), element)

    # -- lanes along the depth --------------------------------------------------------------------

    def rows(self) -> None:
        """A panel of A in chunks: the lanes of a row go along the depth."""
        f, view, blocking = self.f, self.view, self.blocking
        chunk, kind = blocking.a_chunk, memory_type(blocking.problem.accumulator)
        lanes = min(chunk, blocking.tile.lanes)
        with f.loop("0", str(blocking.tile.rows)) as rows:
            line = f.emit(f"add i64 {self.start}, {rows.index}")
            outer = self.scope.inner(_names(f, view.lines, line))
            outer.hoist([self.element], set(view.depths.parts))
            target = f.offset(self.target, kind, f.emit(f"mul i64 {rows.index}, {chunk}"))
            if blocking.keeps_rows:
                self._runs(outer, target)
            else:
                whole = f.emit(f"and i64 %depth, {-chunk}")
                self._row(outer, target, ("0", whole), lanes)
                if blocking.problem.k % chunk:
                    self._row(outer, target, (whole, "%depth"), 1)

    def _runs(self, outer: Scope, target: str) -> None:
        """A whole row, run by run; the last vector of a run is moved back to fit."""
        f, depths = self.f, self.view.depths
        kind = memory_type(self.blocking.problem.accumulator)
        lanes = min(self.blocking.tile.lanes, floor_power(depths.period))
        with f.loop("0", str(self.blocking.problem.k // depths.period)) as runs:
            start = f.emit(f"mul i64 {runs.index}, {depths.period}")
            names = _names(f, depths, start)
            end = f.offset(target, kind, start)
            for offset in clipped_offsets(depths.period, lanes):
                places = {**names, depths.parts[-1]: str(offset)}
                scope = outer.inner(places, lanes=lanes, along=depths.parts[-1])
                self._store([scope], lanes, end, str(offset))

    def _row(self, outer: Scope, target: str, span: tuple[str, str], lanes: int) -> None:
        f, blocking, depths = self.f, self.blocking, self.view.depths
        chunk, kind = blocking.a_chunk, memory_type(blocking.problem.accumulator)
        with f.loop(*span, str(lanes)) as loop:
            p = loop.index
            before = f.emit(f"lshr i64 {p}, {chunk.bit_length() - 1}")
            place = f.emit(f"mul i64 {before}, {blocking.a_column}")
            place = f.emit(f"add i64 {place}, {f.emit(f'and i64 {p}, {chunk - 1}')}")
            end = f.offset(target, kind, place)
            number = f.emit(f"add i64 %piece, {p}")

            def put(scopes: Sequence[Scope]) -> None:
                self._store(scopes, lanes, end, "0")

            is_aligned = depths.period % lanes == 0 and blocking.depth % lanes == 0
            self._split(outer, depths, number, lanes, put, is_aligned)

    # -- lanes along the lines --------------------------------------------------------------------

    def columns(self, width: int, lanes: int, *, is_spread: bool) -> None:
        """A panel in which the lines of one depth lie side by side, as do the lanes.

        The vectors of a narrow matrix overlap, in the panel too unless it `is_spread`.
        """
        f, tile = self.f, self.blocking.tile
        seen = min(width, tile.n) if is_spread else width
        count = len(clipped_offsets(seen, lanes))
        with f.loop("0", str(count * lanes), str(lanes)) as vectors:
            offset = vectors.index
            if seen % lanes:
                offset = f.intrinsic("smin", Vector("int64"), offset, str(seen - lanes))
            place = vectors.index if is_spread else offset
            number = f.emit(f"add i64 {self.start}, {offset}")

            def fill(scopes: Sequence[Scope]) -> None:
                self._column(scopes, width, lanes, place)

            if self._can_turn(lanes):
                self._turned(number, width, lanes, place)
            else:
                self._split(self.scope, self.view.lines, number, lanes, fill, False)

    def _column(self, scopes: Sequence[Scope], width: int, lanes: int, place: str) -> None:
        """Go down the depth, innermost the slowest digit, on which no padding depends."""
        f, depths, blocking = self.f, self.view.depths, self.blocking
        kind = memory_type(blocking.problem.accumulator)
        step = depths.strides[0]
        if blocking.depth % step and blocking.pieces > 1:
            with f.loop("0", "%depth") as loop:
                number = f.emit(f"add i64 %piece, {loop.index}")
                end = f.offset(self.target, kind, f.emit(f"mul i64 {loop.index}, {width}"))
                self._store(_with(scopes, _names(f, depths, number)), lanes, end, place)
            return
        first = f.emit(f"udiv i64 %piece, {step}")
        last = f.emit(f"udiv i64 {f.emit('add i64 %piece, %depth')}, {step}")

        def down(scopes: Sequence[Scope], left: Sequence[tuple[Variable, int]], k: str) -> None:
            for scope in scopes:
                scope.hoist([self.element], {depths.parts[0], *(v for v, _ in left)})
            if left:
                (part, stride), *rest = left
                with f.loop("0", str(part.extent)) as loop:
                    further = f.emit(f"add i64 {k}, {f.emit(f'mul i64 {loop.index}, {stride}')}")
                    down(_with(scopes, {part: loop.index}), rest, further)
                return
            with f.loop(first, last) as loop:
                row = f.emit(f"add i64 {k}, {f.emit(f'mul i64 {loop.index}, {step}')}")
                row = f.emit(f"sub i64 {row}, %piece")
                end = f.offset(self.target, kind, f.emit(f"mul i64 {row}, {width}"))
                self._store(_with(scopes, {depths.parts[0]: loop.index}), lanes, end, place)

        inner = list(zip(depths.parts[1:], depths.strides[1:], strict=True))
        down(scopes, inner, "0")

    # -- lanes along the depth, turned -------------------------------------------------------------

    def _can_turn(self, lanes: int) -> bool:
        """Whether runs of the depth fill short vectors, to be transposed by the block."""
        step = self._block_depth
        sizes = (self.view.depths.period, self.blocking.depth, self.blocking.problem.k)
        is_even = step > 1 and lanes % step == 0 and not any(size % step for size in sizes)
        return self.view.goes_along_depth and is_even

    @property
    def _block_depth(self) -> int:
        return 16 // self.blocking.problem.itemsize

    def _turned(self, number: str, width: int, lanes: int, place: str) -> None:
        """Read blocks of `lanes` lines and as much depth as fits into 16 bytes."""
        f, view, depths, step = self.f, self.view, self.view.depths, self._block_depth
        dtype = self.blocking.problem.accumulator
        scopes = []
        for lane in range(lanes):
            line = f.emit(f"add i64 {number}, {lane}")
            names = _names(f, view.lines, line)
            scope = self.scope.inner(names, lanes=step, along=depths.parts[-1])
            scope.hoist([self.element], set(depths.parts))
            scopes.append(scope)
        with f.loop("0", "%depth", str(step)) as loop:
            names = _names(f, depths, f.emit(f"add i64 %piece, {loop.index}"))
            rows = [scope.vector(self.element) for scope in _with(scopes, names)]
            begin = f.emit(f"add i64 {f.emit(f'mul i64 {loop.index}, {width}')}, {place}")
            end = f.offset(self.target, memory_type(dtype), begin)
            for i, row in enumerate(transpose(f, Vector(dtype, step), rows)):
                store(f, dtype, lanes, row, end, i * width)

    # -- vectors that go over the end of a digit --------------------------------------------------

    def _split(
        self,
        outer: Scope,
        digits: Digits,
        number: str,
        lanes: int,
        body: Callable[[Sequence[Scope]], None],
        is_aligned: bool,
    ) -> None:
        """Call `body` with the scopes of a vector's parts: nearly always one, else masked ones."""
        f, period = self.f, digits.period
        names = _names(f, digits, number)
        along = digits.parts[-1] if lanes > 1 else None
        whole = outer.inner(names, lanes=lanes, along=along)
        if lanes == 1 or len(digits.parts) == 1 or is_aligned:
            body([whole])
            return
        place = names[digits.parts[-1]]
        end = f.emit(f"add i64 {place}, {lanes}")
        if period >= lanes:
            with f.when(f.emit(f"icmp ule i64 {end}, {period}")):
                body([whole])
            with f.when(f.emit(f"icmp ugt i64 {end}, {period}")):
                body(self._parts(outer, digits, number, lanes))
            return
        body(self._parts(outer, digits, number, lanes))

    def _parts(self, outer: Scope, digits: Digits, number: str, lanes: int) -> list[Scope]:
        """A scope for each value of the slower digits that a vector may reach."""
        f, period, along = self.f, digits.period, digits.parts[-1]
        inside = f.emit(f"urem i64 {number}, {period}")
        begin = f.emit(f"sub i64 {number}, {inside}")
        scopes = []
        for part in range(-(-(lanes - 1) // period) + 1):
            here = f.emit(f"add i64 {begin}, {part * period}")
            place = f.emit(f"sub i64 {inside}, {part * period}")
            mask = first_lanes(f, lanes, f.emit(f"sub i64 {period}, {place}"))
            if part:
                before = first_lanes(f, lanes, f.emit(f"sub i64 0, {place}"))
                mask = f.emit(f"xor {Vector('bool', lanes).text} {mask}, {before}")
            names = {**_names(f, digits, here), along: place}
            scopes.append(outer.inner(names, lanes=lanes, along=along, mask=mask, guarded=part > 0))
        return scopes

    def _store(self, scopes: Sequence[Scope], lanes: int, end: str, place: str) -> None:
        """Store a vector, the parts of which come from scopes with their masks."""
        f, element = self.f, self.element
        dtype = self.blocking.problem.accumulator
        vector = Vector(dtype, lanes)
        made = ""
        for scope in scopes:
            value = scope.inner().vector(element)
            made = f.select(vector, scope.mask or "", value, made) if made else value
        store(f, dtype, lanes, made, end, place)


def _digits(variable: Variable, expr: Expr) -> Digits:
    return Digits.of(variable, [index for e in walk(expr) for index in e.indices])


def _names(f: Function, digits: Digits, number: str) -> dict[Variable, str]:
    """The digits of a number."""
    names = {}
    for part, stride in zip(digits.parts, digits.strides, strict=True):
        digit = number if stride == 1 else f.emit(f"udiv i64 {number}, {stride}")
        if part is not digits.parts[0]:
            digit = f.emit(f"urem i64 {digit}, {part.extent}")
        names[part] = digit
    return names


def _with(scopes: Sequence[Scope], names: dict[Variable, str]) -> list[Scope]:
    return [scope.inner(names) for scope in scopes]
