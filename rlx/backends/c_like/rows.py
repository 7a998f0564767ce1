"""Row groups: kernels that pass a row to each other, in one launch.

On a processor a thread does a row, all kernels one after another. Elsewhere a group does: its
threads share the loops inside, reductions are a tree over what each thread has, its first levels
without a barrier where subgroups pass numbers, and all wait for each other between two kernels.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

from ...ir.record import replace
from ...ir.types import SHORT, neutral
from ...lower.lir.expr import Load, Reduce, unconditional, walk
from ...lower.lir.index import Variable
from ...lower.lir.program import Kernel, RowGroup
from .body import Body, Setting, Written
from .dialect import Dialect, LocalArray, register
from .geometry import Grid, along_groups, size_of
from .long_sums import LONG, keeps_order, passes_numbers, terms_of, threads_for
from .parallel import write_stores
from .scalars import Scalars

FEW = 1 << 12  # results of long reductions: more than these keep the device busy by themselves


def is_shared(kernel: Kernel, dialect: Dialect) -> bool:
    """Whether a group should compute each result of a kernel, not a thread."""
    reductions = shared_reductions(kernel)
    if dialect.limits.serial or not reductions:
        return False
    if any(keeps_order(dialect, r) for r in reductions):
        return True  # a thread alone would be slow
    if terms_of(reductions[0]) < LONG:
        return False
    if math.prod(map(size_of, kernel.loops)) < FEW:
        return True
    return any(_goes_along(r) for r in reductions)


def _goes_along(reduction: Reduce) -> bool:
    """Whether neighbors in memory belong to one sum."""
    loads = [e for e in walk(reduction.body) if isinstance(e, Load)]
    return any(e.index.stride_of(reduction.loops[-1]) == 1 for e in loads)


def shared_reductions(kernel: Kernel) -> list[Reduce]:
    """The reductions that each result of a kernel needs."""
    found = [e for e in unconditional(s.expr for s in kernel.stores) if isinstance(e, Reduce)]
    return sorted(found, key=lambda e: e.serial)


def write_rows(step: RowGroup, setting: Setting) -> Written:
    """Write kernels that pass rows on as one."""
    stores = [s for kernel in step.kernels for s in kernel.stores]
    loops = (*step.loops, *(v for kernel in step.kernels for v in kernel.loops))
    body = Body.storing(setting, stores, loops)
    if setting.dialect.limits.serial:
        return _by_threads(step, body, setting.dialect)
    return _Group(step, body, setting.dialect).write()


def _by_threads(step: RowGroup, body: Body, dialect: Dialect) -> Written:
    """A thread for each row, in a group of its own: vectors are to go along the row."""
    writer = body.writer
    grid = Grid.of(step.loops, replace(dialect.limits, threads=1))
    with grid.inside(writer):
        for kernel in step.kernels:
            with writer.block("{", branch=True):
                writer.nest(kernel.loops, lambda k=kernel: write_stores(writer, k.stores))
    return body.finish_on(grid)


class _Group:
    """Writes rows that a group shares."""

    def __init__(self, step: RowGroup, body: Body, dialect: Dialect) -> None:
        self.step, self.body, self.dialect = step, body, dialect
        self.writer: Scalars = body.writer
        longest = max(
            math.prod(map(size_of, loops))
            for kernel in step.kernels
            for loops in (kernel.loops, *(r.loops for r in shared_reductions(kernel)))
        )
        self.threads = threads_for(longest, dialect.limits)

    def write(self) -> Written:
        """The kernel of all rows."""
        writer, step = self.writer, self.step
        count = math.prod(map(size_of, step.loops))
        groups = along_groups(count, self.dialect.limits)
        with groups.inside(writer, "row"):
            writer.cut("row", step.loops)
            writer.constant("thread", writer.as_index("thread", 0))
            for number, kernel in enumerate(step.kernels):
                if number:
                    writer.line(self.dialect.barrier_of_arrays())
                with writer.block("{", branch=True):
                    self._kernel(kernel)
        return self.body.finish(groups.groups, (self.threads, 1, 1))

    def _kernel(self, kernel: Kernel) -> None:
        writer = self.writer
        if kernel.loops:
            with self._shared(kernel.loops):
                write_stores(writer, kernel.stores)
            return
        for reduction in shared_reductions(kernel):
            if self._is_together(reduction):
                self._reduce(reduction)
        with writer.block(f"if (thread == {writer.whole(0)}) {{", branch=True):
            write_stores(writer, kernel.stores)

    def _is_together(self, reduction: Reduce) -> bool:
        """Whether the threads share a reduction: all, but for short ones that keep their order."""
        is_kept = self.dialect.limits.batch_invariant and terms_of(reduction) < LONG
        return not is_kept

    def _shared(self, loops: tuple[Variable, ...]) -> AbstractContextManager[None]:
        """A loop of each thread over its share of some loops' values."""
        return self.writer.shared(loops, "thread", self.threads)

    def _reduce(self, reduction: Reduce) -> None:
        """Combine what the threads have."""
        writer, dialect = self.writer, self.dialect
        dtype, combine = reduction.dtype, reduction.combine
        kind, name = register(dtype), writer.fresh("r")
        start = dialect.literal(kind, neutral(combine, kind))
        writer.line(dialect.variable(kind, name, start))
        with self._shared(reduction.loops):
            writer.combine(name, combine, dtype, reduction.body)
        if passes_numbers(dialect, kind, self.threads):
            result = self._by_subgroups(reduction, name)
        else:
            result = self._by_halves(reduction, name)
        writer.line(dialect.barrier())
        writer.scopes[-1].names[reduction] = result

    def _by_halves(self, reduction: Reduce, name: str) -> str:
        """Name the result of what each thread has: a tree in shared memory."""
        writer, dialect, part = self.writer, self.dialect, self._part(reduction, self.threads)
        writer.line(f"{part}[thread] = {name};")
        writer.line(dialect.barrier())
        half = self.threads // 2
        while half:
            with writer.block(f"if (thread < {writer.whole(half)}) {{"):
                mine, other = f"{part}[thread]", f"{part}[thread + {writer.whole(half)}]"
                writer.line(f"{mine} = {self._both(reduction, mine, other)};")
            writer.line(dialect.barrier())
            half //= 2
        total = self._both(reduction, writer.expr(reduction.init), f"{part}[0]")
        result = writer.fresh("r")
        writer.constant(result, total, reduction.dtype)
        return result

    def _by_subgroups(self, reduction: Reduce, name: str) -> str:
        """The same where lanes pass numbers: one of each subgroup goes to shared memory.

        All threads read them from there, for what lanes end up with may differ in the sign of 0.
        """
        writer, dialect, kind = self.writer, self.dialect, register(reduction.dtype)
        width = dialect.limits.subgroup
        part = self._part(reduction, self.threads // width)
        distance = width // 2
        while distance:
            other, text = writer.fresh("r"), dialect.passed(kind, name, distance)
            assert text is not None, "this dtype can be passed"
            writer.constant(other, text, kind)
            writer.line(f"{name} = {self._both(reduction, name, other)};")
            distance //= 2
        with writer.block(f"if ({writer.as_index('lane', 0)} == {writer.whole(0)}) {{"):
            writer.line(f"{part}[{writer.as_index('subgroup', 0)}] = {name};")
        writer.line(dialect.barrier())
        result = writer.fresh("r")
        writer.line(dialect.variable(kind, result, writer.expr(reduction.init)))
        with writer.count_to("s", self.threads // width):
            writer.line(f"{result} = {self._both(reduction, result, f'{part}[s]')};")
        return result

    def _part(self, reduction: Reduce, count: int) -> str:
        """The name of shared memory for so many numbers of a reduction."""
        kind = register(reduction.dtype)
        array = LocalArray(f"part_{SHORT[kind.name]}", kind, count)
        if array not in self.body.locals:
            self.body.locals.append(array)
        return array.name

    def _both(self, reduction: Reduce, x: str, y: str) -> str:
        """Two numbers of a reduction combined."""
        return self.writer.pair(reduction.combine, reduction.dtype, x, y)
