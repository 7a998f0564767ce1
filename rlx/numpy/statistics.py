"""Statistics: mean, variance, median, quantiles, covariance, histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import DTYPES, as_dtype, is_complex, is_inexact
from ..trace.apply import apply, as_tensor
from ..trace.axes import some_axes
from ..trace.promotion import FLOAT, convert, is_static
from .arithmetic import conj, multiply, real, sqrt, square, subtract
from .elementwise import Tensor, divide, maximum
from .logic import where as choose
from .reductions import HALVES, Axis, sum

REAL = {"complex64": "float32", "complex128": "float64"}


def _inexact(x: Any, dtype: Any) -> tuple[Any, np.dtype]:
    """The operand in the dtype for sums, and the dtype of the result."""
    if dtype is not None:
        result = as_dtype(dtype)
    else:
        result = x.dtype if is_inexact(x.dtype) else FLOAT
    return convert(x, FLOAT if result.name in HALVES else result), result


def element_count(x: Any, axis: Axis, where: Any = None) -> Any:
    """The number of elements over axes: a Python number where sizes and places are known."""
    axes = some_axes("mean", axis, x.ndim)
    if where is not None:
        return sum(choose(where, 1, convert(multiply(x, 0), DTYPES["int32"])), axis, keepdims=True)
    sizes = [x.shape[i] for i in axes]
    if is_static(sizes):
        return int(np.prod(sizes, dtype=np.int64))
    ones = apply("full", shape=tuple(sizes), value=1, dtype=x.dtype)
    return sum(ones)


def mean(
    x: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Tensor | None = None,
) -> Any:
    """The mean over axes; None means all."""
    x, result = _inexact(as_tensor(x), dtype)
    total = sum(x, axis, keepdims=keepdims, where=where)
    count = element_count(x, axis, where)
    if where is not None and not keepdims:
        count = count.reshape(total.shape)
    return convert(divide(total, count), result)


def average(
    x: Tensor,
    axis: Axis = None,
    weights: Tensor | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean over axes, with weights."""
    x = as_tensor(x)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        total = as_tensor(np.asarray(element_count(x, axis), result.dtype))
    else:
        weights = as_tensor(weights)
        if weights.ndim != x.ndim and isinstance(axis, int):
            place = axis % x.ndim
            weights = weights.reshape(tuple(-1 if i == place else 1 for i in range(x.ndim)))
        product = multiply(x, weights)
        total = sum(
            multiply(weights, choose(True, 1, multiply(product, 0))), axis, keepdims=keepdims
        )
        result = divide(sum(product, axis, keepdims=keepdims), total)
    return (result, total) if returned else result


def var(
    x: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Tensor | None = None,
    *,
    correction: float | None = None,
) -> Any:
    """The mean squared distance from the mean; `ddof` is taken off the count."""
    ddof = ddof if correction is None else correction
    x, result = _inexact(as_tensor(x), dtype)
    center = mean(x, axis, keepdims=True, where=where)
    offset = subtract(x, center)
    if is_complex(x.dtype):
        squares = real(multiply(offset, conj(offset)))
        result = DTYPES[REAL[result.name]]
    else:
        squares = square(offset)
    total = sum(squares, axis, keepdims=keepdims, where=where)
    count = element_count(x, axis, where)
    if where is not None and not keepdims:
        count = count.reshape(total.shape)
    return convert(divide(total, maximum(count - ddof, 0)), result)


def std(
    x: Tensor,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Tensor | None = None,
    *,
    correction: float | None = None,
) -> Any:
    """The square root of the variance."""
    return sqrt(var(x, axis, dtype, out, ddof, keepdims, where, correction=correction))
