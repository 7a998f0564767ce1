"""Loop programs: buffers, and the steps that fill them.

A `Program` is run with pointers to its inputs, its outputs and an arena of `arena_bytes`. Every
array is dense and row-major in its buffer, from its first element on. Steps run in order. Loops
written `loops` are free of dependence: any order, any number of threads.
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
    from ...ir.graph import Source

REAL_PARTS = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}

Kind: TypeAlias = Literal["input", "output", "temporary", "constant", "local"]


@record(frozen=False, eq=False)
class Buffer(Typed):
    """Memory for one array, compared by identity.

    The caller binds an `input` and an `output`, 64-byte aligned unless they are a slice of a loop's
    array. A `temporary` lies in the arena, a `local` one in the block that each thread has for the
    row it is at (see `RowGroup`). Either may lie where another one lies that is no longer needed:
    at the least, where its kernel reads each element of the other one just before it stores its
    own at the same index.
    """

    name: str  # unique within its program
    type: Type
    kind: Kind
    offset: Size | None = None  # bytes in the arena, 64-byte aligned, or in the block of the row
    array: np.ndarray | None = None  # of a constant
    continues: Buffer | None = None  # the temporary whose place and numbers it takes over, uncopied
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
        """The dtype of what loads and stores take: a part of a complex element."""
        return REAL_PARTS.get(self.dtype, self.dtype)

    @property
    def count(self) -> int:
        """How many numbers loads and stores can take: two for a complex element."""
        return 2 * self.size if self.dtype in REAL_PARTS else self.size

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.type}, {self.kind})"


@record(eq=False)
class Store:
    """A store of `expr` at an offset of a buffer.

    `expr` is of the buffer's dtype, the offset counted in elements. Of complex elements each part
    counts: the imaginary part follows the real one.
    """

    buffer: Buffer
    index: Index
    expr: Expr


@record(eq=False)
class Kernel:
    """A loop nest: for all values of the loop variables, do all stores.

    Loops are outermost first; the last one is the contiguous one of the stores where there is
    one. No loop has extent 1 or 0; none at all means one evaluation. Expressions may be shared
    among the stores. No store's buffer is loaded by the kernel, except at the very same index
    (then it is read before it is written).
    """

    loops: tuple[Variable, ...]
    stores: tuple[Store, ...]
    source: Source | None = None

    @lazy
    def exprs(self) -> tuple[Expr, ...]:
        """Every expression once, operands first, those inside of indices included."""
        stores = self.stores
        return tuple(walk(*(s.expr for s in stores), *(e for s in stores for e in s.index.loads)))


@record(eq=False)
class RowGroup:
    """Fused kernels, which run one after another for each value of outer loops.

    So their temporaries stay in cache. For each value of the variables in `loops` (parallel) the
    `kernels` run in order, with their own loops inside. A kernel reads what an earlier one wrote
    only at the same outer values.

    The buffers `locals` live for one row: each thread needs a block of `local_bytes` (64-byte
    aligned, on the stack for instance) that holds them. There are none unless the target offers
    such blocks (`Target.local_bytes`).
    """

    loops: tuple[Variable, ...]
    kernels: tuple[Kernel, ...]
    locals: tuple[Buffer, ...] = ()
    local_bytes: int = 0


@record(eq=False)
class Scan:
    """A running combination (prefix scan) along one loop.

    `along` is the last loop and runs in order, backwards if `reverse`.

    The accumulator has the dtype of `expr` and starts with the first element; at each step
    `accumulator = combine(accumulator, expr)` is converted to the buffer's dtype and stored at
    `index`. `combine` is add, mul, max or min.
    """

    loops: tuple[Variable, ...]
    along: Variable
    reverse: bool
    combine: str
    expr: Expr
    buffer: Buffer
    index: Index
    source: Source | None = None


@record(eq=False)
class TopK:
    """Top k: the greatest of `expr` along one loop, with their places.

    The number of rank r (of the variable `rank`, whose extent is how many are wanted) goes to
    `values[index]`, its place along `along` as an int32 to `places[index]`. The greatest has rank
    0; among equal ones the first comes first. NaN is the greatest, -0.0 equals 0.0. The extent of
    `along` is a number, not less than that of `rank`.
    """

    loops: tuple[Variable, ...]
    along: Variable
    rank: Variable
    expr: Expr
    values: Buffer
    places: Buffer
    index: Index
    source: Source | None = None


@record(eq=False)
class Sort:
    """A stable sort of each row.

    `numbers` has `rows` rows of `length`. They go to `sorted`, or where each stood in its row goes
    to `places` as an int32: one of the two is there. NaN comes last, -0.0 ties with 0.0. `spare` is
    memory to work in: for 16 rows, or all if there are less, it has the bytes of each number, and
    for places 8 bytes more than twice as many.
    """

    rows: Size
    length: Size
    numbers: Buffer
    sorted: Buffer | None
    places: Buffer | None
    spare: Buffer
    source: Source | None = None


@record(eq=False)
class Scatter:
    """A scatter: `expr` is combined into a buffer at computed places.

    Where all `bounds` hold (low <= index < high): `buffer[index] = combine(buffer[index], expr)`;
    `combine` is set, add, mul, min or max. Loops run in row-major order. Different rounds of the
    loops `apart` write to different places. Arithmetic on half floats is done in float32 and
    rounded at each step. The buffer has been filled before, perhaps as another temporary at the
    same place. `expr` and the indices never load from it.
    """

    loops: tuple[Variable, ...]
    combine: str
    buffer: Buffer
    index: Index
    bounds: tuple[tuple[Index, int, int], ...]
    expr: Expr
    apart: tuple[Variable, ...] = ()
    source: Source | None = None


@record(eq=False)
class Contraction:
    """Matrix products: sums of `lhs * rhs` over `depth`.

    For all values of the variables `batch`, `row`, `column` the sum over `depth` of
    `convert(lhs) * convert(rhs)` in `dtype` stands for `Accumulated` in the stores. A variable may
    have extent 1, then its stride is 0. Indices of stores and loads may hold quotients and
    remainders of batch variables and of the row.

    An operand is a `Load` with an affine index: strides are `lhs.index.stride_of(row)` and so on,
    any of them may be zero or large (transposed). If `Target.computes_operands` it may also be a
    load whose index has quotients and remainders (windows), or a `Guard` of such loads (padding).
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
        """Whether all sizes of a product but the number of rows are static."""
        inner = (self.row, self.column, self.depth)
        loads = [e.index for e in (self.lhs, self.rhs) if isinstance(e, Load)]
        indices = [*loads, *(s.index for s in self.stores)]
        strides = [index.stride_of(v) for index in indices for v in inner]
        numbers = (*strides, self.column.extent, self.depth.extent)
        return all(isinstance(n, int) for n in numbers)


