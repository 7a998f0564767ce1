"""Products summed over axes, without promotion."""

from __future__ import annotations

import enum
from typing import Any

from ..ir.errors import AxisError, ShapeError
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor
from ..trace.arguments import check_precision
from .operands import Tensor, integers, strict_dtype

DotDimensionNumbers = Any  # ((axes of lhs, axes of rhs), (batch axes of lhs, of rhs))


class Precision(enum.Enum):
    """How exact products are where a device has a choice; rlx's are exact always."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


def dot_general(
    lhs: Tensor,
    rhs: Tensor,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Products summed over pairs of axes.

    `dimension_numbers` is ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)). The
    result has the batch axes, the free ones of lhs, then those of rhs.
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
) -> Any:
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


def batch_matmul(lhs: Tensor, rhs: Tensor, precision: Any = None) -> Any:
    """The products of matrices in the last two axes; all axes before have equal sizes."""
    x, y = as_tensor(lhs), as_tensor(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ShapeError(
            f"batch_matmul: {x.type} and {y.type} are not equally many matrices",
            fix="give two arrays with as many axes, 2 or more",
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(x, y, (((x.ndim - 1,), (y.ndim - 2,)), (batch, batch)), precision)
