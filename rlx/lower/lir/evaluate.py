"""The interpreter of loop programs: slow and exact, in NumPy.

Every renderer must match this meaning. Loops become array axes; temporaries lie in one arena full
of rubbish, as on a device, so a wrong memory plan shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.bind import bind_sizes, concrete_attr
from ...ir.dims import concrete
from ...ir.types import Size
from .access import rebind
from .expr import (
    IN_TURN,
    Accumulated,
    Apply,
    Const,
    Expr,
    Guard,
    IndexValue,
    Load,
    Reduce,
    in_numpy,
)
from .index import Atom, Index, Loaded, Quotient, Variable, as_index
from .program import (
    BranchStep,
    Buffer,
    Carry,
    Chain,
    Contraction,
    Copy,
    Kernel,
    LibraryCall,
    Program,
    RepeatStep,
    RowGroup,
    Scan,
    Scatter,
    Sort,
    Step,
    Store,
    TopK,
    WhileStep,
)
from .text import buffers_of

COMBINE: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    IN_TURN: np.add,
}


class Memory(dict[Buffer, np.ndarray]):
    """The contents of buffers, and the values of symbolic sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def numbers(self, buffer: Buffer) -> np.ndarray:
        """The flat numbers of a buffer that loads and stores index."""
        return self[buffer].view(buffer.number_dtype)

    def number(self, size: Size) -> int:
        """The value of a size."""
        return concrete(size, self.sizes)

    def shape(self, sizes: Iterable[Size]) -> tuple[int, ...]:
        """The values of sizes."""
        return tuple(map(self.number, sizes))


def evaluate(program: Program, arrays: Sequence[Any]) -> list[np.ndarray]:
    """Run a program on an array for each input, and give its outputs."""
    inputs = [np.ascontiguousarray(a, b.dtype) for a, b in zip(arrays, program.inputs, strict=True)]
    names = [b.name for b in program.inputs]
    sizes = bind_sizes([b.type for b in program.inputs], [a.shape for a in inputs], names)
    memory = Memory(sizes)
    outputs = [np.empty(memory.shape(b.type.shape), b.dtype) for b in program.outputs]
    arena = np.full(memory.number(program.arena_bytes), 0xAB, np.uint8)
    flat = [a.reshape(-1) for a in inputs], [a.reshape(-1) for a in outputs]
    with np.errstate(all="ignore"):
        run(program, *flat, arena, sizes)
    return outputs


def run(
    program: Program,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    arena: np.ndarray,
    sizes: Mapping[str, int],
) -> None:
    """Run a program on flat arrays and an arena of bytes."""
    memory = Memory(sizes)
    memory.update(zip(program.inputs, inputs, strict=True))
    memory.update(zip(program.outputs, outputs, strict=True))
    for buffer in buffers_of(program):
        if buffer.array is not None:
            memory[buffer] = buffer.array.reshape(-1)
        elif buffer.kind == "temporary":
            assert buffer.offset is not None, f"{buffer} has no place in the arena"
            start, length = memory.shape((buffer.offset, buffer.nbytes))
            memory[buffer] = arena[start : start + length].view(buffer.dtype)
    for step in program.steps:
        run_step(step, memory)


def run_step(step: Step, memory: Memory) -> None:
    """Run one step on the buffers' memory."""
    if isinstance(step, Kernel):
        _run_kernel(step, Grid(step.loops, memory), memory)
    elif isinstance(step, RowGroup):
        _run_rows(step, memory)
    elif isinstance(step, Scan):
        _run_scan(step, memory)
    elif isinstance(step, TopK):
        _run_top_k(step, memory)
    elif isinstance(step, Sort):
        _run_sort(step, memory)
    elif isinstance(step, Scatter):
        _run_scatter(step, memory)
    elif isinstance(step, Contraction):
        _run_contraction(step, memory)
    elif isinstance(step, Chain):
        _run_chain(step, memory)
    elif isinstance(step, LibraryCall):
        typed = zip(step.inputs, step.input_types, strict=True)
        arrays = [memory[b].view(t.dtype).reshape(memory.shape(t.shape)) for b, t in typed]
        attrs = {name: concrete_attr(x, memory.sizes) for name, x in step.attrs.items()}
        for buffer, array in zip(step.outputs, step.op.run(arrays, attrs), strict=True):
            _copy(np.asarray(array).reshape(-1), memory[buffer])
    elif isinstance(step, Copy):
        _copy(memory[step.origin], memory[step.target])
    elif isinstance(step, BranchStep):
        _run_branch(step, memory)
    elif isinstance(step, WhileStep):
        _run_while(step, memory)
    else:
        _run_repeat(step, memory)