@record(eq=False)
class Chain:
    """Fused products and kernels, which run one after another for each outer value.

    So their temporaries stay in cache. For each value of the variables in `loops` (parallel) the
    `steps` run in order, with their own loops inside. A step reads what an earlier one wrote only
    at the same outer values. All extents are numbers.

    The values are shared out: worker w of so many as the extent of `worker` runs those from number
    `w * count // workers` up to that of the next one, in row-major order of the loops. Memory
    indexed with `worker` is its own, written anew for each value. There are none unless
    `Target.has_chains`.
    """

    worker: Variable
    loops: tuple[Variable, ...]
    steps: tuple[Kernel | RowGroup | Contraction, ...]


@record(eq=False)
class LibraryCall:
    """A call of an op's NumPy reference on whole buffers: `op.run(arrays, attrs)`.

    The arrays have the types `input_types`; a buffer itself may be declared with another shape of
    as many elements, or complex ones as pairs of parts.
    """

    op: Op
    attrs: dict[str, Any]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    input_types: tuple[Type, ...]
    source: Source | None = None


@record(eq=False)
class Copy:
    """A copy of all bytes of one buffer into another of the same size."""

    origin: Buffer
    target: Buffer


@record(eq=False)
class BranchStep:
    """A branch: runs the one of `programs` that `selector` chooses.

    The int32 in `selector` is clamped to their number. All take `inputs` and fill `outputs`.
    `scratch` is the arena of the nested programs (None if they need none).
    """

    selector: Buffer
    programs: tuple[Program, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    scratch: Buffer | None = None


@record(eq=False)
class Carry:
    """An array carried around a loop, double-buffered so that nothing is copied.

    If it is `in_place` (only where `Target.in_place_carries`), `initial` is copied to `result`
    before the loop, and each round's input and output are both bound to `result`.
    """

    initial: Buffer  # read by the first round
    result: Buffer  # where it is at the end
    spare: Buffer | None  # written in turn with `result`
    in_place: bool = False


@record(eq=False)
class WhileStep:
    """A while loop: runs `body` while `condition` stores True in `flag`.

    Condition's inputs: `condition_constants`, then the carried arrays; its output: `flag`. Body's
    inputs: `body_constants`, then the carried arrays; its outputs: the carried arrays, next
    round. Round 0 reads `initial`; round r writes `spare` if r is odd, else `result`. If the last
    written is `spare`, or no round ran, it is copied to `result` at the end. Buffers bound to the
    nested programs may be declared with another shape of as many elements.
    """

    condition: Program
    body: Program
    condition_constants: tuple[Buffer, ...]
    body_constants: tuple[Buffer, ...]
    carries: tuple[Carry, ...]
    flag: Buffer
    scratch: Buffer | None = None


@record(eq=False)
class RepeatStep:
    """A loop that runs `body` `length` times.

    Body's inputs: `constants`, the carried arrays, then for each of `slices` its part k along
    axis 0 (a pointer into it). Outputs: the carried arrays, then for each of `stacks` its part k.
    Round 0 reads `initial`; round r writes `result` if `length - 1 - r` is even, else `spare`. For
    length 0 `initial` is copied. In several `parts` the loop runs once for each of them, in any
    order or at once, with its one of as many equal blocks of all that is divided.
    """

    body: Program
    length: Size
    reverse: bool  # k counts down from `length - 1`, else up from 0
    constants: tuple[Buffer, ...]
    carries: tuple[Carry, ...]  # always divided
    slices: tuple[Buffer, ...]
    stacks: tuple[Buffer, ...]  # each part k is always divided
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
    stands twice among the outputs, is filled by a `Copy`. `notes` tell what runs as a library
    call and what did not fuse, with reasons. `shared` has for some outputs of a loop's body the
    input that is bound to the same memory.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    steps: list[Step]
    arena_bytes: Size = 0
    notes: list[str] = field(default_factory=list)
    shared: dict[Buffer, Buffer] = field(default_factory=dict)

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
