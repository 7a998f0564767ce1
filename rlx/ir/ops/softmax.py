"""Exponentials that sum to one: softmax, log_softmax, logsumexp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Value
from ..op import ALIGNED, define
from ..types import Type
from .arithmetic import add, div, is_finite, mul, sub
from .compare import max, select
from .constant import like
from .convert import in_float32, narrowed, widened
from .exponential import exp, log
from .families import check_kind
from .reduce import check_axes, kept, reduce_max, reduce_sum, spread_back

Axes = tuple[int, ...]


def _check(x: Type, axes: Axes) -> None:
    check_kind(x, ["float"])
    check_axes(x, axes)


def _sum_along(x: Value, axes: Axes) -> Value:
    """The sum along axes, repeated along them."""
    return spread_back(reduce_sum(x, axes=axes), x, axes)


def _shifted(x: Value, axes: Axes) -> Value:
    """x less its maximum along the axes, so that no exp overflows."""
    return sub(x, spread_back(reduce_max(x, axes=axes), x, axes))


def _shifted_reference(x: np.ndarray, axes: Axes) -> np.ndarray:
    return x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)


@define
def softmax(x: Type, *, axes: Axes) -> Type:
    """exp(x) divided by its sum along axes; NaN along axes of all -inf."""
    _check(x, axes)
    return x


@softmax.reference
@in_float32
def softmax_reference(x: np.ndarray, *, axes: Axes) -> np.ndarray:
    powers = np.exp(_shifted_reference(x, axes))
    return powers / np.sum(powers, axis=axes, keepdims=True)


@softmax.expand
@in_float32
def softmax_expand(x: Value, *, axes: Axes) -> Value:
    powers = exp(_shifted(x, axes))
    # one division for each sum, which is 1 or more
    total = reduce_sum(powers, axes=axes)
    share = spread_back(div(like(total, 1), total), powers, axes)
    return mul(powers, share)


@softmax.jvp
def softmax_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, axes: Axes) -> tuple:
    out = softmax(primals[0], axes=axes)
    y, t = widened(out), widened(tangents[0])
    return out, narrowed(mul(y, sub(t, _sum_along(mul(y, t), axes))), out.dtype)


softmax.batch(ALIGNED, "axes")
softmax.samples((2, 3), axes=(1,))
softmax.samples((2, 3, 2), axes=(0, 2), low=-20.0, high=20.0)
softmax.samples([[1e4, 1e4], [-np.inf, 3.0]], axes=(1,), expect=[[0.5, 0.5], [0.0, 1.0]])


@define
def log_softmax(x: Type, *, axes: Axes) -> Type:
    """Logarithm of the softmax along axes, without its underflow."""
    _check(x, axes)
    return x


@log_softmax.reference
@in_float32
def log_softmax_reference(x: np.ndarray, *, axes: Axes) -> np.ndarray:
    shifted = _shifted_reference(x, axes)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))


@log_softmax.expand
@in_float32
def log_softmax_expand(x: Value, *, axes: Axes) -> Value:
    shifted = _shifted(x, axes)
    total = log(reduce_sum(exp(shifted), axes=axes))
    return sub(shifted, spread_back(total, shifted, axes))


@log_softmax.jvp
def log_softmax_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, axes: Axes) -> tuple:
    out = log_softmax(primals[0], axes=axes)
    share, t = exp(widened(out)), widened(tangents[0])
    return out, narrowed(sub(t, _sum_along(mul(share, t), axes)), out.dtype)


log_softmax.batch(ALIGNED, "axes")
log_softmax.samples((2, 3), axes=(1,))
log_softmax.samples((2, 3, 2), axes=(0, 2), low=-20.0, high=20.0)
log_softmax.samples([1e4, 0.0], axes=(0,), expect=[0.0, -1e4])


@define
def logsumexp(x: Type, *, axes: Axes) -> Type:
    """Logarithm of the sum of exp(x) along axes.

    It is -inf, with a zero derivative, where all are -inf.
    """
    _check(x, axes)
    return x.with_shape(tuple(x.shape[i] for i in kept(x, axes)))


@logsumexp.reference
@in_float32
def logsumexp_reference(x: np.ndarray, *, axes: Axes) -> np.ndarray:
    peak = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, x.dtype.type(0))
    return np.log(np.sum(np.exp(x - peak), axis=axes)) + np.squeeze(peak, axes)


def _finite(x: Value) -> Value:
    return select(is_finite(x), x, like(x, 0))


@logsumexp.expand
@in_float32
def logsumexp_expand(x: Value, *, axes: Axes) -> Value:
    peak = _finite(reduce_max(x, axes=axes))
    powers = exp(sub(x, spread_back(peak, x, axes)))
    return add(log(reduce_sum(powers, axes=axes)), peak)


@logsumexp.jvp
def logsumexp_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, axes: Axes) -> tuple:
    (x,) = primals
    wide, t = widened(x), widened(tangents[0])
    out = logsumexp(wide, axes=axes)
    # of all -inf the weights are exp(-inf) = 0, not exp(-inf + inf), NaN
    bounded = max(out, like(out, float(np.finfo(out.dtype).min)))
    weights = exp(sub(wide, spread_back(bounded, wide, axes)))
    pushed = reduce_sum(mul(weights, t), axes=axes)
    return narrowed(out, x.dtype), narrowed(pushed, x.dtype)


logsumexp.batch(ALIGNED, "axes")
logsumexp.samples((2, 3), axes=(1,))
logsumexp.samples((2, 3, 2), axes=(0, 2), low=-20.0, high=20.0)
logsumexp.samples([[1e4, 1e4], [0.0, -np.inf]], axes=(1,), expect=[1e4 + np.log(2), 0.0])
logsumexp.samples(np.full(3, -np.inf, np.float32), axes=(0,), expect=-np.inf)
