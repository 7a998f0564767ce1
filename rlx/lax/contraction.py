"""Products summed over axes, without promotion."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import AxisError, ShapeError
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor
from ..trace.arguments import check_precision
from ..trace.array import Array
from ..trace.promotion import convert, wide_dtype
from .operands import Tensor, integers, strict_dtype

DotDimensionNumbers = Any  # ((axes of lhs, axes of rhs), (batch axes of lhs, of rhs))


class Precision(enum.Enum):
    """The precision of products in JAX; here it has no effect, products are exact."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


def dot_general(
    lhs: Tensor,
    rhs: Tensor,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The general contraction over pairs of axes.

    `dimension_numbers` is ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)). The
    result has the batch axes, the free axes of lhs, then those of rhs.
    """
    check_precision("dot_general", precision)
    x, y = as_tensor(lhs), as_tensor(rhs)
    strict_dtype("dot_general", [x, y])
    try:
        (left, right), (left_batch, right_batch) = dimension_numbers
    except (TypeError, ValueError):
        raise AxisError(
            f"dot_general: the dimension_numbers {dimension_numbers!r} do not pair axes",
            fix="give ((contracted of lhs, of rhs), (batch of lhs, of rhs)), each a tuple of axes",
        ) from None
    contract = (integers("dot_general: axes", left), integers("dot_general: axes", right))
    batch = (integers("dot_general: axes", left_batch), integers("dot_general: axes", right_batch))
    dtype = None if preferred_element_type is None else as_dtype(preferred_element_type)
    return apply("dot_general", x, y, contract=contract, batch=batch, dtype=dtype)


def dot(
    lhs: Tensor,
    rhs: Tensor,
    *,
    dimension_numbers: DotDimensionNumbers = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The product of vectors and matrices, or `dot_general` with `dimension_numbers`."""
    x, y = as_tensor(lhs), as_tensor(rhs)
    if dimension_numbers is None:
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2):
            raise ShapeError(
                f"dot: {x.type} and {y.type} are not vectors or matrices",
                fix="give dimension_numbers, or use rlx.numpy.matmul",
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Tensor, rhs: Tensor, precision: Any = None) -> Array:
    """The products of two equal stacks of matrices."""
    x, y = as_tensor(lhs), as_tensor(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ShapeError(
            f"batch_matmul: {x.type} and {y.type} are not equally many matrices",
            fix="give two arrays with as many axes, 2 or more",
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(x, y, (((x.ndim - 1,), (y.ndim - 2,)), (batch, batch)), precision)


# -- products in groups of rows, or with scales for blocks: ragged_dot, scaled_dot -----------------


def ragged_dot(
    lhs: Tensor,
    rhs: Tensor,
    group_sizes: Tensor,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Tensor | None = None,
) -> Array:
    """A grouped matrix product: each group of rows of `lhs` has its own matrix.

    `f32[m, k], f32[groups, k, n], i32[groups] → f32[m, n]`, where the last are `group_sizes`. The
    groups are consecutive; rows behind the last one give zeros. With `group_offset` the first
    matrix of `rhs` belongs to that group, and rows of groups without a matrix give zeros.

    >>> import numpy as np
    >>> ragged_dot(np.ones((3, 1)), np.array([[[2.0]], [[5.0]]]), np.array([2, 1])).tolist()
    [[2.0], [2.0], [5.0]]
    """
    x, y, counts = as_tensor(lhs), as_tensor(rhs), as_tensor(group_sizes)
    strict_dtype("ragged_dot", [x, y])
    if (x.ndim, y.ndim, counts.ndim) != (2, 3, 1) or x.shape[1] != y.shape[1]:
        raise ShapeError(
            f"ragged_dot: lhs is {x.type}, rhs {y.type}, group_sizes {counts.type}",
            fix="give shapes (m, k), (groups, k, n) and (groups,)",
        )
    groups = y.shape[0]
    rows = np.arange(x.shape[0], dtype="int32")
    ends = rnp.cumsum(counts)
    group = rnp.sum(rows[:, None] >= ends, axis=1)
    if group_offset is not None:
        group = group - rnp.reshape(as_tensor(group_offset), ())
    is_mine = group[:, None] == np.arange(groups, dtype="int32")
    zeros = apply("full", shape=(), value=0, dtype=x.dtype)
    spread = rnp.where(is_mine[:, :, None], x[:, None, :], zeros)
    numbers = (((1, 2), (0, 1)), ((), ()))
    return dot_general(spread, y, numbers, precision, preferred_element_type)


def scaled_dot(
    lhs: Tensor,
    rhs: Tensor,
    *,
    lhs_scale: Tensor | None = None,
    rhs_scale: Tensor | None = None,
    dimension_numbers: DotDimensionNumbers = None,
    preferred_element_type: Any = None,
) -> Array:
    """The product of operands scaled by blocks.

    `lhs_scale` and `rhs_scale` have as many axes as their operands; along each axis the size
    divides that of the operand. `dimension_numbers` are those of `dot_general`, by default of a
    (batched) matrix product. Operands of few bits are summed in float32.

    >>> import numpy as np
    >>> x, scale = np.ones((1, 4), "float32"), np.array([[1.0, 10.0]], "float32")
    >>> scaled_dot(x, x.T, lhs_scale=scale).tolist()
    [[22.0]]
    """
    x, y = (_scaled(a, s) for a, s in ((lhs, lhs_scale), (rhs, rhs_scale)))
    if dimension_numbers is None:
        last, batch = x.ndim - 1, tuple(range(x.ndim - 2))
        dimension_numbers = (((last,), (y.ndim - 2,)), (batch, batch))
    made = dot_general(x, y, dimension_numbers)
    dtype = as_tensor(lhs).dtype if preferred_element_type is None else preferred_element_type
    return convert(made, as_dtype(dtype))


def _scaled(operand: Tensor, scale: Tensor | None) -> Array:
    """The operand times the scales of its blocks, in float32 or wider."""
    x = as_tensor(operand)
    x = convert(x, wide_dtype(x.dtype) or x.dtype)
    if scale is None:
        return x
    s = convert(as_tensor(scale), x.dtype)
    if s.ndim != x.ndim or any(n % m for n, m in zip(x.shape, s.shape, strict=True) if m):
        raise ShapeError(
            f"scaled_dot: the operand is {x.type}, its scale {s.type}",
            fix="give as many axes, with sizes that divide those of the operand",
        )
    for axis, (n, m) in enumerate(zip(x.shape, s.shape, strict=True)):
        s = s if n == m else rnp.repeat(s, n // m, axis)
    return x * s
