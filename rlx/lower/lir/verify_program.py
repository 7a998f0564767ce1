"""The verifier of loop programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...ir.dims import is_at_least
from ...ir.errors import VerifyError
from .access import reads, writes
from .expr import (
    COMPARISONS,
    Apply,
    Expr,
    Guard,
    Load,
    Reduce,
)
from .index import Index, Variable
from .program import (
    Buffer,
    Chain,
    Contraction,
    Kernel,
    Program,
    RowGroup,
    Scan,
    Scatter,
    Step,
    Store,
    TopK,
    nested_programs,
)
from .text import step_lines


def verify_program(program: Program) -> Program:
    """Check a program, and raise a `VerifyError` for the first broken rule.

    Buffers are written before they are read, no constant or input is written, all outputs are
    written; loads and stores stay inside of their buffers; dtypes fit; loop variables are bound.
    """
    written: set[Buffer] = {*program.inputs, *program.constants, *program.shared}
    for step in program.steps:
        for nested in nested_programs(step):
            verify_program(nested)
        for problem in _problems(step, written):
            raise _error(program, step, problem)
        written.update(writes(step))
    missing = [b.name for b in program.outputs if b not in written and b.size]
    if missing:
        raise VerifyError(
            f"program {program.name}: the outputs {', '.join(missing)} are never written",
            fix="this is a bug in rlx; report it with the program's text",
        )
    return program


def _error(program: Program, step: Step, problem: str) -> VerifyError:
    return VerifyError(
        f"program {program.name}: {problem}",
        notes=[line for text in step_lines(step) for line in text.splitlines()],
        fix="this is a bug in rlx; report it with the program's text",
    )


def _problems(step: Step, written: set[Buffer]) -> Iterator[str]:
    own = set(writes(step)) if isinstance(step, RowGroup | Kernel | Chain) else set()
    for buffer in reads(step):
        if not buffer.size or buffer in written or buffer in own:
            continue
        if not any(_is_same_place(buffer, other) for other in written):
            yield f"{buffer.name} is read before it is written"
    for buffer in writes(step):
        if buffer.kind in ("input", "constant"):
            yield f"{buffer.name} is written, but it is {buffer.kind}"
    yield from _loop_problems(step)


def _is_same_place(buffer: Buffer, other: Buffer) -> bool:
    """Whether a buffer took over the memory of another, so that a copy is dropped."""
    is_planned = buffer.offset is not None and buffer.kind == other.kind == "temporary"
    return is_planned and (buffer.offset, buffer.nbytes) == (other.offset, other.nbytes)


def _loop_problems(step: Step, outer: Sequence[Variable] = ()) -> Iterator[str]:
    if isinstance(step, Kernel):
        yield from _store_problems(step.stores, (*outer, *step.loops))
    elif isinstance(step, RowGroup):
        for kernel in step.kernels:
            yield from _store_problems(kernel.stores, (*outer, *step.loops, *kernel.loops))
    elif isinstance(step, Contraction):
        batch = (*outer, *step.batch)
        yield from _expr_problems(step.lhs, (*batch, step.row, step.depth))
        yield from _expr_problems(step.rhs, (*batch, step.depth, step.column))
        yield from _store_problems(step.stores, (*batch, step.row, step.column))
    elif isinstance(step, Chain):
        for each in step.steps:
            yield from _loop_problems(each, (step.worker, *step.loops))
    elif isinstance(step, Scan):
        loops = (*step.loops, step.along)
        yield from _expr_problems(step.expr, loops)
        yield from _place_problems(step.buffer, step.index, loops)
    elif isinstance(step, TopK):
        yield from _expr_problems(step.expr, (*step.loops, step.along))
        for buffer in (step.values, step.places):
            yield from _place_problems(buffer, step.index, (*step.loops, step.rank))
    elif isinstance(step, Scatter):
        yield from _expr_problems(step.expr, step.loops)
        if not step.bounds:
            yield from _place_problems(step.buffer, step.index, step.loops)


def _store_problems(stores: Iterable[Store], loops: Sequence[Variable]) -> Iterator[str]:
    for store in stores:
        if store.expr.dtype != store.buffer.number_dtype:
            yield f"{store.buffer.name} of {store.buffer.dtype} gets {store.expr.dtype}"
        yield from _place_problems(store.buffer, store.index, loops)
        yield from _expr_problems(store.expr, loops)


def _place_problems(buffer: Buffer, index: Index, loops: Sequence[Variable]) -> Iterator[str]:
    if _may_leave(index, buffer):
        yield f"{buffer.name}[{index}] reaches {index.low}..{index.high} of {buffer.count}"
    if not index.variables <= set(loops):
        yield f"{buffer.name}[{index}] uses a variable of no loop"


def _may_leave(index: Index, buffer: Buffer) -> bool:
    """Whether an index can leave its buffer; for symbolic sizes, whether it must."""
    low, high = index.low, index.high
    if isinstance(low, int) and isinstance(high, int) and isinstance(buffer.count, int):
        return low < 0 or high >= buffer.count
    # bounds of quotients by symbolic sizes may lie outside of what they take
    return index.is_affine and (is_at_least(-1, low) or is_at_least(high, buffer.count))


def _expr_problems(root: Expr, loops: Sequence[Variable]) -> Iterator[str]:
    """Problems of an expression, except at places guarded by conditions."""
    if not root.variables <= set(loops):
        yield f"{root} uses a variable of no loop"
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        expr = stack.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, Guard):
            stack.append(expr.outside)
            continue
        stack += expr.parts
        yield from _own_problems(expr)


def _own_problems(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Load):
        if _may_leave(expr.index, expr.buffer):
            yield f"{expr} reaches {expr.index.low}..{expr.index.high} of {expr.buffer.count}"
    elif isinstance(expr, Reduce):
        if not expr.dtype == expr.init.dtype == expr.body.dtype:
            yield f"a reduction of {expr.body.dtype} from {expr.init.dtype} gives {expr.dtype}"
    elif isinstance(expr, Apply) and expr.instruction not in ("convert", "bitcast"):
        same = expr.args[1:] if expr.instruction == "select" else expr.args
        result = same[0].dtype if expr.instruction in COMPARISONS else expr.dtype
        if any(a.dtype != result for a in same):
            yield f"{expr.instruction} mixes {', '.join(str(a.dtype) for a in expr.args)}"
