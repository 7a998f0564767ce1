"""How the values of parallel loops are shared out among threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.record import record
from ...lower.lir.index import Variable
from .dialect import Limits
from .scalars import Scalars

SHORT_LINE = 16  # a last loop shorter than this is not worth an axis of its own
SQUARE = 32  # threads along a side
Axes = tuple[int, int, int]


@record
class Grid:
    """Groups of threads along three axes, and how the loops' values follow from them."""

    axes: tuple[tuple[Variable, ...], ...]  # for each axis the loops that it numbers, row-major
    groups: Axes
    threads: Axes  # of a group
    linear: bool = False  # whether all axes together number all loops

    @classmethod
    def of(cls, loops: Sequence[Variable], limits: Limits, is_turned: bool = False) -> Grid:
        """The grid of a thread for each value of some loops; `is_turned`: square groups."""
        last = loops[-1:]
        if len(loops) > 1 and _count(last) < SHORT_LINE:
            return cls._linear(loops, limits)
        axes = (tuple(last), tuple(loops[-2:-1]), tuple(loops[:-2]))
        left = limits.threads
        groups, threads = [], []
        for number, axis in enumerate(axes):
            most = min(left, SQUARE) if is_turned and not number else left
            threads.append(_fitting(_count(axis), most, is_last=not number))
            groups.append(-(-_count(axis) // threads[-1]))
            left //= threads[-1]
        if any(n > most for n, most in zip(groups, limits.groups, strict=True)):
            return cls._linear(loops, limits)
        return cls(axes, tuple(groups), tuple(threads))  # type: ignore[arg-type]

    @classmethod
    def _linear(cls, loops: Sequence[Variable], limits: Limits) -> Grid:
        count = _count(loops)
        threads = -(-count // -(-count // limits.threads))
        groups = along_groups(-(-count // threads), limits).groups
        return cls((tuple(loops), (), ()), groups, (threads, 1, 1), linear=True)

    @contextmanager
    def inside(self, writer: Scalars) -> Iterator[None]:
        """Name the loops' variables; lines are written where there is such a value."""
        conditions = []
        for axis, loops in enumerate(self.axes):
            if loops:
                conditions += self._name(writer, axis, loops)
        variables = [v for loops in self.axes for v in loops]
        if conditions:
            with writer.block(f"if ({' && '.join(conditions)}) {{", variables, branch=True):
                yield
        else:
            yield

    def _name(self, writer: Scalars, axis: int, loops: Sequence[Variable]) -> list[str]:
        """Name the variables of an axis; gives the condition for such values."""
        count, name = _count(loops), writer.fresh("i")
        groups = math.prod(self.groups) if self.linear else self.groups[axis]
        text = writer.as_index("both", axis)
        if self.linear:
            number = Groups(groups, self.groups).text(writer)
            text = f"{number} * {writer.whole(self.threads[0])} + {writer.as_index('thread', 0)}"
        writer.constant(name, text)
        writer.cut(name, loops)
        is_whole = groups * self.threads[axis] == count
        return [] if is_whole else [f"{name} < {writer.whole(count)}"]


@record
class Groups:
    """Groups that are numbered along all axes together."""

    count: int
    groups: Axes

    @property
    def number(self) -> int:
        """How many there are: more than are wanted if these do not fit along one axis."""
        return math.prod(self.groups)

    def text(self, writer: Scalars) -> str:
        """The number of a group."""
        x, y, z = (writer.as_index("group", axis) for axis in range(3))
        if self.groups[1] == 1:
            return x
        rows = y
        if self.groups[2] > 1:
            rows = f"({z} * {writer.whole(self.groups[1])} + {y})"
        return f"({rows} * {writer.whole(self.groups[0])} + {x})"

    @contextmanager
    def inside(self, writer: Scalars, name: str) -> Iterator[None]:
        """Name the number of the group; lines are written where it is wanted."""
        writer.constant(name, self.text(writer))
        if self.number == self.count:
            yield
            return
        with writer.block(f"if ({name} < {writer.whole(self.count)}) {{", branch=True):
            yield


def along_groups(count: int, limits: Limits) -> Groups:
    """So many groups along as many axes as it takes."""
    left, groups = count, []
    for most in limits.groups:
        here = min(left, most)
        groups.append(here)
        left = -(-left // here)
    assert left == 1, "there are not enough groups"
    return Groups(count, tuple(groups))  # type: ignore[arg-type]


def _fitting(count: int, most: int, is_last: bool) -> int:
    """How many threads of a group go along an axis.

    Of others than the last no more than fit.
    """
    if count <= most:
        return count
    whole = next(n for n in range(most, 0, -1) if count % n == 0)
    if whole * 2 > most or not is_last:
        return whole
    return -(-count // -(-count // most))


def _count(loops: Sequence[Variable]) -> int:
    return math.prod(v.extent for v in loops)  # type: ignore[misc]


def size_of(variable: Variable) -> int:
    """The extent of a variable."""
    assert isinstance(variable.extent, int), "sizes are numbers here"
    return variable.extent
