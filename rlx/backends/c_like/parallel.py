"""Kernels with a thread for each value of the parallel loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.types import is_float, neutral
from ...lower.lir.expr import Load
from ...lower.lir.program import Greatest, Kernel, Scan, Scatter, Store
from .arithmetic import BOOL
from .body import Body, Setting, Written
from .dialect import INT32, register
from .geometry import Grid
from .scalars import Scalars


def write_kernel(kernel: Kernel, setting: Setting) -> Written:
    """Write a `Kernel`: reductions inside are loops of the thread."""
    stores = kernel.stores
    body = Body.of(
        setting,
        [s.expr for s in stores],
        [s.index for s in stores],
        kernel.loops,
        [s.buffer for s in stores],
    )
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


def write_greatest(step: Greatest, setting: Setting) -> Written:
    """Write a `Greatest`: a thread keeps those so far in order, where the results go."""
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
            writer.line(dialect.constant(register(dtype), value, writer.expr(step.expr)))
            index = writer.index_dtype
            limit = writer.whole(most)
            full = writer.call("lt", [index, index], BOOL, [turn, limit])
            start = writer.call("select", [BOOL, index, index], index, [full, turn, limit])
            writer.line(dialect.variable(index, "rank", start))
            with writer.block(f"while (rank > {writer.whole(0)}) {{"):
                before = writer.loaded(writer.parameters[step.values], at("(rank - 1)"))
                writer.line(dialect.constant(register(dtype), "before", before))
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
    text = writer.call("gt", [dtype, dtype], BOOL, [x, y])
    if not is_float(dtype):
        return text
    is_nan = writer.call("ne", [dtype, dtype], BOOL, [x, x])
    is_number = writer.call("eq", [dtype, dtype], BOOL, [y, y])
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
            writer.line(writer.dialect.constant(writer.index_dtype, name, place))
            place = name
        before = writer.loaded(writer.parameters[buffer], place)
        value = writer.call(scatter.combine, [dtype, dtype], dtype, [before, value])
    writer.store(buffer, place, value)