def _copy(origin: np.ndarray, target: np.ndarray) -> None:
    """Copy all bytes; complex numbers may lie in one as pairs of parts."""
    target[:] = origin.view(target.dtype)


class Grid:
    """Evaluates expressions for all values of loop variables, an axis for each."""

    def __init__(
        self,
        loops: Sequence[Variable],
        memory: Memory,
        *,
        sums: np.ndarray | None = None,  # of a contraction, for its stores
        given: dict[Variable, np.ndarray] | None = None,  # outer variables, together along axis 0
        holds: np.ndarray | None = None,  # where loads are made; they give 0 elsewhere
    ) -> None:
        self.loops, self.memory, self.sums, self.holds = tuple(loops), memory, sums, holds
        self.given = given or {}
        self.memo: dict[Any, np.ndarray] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the grid's variables."""
        return self.memory.shape(v.extent for v in self.loops)

    def variable(self, variable: Variable) -> np.ndarray:
        """The values of a loop variable over the grid."""
        if variable in self.given:
            return self.given[variable].reshape(-1, *[1] * (len(self.loops) - 1))
        axis = self.loops.index(variable)
        shape = [1] * len(self.loops)
        shape[axis] = self.memory.number(variable.extent)
        return np.arange(shape[axis], dtype=np.int64).reshape(shape)

    def index(self, index: Index) -> np.ndarray:
        """The values of an index, broadcastable to the grid."""
        number = self.memory.number
        total = np.full([1] * len(self.loops), number(index.constant), np.int64)
        for atom, coefficient in index.terms:
            total = total + self.atom(atom) * number(coefficient)
        return total

    def atom(self, atom: Atom) -> np.ndarray:
        """The values of an index atom over the grid."""
        if isinstance(atom, Variable):
            return self.variable(atom)
        if isinstance(atom, Loaded):
            return self.expr(atom.expr).astype(np.int64)
        inner, divisor = self.index(atom.index), self.memory.number(atom.divisor)
        return inner // divisor if isinstance(atom, Quotient) else inner % divisor

    def expr(self, expr: Expr) -> np.ndarray:
        """The values of an expression, broadcastable to the grid."""
        if expr not in self.memo:
            value = self.compute(expr)
            assert value.dtype == expr.dtype, f"{expr} gave {value.dtype}, not {expr.dtype}"
            self.memo[expr] = value
        return self.memo[expr]

    def compute(self, expr: Expr) -> np.ndarray:
        """The values of an expression over the grid."""
        if isinstance(expr, Const):
            return np.full([1] * len(self.loops), expr.number, expr.dtype)
        if isinstance(expr, IndexValue):
            return self.index(expr.index).astype(expr.dtype)
        if isinstance(expr, Load):
            return self.load(expr)
        if isinstance(expr, Apply):
            args = [self.expr(a) for a in expr.args]
            made = in_numpy(expr.instruction, expr.dtype, *args)
            return np.asarray(made).astype(expr.dtype, copy=False)
        if isinstance(expr, Reduce):
            return self.reduce(expr)
        if isinstance(expr, Guard):
            return self.guard(expr)
        assert isinstance(expr, Accumulated) and self.sums is not None
        return self.sums

    def load(self, expr: Load) -> np.ndarray:
        """The values of a load over the grid."""
        memory, places = self.memory.numbers(expr.buffer), self.index(expr.index)
        if self.holds is None:
            return memory[places]
        result = np.zeros(self.shape, expr.dtype)
        result[self.holds] = memory[np.broadcast_to(places, self.shape)[self.holds]]
        return result

    def reduce(self, expr: Reduce) -> np.ndarray:
        """The values of a reduction over the grid."""
        inner = Grid((*self.loops, *expr.loops), self.memory, given=self.given)
        axes = tuple(range(len(self.loops), len(inner.loops)))
        if self.holds is None:
            shape = self._near(expr, inner)
        else:
            shape = inner.shape
            inner.holds = np.broadcast_to(np.expand_dims(self.holds, axes), shape)
        values = inner.expr(expr.body)
        values = np.broadcast_to(values, np.broadcast_shapes(values.shape, shape))
        combine = COMBINE[expr.combine]
        return combine.reduce(values, axis=axes, initial=expr.init.number, dtype=expr.dtype)

    def _near(self, expr: Reduce, inner: Grid) -> tuple[int, ...]:
        """The inner grid's shape, with axes the reduction does not depend on kept at 1."""
        needed = expr.variables | frozenset(expr.loops) | frozenset(self.loops[: bool(self.given)])
        return self.memory.shape(v.extent if v in needed else 1 for v in inner.loops)

    def guard(self, expr: Guard) -> np.ndarray:
        """The values of a guard over the grid."""
        holds = np.broadcast_to(conditions(self, expr.bounds, expr.steps), self.shape)
        holds = holds if self.holds is None else holds & self.holds
        inner = Grid(self.loops, self.memory, sums=self.sums, given=self.given, holds=holds)
        return np.where(holds, inner.expr(expr.inside), self.expr(expr.outside))


