"""Long running combinations: a group goes along a line together.

Its threads take as many neighbors at once as they are. Each combines what it has with what lies
one, two, four and so on places before it, and then with the total of all that came earlier.
"""

from __future__ import annotations

import math

from ...ir.types import SHORT, neutral
from ...lower.lir.index import Variable
from ...lower.lir.program import Scan
from .body import Body, Setting, Written
from .dialect import Dialect, LocalArray, register
from .geometry import along_groups
from .scalars import Scalars

LONG = 128  # elements of a line that are worth a group
FEW = 1 << 12  # lines: more than these keep the device busy by themselves


def is_shared_scan(scan: Scan, dialect: Dialect) -> bool:
    """Whether a group should go along a line, not a thread."""
    is_long = _size(scan.along) >= LONG and math.prod(map(_size, scan.loops)) < FEW
    return is_long and not dialect.limits.serial


def write_shared_scan(scan: Scan, setting: Setting) -> Written:
    """Write a `Scan` along long lines."""
    dialect, limits = setting.dialect, setting.dialect.limits
    body = Body.of(setting, [scan.expr], [scan.index], (*scan.loops, scan.along), [scan.buffer])
    writer, kind = body.writer, register(scan.expr.dtype)
    threads = min(1 << (limits.threads.bit_length() - 1), 1 << (_size(scan.along) - 1).bit_length())
    array = LocalArray(f"part_{SHORT[kind.name]}", kind, threads)
    body.locals.append(array)
    groups = along_groups(math.prod(map(_size, scan.loops)), limits)
    start = dialect.literal(kind, neutral(scan.combine, kind))
    whole = writer.whole
    with groups.inside(writer, "row"):
        if scan.loops:
            writer.cut("row", scan.loops)
        line = dialect.constant(writer.index_dtype, "thread", writer.as_index("thread", 0))
        writer.line(line)
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
    length, index = _size(scan.along), writer.index_dtype
    writer.line(dialect.constant(index, "turn", "block + thread"))
    place = f"{whole(length - 1)} - turn" if scan.reverse else "turn"
    writer.line(dialect.constant(index, "at", place))
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
            text = writer.call(scan.combine, [dtype, dtype], dtype, [other, "number"])
            writer.line(f"number = {text};")
        writer.line(dialect.barrier())
        writer.line(f"{mine} = number;")
        writer.line(dialect.barrier())
        step *= 2
    with writer.block(condition, [scan.along], branch=True):
        text = writer.call(scan.combine, [dtype, dtype], dtype, ["before", "number"])
        value = writer.convert(dtype, scan.buffer.number_dtype, text)
        writer.store(scan.buffer, writer.index(scan.index), value)
    last = f"{array.name}[{whole(array.count - 1)}]"
    text = writer.call(scan.combine, [dtype, dtype], dtype, ["before", last])
    writer.line(f"before = {text};")
    writer.line(dialect.barrier())


def _size(variable: Variable) -> int:
    assert isinstance(variable.extent, int), "sizes are numbers here"
    return variable.extent
