"""Statistics: mean, variance, median, quantiles, covariance, histograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.types import DTYPES, as_dtype, is_complex, is_half, is_inexact, promote
from ..trace.apply import apply_like, as_operand, as_tensor
from ..trace.arguments import flag
from ..trace.array import Array
from ..trace.axes import broadcast_shapes, number, one_axis, some_axes
from ..trace.promotion import (
    FLOAT,
    broadcast_to,
    convert,
    convert_exactly,
    is_static,
    result_dtype,
    rounded_once,
)
from ..transforms.eager import eager
from .arithmetic import conj, real, square
from .contraction import matmul
from .creation import diagonal
from .elementwise import (
    Tensor,
    divide,
    maximum,
    multiply,
    named,
    refuse_out,
    sqrt,
    subtract,
)
from .logic import isnan, logical_and, logical_not, where as choose
from .manipulation import atleast_2d, concatenate, squeeze, transpose
from .reductions import Axis, all, argmax, argmin, cumprod, cumsum, max, min, prod, sum
from .sorting import check_vector


def _inexact(x: Any, dtype: Any) -> tuple[Array, np.dtype]:
    """The operand in the dtype for sums, and the dtype of the result."""
    if dtype is not None:
        result = as_dtype(dtype)
    else:
        result = x.dtype if is_inexact(x.dtype) else FLOAT
    return convert(x, FLOAT if is_half(result) else result), result


def element_count(x: Any, axis: Axis, where: Any = None, keepdims: bool = True) -> Any:
    """The number of elements over axes: a Python number where it is known."""
    axes = some_axes("mean", axis, x.ndim)
    if where is not None:
        ones = choose(where, 1, convert(multiply(x, 0), DTYPES["int32"]))
        return sum(ones, axis, keepdims=keepdims)
    sizes = [x.shape[i] for i in axes]
    if is_static(sizes):
        return math.prod(sizes)
    ones = apply_like(x, "full", shape=tuple(sizes), value=1, dtype=x.dtype)
    return sum(ones)


@eager
def mean(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Tensor | None = None,
) -> Array:
    """The arithmetic mean over axes; None takes all axes.

    Integers and bools give float32.
    """
    refuse_out("mean", out)
    a, result = _inexact(as_tensor(a), dtype)
    total = sum(a, axis, keepdims=keepdims, where=where)
    count = element_count(a, axis, where, keepdims)
    return convert(divide(total, count), result)


_mean = mean  # under a name that no parameter hides


@eager
def average(
    a: Tensor,
    axis: Axis = None,
    weights: Tensor | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The average over axes, weighted by `weights`.

    With `returned` the result is a pair with the sum of weights.
    """
    a = as_tensor(a)
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        returned = flag("average: returned", returned)
        total = as_tensor(np.asarray(element_count(a, axis), result.dtype))
        return (result, total) if returned else result
    dtype = result_dtype(a, as_operand(weights), inexact=True)
    a, given = convert(a, dtype), convert_exactly(weights, dtype)
    if given.ndim != a.ndim and isinstance(axis, int):
        place = one_axis("average", axis, a.ndim)
        given = given.reshape(tuple(-1 if i == place else 1 for i in range(a.ndim)))

    def weighed(a: Any, given: Any) -> Any:
        product = multiply(a, given)
        total = sum(broadcast_to(given, product.shape), axis, keepdims=keepdims)
        return divide(sum(product, axis, keepdims=keepdims), total)

    result = rounded_once(weighed, a, given)
    if not returned:
        return result
    shape = broadcast_shapes("average", a.shape, given.shape)
    return result, sum(broadcast_to(given, shape), axis, keepdims=keepdims)


@eager
def var(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Tensor | None = None,
    *,
    mean: Tensor | None = None,
    correction: float | None = None,
) -> Array:
    """The variance over axes: squared deviations summed, divided by count - `ddof`.

    `correction` is another name of `ddof`. `mean`, if given, is used for the mean; it keeps the
    reduced axes with size 1.
    """
    refuse_out("var", out)
    ddof = number("var: ddof", ddof if correction is None else correction)
    a, result = _inexact(as_tensor(a), dtype)
    center = _mean(a, axis, keepdims=True, where=where) if mean is None else mean
    offset = subtract(a, center)
    if is_complex(a.dtype):
        squares = real(multiply(offset, conj(offset)))
        result = squares.dtype
    else:
        squares = square(offset)
    total = sum(squares, axis, keepdims=keepdims, where=where)
    count = element_count(a, axis, where, keepdims)
    return convert(divide(total, maximum(count - ddof, 0)), result)


