"""Layout of operands: matrices that many products read are reordered once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.record import field, record, replace
from ...ir.types import Type
from ..lir.access import writes
from ..lir.expr import Expr, Load, load
from ..lir.index import Index, Variable, is_long
from ..lir.program import (
    Buffer,
    Contraction,
    Kernel,
    Program,
    RepeatStep,
    Step,
    Store,
    WhileStep,
)

FEWEST_READS = 3  # of each element, about
SMALLEST = 1 << 15  # bytes: less fits the first cache in any order
SHORTEST = 16  # rows and columns of a product that reads its matrices several times
PAGE, LINE = 4096, 64  # bytes: lines a page apart crowd into few places of a cache


def order_operands(program: Program) -> Program:
    """Packing: copy interleaved matrices that many products read into order, once.

    before: a contraction reads `b1[l*512 + i*64 + k]` for `i < 8, k < 64, l < 64`, the next one for
    `l < 128`, and so on; after: `kernel i < 8, k < 64, l < 1024: b1o[...] = b1[...]` before the
    first of them, and all read b1o, in which each matrix is contiguous. Sets `Program.steps`.
    """
    found: dict[tuple, list[_Operand]] = {}
    for place, step in enumerate(program.steps):
        for operand in _operands(place, step):
            found.setdefault(operand.key, []).append(operand)
    added: dict[int, list[Step]] = {}
    for operands in found.values():
        spans = _spans(operands)
        if not _pays(operands, spans) or _changes(program.steps, operands):
            continue
        ordered = _Ordered(operands[0], spans)
        added.setdefault(operands[0].place, []).append(ordered.kernel())
        for operand in operands:
            program.steps[operand.place] = ordered.read_by(operand, program.steps[operand.place])
    steps = enumerate(program.steps)
    program.steps = [s for place, step in steps for s in (*added.get(place, ()), step)]
    return program


@record
class _Operand:
    """An operand of a contraction: a matrix for each value of the batch, in one buffer."""

    place: int  # of the step in the program
    side: str  # "lhs" or "rhs"
    load: Load
    variables: tuple[Variable, ...]  # slowest first, in the order of the copy
    strides: tuple[int, ...]  # of each variable in the buffer
    fits: tuple[int, ...]  # the extents of the buffer's axes of these strides
    starts: tuple[int, ...]  # where the operand begins along these axes

    @property
    def key(self) -> tuple:
        """Equal for operands that one copy serves."""
        return self.load.buffer, self.strides

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(v.extent for v in self.variables)  # type: ignore[misc]


def _operands(place: int, step: Step) -> Iterator[_Operand]:
    """The operands of a product whose matrices are interleaved in memory."""
    if not isinstance(step, Contraction) or not step.is_static:
        return
    if min(step.row.extent, step.column.extent) < SHORTEST:  # type: ignore[type-var]
        return
    for side, (e, line) in zip(("lhs", "rhs"), step.operands, strict=True):
        if not isinstance(e, Load) or not e.index.is_affine:
            continue
        is_dense = step.stores[0].index.stride_of(line) == 1  # its lines are read along the result
        inner = (step.depth, line) if is_dense else (line, step.depth)
        stride = e.index.stride_of
        batch = sorted((v for v in step.batch if v in e.index.variables), key=stride, reverse=True)
        variables = tuple(v for v in (*batch, *inner) if is_long(v))
        if batch and stride(batch[-1]) < max(map(stride, inner)):
            yield from _placed(place, side, e, variables)


def _placed(place: int, side: str, e: Load, variables: tuple[Variable, ...]) -> Iterator[_Operand]:
    """The operand, if each variable steps through one axis of its buffer."""
    size, start = e.buffer.count, e.index.constant
    strides = tuple(s for s in map(e.index.stride_of, variables) if isinstance(s, int))
    fits, starts = dict[int, int](), dict[int, int]()
    for stride in sorted(set(strides), reverse=True):
        if not isinstance(size, int) or not isinstance(start, int) or stride < 1 or size % stride:
            return
        fits[stride], starts[stride] = size // stride, start // stride
        size, start = stride, start % stride
    is_apart = len(fits) == len(variables) and size == 1
    every = zip(strides, variables, strict=True)
    if is_apart and all(starts[s] + v.extent <= fits[s] for s, v in every):
        ordered = (tuple(x[s] for s in strides) for x in (fits, starts))
        yield _Operand(place, side, e, variables, strides, *ordered)


def _spans(operands: Sequence[_Operand]) -> list[tuple[int, int]]:
    """The range that operands read along each axis."""
    spans = []
    for axis in range(len(operands[0].variables)):
        parts = [(o.starts[axis], o.starts[axis] + o.variables[axis].extent) for o in operands]
        spans.append((min(low for low, _ in parts), max(high for _, high in parts)))
    return spans


def _pays(operands: Sequence[_Operand], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether enough products read enough of a matrix to pay for the copy."""
    size = math.prod(high - low for low, high in spans)
    if size * operands[0].load.dtype.itemsize < SMALLEST:
        return False
    return sum(o.count for o in operands) >= FEWEST_READS * size


def _changes(steps: Sequence[Step], operands: Sequence[_Operand]) -> bool:
    """Whether a step between the products writes their buffer."""
    buffer = operands[0].load.buffer
    between = steps[operands[0].place : operands[-1].place + 1]
    return any(buffer in writes(step) for step in between)


