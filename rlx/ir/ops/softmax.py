"""Exponentials that sum to one: softmax, log_softmax, logsumexp; and losses.

The loss by class labels is cross_entropy; one_hot is of labels, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import AttributeValueError, AxisError, ShapeError
from ..graph import Value
from ..op import ALIGNED, define
from ..types import Size, Type, promote
from .arithmetic import add, div, is_finite, mul, sub
from .compare import eq, max, select
from .constant import iota, like
from .convert import convert, in_float32, narrowed, widened
from .exponential import exp, log
from .families import check_integers, check_kind
from .index import take_along
from .movement import broadcast, reshape
from .reduce import INDEX, check_axes, kept, reduce_max, reduce_sum, spread_back

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

    Where all numbers are -inf, so is the result, with a zero derivative.
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


# -- losses by class labels ------------------------------------------------------------------------


@define
def one_hot(labels: Type, *, size: Size, dtype: np.dtype, axis: int = -1) -> Type:
    """1 where a new axis has the place of the label, else 0.

    For a label outside of the axis all are 0.
    """
    check_integers("labels", labels)
    if size < 0:
        raise AttributeValueError(f"the size {size} is negative", fix="use the number of classes")
    if not -1 <= axis <= labels.rank:
        raise AxisError(
            f"axis {axis} is outside the result", fix=f"pick an axis from 0 to {labels.rank}, or -1"
        )
    place = labels.rank if axis == -1 else axis
    return Type(dtype, (*labels.shape[:place], size, *labels.shape[place:]))


@one_hot.reference
def one_hot_reference(labels: np.ndarray, *, size: int, dtype: Any, axis: int) -> np.ndarray:
    return np.moveaxis(labels[..., None] == np.arange(size), -1, axis).astype(dtype)


def _is_label(labels: Value, size: Size, axis: int) -> Value:
    shape = (*labels.shape[:axis], size, *labels.shape[axis:])
    others = tuple(i for i in range(len(shape)) if i != axis)
    # wide enough for all places, and for all labels but the greatest uint64
    places = iota(shape=shape, axis=axis, dtype=promote(labels.dtype, INDEX))
    labels = narrowed(labels, places.dtype)
    return eq(broadcast(labels, shape=shape, axes=others), places)


@one_hot.expand
def one_hot_expand(labels: Value, *, size: Size, dtype: np.dtype, axis: int) -> Value:
    return convert(_is_label(labels, size, labels.rank if axis == -1 else axis), dtype=dtype)


one_hot.nondifferentiable("labels are integers")
one_hot.batch(ALIGNED, "axis")
one_hot.samples(np.array([[0, 2], [5, -1]], np.int32), size=3, dtype="float32", axis=1)
one_hot.samples(
    np.array([1, 0, 4]), size=2, dtype="float32", expect=[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
)


@define
def cross_entropy(logits: Type, labels: Type) -> Type:
    """Minus the log-softmax of logits at the label.

    `f32[..., C], i32[...] → f32[...]`.
    One loss for each label, NaN for a label outside of 0 to C - 1.
    """
    check_kind(logits, ["float"])
    if labels.rank and labels.shape == logits.shape:
        raise ShapeError(
            f"the labels {labels} are as large as the logits, not a class for each row",
            fix="give numbers of classes: of one-hot labels, labels.argmax(-1)",
        )
    check_integers("labels", labels)
    if logits.rank == 0 or labels.shape != logits.shape[:-1]:
        raise ShapeError(
            f"the labels {labels} do not fit the logits {logits}",
            fix="give one label for each row of logits, whose last axis holds the classes",
        )
    if logits.shape[-1] == 0:
        raise ShapeError(f"there are no classes in {logits}", fix="give one logit or more a row")
    return logits.with_shape(labels.shape)


@cross_entropy.reference
@in_float32
def cross_entropy_reference(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    size = x.shape[-1]
    peak = np.max(x, axis=-1, initial=-np.inf)
    inside = (labels >= 0) & (labels < size)
    place = np.where(inside, labels, 0).astype(np.int64)[..., None]
    picked = np.take_along_axis(x, place, -1)[..., 0]
    total = np.log(np.sum(np.exp(x - peak[..., None]), axis=-1))
    return np.where(inside, total + (peak - picked), np.nan)


@cross_entropy.expand
@in_float32
def cross_entropy_expand(x: Value, labels: Value) -> Value:
    axes = (x.rank - 1,)
    peak = reduce_max(x, axes=axes)
    total = log(reduce_sum(exp(sub(x, spread_back(peak, x, axes))), axes=axes))
    place = reshape(labels, shape=(*labels.shape, 1))
    picked = reshape(take_along(x, place, x.rank - 1, mode="fill"), shape=labels.shape)
    # peak - picked first: log-sum-exp minus picked would lose the digits of a small loss
    return add(total, sub(peak, picked))


@cross_entropy.jvp
def cross_entropy_jvp(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple:
    logits, labels = primals
    x, t = widened(logits), widened(tangents[0])
    axis = x.rank - 1
    hot = convert(_is_label(labels, x.shape[-1], axis), dtype=x.dtype)
    slope = sub(softmax(x, axes=(axis,)), hot)
    pushed = reduce_sum(mul(slope, t), axes=(axis,))
    return cross_entropy(logits, labels), narrowed(pushed, logits.dtype)


cross_entropy.batch(ALIGNED)
cross_entropy.samples((2, 3), np.array([2, 0], np.int32))
cross_entropy.samples((2, 2, 3), np.array([[2, 0], [1, 1]]))
cross_entropy.samples((3,), np.array(1, np.uint8))
cross_entropy.samples(
    [[0.0, 0.0], [1e4, 0.0], [1.0, 2.0]],
    np.array([1, 1, 2]),
    expect=[np.log(2.0), 1e4, np.nan],
)
