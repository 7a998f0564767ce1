"""What the rooms of linear algebra share: checks, and matrix algebra on values.

Matrices lie in the last two axes; the axes before them are a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dims import likely, minimum
from ...errors import DtypeError, ShapeError
from ...graph import OPS, Value
from ...types import Size, Type, as_dtype, is_complex, is_float
from ..arithmetic import add
from ..compare import eq, ge, le, select
from ..constant import iota, like, scalar_like
from ..contract import dot_general
from ..convert import REAL_PART, conj, narrowed, real
from ..index import gather
from ..movement import broadcast, transpose
from ..pad_slice import pad, part_along
from ..reduce import reduce_sum

ITERATED = 15e4  # operations in the time that an iteration takes for the smallest matrix
DTYPES = tuple(as_dtype(name) for name in ("float32", "float64", "complex64", "complex128"))


def operations(count: Callable[..., float], least: float = 4e3) -> Callable[..., float]:
    """What a library computes for matrices, each `count(m, n, columns, **attrs)`.

    `columns` are those of a second operand, 0 without one. Each matrix takes as long as the `least`
    operations beside. Complex numbers count four times.
    """

    def of_all(x: Type, *others: Type, **attrs: Any) -> float:
        *batch, m, n = map(likely, x.shape)
        columns = likely(others[0].shape[-1]) if others and others[0].rank > 1 else 0
        each = 4 if is_complex(x.dtype) else 1
        return math.prod(batch) * (least + each * count(m, n, columns, **attrs))

    return of_all


def check_matrix(x: Type, *, square: bool = False) -> None:
    """Raise unless x is a matrix, or a batch of them, in a dtype that LAPACK has."""
    if x.dtype not in DTYPES:
        wide = "float32" if is_float(x.dtype) else "float64 or float32"
        raise DtypeError(
            f"there is no linear algebra in {x.dtype.name}",
            fix=f"convert the operand to {wide} with x.astype(...)",
        )
    if x.rank < 2:
        raise ShapeError(f"{x} is no matrix", fix="give an array with two axes or more")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{x} is not square, its last two sizes are {x.shape[-2]} and {x.shape[-1]}",
            fix="give matrices with as many rows as columns",
        )


def lesser(x: Type) -> Size:
    """The lesser of the sizes of a matrix."""
    return minimum(*x.shape[-2:])


def sizes(x: Value) -> tuple[Any, Any]:
    """The numbers of rows and columns."""
    m, n = x.shape[-2:]
    return m, n


def real_dtype(x: Any) -> np.dtype:
    """The dtype of absolute values."""
    return REAL_PART[x.dtype.name] if is_complex(x.dtype) else x.dtype


def lapack(factor: Callable[..., tuple], x: np.ndarray, *others: np.ndarray) -> tuple:
    """The results of a factorization, NaN for each matrix of a batch that has none."""
    try:
        return factor(x, *others)
    except np.linalg.LinAlgError:
        if x.ndim > 2:
            each = [lapack(factor, *one) for one in zip(x, *others, strict=True)]
            return tuple(np.stack(results) for results in zip(*each, strict=True))
        known = factor(np.eye(*x.shape, dtype=x.dtype), *others)
        return tuple(np.full_like(result, np.nan) for result in known)


# -- values ---------------------------------------------------------------------------------------


def product(x: Value, y: Value) -> Value:
    """The matrix product."""
    batch = tuple(range(x.rank - 2))
    return dot_general(x, y, contract=((x.rank - 1,), (y.rank - 2,)), batch=(batch, batch))


def transposed(x: Value) -> Value:
    """The last two axes exchanged."""
    return transpose(x, axes=(*range(x.rank - 2), x.rank - 1, x.rank - 2))


def conjugated(x: Value) -> Value:
    """The complex conjugate; a real value as it is."""
    return conj(x) if is_complex(x.dtype) else x


def adjoint(x: Value) -> Value:
    """The conjugate of the transposed matrix."""
    return conjugated(transposed(x))


def real_part(x: Value) -> Value:
    """The real part; a real value as it is."""
    return real(x) if is_complex(x.dtype) else x


def lower_part(x: Value, k: int = 0) -> Value:
    """The elements at and below the diagonal k, zeros elsewhere."""
    rows, columns = _places(x)
    return select(le(columns, add(rows, like(rows, k))), x, like(x, 0))


def upper_part(x: Value, k: int = 0) -> Value:
    """The elements at and above the diagonal k, zeros elsewhere."""
    rows, columns = _places(x)
    return select(ge(columns, add(rows, like(rows, k))), x, like(x, 0))


def on_diagonal(x: Value) -> Value:
    """Whether an element lies on the diagonal, for each element."""
    return eq(*_places(x))


def _places(x: Value) -> tuple[Value, Value]:
    """The row and the column of each element."""
    rows, columns = (iota(shape=x.shape, axis=x.rank - i, dtype="int32") for i in (2, 1))
    return rows, columns


def identity_like(x: Value) -> Value:
    """Matrices with ones on the diagonal, of the shape and dtype of x."""
    return select(on_diagonal(x), like(x, 1), like(x, 0))


def diagonal_of(x: Value) -> Value:
    """The diagonals of square matrices: `f32[..., n, n]` gives `f32[..., n]`."""
    return reduce_sum(select(on_diagonal(x), x, like(x, 0)), axes=(x.rank - 2,))


def as_columns(s: Value, like_this: Value) -> Value:
    """A number for each column, repeated in all rows of a matrix."""
    rank = like_this.rank
    return broadcast(s, shape=like_this.shape, axes=(*range(rank - 2), rank - 1))


def as_rows(s: Value, like_this: Value) -> Value:
    """A number for each row, repeated in all columns of a matrix."""
    rank = like_this.rank
    return broadcast(s, shape=like_this.shape, axes=(*range(rank - 2), rank - 2))


def everywhere(s: Value, like_this: Value) -> Value:
    """A number for each matrix, repeated in all its elements."""
    return broadcast(s, shape=like_this.shape, axes=tuple(range(s.rank)))


def hermitian(x: Value) -> Value:
    """The Hermitian matrix whose lower part is that of x; its diagonal is real."""
    below = lower_part(x, -1)
    diagonal = select(on_diagonal(x), narrowed(real_part(x), x.dtype), like(x, 0))
    return add(add(below, adjoint(below)), diagonal)


def taken_rows(x: Value, rows: Value) -> Value:
    """Rows by their numbers: `f32[..., m, n], i32[..., k]` gives `f32[..., k, n]`."""
    batch = tuple(range(x.rank - 2))
    indices = broadcast(rows, shape=(*rows.shape, 1), axes=tuple(range(rows.rank)))
    return gather(
        x,
        indices,
        offset_axes=(x.rank - 1,),
        collapsed_axes=(x.rank - 2,),
        operand_batch_axes=batch,
        indices_batch_axes=batch,
        start_axes=(x.rank - 2,),
        sizes=(*(1 for _ in batch), 1, x.shape[-1]),
        mode="promise",
    )


def columns(x: Value, start: int, stop: Any) -> Value:
    """The columns from `start` on, before `stop`."""
    return part_along(x, x.rank - 1, start, stop)


def rows(x: Value, start: int, stop: Any) -> Value:
    """The rows from `start` on, before `stop`."""
    return part_along(x, x.rank - 2, start, stop)


def resized(x: Value, m: Any, n: Any) -> Value:
    """A matrix cut, or filled up with zeros, to m rows and n columns."""
    if x.shape[-2:] == (m, n):
        return x
    none = (0,) * (x.rank - 2)
    high = (*none, m - x.shape[-2], n - x.shape[-1])
    low = interior = (*none, 0, 0)
    return pad(x, scalar_like(x, 0), low=low, high=high, interior=interior)


def solve_with_shared(solve: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    """One system for a batch of right-hand sides: they become columns of one.

    `b` has the batch as axis 0 of three, `a` is one matrix.
    """
    size, m, n = b.shape
    wide = OPS["reshape"](transpose(b, axes=(1, 0, 2)), shape=(m, size * n))
    solved = OPS["reshape"](solve(a, wide), shape=(m, size, n))
    return transpose(solved, axes=(1, 0, 2))
