"""Parallel loops: each thread runs all rounds for its own rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.dims import Size
from ...ir.record import field, record, replace
from ..cost import work
from ..lir.access import reads, rebind, stored, writes
from ..lir.expr import Load, walk
from ..lir.index import Index, Loaded, Variable, as_index, is_long, is_within
from ..lir.program import (
    Buffer,
    Contraction,
    Copy,
    Kernel,
    Program,
    RepeatStep,
    Scatter,
    Step,
    nested_programs,
)

Part = Kernel | Contraction | Scatter
LEAST_WORK = 16_000_000  # instructions that pay for waking threads
PARTS = (16, 8, 4, 2)  # whatever the number of threads, for the rows of a product order its sums
ROWS = 16  # of a product in each of more than two parts: fewer read the other operand too often
SHORT = 1 << 12  # numbers that each thread may make for itself
LINE = 64  # bytes that only one thread should write


def divide_loops(program: Program) -> Program:
    """Loop parallelization: threads share a loop whose rows are independent.

    before: `repeat 100 (b1): carry b6 -> b8 | b9` whose body has `kernel i < 8, j < 128`; after:
    `repeat 100 in 2 parts` with `kernel i < 4, j < 128`. Threads then need no barrier in each
    round. Sets `Program.steps`.
    """
    for number, step in enumerate(program.steps):
        divided = _divided(step) if isinstance(step, RepeatStep) else None
        if divided is not None:
            program.steps[number] = divided
            continue
        for nested in nested_programs(step):
            divide_loops(nested)
    return program


def _divided(step: RepeatStep) -> RepeatStep | None:
    """The loop in its best number of parts, if dividing it is possible and pays."""
    is_large = isinstance(step.length, int) and step.length * work(step.body)[0] >= LEAST_WORK
    for parts in PARTS if is_large else ():
        for divides_slices in (True, False) if step.slices else (True,):
            divider = _Divider(step, parts, divides_slices)
            if divider.run():
                return divider.in_parts()
    return None


@record(frozen=False)
class _Divider:
    """Finds which arrays of a loop's body are divided, and shortens its steps to one part."""

    loop: RepeatStep
    parts: int
    divides_slices: bool  # all of them, or none
    divided: set[Buffer] = field(default_factory=set)  # arrays of an equal block for each part
    whole: set[Buffer] = field(default_factory=set)  # arrays that all parts read
    steps: list[Step] = field(default_factory=list)  # of one part

    def run(self) -> bool:
        """Divide all steps, and tell whether that is possible."""
        body, start = self.loop.body, len(self.loop.constants)
        end = start + len(self.loop.carries)
        slices = body.inputs[end:]
        moving = [*body.inputs[start:end], *body.outputs, *(slices if self.divides_slices else ())]
        if not moving or not all(self._is_divisible(buffer.nbytes) for buffer in moving):
            return False
        self.divided.update(moving)
        self.whole.update(body.constants, () if self.divides_slices else slices)
        parts = map(self._part, body.steps)
        self.steps = [step for step in parts if step is not None]
        return len(self.steps) == len(body.steps)

    def in_parts(self) -> RepeatStep:
        """Make the loop in parts after all steps are divided, and change its body."""
        step = self.loop
        step.body.steps = self.steps
        for buffer in self.divided:
            buffer.type = buffer.type.with_shape((buffer.size // self.parts,))
        divided = tuple(b in self.divided for b in step.body.inputs)
        constants, slices = len(step.constants), len(divided) - len(step.slices)
        return replace(
            step,
            parts=self.parts,
            divided_constants=divided[:constants],
            divided_slices=divided[slices:],
        )

    def _is_divisible(self, nbytes: Size) -> bool:
        return isinstance(nbytes, int) and nbytes > 0 and nbytes % (LINE * self.parts) == 0

    def _part(self, step: Step) -> Step | None:
        """One part of a step; None if its parts need each other."""
        if isinstance(step, Copy):
            return step if {step.origin, step.target} <= self.divided else None
        if not isinstance(step, Part):
            return None
        if self._is_common(step):
            return step
        is_product = isinstance(step, Contraction)
        for variable in (*step.batch, step.row, step.column) if is_product else step.loops:
            extent = variable.extent
            if not isinstance(extent, int) or extent % self.parts:
                continue
            is_line = is_product and variable not in step.batch and self.parts > 2
            if is_line and extent < ROWS * self.parts:
                continue
            if self._fits(step, variable):
                return _shortened(step, variable, Variable(extent // self.parts))
        return None

    def _is_common(self, step: Part) -> bool:
        """Whether a step is the same for all parts and short enough to be repeated."""
        used, made = set(reads(step)), set(writes(step))
        is_short = all(isinstance(b.count, int) and b.count <= SHORT for b in made)
        if not is_short or not isinstance(step, Kernel) or (used | made) & self.divided:
            return False
        if any(buffer.kind != "constant" and buffer not in self.whole for buffer in used):
            return False
        self.whole |= made
        return True

    def _fits(self, step: Part, variable: Variable) -> bool:
        """Whether blocks of a loop need only blocks of arrays; records divided ones."""
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
        if not divided.issuperset(store.buffer for store in stored(step)):
            return False
        self.divided |= divided
        self.whole |= whole
        return True


def _places(step: Part) -> Iterator[tuple[Buffer | None, Index]]:
    """Every index of a step, with the buffer that it loads from or stores to."""
    stores = list(stored(step))
    roots = [e for s in stores for e in (s.expr, *s.index.loads)]
    if isinstance(step, Contraction):
        roots += [step.lhs, step.rhs]
    for index, _, _ in step.bounds if isinstance(step, Scatter) else ():
        roots += index.loads
        yield None, index
    for store in stores:
        yield store.buffer, store.index
    for expr in walk(*roots):
        buffer = expr.buffer if isinstance(expr, Load) else None
        for index in expr.indices:
            yield buffer, index


def _mentions(index: Index, variable: Variable) -> bool:
    """Whether an index mentions a variable outside of loaded numbers."""
    return any(
        atom is variable
        or (not isinstance(atom, Variable | Loaded) and _mentions(atom.index, variable))
        for atom, _ in index.terms
    )


def _is_slowest(variable: Variable, index: Index, count: Size) -> bool:
    """Whether a variable is the slowest of an index and covers all of its array."""
    stride = index.stride_of(variable)
    if not isinstance(stride, int) or stride * variable.extent != count:
        return False
    rest = index - variable * stride
    return not _mentions(rest, variable) and is_within(rest, stride)


def _shortened(step: Part, old: Variable, new: Variable) -> Part:
    """A step with one loop replaced by a shorter one."""

    def kept(loops: Sequence[Variable]) -> tuple[Variable, ...]:
        return tuple(v for v in (new if v is old else v for v in loops) if is_long(v))

    step = rebind(step, {old: as_index(new)})
    if isinstance(step, Kernel):
        return replace(step, loops=kept(step.loops))
    if isinstance(step, Scatter):
        return replace(step, loops=kept(step.loops), apart=kept(step.apart))
    row, column = (new if v is old else v for v in (step.row, step.column))
    return replace(step, batch=kept(step.batch), row=row, column=column)
