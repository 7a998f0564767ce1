"""Running combinations: vectors beside each other, or along the line itself."""

from __future__ import annotations

from ....ir.dims import Size, likely
from ....ir.types import as_dtype, neutral
from ....lower.lir.index import Variable
from ....lower.lir.program import Scan, Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .kernels import Layout, buffers_of, nest, open_scope, part_range
from .scalar import combine, convert, register
from .scope import Scope
from .sums import is_batch_invariant
from .vectors import best_variable, choose_lanes, first_lanes, vector_lines

BLOCK = 4096  # bytes of a line that are combined before the next line


def emit_scan(f: Function, scan: Scan, layout: Layout, host: Host, split: bool) -> None:
    """Emit a running combination: a loop in order, inside of the others."""
    exprs = [scan.expr, *scan.index.loads]
    scope = open_scope(f, layout, host, [*buffers_of(exprs), scan.buffer])
    beside = loop_beside(scan)
    others = [v for v in scan.loops if v is not beside]

    def lines(inner: Scope) -> None:
        if beside is None:
            _along(inner, scan)
        else:
            _beside(inner, scan, beside, split and not others)

    nest(scope, others, lines, split)


def loop_beside(scan: Scan) -> Variable | None:
    """The loop that lanes go along if they do not go along the line."""
    if not scan.loops:
        return None
    candidate = scan.loops[-1]
    is_best = best_variable([scan.expr], [candidate, scan.along]) is candidate
    return candidate if is_best else None


# -- lanes beside each other --------------------------------------------------------------------


def _beside(scope: Scope, scan: Scan, beside: Variable, split: bool) -> None:
    """Combine blocks of many lines, each at a place before the next place."""
    f, extent = scope.f, scope.f.number(beside.extent)
    lanes = choose_lanes(scope.host, [scan.expr], beside.extent)
    vector = register(scan.expr.dtype.name, lanes)
    size = max(
        lanes, min(BLOCK // scan.expr.dtype.itemsize, 1 << (likely(beside.extent) - 1).bit_length())
    )
    table = f.reserve(f"[{size // lanes} x {vector.text}]", 64)
    start, stop = part_range(f, beside.extent, lanes) if split else ("0", extent)
    length = f.number(scan.along.extent)
    with f.loop(start, stop, str(size)) as block:
        end = f.intrinsic("smin", Vector("int64"), f.emit(f"add i64 {block.index}, {size}"), stop)
        with f.loop("0", length) as loop:
            line = scope.inner()
            line.names[scan.along] = _place(f, scan, loop.index)
            is_first = f.emit(f"icmp eq i64 {loop.index}, 0")

            def step(at: str, mask: str | None) -> None:
                inner = line.inner(lanes=lanes, along=beside, mask=mask)
                inner.names[beside] = at
                number = f.emit(f"sub i64 {at}, {block.index}")
                slot = f.offset(table, vector.element, number)
                before = f.emit(f"load {vector.text}, ptr {slot}, align {scan.expr.dtype.itemsize}")
                value = inner.vector(scan.expr)
                both = combine(f, scan.combine, vector, before, value)
                total = f.emit(f"select i1 {is_first}, {vector.text} {value}, {vector.text} {both}")
                f.do(f"store {vector.text} {total}, ptr {slot}, align {scan.expr.dtype.itemsize}")
                _put(inner, scan, total)

            vector_lines(f, block.index, end, lanes, step)


def _place(f: Function, scan: Scan, number: str) -> str:
    """The place along the line of a round."""
    if not scan.reverse:
        return number
    return f.emit(f"sub i64 {f.number(scan.along.extent - 1)}, {number}")


def _put(scope: Scope, scan: Scan, total: str) -> None:
    text = convert(scope.f, scan.expr.dtype.name, scan.buffer.number_dtype.name, scope.lanes, total)
    scope.store(Store(scan.buffer, scan.index, scan.expr), (text, scope.lanes > 1))


# -- lanes along the line -----------------------------------------------------------------------


def _along(scope: Scope, scan: Scan) -> None:
    """Combine the lanes of a vector, then all of them with what was before."""
    f, extent = scope.f, scope.f.number(scan.along.extent)
    lanes = choose_lanes(scope.host, [scan.expr], scan.along.extent, most=1)
    lanes = 1 if is_batch_invariant(scope, scan) else lanes
    vector = register(scan.expr.dtype.name, lanes)
    start = f.constant(vector, neutral(scan.combine, as_dtype(vector.dtype)))
    left, whole = _rest(f, scan.along.extent, lanes)

    def step(at: str, before: str, mask: str | None) -> str:
        inner = scope.inner(lanes=lanes, along=scan.along, mask=mask)
        inner.names[scan.along] = at
        value = inner.vector(scan.expr)
        if mask is not None:
            kind = f"{Vector('bool', lanes).text} {mask}"
            value = f.emit(f"select {kind}, {vector.text} {value}, {vector.text} {start}")
        sums = _combined_lanes(f, scan, vector, value, start)
        _put(inner, scan, combine(f, scan.combine, vector, before, sums))
        last = 0 if scan.reverse else lanes - 1
        total = f.shuffle(vector, sums, start, [last] * lanes) if lanes > 1 else sums
        return combine(f, scan.combine, vector, before, total)

    with f.loop("0", whole, str(lanes), [(vector.text, start)]) as loop:
        at = loop.index
        if scan.reverse:
            at = f.emit(f"sub i64 {f.emit(f'sub i64 {extent}, {lanes}')}, {at}")
        loop.next = [step(at, loop.values[0], None)]
    if left != "0":
        with f.when(f.emit(f"icmp ne i64 {left}, 0")):
            at = "0" if scan.reverse else whole
            step(at, loop.values[0], first_lanes(f, lanes, left))


def _rest(f: Function, extent: Size, lanes: int) -> tuple[str, str]:
    """What is left of a line after whole vectors, and what is in these."""
    if isinstance(extent, int):
        return str(extent % lanes), str(extent - extent % lanes)
    number = f.number(extent)
    left = f.emit(f"urem i64 {number}, {lanes}")
    return left, f.emit(f"sub i64 {number}, {left}")


def _combined_lanes(f: Function, scan: Scan, vector: Vector, x: str, start: str) -> str:
    """Combine each lane with all before it: with the one before, with two, with four."""
    lanes, step = vector.lanes, 1
    while step < lanes:
        if scan.reverse:
            places = [*range(step, lanes), *[lanes] * step]
        else:
            places = [*[lanes] * step, *range(lanes - step)]
        x = combine(f, scan.combine, vector, f.shuffle(vector, x, start, places), x)
        step *= 2
    return x