@eager
def std(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Tensor | None = None,
    *,
    mean: Tensor | None = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation over axes: the square root of `var`.

    `ddof`, `mean` and `correction` are as there.
    """
    return sqrt(var(a, axis, dtype, out, ddof, keepdims, where, mean=mean, correction=correction))


# -- without NaN --------------------------------------------------------------------------------


def _without_nan(x: Tensor, filler: Any) -> Array:
    x = as_tensor(x)
    return choose(isnan(x), convert(filler, x.dtype), x) if is_inexact(x.dtype) else x


def _nan_total(name: str, total: Callable[..., Any], neutral: int, doc: str):
    def function(
        a: Tensor,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Array:
        return total(_without_nan(a, neutral), axis, dtype, out, keepdims, initial, where)

    return named(function, name, doc)


nansum = _nan_total("nansum", sum, 0, "The sum over axes, NaNs treated as 0.")
nanprod = _nan_total("nanprod", prod, 1, "The product over axes, NaNs treated as 1.")


def _nan_extreme(name: str, extreme: Callable[..., Any], least: float, doc: str):
    def function(
        a: Tensor,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Array:
        result = extreme(_without_nan(a, least), axis, out, keepdims, initial, where)
        if not is_inexact(result.dtype):
            return result
        is_empty = all(isnan(a), axis, keepdims=keepdims, where=where)
        return choose(is_empty, np.nan if initial is None else initial, result)

    return named(function, name, doc)


nanmax = _nan_extreme(
    "nanmax", max, -np.inf, "The maximum over axes, ignoring NaNs; NaN if all are NaN."
)
nanmin = _nan_extreme(
    "nanmin", min, np.inf, "The minimum over axes, ignoring NaNs; NaN if all are NaN."
)


def nanargmax(
    a: Tensor, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the maximum along an axis, ignoring NaNs; -1 if all are NaN."""
    refuse_out("nanargmax", out)
    place = argmax(_without_nan(a, -np.inf), axis, keepdims=keepdims)
    return choose(all(isnan(a), axis, keepdims=bool(keepdims)), -1, place)


def nanargmin(
    a: Tensor, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the minimum along an axis, ignoring NaNs; -1 if all are NaN."""
    refuse_out("nanargmin", out)
    place = argmin(_without_nan(a, np.inf), axis, keepdims=keepdims)
    return choose(all(isnan(a), axis, keepdims=bool(keepdims)), -1, place)


def _where_not_nan(x: Any, where: Tensor | None) -> Array:
    is_there = logical_not(isnan(x))
    return is_there if where is None else logical_and(is_there, where)


def nanmean(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Tensor | None = None,
) -> Array:
    """The mean over axes, ignoring NaNs."""
    refuse_out("nanmean", out)
    a = as_tensor(a)
    return mean(a, axis, dtype, keepdims=keepdims, where=_where_not_nan(a, where))


def nanvar(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Tensor | None = None,
    mean: Tensor | None = None,
) -> Array:
    """The variance over axes, ignoring NaNs; `ddof` and `mean` are as for `var`."""
    a = as_tensor(a)
    return var(a, axis, dtype, out, ddof, keepdims, _where_not_nan(a, where), mean=mean)


def nanstd(
    a: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Tensor | None = None,
    mean: Tensor | None = None,
) -> Array:
    """The standard deviation over axes, ignoring NaNs; see `nanvar`.

    `ddof` and `mean` are as for `var`.
    """
    return sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean=mean))


def nancumsum(a: Tensor, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The cumulative sum along an axis, NaNs treated as 0."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)


def nancumprod(a: Tensor, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The cumulative product along an axis, NaNs treated as 1."""
    return cumprod(_without_nan(a, 1), axis, dtype, out)


# -- covariance ---------------------------------------------------------------------------------


def cov(
    m: Tensor,
    y: Tensor | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    dtype: Any = None,
) -> Array:
    """The covariance matrix of variables, the rows of `m` (columns if not `rowvar`).

    It is divided by the number of observations minus `ddof`, which is 1 if not given, or 0 with
    `bias`. `fweights` are integer repeat counts of the observations, `aweights` their relative
    importance.
    """
    taken = (0 if flag("cov: bias", bias) else 1) if ddof is None else number("cov: ddof", ddof)
    m, result = _variables(m, y, rowvar, dtype)
    return convert(_covariance(m, taken, fweights, aweights), result)


def _variables(m: Tensor, y: Tensor | None, rowvar: bool, dtype: Any) -> tuple[Any, np.dtype]:
    """All variables as rows, in the dtype for sums, and the dtype of the result."""
    m, result = _inexact(atleast_2d(m), dtype)
    rowvar = flag("rowvar", rowvar)
    m = m if rowvar or m.shape[0] == 1 else transpose(m)
    if y is None:
        return m, result
    other, second = _inexact(atleast_2d(y), dtype)
    m = concatenate([m, other if rowvar or other.shape[0] == 1 else transpose(other)], 0)
    return m, promote(result, second)


def _covariance(m: Any, taken: float, fweights: Tensor | None, aweights: Tensor | None) -> Array:
    """The covariances of rows; `taken` is taken off their count."""
    if fweights is None and aweights is None:
        offset = subtract(m, mean(m, 1, keepdims=True))
        return squeeze(divide(matmul(offset, conj(transpose(offset))), m.shape[1] - taken))
    for weights in (fweights, aweights):
        if weights is not None:
            check_vector("cov", as_tensor(weights))
    importance = 1 if aweights is None else as_tensor(aweights)
    weights = multiply(importance, 1 if fweights is None else as_tensor(fweights))
    total = sum(weights)
    offset = subtract(m, divide(sum(multiply(m, weights), 1, keepdims=True), total))
    # a weighted degree of freedom: NumPy's formula
    share = taken if aweights is None else divide(sum(multiply(weights, importance)) * taken, total)
    product = matmul(multiply(offset, weights), conj(transpose(offset)))
    return squeeze(divide(product, subtract(total, share)))


def corrcoef(x: Tensor, y: Tensor | None = None, rowvar: bool = True, dtype: Any = None) -> Array:
    """The matrix of Pearson correlation coefficients of variables, see `cov`.

    The variables are rows, or columns if not `rowvar`.
    """
    m, result = _variables(x, y, rowvar, dtype)
    table = _covariance(m, 1, None, None)
    if not table.ndim:
        return convert(divide(table, table), result)
    spread = sqrt(real(diagonal(table)))
    return convert(divide(divide(table, spread[:, None]), spread[None, :]), result)