def conditions(grid: Grid, bounds: Sequence[Any], steps: Sequence[Any] = ()) -> np.ndarray:
    """The mask of elements for which all conditions hold."""
    holds = np.ones([1] * len(grid.loops), bool)
    for index, low, high in bounds:
        place = grid.index(index)
        first, end = grid.memory.shape((low, high))
        holds = holds & (first <= place) & (place < end)
    for index, step in steps:
        holds = holds & (grid.index(index) % step == 0)
    return holds


def _store(grid: Grid, store: Any, memory: Memory, value: np.ndarray) -> None:
    places = np.broadcast_to(grid.index(store.index), grid.shape)
    assert places.size == np.unique(places).size, "two iterations store to one place"
    memory.numbers(store.buffer)[places] = np.broadcast_to(value, grid.shape)


def _run_kernel(kernel: Kernel, grid: Grid, memory: Memory) -> None:
    values = [grid.expr(s.expr) for s in kernel.stores]
    for store, value in zip(kernel.stores, values, strict=True):
        assert value.dtype == store.buffer.number_dtype, f"{store.buffer} gets {value.dtype}"
        _store(grid, store, memory, value)


def _run_rows(rows: RowGroup, memory: Memory) -> None:
    """Run some rows to the end, then the others, which must be independent of them."""
    shape = memory.shape(v.extent for v in rows.loops)
    numbers = np.arange(math.prod(shape))
    block = np.full(rows.local_bytes, 0xAB, np.uint8)
    for buffer in rows.locals:
        assert buffer.offset is not None, f"{buffer} has no place"
        start, length = memory.shape((buffer.offset, buffer.nbytes))
        memory[buffer] = block[start : start + length].view(buffer.dtype)
    parts = np.split(numbers, len(numbers)) if rows.locals else [numbers[1::2], numbers[::2]]
    for part in parts:
        places = np.unravel_index(part, shape)
        given = dict(zip(rows.loops, places, strict=True))
        for kernel in rows.kernels:
            loops = (Variable(len(part)), *kernel.loops)
            _run_kernel(kernel, Grid(loops, memory, given=given), memory)


