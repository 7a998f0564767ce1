"""Losses of classes: labels, chances of a 1, sequences of labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import lax, numpy as rnp
from ...ir.errors import BoundsError, DtypeError, ShapeError
from ...ir.ops.custom import Rule
from ...ir.source import user_source
from ...scipy.special import logsumexp
from ...trace.apply import apply, as_tensor
from ...trace.arguments import choice, count_of
from ...trace.array import Array
from ...trace.array_arguments import scalar
from ...trace.axes import integer
from ...trace.index.items import check_ends
from ...trace.promotion import promote_operands, rounded_once
from ..arguments import lengths_of
from ..functional import log_softmax, sigmoid, softplus
from .reduction import REDUCTIONS, of_both, reduced, share_of

IMPOSSIBLE = -1e30  # the logarithm of no chance; of -inf the gradients would be NaN


def cross_entropy(
    logits: Any,
    labels: Any,
    *,
    label_smoothing: float = 0.0,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """Cross-entropy loss of logits and integer class labels.

    `f32[..., C], i32[...] → f32[]`. `label_smoothing` is the share of the target that all classes
    have in equal parts ("Rethinking the Inception Architecture", Szegedy et al., 2016). `weight`,
    f32[C], multiplies the losses of each class; the mean is then divided by the weights of the
    labels. Labels equal to `ignore_index` have loss 0 and do not count for the mean.

    >>> round(float(cross_entropy([[0.0, 0.0]], [1])), 3)
    0.693
    >>> round(float(cross_entropy([[0.0, 2.0]], [1], label_smoothing=0.2)), 3)
    0.327
    """
    share = share_of("cross_entropy: label_smoothing", label_smoothing)
    (logits,) = promote_operands(logits, inexact=True)
    labels, is_ignored = _labels("cross_entropy", logits, labels, ignore_index)

    def loss(x: Any) -> Any:
        losses = apply("cross_entropy", as_tensor(x), labels)
        amounts = _amounts("cross_entropy", x, labels, weight)
        losses = losses if amounts is None else losses * amounts
        if share:
            of_all = -log_softmax(x) if weight is None else -log_softmax(x) * weight
            losses = (1 - share) * losses + share * rnp.mean(of_all, -1)
        return _counted(losses, amounts, is_ignored, reduction)

    return rounded_once(loss, logits)


def nll(
    log_probabilities: Any,
    labels: Any,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """Negative log-likelihood of labels: minus the logarithm of their probability.

    `f32[..., C], i32[...] → f32[]`: `log_probabilities` are what `nn.log_softmax` gives; of logits
    take `cross_entropy`, which also says what `weight` and `ignore_index` mean.

    >>> nll([[-1.0, -2.0], [-3.0, -4.0]], [0, 1])
    Array(2.5, dtype=float32)
    """
    (given,) = promote_operands(log_probabilities, inexact=True)
    labels, is_ignored = _labels("nll", given, labels, ignore_index)

    def loss(x: Any) -> Any:
        losses = -rnp.take_along_axis(as_tensor(x), labels[..., None], -1)[..., 0]
        losses = rnp.where(labels < 0, math.nan, losses)
        amounts = _amounts("nll", x, labels, weight)
        losses = losses if amounts is None else losses * amounts
        return _counted(losses, amounts, is_ignored, reduction)

    return rounded_once(loss, given)


def softmax_focal(
    logits: Any, labels: Any, *, gamma: float = 2.0, weight: Any = None, reduction: str = "mean"
) -> Array:
    """Focal loss: cross-entropy times (1 - chance of the label) to a power `gamma`.

    `f32[..., C], i32[...] → f32[]`. `weight`, f32[C], multiplies the losses of each class; the mean
    is over examples. From "Focal Loss for Dense Object Detection", Lin et al., 2017.

    >>> round(float(softmax_focal([[0.0, 0.0]], [1])), 4)
    0.1733
    """
    gamma = scalar("softmax_focal: gamma", gamma)
    (logits,) = promote_operands(logits, inexact=True)
    labels, _ = _labels("softmax_focal", logits, labels, None)

    def loss(x: Any) -> Any:
        losses = apply("cross_entropy", as_tensor(x), labels)
        amounts = _amounts("softmax_focal", x, labels, weight)
        losses = losses * _power(-rnp.expm1(-losses), gamma)
        return reduced(losses if amounts is None else losses * amounts, reduction)

    return rounded_once(loss, logits)


def sigmoid_focal(
    logits: Any,
    targets: Any,
    *,
    gamma: float = 2.0,
    alpha: float | None = None,
    reduction: str = "mean",
) -> Array:
    """Focal loss of independent classes.

    Binary cross-entropy in which easy examples count less, by the power `gamma` of the probability
    of the other answer. `f32[...], f32[...] → f32[]`, with targets from 0 to 1. `alpha` multiplies
    the losses of targets 1, 1 - alpha those of targets 0. From "Focal Loss for Dense Object
    Detection", Lin et al., 2017.

    >>> round(float(sigmoid_focal([0.0, 0.0], [1.0, 0.0], alpha=0.25)), 4)
    0.0866
    """
    gamma = scalar("sigmoid_focal: gamma", gamma)
    alpha = None if alpha is None else share_of("sigmoid_focal: alpha", alpha)

    def loss(x: Any, y: Any) -> Any:
        missed = sigmoid(-x) * y + sigmoid(x) * (1 - y)
        losses = (softplus(x) - x * y) * _power(missed, gamma)
        return losses if alpha is None else losses * (alpha * y + (1 - alpha) * (1 - y))

    return of_both(loss, logits, targets, reduction)


def binary_cross_entropy(logits: Any, targets: Any, *, reduction: str = "mean") -> Array:
    """Binary cross-entropy loss of logits and targets from 0 to 1.

    `f32[...], f32[...] → f32[]`. The probability of a 1 is sigmoid(logits). Targets are 0, 1, or
    probabilities between.
    """
    return of_both(lambda x, y: softplus(x) - x * y, logits, targets, reduction)


def hinge(predictions: Any, targets: Any, *, reduction: str = "mean") -> Array:
    """Hinge loss of targets -1 and 1: max(0, 1 - prediction * target).

    `f32[...], f32[...] → f32[]`. From "Support-Vector Networks", Cortes and Vapnik, 1995.

    >>> hinge([0.5, 2.0], [-1.0, 1.0], reduction="none")
    Array([1.5, 0. ], dtype=float32)
    """
    return of_both(lambda x, y: rnp.maximum(1 - x * y, 0.0), predictions, targets, reduction)


def ctc(
    logits: Any,
    labels: Any,
    *,
    logit_lengths: Any = None,
    label_lengths: Any = None,
    blank: int = 0,
    reduction: str = "mean",
) -> Array:
    """Connectionist temporal classification: labels in a longer sequence.

    `f32[batch, time, C], i32[batch, count] → f32[]`: minus the logarithm of their chance. That is
    that of all ways to give each time a class, or `blank`, so that the labels are left when
    repeated classes are joined and blanks removed. `logit_lengths` and `label_lengths`, i32[batch],
    say how much of each example counts. Where no way is left the loss is inf, and its gradient 0.
    The mean is that of examples; PyTorch's is of losses divided by their label lengths. Other
    shapes are a `ShapeError`. From "Connectionist Temporal Classification", Graves et al., 2006.

    >>> round(float(ctc([[[0.0, 0.0], [0.0, 0.0]]], [[1]])), 4)
    0.2877
    """
    (logits,) = promote_operands(logits, inexact=True)
    x, labels = as_tensor(logits), as_tensor(labels)
    if x.ndim != 3 or labels.ndim != 2 or labels.shape[0] != x.shape[0]:
        raise ShapeError(
            f"ctc: the logits are {x.type}, the labels {labels.type}",
            fix="give logits of shape (batch, time, C) and labels of shape (batch, count)",
        )
    blank = count_of("ctc: blank", blank, 0, x.shape[2] - 1)
    lengths = [
        rnp.full(x.shape[:1], most, "int32")
        if given is None
        else lengths_of(f"ctc: {name}", given, x.shape[:1], most)
        for name, given, most in (
            ("logit_lengths", logit_lengths, x.shape[1]),
            ("label_lengths", label_lengths, labels.shape[1]),
        )
    ]
    is_label = rnp.arange(labels.shape[1], dtype="int32") < lengths[1][:, None]
    wide = rnp.promote_types(_integers("ctc", labels).dtype, "int32")
    labels = rnp.where(is_label, rnp.astype(labels, wide), 0)
    _check_classes("ctc", labels, x.shape[2])
    is_class = (labels >= 0) & (labels < x.shape[2])  # none is counted from the end
    labels = rnp.where(is_class, rnp.astype(labels, "int32"), x.shape[2])
    times, counts = lengths
    return rounded_once(lambda x: reduced(_ctc(x, labels, times, counts, blank), reduction), logits)


def _ctc(x: Any, labels: Any, times: Any, counts: Any, blank: int) -> Array:
    """Minus the log-chances, by the forward algorithm over labels with blanks around them."""
    x = log_softmax(x)
    batch, count = labels.shape
    size = 2 * count + 1
    place = rnp.arange(size, dtype="int32")
    paths = rnp.repeat(labels, 2, axis=1)
    paths = rnp.where(place % 2 == 1, rnp.pad(paths, ((0, 0), (0, 1))), blank)
    chosen = rnp.broadcast_to(paths[:, None], (batch, x.shape[1], size))
    chances = rnp.moveaxis(rnp.take_along_axis(x, chosen, 2), 1, 0)
    # from label to label, past the blank between; equal ones would be joined
    may_skip = (place % 2 == 1) & (place > 1) & (paths != rnp.roll(paths, 2, 1))
    never = rnp.full((batch, 2), IMPOSSIBLE, x.dtype)

    def step(before: Any, now: Any) -> tuple[Any, None]:
        chance, time = now
        padded = rnp.concatenate([never, before], 1)
        skipped = rnp.where(may_skip, padded[:, :-2], IMPOSSIBLE)
        reached = rnp.logaddexp(rnp.logaddexp(before, padded[:, 1:-1]), skipped) + chance
        return rnp.where((time < times)[:, None], reached, before), None

    start = rnp.broadcast_to(rnp.where(place == 0, 0.0, IMPOSSIBLE), (batch, size))
    ticks = rnp.arange(x.shape[1], dtype="int32")
    last, _ = lax.scan(step, rnp.astype(start, x.dtype), (chances, ticks))
    end = 2 * counts[:, None]
    is_end = (place == end) | (place == end - 1)
    total = logsumexp(rnp.where(is_end, last, IMPOSSIBLE), axis=1)
    return rnp.where(total <= IMPOSSIBLE / 2, math.inf, -total)


# -- labels and weights ----------------------------------------------------------------------------


def _labels(name: str, logits: Any, labels: Any, ignored: int | None) -> tuple[Any, Any]:
    """Labels that were checked, 0 in place of ignored ones, and which are ignored."""
    x, labels = as_tensor(logits), as_tensor(labels)
    if labels.ndim and labels.shape == x.shape:
        raise ShapeError(
            f"{name}: the labels {labels.type} are as large as the logits, not a class for each "
            "row",
            fix="give numbers of classes: of one-hot labels, labels.argmax(-1)",
        )
    if x.ndim == 0 or labels.shape != x.shape[:-1]:
        raise ShapeError(
            f"{name}: the labels {labels.type} do not fit the logits {x.type}",
            fix="give one label for each row of logits, whose last axis holds the classes",
        )
    labels, is_ignored = _integers(name, labels), None
    if ignored is not None:
        is_ignored = labels == integer(f"{name}: ignore_index", ignored)
        labels = rnp.where(is_ignored, 0, labels)
    _check_classes(name, labels, x.shape[-1])
    return labels, is_ignored


def _integers(name: str, labels: Any) -> Array:
    if labels.dtype.kind not in "iu":
        raise DtypeError(
            f"{name}: the labels are {labels.type}, not integers",
            fix='convert them: labels.astype("int32"); of one-hot labels, labels.argmax(-1)',
        )
    return labels


def _check_classes(name: str, labels: Any, count: Any) -> None:
    """Raise a `BoundsError` for labels that are no class, where they are known."""
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, count: Any = count) -> None:
        if low < 0 or high >= count:
            raise BoundsError(
                f"{name}: label {int(low if low < 0 else high)} is none of {int(count)} classes",
                where=where,
                fix=f"use labels from 0 to {int(count) - 1}; for those to leave out, "
                "ignore_index=... of cross_entropy and nll",
            )

    check_ends(labels, count, Rule(look, (name, where, count)))


def _amounts(name: str, x: Any, labels: Any, weight: Any) -> Any:
    """The weight of each label's class."""
    if weight is None:
        return None
    weight, count = as_tensor(weight), x.shape[-1]
    if weight.shape != (count,):
        raise ShapeError(
            f"{name}: the weight is {weight.type}",
            fix=f"give one number for each class: f32[{count}]",
        )
    return rnp.take(weight, labels, axis=0)


def _counted(losses: Any, amounts: Any, is_ignored: Any, reduction: str) -> Array:
    """The losses reduced; the mean is divided by the amounts of labels that count."""
    choice("reduction", reduction, REDUCTIONS)
    if is_ignored is not None:
        losses = rnp.where(is_ignored, 0.0, losses)
    if reduction != "mean" or (amounts is None and is_ignored is None):
        return reduced(losses, reduction)
    amounts = rnp.ones_like(losses) if amounts is None else amounts
    amounts = amounts if is_ignored is None else rnp.where(is_ignored, 0.0, amounts)
    return rnp.sum(losses) / rnp.sum(amounts)


def _power(x: Any, gamma: Any) -> Array:
    """x to a power, with a finite slope at 0."""
    return rnp.power(rnp.maximum(x, float(rnp.finfo(x.dtype).tiny)), gamma)
