"""What the functions of linear algebra take: inexact arrays, square matrices."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ...ir.dims import maximum
from ...ir.errors import AttributeValueError, ShapeError
from ...ir.types import as_dtype, is_complex
from ...trace.apply import as_operand, as_tensor, described
from ...trace.array import Array
from ...trace.promotion import convert, result_dtype
from ..arithmetic import conj
from ..manipulation import matrix_transpose


def inexact(*operands: Any) -> list[Array]:
    """The operands as arrays of one dtype, which is inexact."""
    given = [as_operand(x) for x in operands]
    dtype = result_dtype(*given, inexact=True)
    return [convert(as_tensor(x), dtype) for x in given]


def adjoint(x: Any) -> Array:
    """The conjugate transpose of matrices."""
    x = matrix_transpose(x)
    return conj(x) if is_complex(x.dtype) else x


def symmetrized(x: Any) -> Array:
    """The Hermitian part of matrices: the mean of a matrix and its adjoint."""
    return (x + adjoint(x)) / 2


def wrong_shape(name: str, what: str, *operands: Any, fix: str) -> NoReturn:
    """Raise a `ShapeError` of a function, with its operands."""
    raise ShapeError(f"{name}: {what}", notes=described(*operands), fix=fix)


def wrong_value(name: str, what: str, *, fix: str) -> NoReturn:
    """Raise an `AttributeValueError` of a function."""
    raise AttributeValueError(f"{name}: {what}", fix=fix)


def check_matrix(name: str, x: Any) -> None:
    """Raise unless x has two axes or more."""
    if x.ndim < 2:
        wrong_shape(name, f"{x.type} is no matrix", x, fix="give an array with two axes or more")


def check_square(name: str, x: Any) -> None:
    """Raise unless x is a square matrix, or a batch of them."""
    check_matrix(name, x)
    m, n = x.shape[-2:]
    if m != n:
        fix = "give matrices with as many rows as columns"
        wrong_shape(name, f"{x.type} is not square, its last sizes are {m} and {n}", x, fix=fix)


def real_dtype(x: Any) -> np.dtype:
    """The dtype of absolute values."""
    return as_dtype(np.finfo(x.dtype).dtype)


def rounding_of(x: Any) -> Array:
    """The larger size of a matrix times the machine epsilon of its dtype."""
    size = convert(as_tensor(maximum(*x.shape[-2:])), real_dtype(x))
    return size * precision_of(x.dtype)


def precision_of(dtype: np.dtype) -> float:
    """The machine epsilon of a real or complex dtype."""
    return float(np.finfo(dtype).eps)
