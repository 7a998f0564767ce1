"""Kernels with a thread for each value of the parallel loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir.types import SHORT, is_float, neutral
from ...lower.lir.expr import Load
from ...lower.lir.program import Kernel, Scan, Scatter, Store, TopK
from .arithmetic import BOOL
from .body import Body, Setting, Written
from .dialect import INT32, Dialect, LocalArray, register
from .geometry import Grid, along_groups, size_of
from .scalars import Scalars


def write_kernel(kernel: Kernel, setting: Setting) -> Written:
    """Write a `Kernel`: reductions inside are loops of the thread."""
    stores = kernel.stores
    body = Body.storing(setting, stores, kernel.loops)
    grid = Grid.of(kernel.loops, setting.dialect.limits, is_turned(kernel))
    with grid.inside(body.writer):
        write_stores(body.writer, stores)
    return body.finish_on(grid)


def is_turned(kernel: Kernel) -> bool:
    """Whether something is read along the loop before the last one."""
    if len(kernel.loops) < 2:
        return False
    before, last = kernel.loops[-2:]
    loads = [e.index for e in kernel.exprs if isinstance(e, Load)]
    return any(i.stride_of(before) == 1 and abs(i.stride_of(last)) > 1 for i in loads)  # type: ignore


def write_stores(writer: Scalars, stores: Sequence[Store]) -> None:
    """Write stores; all is read before anything is written."""
    name = writer.value if len(stores) > 1 else writer.expr
    values = [(s, writer.index(s.index), name(s.expr)) for s in stores]
    for store, place, value in values:
        writer.store(store.buffer, place, value)


def write_scan(scan: Scan, setting: Setting) -> Written:
    """Write a `Scan`: a thread goes along the last loop."""
    loops = (*scan.loops, scan.along)
    body = Body.of(setting, [scan.expr], [scan.index], loops, [scan.buffer])
    writer, dtype = body.writer, scan.expr.dtype
    kind = register(dtype)
    grid = Grid.of(scan.loops, setting.dialect.limits)
    with grid.inside(writer):
        start = writer.dialect.literal(kind, neutral(scan.combine, kind))
        writer.line(writer.dialect.variable(kind, "total", start))
        with writer.loop(scan.along) as turn:
            if scan.reverse:
                last = writer.whole(int(scan.along.extent) - 1)  # type: ignore[arg-type]
                writer.variables[scan.along] = f"({last} - {turn})"
            writer.combine("total", scan.combine, dtype, scan.expr)
            value = writer.convert(dtype, scan.buffer.number_dtype, "total")
            writer.store(scan.buffer, writer.index(scan.index), value)
    return body.finish_on(grid)


def write_top_k(step: TopK, setting: Setting) -> Written:
    """Write a `TopK`: a thread keeps those so far in order, where the results go."""
    loops = (*step.loops, step.along, step.rank)
    written = [step.values, step.places]
    body = Body.of(setting, [step.expr], [step.index], loops, written)
    writer, dialect, dtype = body.writer, setting.dialect, step.expr.dtype
    most = int(step.rank.extent)  # type: ignore[arg-type]

    def at(rank: str) -> str:
        writer.variables[step.rank] = rank
        return writer.index(step.index)

    def place_of(text: str) -> str:
        return writer.convert(writer.index_dtype, INT32, text)

    grid = Grid.of(step.loops, dialect.limits)
    with grid.inside(writer):
        with writer.loop(step.along) as turn:
            value = writer.fresh("x")
            writer.constant(value, writer.expr(step.expr), dtype)
            index = writer.index_dtype
            limit = writer.whole(most)
            full = writer.pair("lt", index, turn, limit, BOOL)
            start = writer.call("select", [BOOL, index, index], index, [full, turn, limit])
            writer.line(dialect.variable(index, "rank", start))
            with writer.block(f"while (rank > {writer.whole(0)}) {{"):
                before = writer.loaded(writer.parameters[step.values], at("(rank - 1)"))
                writer.constant("before", before, dtype)
                with writer.block(f"if (!{is_greater(writer, dtype, value, 'before')}) {{"):
                    writer.line("break;")
                with writer.block(f"if (rank < {limit}) {{"):
                    writer.store(step.values, at("rank"), "before")
                    old = writer.loaded(writer.parameters[step.places], at("(rank - 1)"))
                    writer.store(step.places, at("rank"), old)
                writer.line(f"rank = rank - {writer.whole(1)};")
            with writer.block(f"if (rank < {limit}) {{"):
                writer.store(step.values, at("rank"), value)
                writer.store(step.places, at("rank"), place_of(turn))
    return body.finish_on(grid)


def is_greater(writer: Scalars, dtype: np.dtype, x: str, y: str) -> str:
    """Whether one number comes after another in order: NaN comes last."""
    text = writer.pair("gt", dtype, x, y, BOOL)
    if not is_float(dtype):
        return text
    is_nan = writer.pair("ne", dtype, x, x, BOOL)
    is_number = writer.pair("eq", dtype, y, y, BOOL)
    return f"({text} || ({is_nan} && {is_number}))"


def write_scatter(scatter: Scatter, setting: Setting) -> Written:
    """Write a `Scatter`: a thread does in order what may go to the same place."""
    conditions = [b[0] for b in scatter.bounds]
    body = Body.of(
        setting,
        [scatter.expr],
        [scatter.index, *conditions],
        scatter.loops,
        [scatter.buffer],
    )
    writer = body.writer
    grid = Grid.of(scatter.apart, setting.dialect.limits)

    def change() -> None:
        if not scatter.bounds:
            _combine_into(writer, scatter)
            return
        with writer.block(f"if ({writer.condition(scatter.bounds)}) {{", branch=True):
            _combine_into(writer, scatter)

    with grid.inside(writer):
        writer.nest([v for v in scatter.loops if v not in scatter.apart], change)
    return body.finish_on(grid)


def _combine_into(writer: Scalars, scatter: Scatter) -> None:
    buffer, dtype = scatter.buffer, scatter.expr.dtype
    place = writer.index(scatter.index)
    value = writer.expr(scatter.expr)
    if scatter.combine != "set":
        if not place.isidentifier():
            name = writer.fresh("p")
            writer.constant(name, place)
            place = name
        before = writer.loaded(writer.parameters[buffer], place)
        value = writer.pair(scatter.combine, dtype, before, value)
    writer.store(buffer, place, value)


# -- long running combinations: a group goes along a line together ---------------------------------

LONG = 128  # elements of a line that are worth a group
FEW = 1 << 12  # lines: more than these keep the device busy by themselves


def is_shared_scan(scan: Scan, dialect: Dialect) -> bool:
    """Whether a group should go along a line, not a thread."""
    is_few = math.prod(map(size_of, scan.loops)) < FEW or dialect.limits.batch_invariant
    return size_of(scan.along) >= LONG and is_few and not dialect.limits.serial


def write_shared_scan(scan: Scan, setting: Setting) -> Written:
    """Write a `Scan` along long lines.

    The threads of a group take as many neighbors at once as they are. Each combines what it has
    with what lies one, two, four and so on places before it, and then with the total of all that
    came earlier.
    """
    dialect, limits = setting.dialect, setting.dialect.limits
    body = Body.of(setting, [scan.expr], [scan.index], (*scan.loops, scan.along), [scan.buffer])
    writer, kind = body.writer, register(scan.expr.dtype)
    most, needed = limits.threads.bit_length() - 1, (size_of(scan.along) - 1).bit_length()
    threads = 1 << min(most, needed)
    array = LocalArray(f"part_{SHORT[kind.name]}", kind, threads)
    body.locals.append(array)
    groups = along_groups(math.prod(map(size_of, scan.loops)), limits)
    start = dialect.literal(kind, neutral(scan.combine, kind))
    whole = writer.whole
    with groups.inside(writer, "row"):
        if scan.loops:
            writer.cut("row", scan.loops)
        writer.constant("thread", writer.as_index("thread", 0))
        writer.line(dialect.variable(kind, "before", start))
        head = dialect.loop(
            writer.index_dtype, "block", whole(0), writer.size(scan.along), whole(threads)
        )
        with writer.block(head, [scan.along]):
            _block(writer, scan, array, start)
    return body.finish(groups.groups, (threads, 1, 1))


def _block(writer: Scalars, scan: Scan, array: LocalArray, start: str) -> None:
    """One number of each thread."""
    dialect, whole, dtype, kind = writer.dialect, writer.whole, scan.expr.dtype, array.dtype
    length = size_of(scan.along)
    writer.constant("turn", "block + thread")
    place = f"{whole(length - 1)} - turn" if scan.reverse else "turn"
    writer.constant("at", place)
    writer.variables[scan.along] = "at"
    writer.line(dialect.variable(kind, "number", start))
    condition = f"if (turn < {whole(length)}) {{"
    with writer.block(condition, [scan.along], branch=True):
        writer.line(f"number = {writer.expr(scan.expr)};")
    mine = f"{array.name}[thread]"
    writer.line(f"{mine} = number;")
    writer.line(dialect.barrier())
    step = 1
    while step < array.count:
        with writer.block(f"if (thread >= {whole(step)}) {{"):
            other = f"{array.name}[thread - {whole(step)}]"
            text = writer.pair(scan.combine, dtype, other, "number")
            writer.line(f"number = {text};")
        writer.line(dialect.barrier())
        writer.line(f"{mine} = number;")
        writer.line(dialect.barrier())
        step *= 2
    with writer.block(condition, [scan.along], branch=True):
        text = writer.pair(scan.combine, dtype, "before", "number")
        value = writer.convert(dtype, scan.buffer.number_dtype, text)
        writer.store(scan.buffer, writer.index(scan.index), value)
    last = f"{array.name}[{whole(array.count - 1)}]"
    text = writer.pair(scan.combine, dtype, "before", last)
    writer.line(f"before = {text};")
    writer.line(dialect.barrier())
