"""Contractions of LIR as calls of the packed matrix kernel.

The stores of a contraction become the kernel's epilogue. Products that do not need each other are
a grouped GEMM: each thread does its share of one after another. Of a chain of products and loops
each thread runs its share of the rounds, and each step is a function of its own: `step(table,
scratch, worker, loops...)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ....ir.dims import likely, static
from ....ir.record import record, replace
from ....ir.types import NAMES
from ....lower.lir import expr
from ....lower.lir.digits import Digits
from ....lower.lir.expr import Accumulated, Expr, Load, load_of
from ....lower.lir.index import Index, Variable, as_index, is_long
from ....lower.lir.program import Buffer, Chain, Contraction, Kernel, RowGroup, Step, Store
from ..llvm.host import Host
from ..llvm.text import AS_WRITTEN, KERNEL, Function, Module, Vector
from ..loops.costs import loops_cost, product_cost
from ..loops.kernels import (
    KERNEL_PARAMETERS,
    Layout,
    all_exprs,
    buffers_of,
    emit_kernel,
    emit_rows,
    nest,
    open_scope,
    part_range,
)
from ..loops.pairs import IN_PAIRS, adds_pairs
from ..loops.scope import NO_NAMES, Scope, memory_element
from ..runtime.polls import LONG, is_due, leave_if_stopped
from .choice import GemmPlan
from .emit import Places, emit_gemm
from .problem import (
    UNTUNED,
    WIDENED,
    Digit,
    Epilogue,
    Operand,
    Problem,
    Tuning,
    Windows,
    joined,
)
from .view import OperandView

STEP = f"noinline {KERNEL}"  # attributes of the function of a step
ROW_BLOCKS = (64, 8, 4, 1)
LEAST = 5_000  # nanoseconds of a product that may begin with a poll
LARGEST_STEP = 256  # at multiples of which the depth is cut


def contracts_natively(step: Contraction) -> bool:
    """Whether the matrix kernel multiplies these dtypes and stores along these axes."""
    index = step.stores[0].index
    long = [v for v in (step.row, step.column) if is_long(v)]
    if long and all(index.stride_of(v) != 1 for v in long):
        return False
    given, sums = {NAMES[step.lhs.dtype], NAMES[step.rhs.dtype]}, NAMES[step.dtype]
    return given == {sums} or ({WIDENED.get(name) for name in given} == {sums} and len(given) == 1)


def is_native(step: Contraction) -> bool:
    """Whether a contraction is of known sizes and for the matrix kernel."""
    return step.is_static and contracts_natively(step)


def as_kernel(step: Contraction, host: Host) -> Kernel:
    """The contraction as loops, in the kernel's order if the host is invariant."""
    how = expr.IN_TURN if host.batch_invariant and step.dtype.kind == "f" else "add"
    given = {NAMES[step.lhs.dtype], NAMES[step.rhs.dtype]}
    is_half = given == {"bfloat16"} and NAMES[step.dtype] == "float32"
    if how == expr.IN_TURN and is_half and adds_pairs(host):
        how = IN_PAIRS

    def converted(e: Expr) -> Expr:
        return expr.apply("convert", step.dtype, e)

    product = expr.apply("mul", step.dtype, converted(step.lhs), converted(step.rhs))
    zero = expr.const(step.dtype, 0)
    loops = (step.depth,) if is_long(step.depth) else ()
    total = expr.reduce(how, loops, zero, product) if step.depth.extent else zero

    def leaf(e: Expr) -> Expr | None:
        return total if isinstance(e, Accumulated) else None

    stores = [Store(s.buffer, s.index, expr.substitute(s.expr, {}, leaf)) for s in step.stores]
    outer = tuple(v for v in (*step.batch, step.row, step.column) if is_long(v))
    return Kernel(outer, tuple(stores), step.source)


