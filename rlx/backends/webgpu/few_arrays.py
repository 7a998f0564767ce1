"""Keep kernels within the number of arrays that a device binds to one."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from ...ir.record import replace
from ...ir.types import Type
from ...lower.lir.access import reads, writes
from ...lower.lir.expr import Expr, Load, load, substitute
from ...lower.lir.index import Index, Variable, as_index
from ...lower.lir.program import Buffer, Kernel, Program, RowGroup, Step, Store


def few_arrays(program: Program, most: int) -> None:
    """Let no kernel of a program, nor of a nested one, need more than `most` arrays.

    before: `kernel i < 4: z[i] = a[i] + b[i] + c[i]` for three arrays at most; after:
    `kernel i < 4: p[i] = b[i]`, `kernel i < 4: p[i + 4] = c[i]`, and the kernel reads `p` where it
    read `b` and `c`. Sets `Program.steps`.
    """
    for each in program.programs:
        names = (f"p{n}" for n in itertools.count())
        each.steps = [part for step in each.steps for part in _with_few(step, most, names)]


def _with_few(step: Step, most: int, names: Iterator[str]) -> Iterator[Step]:
    if isinstance(step, RowGroup):
        if _count(step) <= most:
            yield step
            return
        for k in step.kernels:
            flat = Kernel((*step.loops, *k.loops), k.stores, k.source)
            yield from _with_few(flat, most, names)
    elif isinstance(step, Kernel) and _count(step) > most:
        yield from _packed(step, most, names)
    else:
        yield step


def _count(step: Kernel | RowGroup) -> int:
    return len({*reads(step), *writes(step)})


def _packed(kernel: Kernel, most: int, names: Iterator[str]) -> Iterator[Step]:
    """The kernel, behind copies of its smallest arrays into one."""
    written = set(writes(kernel))
    by_dtype: dict[object, list[Buffer]] = defaultdict(list)
    for buffer in sorted(set(reads(kernel)) - written, key=lambda b: (b.count, b.serial)):
        by_dtype[buffer.number_dtype].append(buffer)
    over = _count(kernel) - most
    moved: dict[Buffer, tuple[Buffer, int]] = {}
    for buffers in sorted(by_dtype.values(), key=len, reverse=True):
        chosen = buffers[: over + 1] if over > 0 else []
        if len(chosen) < 2:
            continue
        over -= len(chosen) - 1
        total = sum(b.count for b in chosen)
        packed = Buffer(next(names), Type(chosen[0].number_dtype, (total,)), "temporary")
        start = 0
        for buffer in chosen:
            moved[buffer] = packed, start
            yield _copy(buffer, packed, start, kernel)
            start += buffer.count
    yield from _apart(_reading(kernel, moved), most, names)


def _apart(kernel: Kernel, most: int, names: Iterator[str]) -> Iterator[Step]:
    """The kernel, its stores shared out among two if it still writes to too many arrays."""
    half = len(kernel.stores) // 2
    parts = [replace(kernel, stores=kernel.stores[:half])] if half else []
    parts.append(replace(kernel, stores=kernel.stores[half:]))
    # what the first part writes the second one must not read
    orders = [p for p in (parts, parts[::-1]) if not {*writes(p[0])} & {*reads(p[-1])}]
    if _count(kernel) <= most or not half or not orders:
        yield kernel
        return
    for part in orders[0]:
        yield from _with_few(part, most, names)


def _copy(buffer: Buffer, packed: Buffer, start: int, kernel: Kernel) -> Kernel:
    place = Variable(buffer.count)
    loops = (place,) if buffer.count > 1 else ()
    store = Store(packed, as_index(place) + start, load(buffer, as_index(place)))
    return Kernel(loops, (store,), kernel.source)


def _reading(kernel: Kernel, moved: dict[Buffer, tuple[Buffer, int]]) -> Kernel:
    """The kernel with loads from where arrays were copied to."""
    memo: dict[Expr, Expr] = {}

    def again(expr: Expr) -> Expr:
        return substitute(expr, {}, leaf, memo)

    def leaf(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in moved:
            return None
        packed, start = moved[expr.buffer]
        return load(packed, place(expr.index) + start)

    def place(index: Index) -> Index:
        return index.substitute({}, again)

    stores = tuple(Store(s.buffer, place(s.index), again(s.expr)) for s in kernel.stores)
    return replace(kernel, stores=stores)
