"""Contractions of LIR as calls of the packed matrix kernel, their stores as its epilogue."""

from __future__ import annotations

from ...lower.lir import expr
from ...lower.lir.expr import Accumulated, Expr
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Contraction, Kernel, Store
from .code import Function, Module, Vector
from .gemm import Epilogue, GemmPlan, Operand, Problem, emit_gemm
from .host import Host
from .kernels import Layout, all_exprs, buffers_of, nest, open_scope
from .render import Scope, memory_element
from .scalar import HALVES


def contracts_natively(step: Contraction) -> bool:
    """Whether the matrix kernel multiplies these dtypes."""
    given, sums = {step.lhs.dtype.name, step.rhs.dtype.name}, step.dtype.name
    return given == {sums} or (sums == "float32" and len(given) == 1 and given <= set(HALVES))


def as_kernel(step: Contraction) -> Kernel:
    """The contraction as a loop nest around a sum."""

    def converted(e: Expr) -> Expr:
        return expr.apply("convert", step.dtype, e)

    product = expr.apply("mul", step.dtype, converted(step.lhs), converted(step.rhs))
    zero = expr.const(step.dtype, 0)
    loops = (step.depth,) if step.depth.extent > 1 else ()
    total = expr.reduce("add", loops, zero, product) if step.depth.extent else zero

    def leaf(e: Expr) -> Expr | None:
        return total if isinstance(e, Accumulated) else None

    stores = [Store(s.buffer, s.index, expr.substitute(s.expr, {}, leaf)) for s in step.stores]
    outer = tuple(v for v in (*step.batch, step.row, step.column) if v.extent > 1)
    return Kernel(outer, tuple(stores), step.source)


def emit_contraction(
    module: Module, f: Function, step: Contraction, layout: Layout, host: Host, parts: int
) -> GemmPlan:
    """Emit a contraction; the matrix product becomes a function of its own.

    With a batch of at least as many matrices as threads the parts share the batch, else each
    matrix product. Gives the plan of one product.
    """
    step = _rows_along_columns(step)
    stores = step.stores
    exprs = all_exprs(stores)
    main = stores[0]
    pointers = [step.lhs, step.rhs]
    buffers = [*buffers_of([*exprs, *pointers]), *(s.buffer for s in stores)]
    scope = open_scope(f, layout, host, buffers)
    shared, name = layout.scratch(f), f"product_{len(module.functions)}"
    by_batch = shares_batch(step, host)
    plan = emit_gemm(
        module,
        name,
        problem_of(step),
        host,
        parts=1 if by_batch else parts,
        epilogue=_epilogue(step, layout, host),
        extra=[("ptr", "%table"), *(("i64", f"%batch{i}") for i in range(len(step.batch)))],
    )

    def product(inner: Scope) -> None:
        table = {step.row: Index(), step.column: Index(), step.depth: Index()}
        places = []
        for buffer, index in (
            (step.lhs.buffer, step.lhs.index),  # type: ignore[attr-defined]
            (step.rhs.buffer, step.rhs.index),  # type: ignore[attr-defined]
            (main.buffer, main.index),
        ):
            start = inner.index(index.substitute(table))
            places.append(
                f.offset(inner.pointers[buffer], memory_element(buffer.dtype.name), start)
            )
        part, scratch = "0" if by_batch or parts == 1 else "%part", shared
        if by_batch and parts > 1:
            size = f.emit(f"mul i64 %part, {plan.scratch_bytes}")
            scratch = f.offset(shared, "i8", size)
        batch = "".join(f", i64 {inner.names[v]}" for v in step.batch)
        f.do(
            f"call void @{name}(ptr {places[0]}, ptr {places[1]}, ptr {places[2]}, "
            f"ptr {scratch}, i64 {part}, ptr %table{batch})"
        )

    nest(scope, step.batch, product, by_batch and parts > 1)
    return plan


def shares_batch(step: Contraction, host: Host) -> bool:
    """Whether the threads share out the batch rather than each product."""
    return bool(step.batch) and step.batch[0].extent >= host.cores


def scratch_bytes(step: Contraction, plan: GemmPlan, parts: int, host: Host) -> int:
    """What all parts need together."""
    return plan.scratch_bytes * (parts if shares_batch(step, host) else 1)


def problem_of(step: Contraction) -> Problem:
    """The sizes and strides of one product."""
    lhs, rhs = step.lhs.index, step.rhs.index  # type: ignore[attr-defined]
    return Problem(
        m=step.row.extent,
        n=step.column.extent,
        k=step.depth.extent,
        a=Operand(lhs.stride_of(step.row), lhs.stride_of(step.depth)),
        b=Operand(rhs.stride_of(step.depth), rhs.stride_of(step.column)),
        c_row=step.stores[0].index.stride_of(step.row),
        dtype=step.lhs.dtype.name,
        out_dtype=step.stores[0].buffer.dtype.name,
    )


def _rows_along_columns(step: Contraction) -> Contraction:
    """Exchange the operands if the result is contiguous along the rows."""
    index = step.stores[0].index
    if step.column.extent > 1 and index.stride_of(step.column) != 1:
        return Contraction(
            step.batch, step.column, step.row, step.depth, step.rhs, step.lhs, step.dtype,
            step.stores, step.source,
        )  # fmt: skip
    return step


def _epilogue(step: Contraction, layout: Layout, host: Host) -> Epilogue:
    """The stores as a function of the accumulated lanes; the first one is left to the kernel."""

    def epilogue(f: Function, vector: Vector, accumulated: str, i: str, j: str) -> str:
        exprs = all_exprs(step.stores)
        buffers = [*buffers_of(exprs), *(s.buffer for s in step.stores[1:])]
        pointers = {b: layout.pointer(f, b) for b in dict.fromkeys(buffers)}
        names: dict[Variable, str] = {v: f"%batch{k}" for k, v in enumerate(step.batch)}
        names |= {step.row: i, step.column: j}
        along = step.column if vector.lanes > 1 else None
        scope = Scope(f, host, pointers, vector.lanes, along, names, accumulated=accumulated)
        rendered = [scope.value(s.expr) for s in step.stores]
        for store, value in zip(step.stores[1:], rendered[1:], strict=True):
            scope.store(store, value)
        return scope.spread(step.stores[0].expr.dtype.name, rendered[0])

    return epilogue