def row_blocks(step: Contraction) -> list[Contraction]:
    """Split a contraction with a symbolic number of rows into static ones.

    before: `row i < n`; after: blocks of 64 rows, of what is left blocks of 8, then 4, then 1.
    """
    batch = tuple(sorted(step.batch, key=lambda v: isinstance(v.extent, int)))
    if isinstance(step.row.extent, int):
        return [replace(step, batch=batch)]
    parts, done = [], as_index(0)
    for size in ROW_BLOCKS:
        left = step.row.extent - done.constant
        block, row = Variable(left // size), Variable(size)
        parts.append(_moved(step, (block, *batch), row, block * size + as_index(row) + done))
        done = done + left // size * size
    return parts


def _moved(
    step: Contraction, batch: tuple[Variable, ...], row: Variable, place: Index
) -> Contraction:
    """The contraction over other rows, with `place` for its old row."""
    table = {step.row: place}
    memo: dict[Expr, Expr] = {}

    def moved(e: Expr) -> Expr:
        return expr.substitute(e, table, memo=memo)

    stores = tuple(
        Store(s.buffer, s.index.substitute(table, moved), moved(s.expr)) for s in step.stores
    )
    lhs, rhs = moved(step.lhs), moved(step.rhs)
    return replace(step, batch=batch, row=row, lhs=lhs, rhs=rhs, stores=stores)


def plan_contraction(
    step: Contraction, host: Host, parts: int, tuning: Tuning = UNTUNED
) -> GemmPlan:
    """Plan each of the products."""
    step = rows_along_columns(step)
    return GemmPlan.of(problem_of(step), host, 1 if shares_batch(step, host) else parts, tuning)


def emit_contraction(
    module: Module,
    f: Function,
    step: Contraction,
    plan: GemmPlan,
    layout: Layout,
    host: Host,
    parts: int,
    given: Mapping[Variable, str] = NO_NAMES,
    scratch: str = "",
) -> None:
    """Emit a contraction as loops over its batch around a matrix product.

    With a batch of at least as many matrices as threads the parts share the batch, else each
    matrix product. Inside of other loops, whose variables are `given`, there is one part, and the
    matrix kernel's `scratch` memory is its own.
    """
    step = rows_along_columns(step)
    stores = step.stores
    exprs = all_exprs(stores)
    buffers = [*loaded_operands(step), *buffers_of(exprs), *(s.buffer for s in stores)]
    scope = open_scope(f, layout, host, buffers, given)
    shared = scratch or layout.scratch(f)
    by_batch = shares_batch(step, host)
    outer = (*given, *step.batch)
    epilogue = None if _stores_sums(step) else _epilogue(step, outer, layout, host)
    split = by_batch and parts > 1
    cost = product_cost(step, host)
    polls = cost >= LONG and cost >= LEAST * math.prod(likely(v.extent) for v in step.batch)

    def open_operands(inside: Function) -> Scope:
        names = {v: f"%batch{i}" for i, v in enumerate(outer)}
        return open_scope(inside, layout, host, loaded_operands(step), names)

    def product(inner: Scope) -> None:
        a, b = _operand_places(f, inner, step, plan)
        c = _corner(f, inner, step, stores[0].buffer, stores[0].index)
        part, scratch = "0" if by_batch or parts == 1 else "%part", shared
        if split:
            scratch = f.offset(shared, "i8", f.emit(f"mul i64 %part, {plan.scratch_bytes}"))
        batch = [("i64", f"%batch{i}", inner.names[v]) for i, v in enumerate(outer)]
        places = Places(a, b, c, scratch, part)
        extra = [("ptr", "%table", "%table"), *batch]
        emit_gemm(
            module, f, plan, places, epilogue=epilogue, open_scope=open_operands, extra=extra,
            polls=polls,
        )  # fmt: skip

    nest(scope, step.batch, product, split)


def _corner(f: Function, scope: Scope, step: Contraction, buffer: Buffer, index: Index) -> str:
    """The place of the first element of a matrix."""
    place = scope.index(
        index.substitute(dict.fromkeys((step.row, step.column, step.depth), Index()))
    )
    return f.offset(scope.pointers[buffer], memory_element(NAMES[buffer.number_dtype]), place)


def _operand_places(
    f: Function, scope: Scope, step: Contraction, plan: GemmPlan
) -> Iterator[str | OperandView]:
    """The places of both operands or their panels, or views to compute them."""
    for (e, line, panels), is_read in zip(sides(step), plan.reads_windows, strict=True):
        if panels is not None:
            yield scope.pointers[panels]
        elif isinstance(e, Load) and (is_read or is_matrix(e, line, step.depth)):
            yield _corner(f, scope, step, e.buffer, e.index)
        else:
            yield OperandView(e, line, step.depth)


def shares_batch(step: Contraction, host: Host) -> bool:
    """Whether the threads share out the batch rather than each product."""
    if not step.batch:
        return False
    extent = step.batch[0].extent
    return not isinstance(extent, int) or extent >= host.cores


def scratch_bytes(step: Contraction, plan: GemmPlan, parts: int, host: Host) -> int:
    """The scratch memory of all parts."""
    return plan.scratch_bytes * (parts if shares_batch(step, host) else 1)


def sides(step: Contraction) -> list[tuple[Expr, Variable, Buffer | None]]:
    """Each operand with its variable besides the depth, and its panels, if any."""
    panels = (step.lhs_panels, step.rhs_panels)
    return [(*operand, given) for operand, given in zip(step.operands, panels, strict=True)]


def loaded_operands(step: Contraction) -> list[Buffer]:
    """The buffers that the operands are read from."""
    return [b for e, _, panels in sides(step) for b in ([panels] if panels else buffers_of([e]))]


def problem_of(step: Contraction) -> Problem:
    """The sizes and strides of one product, all static."""
    views = [OperandView(e, line, step.depth) for e, line in step.operands]
    a, b = map(_operand, views, (step.lhs_panels, step.rhs_panels))
    lines = _row_steps(step)
    return Problem(
        m=static(step.row.extent),
        n=static(step.column.extent),
        k=static(step.depth.extent),
        a=a,
        b=b.transposed,
        c_row=lines[-1].stride,
        c_lines=lines if len(lines) > 1 else (),
        dtype=NAMES[step.lhs.dtype],
        out_dtype=NAMES[step.stores[0].buffer.number_dtype],
        k_step=math.lcm(*map(_depth_step, views)),
        panel_rows=step.panel_rows,
    )


def is_matrix(e: Expr, line: Variable, depth: Variable) -> bool:
    """Whether an operand is a strided view of memory."""
    return isinstance(e, Load) and e.index.is_stepped_by(line) and e.index.is_stepped_by(depth)


def _operand(view: OperandView, panels: Buffer | None) -> Operand:
    """An operand whose rows are its lines, and its columns the depth."""
    if panels is not None:
        return replace(_operand(view, None), is_packed=True, windows=None)
    e, line, depth = view.given, view.line, view.depth
    if is_matrix(e, line, depth):
        index = load_of(e).index
        return Operand(static(index.stride_of(line)), static(index.stride_of(depth)))
    along = int(view.goes_along_depth)
    return Operand(1 - along, along, is_computed=True, run=view.run, windows=_windows(view))


def _windows(view: OperandView) -> Windows | None:
    """Where the elements of a view lie, if each digit has a stride and nothing is padding."""
    element = view.element
    if not isinstance(element, Load) or not element.index.is_affine:
        return None
    index = element.index
    return Windows(_steps(view.lines, index), _steps(view.depths, index))


def _steps(digits: Digits, index: Index) -> tuple[Digit, ...]:
    """The digits of a variable, with their strides in an index."""
    every = [
        Digit(worth, static(part.extent), static(index.stride_of(part)))
        for part, worth in zip(digits.parts, digits.strides, strict=True)
    ]
    return joined(every)


def _row_steps(step: Contraction) -> tuple[Digit, ...]:
    """The digits of the row in the first store."""
    index = step.stores[0].index
    digits = Digits.of(step.row, [index])
    return _steps(
        digits, index.substitute({step.row: digits.index}) if is_long(step.row) else index
    )


def _depth_step(view: OperandView) -> int:
    """The step of the depth's slowest digit, if an operand's lines are contiguous."""
    if is_matrix(view.given, view.line, view.depth) or view.goes_along_depth:
        return 1
    return view.depths.strides[0] if view.depths.strides[0] <= LARGEST_STEP else 1


def rows_along_columns(step: Contraction) -> Contraction:
    """Exchange the operands if the result is contiguous along the rows."""
    if is_long(step.row) and step.stores[0].index.stride_of(step.row) == 1:
        return replace(
            step, row=step.column, column=step.row, lhs=step.rhs, rhs=step.lhs,
            lhs_panels=step.rhs_panels, rhs_panels=step.lhs_panels,
        )  # fmt: skip
    return step


def _stores_sums(step: Contraction) -> bool:
    """Whether the sums are stored unchanged, without an epilogue."""
    store = step.stores[0]
    is_plain = isinstance(store.expr, Accumulated) and store.expr.dtype == store.buffer.number_dtype
    return is_plain and len(step.stores) == 1


def _epilogue(step: Contraction, outer: Sequence[Variable], layout: Layout, host: Host) -> Epilogue:
    """The stores, but for the kernel's first one, as a function of the accumulated lanes."""

    def epilogue(f: Function, vector: Vector, accumulated: str, i: str, j: str) -> str:
        exprs = all_exprs(step.stores)
        buffers = [*buffers_of(exprs), *(s.buffer for s in step.stores[1:])]
        pointers = {b: layout.pointer(f, b) for b in dict.fromkeys(buffers)}
        names: dict[Variable, str] = {v: f"%batch{k}" for k, v in enumerate(outer)}
        names |= {step.row: i, step.column: j}
        along = step.column if vector.lanes > 1 else None
        scope = Scope(f, host, pointers, vector.lanes, along, names, accumulated=accumulated)
        rendered = [scope.value(s.expr) for s in step.stores]
        for store, value in zip(step.stores[1:], rendered[1:], strict=True):
            scope.store(store, value)
        return scope.spread(NAMES[step.stores[0].expr.dtype], rendered[0])

    return epilogue


@record
class GroupedGemm:
    """Independent products of static sizes, which run at the same time."""

    steps: tuple[Contraction, ...]

    def cost(self, host: Host) -> float:
        """Rough nanoseconds on one thread."""
        return sum(product_cost(step, host) for step in self.steps)


def with_grouped_gemms(steps: Sequence[Step]) -> Iterator[Step | GroupedGemm]:
    """The steps of a program, with joined products as one step."""
    group: list[Contraction] = []
    for step in steps:
        if group and not (isinstance(step, Contraction) and step.joins):
            yield from _together(group)
            group = []
        if isinstance(step, Contraction):
            group.append(step)
        else:
            yield step
    yield from _together(group)


def _together(group: Sequence[Contraction]) -> Iterator[Contraction | GroupedGemm]:
    native = [step for step in group if is_native(step)]
    if len(native) < 2:
        yield from group
        return
    yield GroupedGemm(tuple(native))
    yield from (step for step in group if step not in native)


def emit_grouped_gemm(
    module: Module,
    f: Function,
    group: GroupedGemm,
    layout: Layout,
    host: Host,
    parts: int,
    tuning: Tuning,
) -> int:
    """Emit the share `%part` of each product, and give the bytes of all scratch.

    Each product has its own scratch, since there is no barrier between them.
    """
    total, start = 0, layout.scratch(f)
    given = (*KERNEL_PARAMETERS, ("ptr", "%scratch"))
    for step in group.steps:
        plan = plan_contraction(step, host, parts, tuning)
        name = f"product_{len(module.functions)}_step"
        # as for a product alone, its loops need no optimization where they are around packed panels
        attributes = AS_WRITTEN if plan.packs else STEP
        inner = module.function(name, given, attributes=attributes, linkage="internal")
        emit_contraction(module, inner, step, plan, layout, host, parts, scratch="%scratch")
        inner.do("ret void")
        scratch = f.offset(start, "i8", str(total))
        f.do(f"call void @{name}(ptr %table, i64 %part, i64 %parts, ptr {scratch})")
        total += -(-scratch_bytes(step, plan, parts, host) // 64) * 64
    return total


@record
class ChainPlan:
    """A chain, and the plans of those of its steps that the matrix kernel computes."""

    worker: Variable
    loops: tuple[Variable, ...]
    steps: tuple[tuple[Kernel | RowGroup | Contraction, GemmPlan | None], ...]
    cost: float  # rough nanoseconds on one thread

    @classmethod
    def of(cls, chain: Chain, host: Host, tuning: Tuning) -> ChainPlan:
        """Plan the steps of a chain."""
        steps: list[tuple[Kernel | RowGroup | Contraction, GemmPlan | None]] = []
        cost = 0.0
        for step in chain.steps:
            if isinstance(step, Contraction) and contracts_natively(step):
                steps.append((step, plan_contraction(step, host, 1, tuning)))
                cost += product_cost(step, host)
            else:
                is_product = isinstance(step, Contraction)
                loops = as_kernel(step, host) if is_product else step
                steps.append((loops, None))
                cost += loops_cost(loops)
        return cls(chain.worker, chain.loops, tuple(steps), cost * _count(chain.loops))

    @property
    def scratch_bytes(self) -> int:
        """What the matrix kernel needs for each thread, in whole cache lines."""
        most = max((plan.scratch_bytes for _, plan in self.steps if plan), default=0)
        return -(-most // 64) * 64


def _count(loops: tuple[Variable, ...]) -> int:
    return math.prod(static(v.extent) for v in loops)


def emit_chain(module: Module, f: Function, links: ChainPlan, layout: Layout, host: Host) -> None:
    """Emit the share `%part` of the rounds of a chain."""
    names = [_emit_step(module, links, number, layout, host) for number in range(len(links.steps))]
    own = f.emit(f"mul i64 %part, {links.scratch_bytes}")
    scratch = f.offset(layout.scratch(f), "i8", own)
    start, stop = part_range(f, _count(links.loops), 1)
    with f.loop(start, stop) as loop:
        if links.cost >= LONG:
            with f.when(is_due(f, loop.index, links.cost / _count(links.loops))):
                leave_if_stopped(f)
        left, places = loop.index, []
        for variable in reversed(links.loops[1:]):
            places.append(f.emit(f"urem i64 {left}, {variable.extent}"))
            left = f.emit(f"udiv i64 {left}, {variable.extent}")
        numbers = ", ".join(f"i64 {x}" for x in ("%part", left, *reversed(places)))
        for name in names:
            f.do(f"call void @{name}(ptr %table, ptr {scratch}, {numbers})")


def _emit_step(module: Module, links: ChainPlan, number: int, layout: Layout, host: Host) -> str:
    """Emit the function of one step, and give its name."""
    step, plan = links.steps[number]
    given = {v: f"%outer{i}" for i, v in enumerate((links.worker, *links.loops))}
    parameters = [KERNEL_PARAMETERS[0], ("ptr", "%scratch"), *(("i64", x) for x in given.values())]
    # as for a product alone, its loops need no optimization where they are around packed panels
    attributes = AS_WRITTEN if plan is not None and plan.packs else STEP
    name = f"product_{len(module.functions)}_step"
    f = module.function(name, parameters, attributes=attributes, linkage="internal")
    if isinstance(step, Kernel):
        emit_kernel(f, step, layout, host, False, given)
    elif isinstance(step, RowGroup):
        emit_rows(f, step, layout, host, False, given)
    else:
        assert plan is not None, "other products are loops"
        emit_contraction(module, f, step, plan, layout, host, 1, given, "%scratch")
    f.do("ret void")
    return name