def _run_scan(scan: Scan, memory: Memory) -> None:
    grid = Grid((*scan.loops, scan.along), memory)
    values = np.broadcast_to(grid.expr(scan.expr), grid.shape)
    values = values[..., ::-1] if scan.reverse else values
    totals = COMBINE[scan.combine].accumulate(values, axis=-1, dtype=scan.expr.dtype)
    totals = totals[..., ::-1] if scan.reverse else totals
    _store(grid, scan, memory, totals.astype(scan.buffer.number_dtype))


def _run_top_k(step: TopK, memory: Memory) -> None:
    grid = Grid((*step.loops, step.along), memory)
    values = np.broadcast_to(grid.expr(step.expr), grid.shape)
    keys = values if values.dtype.isbuiltin == 1 else values.astype(np.float32)
    count, size = memory.number(step.rank.extent), grid.shape[-1]
    # reversed twice: rising and stable becomes falling and stable
    order = np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    places = size - 1 - order[..., :count]
    out = Grid((*step.loops, step.rank), memory)
    _store(
        out,
        Store(step.values, step.index, step.expr),
        memory,
        np.take_along_axis(values, places, -1),
    )
    _store(out, Store(step.places, step.index, step.expr), memory, places.astype(np.int32))


def _run_sort(step: Sort, memory: Memory) -> None:
    lines = memory.numbers(step.numbers).reshape(memory.shape((step.rows, step.length)))
    keys = lines if lines.dtype.isbuiltin == 1 else lines.astype(np.float32)
    order = np.argsort(keys, axis=-1, kind="stable")
    if step.sorted is not None:
        memory.numbers(step.sorted)[:] = np.take_along_axis(lines, order, -1).reshape(-1)
    if step.places is not None:
        memory[step.places][:] = order.reshape(-1)


def _run_scatter(scatter: Scatter, memory: Memory) -> None:
    grid = Grid(scatter.loops, memory)
    holds = np.broadcast_to(conditions(grid, scatter.bounds), grid.shape).reshape(-1)
    places = np.broadcast_to(grid.index(scatter.index), grid.shape).reshape(-1)[holds]
    values = np.broadcast_to(grid.expr(scatter.expr), grid.shape).reshape(-1)[holds]
    target = memory.numbers(scatter.buffer)
    for place, value in zip(places, values, strict=True):
        if scatter.combine == "set":
            target[place] = value
        else:
            target[place] = COMBINE[scatter.combine](target[place], value)


def _run_contraction(step: Contraction, memory: Memory) -> None:
    grid = Grid((*step.batch, step.row, step.column, step.depth), memory)
    is_short = step.dtype.itemsize < 8 and step.dtype.kind not in "iu"
    dtype = np.dtype(np.float64) if is_short else step.dtype  # the order of a sum is free
    lhs = grid.expr(step.lhs).astype(dtype)
    rhs = grid.expr(step.rhs).astype(dtype)
    # a guard has the values of all columns, and of all rows, which are the same
    lhs = np.broadcast_to(lhs[..., :1, :], (*grid.shape[:-2], 1, grid.shape[-1]))[..., 0, :]
    rhs = np.broadcast_to(rhs[..., :1, :, :], (*grid.shape[:-3], 1, *grid.shape[-2:]))[..., 0, :, :]
    sums = np.matmul(lhs, np.swapaxes(rhs, -1, -2)).astype(step.dtype)
    outer = Grid(grid.loops[:-1], memory, sums=sums)
    values = [outer.expr(s.expr) for s in step.stores]
    for store, value in zip(step.stores, values, strict=True):
        _store(outer, store, memory, value)


