"""Loop programs: buffers, and the steps that fill them.

A `Program` is run with pointers to its inputs, its outputs and an arena of `arena_bytes`. Every
array is dense and row-major in its buffer. Steps run in order. The `loops` of a step are parallel,
outermost first, unless the step says otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ...ir.lazy import lazy
from ...ir.op import Op
from ...ir.record import field, record
from ...ir.types import Size, Type, Typed
from .expr import Expr, Load, walk
from .index import Index, Variable

if TYPE_CHECKING:
    from ...ir.graph import Source, Value

REAL_PARTS = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}

Kind: TypeAlias = Literal["input", "output", "temporary", "constant", "local"]


@record(frozen=False, eq=False)
class Buffer(Typed):
    """Memory for one array, compared by identity.

    The caller binds an `input` and an `output`, 64-byte aligned unless they are a slice of a loop's
    array. A `temporary` lies in the arena, a `local` one in the block of a thread (see `RowGroup`).
    Either may share its memory with another whose last reader is the kernel that writes it: that
    kernel loads each element just before it stores one at the same index.
    """

    name: str  # unique within its program
    type: Type
    kind: Kind
    offset: Size | None = None  # bytes in the arena, 64-byte aligned, or in the thread's block
    array: np.ndarray | None = None  # of a constant
    continues: Buffer | None = None  # a temporary whose memory and elements it takes over
    serial: int = field(default_factory=itertools.count().__next__)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.type.nbytes

    @property
    def number_dtype(self) -> np.dtype:
        """The dtype of the scalars that loads and stores take: parts of complex elements."""
        return REAL_PARTS.get(self.dtype, self.dtype)

    @property
    def count(self) -> int:
        """The number of scalars that loads and stores index: two for a complex element."""
        return 2 * self.size if self.dtype in REAL_PARTS else self.size

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.type}, {self.kind})"


@record(eq=False)
class Store:
    """A store of a scalar at an index of a buffer."""

    buffer: Buffer
    index: Index  # in elements; a complex one counts as two, its real and its imaginary part
    expr: Expr  # of the buffer's dtype


@record(eq=False)
class Kernel:
    """A loop nest: for all values of the loop variables, do all stores.

    A buffer that it stores to is loaded at the same index only, before the store.
    """

    loops: tuple[Variable, ...]  # extents above 1; the last is contiguous in the stores, if any is
    stores: tuple[Store, ...]  # they may share expressions
    source: Source | None = None

    @lazy
    def exprs(self) -> tuple[Expr, ...]:
        """Every expression once, operands first, those inside of indices included."""
        stores = self.stores
        return tuple(walk(*(s.expr for s in stores), *(e for s in stores for e in s.index.loads)))


@record(eq=False)
class RowGroup:
    """Kernels fused under common outer loops, so that their temporaries stay in cache.

    In each iteration the kernels run in order. One reads what an earlier one wrote in the same
    iteration only.
    """

    loops: tuple[Variable, ...]
    kernels: tuple[Kernel, ...]  # with their inner loops
    locals: tuple[Buffer, ...] = ()  # alive in one iteration; none without `Target.local_bytes`
    local_bytes: int = 0  # of the 64-byte aligned block that each thread needs for them


@record(eq=False)
class Scan:
    """An inclusive prefix scan along one loop.

    The accumulator starts with the first element. Each iteration sets it to
    `combine(accumulator, expr)` and stores it in the buffer's dtype.
    """

    loops: tuple[Variable, ...]
    along: Variable  # the last loop, which runs in order
    reverse: bool  # whether it runs backwards
    combine: str  # add, mul, max or min
    expr: Expr  # of the accumulator's dtype
    buffer: Buffer
    index: Index
    source: Source | None = None


@record(eq=False)
class TopK:
    """Top k: the k largest elements along one loop, descending, and their places.

    Equal ones are in the order of their places. NaN is the largest, -0.0 equals 0.0.
    """

    loops: tuple[Variable, ...]
    along: Variable  # of static extent, k at least
    rank: Variable  # of extent k
    expr: Expr
    values: Buffer
    places: Buffer  # the place of each along `along`, an int32
    index: Index  # of `values` and `places`, by `rank`
    source: Source | None = None


@record(eq=False)
class Sort:
    """A stable sort of each row, or an argsort; NaN comes last, -0.0 equals 0.0."""

    rows: Size
    length: Size  # of a row
    numbers: Buffer
    sorted: Buffer | None  # the sorted rows
    places: Buffer | None  # instead of them: where each number stood in its row, an int32
    # scratch for 16 rows, or all if there are less; bytes for each number: those of its dtype, and
    # for places 8 more than twice as many
    spare: Buffer
    source: Source | None = None


@record(eq=False)
class Scatter:
    """A scatter: `buffer[index] = combine(buffer[index], expr)` in row-major order.

    Half floats are combined in float32 and rounded each time.
    """

    loops: tuple[Variable, ...]
    combine: str  # set, add, mul, min or max
    buffer: Buffer  # filled before, perhaps as the temporary that it `continues`
    index: Index
    bounds: tuple[tuple[Index, int, int], ...]  # it stores only where low <= index < high in each
    expr: Expr  # loads nothing from the buffer, and nor do the indices
    apart: tuple[Variable, ...] = ()  # loops whose iterations never write to the same place
    source: Source | None = None


@record(eq=False)
class Contraction:
    """Batched matrix products: `Accumulated` is the sum of `lhs * rhs` over `depth`.

    A variable of extent 1 has stride 0. Indices may hold quotients and remainders of batch
    variables and of the row.

    An operand is a `Load` with an affine index of any strides, which is converted to `dtype`. If
    `Target.computes_operands` it may also be a load whose index has quotients and remainders
    (windows), or a `Guard` of such loads (padding); with `Target.most_uses` any expression.
    """

    batch: tuple[Variable, ...]
    row: Variable
    column: Variable
    depth: Variable
    lhs: Expr  # mentions batch, row, depth
    rhs: Expr  # mentions batch, depth, column
    dtype: np.dtype  # of the sums
    # over batch, row, column; a single one, of the converted sum, without `has_static_columns`
    stores: tuple[Store, ...]
    source: Source | None = None
    lhs_panels: Buffer | None = None  # read instead of `lhs`: its numbers in another order
    rhs_panels: Buffer | None = None  # the same for `rhs`
    panel_rows: int = 0  # of the products that `rhs_panels` suit, if this one may have others
    joins: bool = False  # it may run at the same time as the product before it

    @property
    def operands(self) -> tuple[tuple[Expr, Variable], tuple[Expr, Variable]]:
        """Each operand with its variable that is not `depth`."""
        return (self.lhs, self.row), (self.rhs, self.column)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are static."""
        extents = [v.extent for v in (*self.batch, self.row)]
        return self.has_static_columns and all(isinstance(n, int) for n in extents)

    @property
    def has_static_columns(self) -> bool:
        """Whether all sizes but those of batches and rows are static."""
        inner = (self.row, self.column, self.depth)
        loads = [e.index for e in (self.lhs, self.rhs) if isinstance(e, Load)]
        indices = [*loads, *(s.index for s in self.stores)]
        strides = [index.stride_of(v) for index in indices for v in inner]
        numbers = (*strides, self.column.extent, self.depth.extent)
        return all(isinstance(n, int) for n in numbers)


