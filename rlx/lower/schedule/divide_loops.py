"""Divide loops among threads: each runs all rounds for its own rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...ir.dims import Size
from ..cost import work
from ..lir.expr import Expr, Load, substitute, walk
from ..lir.index import Index, Loaded, Variable, as_index, is_long, is_within
from ..lir.program import (
    Buffer,
    Contraction,
    Copy,
    Kernel,
    Program,
    RepeatStep,
    Step,
    Store,
    nested_programs,
)
from ..target import Target
from .loops import substituted

LEAST_WORK = 16_000_000  # instructions that pay for waking threads
LINE = 64  # bytes that only one thread should write


def divide_loops(program: Program, target: Target) -> Program:
    """Divide loops among threads, where no row of an array needs another one.

    before: `repeat 100 (b1): carry b6 -> b8 | b9` whose body has `kernel i < 8, j < 128`; after:
    `repeat 100 in 2 parts` with `kernel i < 4, j < 128`. Threads need not wait for each other in
    each round then. Sets `Program.steps`.
    """
    for number, step in enumerate(program.steps):
        divided = _divided(step, target.threads) if isinstance(step, RepeatStep) else None
        if divided is not None:
            program.steps[number] = divided
            continue
        for nested in nested_programs(step):
            divide_loops(nested, target)
    return program


def _divided(step: RepeatStep, threads: int) -> RepeatStep | None:
    """The loop in as many parts as threads can share, if it is worth it and can be."""
    is_large = isinstance(step.length, int) and step.length * work(step.body)[0] >= LEAST_WORK
    for parts in range(threads, 1, -1) if is_large else ():
        divider = _Divider(step.body, len(step.constants), parts)
        if divider.run():
            step.body.steps = divider.steps
            for buffer in divider.divided:
                buffer.type = buffer.type.with_shape((buffer.size // parts,))
            constants = step.body.inputs[: len(step.constants)]
            divided = tuple(b in divider.divided for b in constants)
            return replace(step, parts=parts, divided_constants=divided)
    return None


@dataclass
class _Divider:
    """Finds in a loop's body which arrays are divided, and does one part of each step.

    An array is `divided` into equal blocks, one after another, or `whole` for all threads.
    """

    body: Program
    constants: int
    parts: int
    divided: set[Buffer] = field(default_factory=set)
    whole: set[Buffer] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)

    def run(self) -> bool:
        """Divide all steps; whether that can be done."""
        moving = [*self.body.inputs[self.constants :], *self.body.outputs]
        if not moving or not all(self._is_divisible(buffer.nbytes) for buffer in moving):
            return False
        self.divided.update(moving)
        self.whole.update(self.body.constants)
        parts = map(self._part, self.body.steps)
        self.steps = [step for step in parts if step is not None]
        return len(self.steps) == len(self.body.steps)

    def _is_divisible(self, nbytes: Size) -> bool:
        return isinstance(nbytes, int) and nbytes > 0 and nbytes % (LINE * self.parts) == 0

    def _part(self, step: Step) -> Step | None:
        """One part of a step; None if its parts need each other."""
        if isinstance(step, Copy):
            return step if {step.origin, step.target} <= self.divided else None
        if not isinstance(step, Kernel | Contraction):
            return None
        is_kernel = isinstance(step, Kernel)
        for variable in step.loops if is_kernel else (*step.batch, step.row, step.column):
            extent = variable.extent
            if isinstance(extent, int) and extent % self.parts == 0 and self._fits(step, variable):
                return _shortened(step, variable, Variable(extent // self.parts))
        return None

    def _fits(self, step: Kernel | Contraction, variable: Variable) -> bool:
        """Whether blocks of a loop need only blocks of arrays; notes which are divided."""
        divided, whole = set[Buffer](), set[Buffer]()
        for buffer, index in _places(step):
            if not _mentions(index, variable):
                whole.add(buffer) if buffer else None
            elif buffer is not None and _is_slowest(variable, index, buffer.count):
                divided.add(buffer)
            else:
                return False
        if divided & (whole | self.whole) or whole & self.divided:
            return False
        if not divided.issuperset(store.buffer for store in step.stores):
            return False
        self.divided |= divided
        self.whole |= whole
        return True


def _places(step: Kernel | Contraction) -> Iterator[tuple[Buffer | None, Index]]:
    """Every index of a step, and the buffer where it is one of a load or a store."""
    roots = [e for s in step.stores for e in (s.expr, *s.index.loads)]
    if isinstance(step, Contraction):
        roots += [step.lhs, step.rhs]
    for store in step.stores:
        yield store.buffer, store.index
    for expr in walk(*roots):
        buffer = expr.buffer if isinstance(expr, Load) else None
        for index in expr.indices:
            yield buffer, index


def _mentions(index: Index, variable: Variable) -> bool:
    """Whether a variable stands in an index, but for numbers that are loaded."""
    return any(
        atom is variable
        or (not isinstance(atom, Variable | Loaded) and _mentions(atom.index, variable))
        for atom, _ in index.terms
    )


def _is_slowest(variable: Variable, index: Index, count: Size) -> bool:
    """Whether the variable steps through all of an array, and the others stay in a step."""
    stride = index.stride_of(variable)
    if not isinstance(stride, int) or stride * variable.extent != count:
        return False
    rest = index - variable * stride
    return not _mentions(rest, variable) and is_within(rest, stride)


def _shortened(step: Kernel | Contraction, old: Variable, new: Variable) -> Kernel | Contraction:
    """A step with another loop for one of its own."""
    table = {old: as_index(new)}
    if isinstance(step, Kernel):
        loops = [new if v is old else v for v in step.loops]
        return substituted(step, [v for v in loops if is_long(v)], table)
    memo: dict[Expr, Expr] = {}

    def expr(e: Expr) -> Expr:
        return substitute(e, table, memo=memo)

    stores = tuple(
        Store(s.buffer, s.index.substitute(table, expr), expr(s.expr)) for s in step.stores
    )
    batch = [new if v is old else v for v in step.batch]
    return replace(
        step,
        batch=tuple(v for v in batch if is_long(v)),
        row=new if step.row is old else step.row,
        column=new if step.column is old else step.column,
        lhs=expr(step.lhs),
        rhs=expr(step.rhs),
        stores=stores,
    )