def _run_chain(chain: Chain, memory: Memory) -> None:
    """Run the workers of a chain in reverse order, which must make no difference."""
    shape = memory.shape(v.extent for v in chain.loops)
    count, workers = math.prod(shape), memory.number(chain.worker.extent)
    for worker in reversed(range(workers)):
        for number in range(worker * count // workers, (worker + 1) * count // workers):
            values = (worker, *(int(i) for i in np.unravel_index(number, shape)))
            table = dict(zip((chain.worker, *chain.loops), map(as_index, values), strict=True))
            for step in chain.steps:
                run_step(rebind(step, table), memory)


def _scratch(buffer: Buffer | None, memory: Memory) -> np.ndarray:
    return memory[buffer] if buffer is not None else np.empty(0, np.uint8)


def _run_branch(step: BranchStep, memory: Memory) -> None:
    number = int(np.clip(memory[step.selector][0], 0, len(step.programs) - 1))
    inputs, outputs = [memory[b] for b in step.inputs], [memory[b] for b in step.outputs]
    run(step.programs[number], inputs, outputs, _scratch(step.scratch, memory), memory.sizes)


def _carry_start(
    carries: Sequence[Carry], memory: Memory | dict[Buffer, np.ndarray]
) -> list[np.ndarray]:
    for carry in carries:
        if carry.in_place:
            _copy(memory[carry.initial], memory[carry.result])
    return [memory[c.result if c.in_place else c.initial] for c in carries]


def _target(carry: Carry, is_result: bool) -> Buffer:
    """The buffer in which a round leaves a carried array."""
    return carry.result if is_result or carry.spare is None else carry.spare


def _carry_end(
    carries: Sequence[Carry],
    now: Sequence[np.ndarray],
    memory: Memory | dict[Buffer, np.ndarray],
) -> None:
    for carry, last in zip(carries, now, strict=True):
        if last is not memory[carry.result]:
            _copy(last, memory[carry.result])


def _run_while(step: WhileStep, memory: Memory) -> None:
    scratch = _scratch(step.scratch, memory)
    condition_constants = [memory[b] for b in step.condition_constants]
    body_constants = [memory[b] for b in step.body_constants]
    now = _carry_start(step.carries, memory)
    turn = 0
    while True:
        flags = [memory[step.flag]]
        run(step.condition, [*condition_constants, *now], flags, scratch, memory.sizes)
        if not memory[step.flag][0]:
            break
        new = [memory[_target(c, turn % 2 == 0)] for c in step.carries]
        run(step.body, [*body_constants, *now], new, scratch, memory.sizes)
        now, turn = new, turn + 1
    _carry_end(step.carries, now, memory)


def _run_repeat(step: RepeatStep, memory: Memory) -> None:
    for number in range(step.parts):
        _run_rounds(step, memory, number)


def _run_rounds(step: RepeatStep, memory: Memory, number: int) -> None:
    """Run all rounds of a loop for one of its parts."""
    length = memory.number(step.length)

    def block(array: np.ndarray) -> np.ndarray:
        return array.reshape(step.parts, -1)[number]

    def row(buffer: Buffer, k: int, is_divided: bool = True) -> np.ndarray:
        whole = memory[buffer].reshape(length, -1)[k]
        return block(whole) if is_divided else whole

    carried = [b for c in step.carries for b in (c.initial, c.result, c.spare) if b is not None]
    blocks = {b: block(memory[b]) for b in carried}
    flags = step.divided_constants or [False] * len(step.constants)
    cut = step.divided_slices or [False] * len(step.slices)
    pairs = zip(step.constants, flags, strict=True)
    constants = [block(memory[b]) if flag else memory[b] for b, flag in pairs]
    now = _carry_start(step.carries, blocks)
    for turn in range(length):
        k = length - 1 - turn if step.reverse else turn
        is_last = (length - 1 - turn) % 2 == 0
        new = [blocks[_target(c, is_last)] for c in step.carries]
        slices = [row(b, k, flag) for b, flag in zip(step.slices, cut, strict=True)]
        inputs = [*constants, *now, *slices]
        outputs = [*new, *(row(b, k) for b in step.stacks)]
        run(step.body, inputs, outputs, _scratch(step.scratch, memory), memory.sizes)
        now = new
    _carry_end(step.carries, now, blocks)