@record(eq=False)
class Chain:
    """Products and kernels fused under common outer loops, if `Target.has_chains`.

    In each iteration the steps run in order. One reads what an earlier one wrote in the same
    iteration only. Worker w of `worker.extent` runs the iterations from `w * count // extent` up to
    the first one of the next worker, in row-major order.
    """

    worker: Variable  # indexes the memory that each worker has for temporaries
    loops: tuple[Variable, ...]  # of static extents, as those of the steps
    steps: tuple[Kernel | RowGroup | Contraction, ...]  # with their inner loops


@record(eq=False)
class LibraryCall:
    """A call of an op's NumPy reference on whole buffers: `op.run(arrays, attrs)`.

    For an op that `Target.wants` the backend may have code that gives about the same.
    """

    op: Op
    attrs: dict[str, Any]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    # of the arrays; their buffers may have other shapes, and pairs of parts for complex elements
    input_types: tuple[Type, ...]
    source: Source | None = None
    is_wanted: bool = False


@record(eq=False)
class Copy:
    """A copy of all bytes of one buffer into another of the same size."""

    origin: Buffer
    target: Buffer


@record(eq=False)
class BranchStep:
    """A branch: runs one of several programs, which take the same inputs and outputs."""

    selector: Buffer  # the number of the program, an int32, which is clamped
    programs: tuple[Program, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    scratch: Buffer | None = None  # the arena of the nested programs, if they need one


@record(eq=False)
class Carry:
    """A loop-carried array, double-buffered unless it is updated in place."""

    initial: Buffer  # read by the first iteration
    result: Buffer  # where it is at the end
    spare: Buffer | None  # written in turn with `result`
    # only if `Target.in_place_carries`: `initial` is copied to `result`, both input and output
    in_place: bool = False


@record(eq=False)
class WhileStep:
    """A while loop: runs `body` while `condition` stores True in `flag`.

    Iteration 0 reads `initial`; iteration r writes `spare` if r is odd, else `result`. If the last
    written is `spare`, or none ran, it is copied to `result` at the end. Buffers bound to the
    nested programs may be declared with another shape of as many elements.
    """

    condition: Program  # (constants, carried arrays) -> flag
    body: Program  # (constants, carried arrays) -> carried arrays
    condition_constants: tuple[Buffer, ...]
    body_constants: tuple[Buffer, ...]
    carries: tuple[Carry, ...]
    flag: Buffer
    scratch: Buffer | None = None  # the arena of the nested programs


@record(eq=False)
class RepeatStep:
    """A loop that runs `body` `length` times.

    Iteration 0 reads `initial`; iteration r writes `result` if `length - 1 - r` is even, else
    `spare`. For length 0 `initial` is copied. With several `parts` the loop runs once for each, in
    any order or in parallel, on one of as many equal blocks of every divided array.
    """

    body: Program  # (constants, carried arrays, slices[k]...) -> (carried arrays, stacks[k]...)
    length: Size
    reverse: bool  # k counts down from `length - 1`, else up from 0
    constants: tuple[Buffer, ...]
    carries: tuple[Carry, ...]  # always divided
    slices: tuple[Buffer, ...]  # the body gets a pointer to row k
    stacks: tuple[Buffer, ...]  # the body fills row k; it is always divided
    scratch: Buffer | None = None  # the arena of the body, with room for all parts
    parts: int = 1
    divided_constants: tuple[bool, ...] = ()  # which of the constants are
    divided_slices: tuple[bool, ...] = ()  # and which of the slices


Step: TypeAlias = (
    Kernel
    | RowGroup
    | Scan
    | TopK
    | Sort
    | Scatter
    | Contraction
    | Chain
    | LibraryCall
    | Copy
    | BranchStep
    | WhileStep
    | RepeatStep
)


@record(frozen=False, eq=False)
class Program:
    """A program: steps over buffers; nested ones have buffers of their own.

    Inputs and outputs are all distinct buffers: an output that is an input or a constant, or that
    stands twice among the outputs, is filled by a `Copy`.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    steps: list[Step]
    arena_bytes: Size = 0
    notes: list[str] = field(default_factory=list)  # library calls, and why values did not fuse
    missed: list[str] = field(default_factory=list)  # of these, what could have been fused
    # output of a loop's body -> the input that is bound to the same memory
    shared: dict[Buffer, Buffer] = field(default_factory=dict)
    # the value in a buffer, by its name; only for a `Target.timed`, since it keeps the graph
    origins: dict[str, Value] = field(default_factory=dict)

    @property
    def programs(self) -> Iterator[Program]:
        """The program itself and all nested ones."""
        yield self
        for step in self.steps:
            for nested in nested_programs(step):
                yield from nested.programs


def nested_programs(step: Step) -> tuple[Program, ...]:
    """The programs inside of a control step."""
    if isinstance(step, BranchStep):
        return step.programs
    if isinstance(step, WhileStep):
        return step.condition, step.body
    return (step.body,) if isinstance(step, RepeatStep) else ()