class _Ordered:
    """A contiguous copy of matrices."""

    def __init__(self, first: _Operand, spans: Sequence[tuple[int, int]]) -> None:
        self.first, self.spans = first, spans
        shape = [high - low for low, high in spans]
        origin = first.load.buffer
        if shape[-1] * origin.number_dtype.itemsize % PAGE == 0:
            shape[-1] += LINE // origin.number_dtype.itemsize
        self.strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        type = Type(origin.number_dtype, tuple(shape))
        name = f"{origin.name}o{'t' if first.strides[-1] != 1 else ''}"
        self.buffer = Buffer(name, type, "temporary")

    def kernel(self) -> Kernel:
        """The kernel that makes the copy."""
        loops = [Variable(high - low) for low, high in self.spans]
        starts = [low for low, _ in self.spans]
        origin = _index(loops, self.first.strides, starts)
        store = Store(
            self.buffer, _index(loops, self.strides), load(self.first.load.buffer, origin)
        )
        return Kernel(tuple(loops), (store,))

    def read_by(self, operand: _Operand, step: Step) -> Step:
        """The product with its operand read from the copy."""
        pairs = zip(operand.starts, self.spans, strict=True)
        starts = [start - low for start, (low, _) in pairs]
        index = _index(operand.variables, self.strides, starts)
        assert isinstance(step, Contraction)
        return replace(step, **{operand.side: load(self.buffer, index)})


def _index(
    variables: Sequence[Variable], strides: Sequence[int], starts: Sequence[int] | None = None
) -> Index:
    parts = zip(variables, strides, starts or [0] * len(strides), strict=True)
    return sum(((v + start) * stride for v, stride, start in parts), Index())


# -- turn matrices that a loop multiplies by in every round, once before it ------------------------


NARROW = 8  # up to so many columns the product is computed as its transpose


def turn_operands(program: Program) -> Program:
    """Transpose matrices that each round of a loop multiplies by, once before it.

    before: in a loop `accumulated = add over k < 128: b1[i*128 + k] * b0[j*128 + k]` with the same
    b0 in every round; after: `kernel k < 128, j < 512: t0[k*512 + j] = b0[j*128 + k]` before the
    loop, which reads t0. The numbers of several columns then lie side by side.
    """
    turner = _Turner()
    for step in program.steps:
        if isinstance(step, RepeatStep) and step.length not in (0, 1, 2):
            added = turner.turn(step.body, step.constants)
            step = replace(step, constants=(*step.constants, *added))
        elif isinstance(step, WhileStep):
            added = turner.turn(step.body, step.body_constants)
            step = replace(step, body_constants=(*step.body_constants, *added))
        turner.steps.append(step)
    program.steps = turner.steps
    return program


@record(frozen=False)
class _Turner:
    """The steps of a program, with its transposed matrices by buffer and strides."""

    steps: list[Step] = field(default_factory=list)
    turned: dict[tuple, Buffer] = field(default_factory=dict)

    def turn(self, body: Program, constants: tuple[Buffer, ...]) -> list[Buffer]:
        """Let a body read transposed matrices, added after the constants of its loop."""
        outer = dict(zip(body.inputs, constants, strict=False))
        inner: dict[Buffer, Buffer] = {}  # turned matrices, and their parameters of the body

        def matrix(e: Expr, line: Variable, depth: Variable) -> Expr:
            if not isinstance(e, Load) or e.buffer not in outer or not _is_turned(e, line, depth):
                return e
            made = self._matrix(e, outer[e.buffer], line, depth)
            if made not in inner:
                inner[made] = Buffer(f"{e.buffer.name}u{len(inner)}", made.type, "input")
            return load(inner[made], depth * line.extent + line)

        for place, step in enumerate(body.steps):
            if isinstance(step, Contraction) and step.is_static:
                rhs = matrix(step.rhs, step.column, step.depth)
                is_narrow = step.column.extent <= NARROW < step.row.extent
                lhs = matrix(step.lhs, step.row, step.depth) if is_narrow else step.lhs
                body.steps[place] = replace(step, lhs=lhs, rhs=rhs)
        count = len(constants)
        body.inputs = (*body.inputs[:count], *inner.values(), *body.inputs[count:])
        return list(inner)

    def _matrix(self, e: Load, origin: Buffer, line: Variable, depth: Variable) -> Buffer:
        """The transposed matrix, made by a kernel before the loop."""
        key = origin, e.index.stride_of(line), e.index.constant, line.extent, depth.extent
        if key not in self.turned:
            type = Type(origin.number_dtype, (depth.extent, line.extent))
            made = Buffer(f"{origin.name}t{len(self.turned)}", type, "temporary")
            store = Store(made, depth * line.extent + line, load(origin, e.index))
            self.steps.append(Kernel((depth, line), (store,)))
            self.turned[key] = made
        return self.turned[key]


def _is_turned(e: Load, line: Variable, depth: Variable) -> bool:
    """Whether the depth of a matrix is contiguous, so that transposing it pays."""
    index = e.index
    is_matrix = index.is_affine and index.variables == {line, depth}
    return is_matrix and index.stride_of(depth) == 1 != index.stride_of(line)
