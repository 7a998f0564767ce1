"""Which matrix products cuBLAS computes: large ones that lie as it can read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.record import record, replace
from ...ir.types import Type, as_dtype
from ...lower.lir.expr import Load, accumulated, apply
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Buffer, Contraction
from ..c_like.dialect import register
from ..c_like.geometry import size_of

# A kernel of ours takes less time than a call of the library with what is done around it.
LEAST_WORK = 128**3  # products of two numbers
CLAIMED = frozenset(map(as_dtype, ("float16", "bfloat16", "float32", "float64")))
MOST = 2**31 - 1  # of sizes, which the library takes as int32


@record
class Matrices:
    """How matrices lie in a buffer, in elements."""

    start: int  # before the first matrix
    pitch: int  # from one row, which is dense, to the next
    step: int  # from one matrix to the next
    turned: bool = False  # whether columns are dense, and `pitch` is from one to the next


@record
class Gemm:
    """A call of cuBLAS: products of left and right matrices."""

    count: int
    rows: int
    columns: int
    depth: int
    dtype: np.dtype  # of the numbers that are multiplied
    left: Matrices
    right: Matrices
    target: Matrices
    sums: Type  # batch, rows and columns in order
    result: Buffer | None = None  # where the sums belong, if nothing is done with them


def claim(step: Contraction) -> Gemm | None:
    """The call for a step, or None if one of our kernels is to compute it."""
    sizes = [size_of(v) for v in (step.row, step.column, step.depth)]
    batch = [size_of(v) for v in step.batch]
    count = int(np.prod(batch, dtype=np.int64))
    if count * int(np.prod(sizes, dtype=np.int64)) < LEAST_WORK or max(count, *sizes) > MOST:
        return None
    lhs, rhs = step.lhs, step.rhs
    if not (isinstance(lhs, Load) and isinstance(rhs, Load)):
        return None
    dtype = lhs.buffer.dtype
    if dtype not in CLAIMED or rhs.buffer.dtype != dtype or register(step.dtype) != register(dtype):
        return None
    left = _matrices(lhs.index, step.batch, step.row, step.depth)
    right = _matrices(rhs.index, step.batch, step.depth, step.column)
    if left is None or right is None:
        return None
    rows, columns, depth = sizes
    sums = Type(register(dtype), (*batch, rows, columns))
    gemm = Gemm(
        count, rows, columns, depth, dtype, left, right, Matrices(0, columns, rows * columns), sums
    )
    return _straight(step, gemm) or gemm


def _straight(step: Contraction, gemm: Gemm) -> Gemm | None:
    """The call that puts the sums where they belong, if nothing is done with them."""
    if len(step.stores) != 1:
        return None
    (store,) = step.stores
    dtype = store.buffer.dtype
    total = accumulated(step.dtype)
    # the library rounds sums of halves, too
    plain = (total, apply("convert", gemm.dtype, total), apply("convert", gemm.sums.dtype, total))
    if store.expr not in plain or dtype not in (gemm.dtype, gemm.sums.dtype):
        return None
    target = _matrices(store.index, step.batch, step.row, step.column)
    if target is None or target.turned or (target.step == 0 and gemm.count > 1):
        return None
    sums = Type(dtype, gemm.sums.shape)
    return replace(gemm, target=target, sums=sums, result=store.buffer)


def _matrices(
    index: Index, batch: Sequence[Variable], row: Variable, column: Variable
) -> Matrices | None:
    """How matrices lie that an index goes through, if the library can read that."""
    step = _step(index, batch)
    if not index.is_affine or step is None or not isinstance(index.constant, int):
        return None
    rows, columns = size_of(row), size_of(column)
    by_row, by_column = _stride(index, row), _stride(index, column)
    if columns == 1 or by_column == 1:
        pitch = by_row if rows > 1 else columns
        if columns <= pitch <= MOST:
            return Matrices(index.constant, pitch, step)
    if rows == 1 or by_row == 1:
        pitch = by_column if columns > 1 else rows
        if rows <= pitch <= MOST:
            return Matrices(index.constant, pitch, step, turned=True)
    return None


def _step(index: Index, batch: Sequence[Variable]) -> int | None:
    """From one matrix to the next in the order of all batch variables.

    None if that is not always the same.
    """
    step, size = 0, 1
    for variable in reversed(batch):
        if size_of(variable) == 1:
            continue
        stride = _stride(index, variable)
        if size == 1:
            step = stride
        elif stride != step * size:
            return None
        size *= size_of(variable)
    return step if step >= 0 else None


def _stride(index: Index, variable: Variable) -> int:
    stride = index.stride_of(variable)
    return stride if isinstance(stride, int) else -1
