"""Truth: logical functions, classes of numbers, choice by condition, closeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import DTYPES, is_bool, is_complex, is_float, is_inexact
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.arguments import flag, members
from ..trace.array import Array
from ..trace.promotion import (
    convert_exactly,
    fit_each,
    fit_operands,
    pointwise,
    pointwise_at,
    result_dtype,
)
from ..transforms.eager import eager
from .elementwise import Tensor, equal, not_equal, refuse_out

BOOL = DTYPES["bool"]


def truth(x: Tensor) -> Array:
    """Whether the numbers differ from zero, as bools."""
    given = as_tensor(x)
    return given if is_bool(given.dtype) else not_equal(given, 0)


@eager
def logical_and(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise x AND y, as bools."""
    return pointwise_at("bit_and", BOOL, truth(x), truth(y), name="logical_and")


@eager
def logical_or(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise x OR y, as bools."""
    return pointwise_at("bit_or", BOOL, truth(x), truth(y), name="logical_or")


@eager
def logical_xor(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise x XOR y, as bools."""
    return pointwise_at("bit_xor", BOOL, truth(x), truth(y), name="logical_xor")


@eager
def logical_not(x: Tensor, /) -> Array:
    """Elementwise NOT x, as bools."""
    return pointwise("bit_not", truth(x), name="logical_not")


# -- classification -----------------------------------------------------------------------------


@eager
def isnan(x: Tensor, /) -> Array:
    """Elementwise test for NaN."""
    return not_equal(x, x)


@eager
def isfinite(x: Tensor, /) -> Array:
    """Elementwise test for finiteness: neither infinite nor NaN."""
    x = as_tensor(x)
    if is_complex(x.dtype):
        return logical_and(isfinite(apply("real", x)), isfinite(apply("imag", x)))
    return pointwise("is_finite", x) if is_float(x.dtype) else equal(x, x)


@eager
def isinf(x: Tensor, /) -> Array:
    """Elementwise test for positive or negative infinity."""
    x = as_tensor(x)
    if is_complex(x.dtype):
        return logical_or(isinf(apply("real", x)), isinf(apply("imag", x)))
    return equal(pointwise("abs", x), np.inf) if is_float(x.dtype) else not_equal(x, x)


@eager
def isposinf(x: Tensor, /, out: None = None) -> Array:
    """Elementwise test for positive infinity."""
    refuse_out("isposinf", out)
    return equal(x, np.inf) if is_inexact(as_tensor(x).dtype) else not_equal(x, x)


@eager
def isneginf(x: Tensor, /, out: None = None) -> Array:
    """Elementwise test for negative infinity."""
    refuse_out("isneginf", out)
    return equal(x, -np.inf) if is_inexact(as_tensor(x).dtype) else not_equal(x, x)


def isreal(x: Tensor) -> Array:
    """Elementwise test for an imaginary part of zero."""
    x = as_tensor(x)
    return equal(apply("imag", x), 0) if is_complex(x.dtype) else logical_or(equal(x, x), True)


def iscomplex(x: Tensor) -> Array:
    """Elementwise test for a nonzero imaginary part."""
    return logical_not(isreal(x))


# -- choice -------------------------------------------------------------------------------------


@eager
def where(condition: Tensor, x: Tensor | None = None, y: Tensor | None = None, /) -> Array:
    """Elements of `x` where `condition` holds, else of `y`.

    The gradient of the branch not chosen is dropped, so NaNs in it do not spread.
    """
    if x is None or y is None:
        raise ArgumentError(
            "where: the number of places where a condition holds is not known before it runs",
            fix="use rlx.numpy.nonzero(condition, size=n), or where(condition, x, y)",
        )
    dtype = result_dtype(as_operand(x), as_operand(y))
    return apply("select", *fit_each("where", [BOOL, dtype, dtype], [truth(condition), x, y]))


def _check_pairs(name: str, conditions: Sequence[Any], choices: Sequence[Any]) -> None:
    conditions = members(f"{name}: condlist", conditions)
    choices = members(f"{name}: choicelist", choices)
    if len(conditions) != len(choices):
        raise ArgumentError(
            f"{name}: {len(conditions)} conditions and {len(choices)} choices",
            fix="give one choice for each condition",
        )


def select(condlist: Sequence[Tensor], choicelist: Sequence[Tensor], default: Tensor = 0) -> Array:
    """Elements from the choice whose condition is the first to hold, else `default`.

    `condlist` are bool arrays, `choicelist` an array for each.
    """
    _check_pairs("select", condlist, choicelist)
    dtype = result_dtype(*map(as_operand, choicelist), as_operand(default))
    result = convert_exactly(default, dtype)
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = where(condition, choice, result)
    return result


# -- closeness ----------------------------------------------------------------------------------


@eager
def isclose(
    a: Tensor, b: Tensor, rtol: Tensor = 1e-5, atol: Tensor = 1e-8, equal_nan: bool = False
) -> Array:
    """Elementwise `|a - b| <= atol + rtol * |b|`; equal infinities are close.

    With `equal_nan` two NaNs are.
    """
    dtype = result_dtype(as_operand(a), as_operand(b), inexact=True)
    a, b = fit_operands("isclose", dtype, a, b)
    size = pointwise("abs", b)
    bound = pointwise("add", atol, pointwise("mul", rtol, size))
    distance = pointwise("abs", pointwise("sub", a, b))
    is_near = logical_and(pointwise("le", distance, bound), isfinite(b))
    result = logical_or(is_near, equal(a, b))
    return logical_or(result, logical_and(isnan(a), isnan(b))) if equal_nan else result


def allclose(
    a: Tensor, b: Tensor, rtol: Tensor = 1e-5, atol: Tensor = 1e-8, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, see `isclose`.

    `rtol`, `atol` and `equal_nan` are as there; returns a bool array without axes.
    """
    result = isclose(a, b, rtol, atol, equal_nan)
    return apply("reduce_and", result, axes=tuple(range(result.ndim)))


def array_equal(a1: Tensor, a2: Tensor, equal_nan: bool = False) -> Array:
    """Whether `a1` and `a2` have the same shape and elements.

    With `equal_nan` a NaN equals a NaN. Returns a bool array without axes.
    """
    a1, a2 = as_tensor(a1), as_tensor(a2)
    if a1.shape != a2.shape:
        return as_tensor(np.False_)
    result = equal(a1, a2)
    if flag("array_equal: equal_nan", equal_nan):
        result = logical_or(result, logical_and(isnan(a1), isnan(a2)))
    return apply("reduce_and", result, axes=tuple(range(result.ndim)))


def array_equiv(a1: Tensor, a2: Tensor) -> Array:
    """Whether `a1` and `a2` are equal after broadcasting."""
    try:
        result = equal(a1, a2)
    except ShapeError:
        return as_tensor(np.False_)
    return apply("reduce_and", result, axes=tuple(range(result.ndim)))
