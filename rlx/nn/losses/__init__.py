"""Loss functions.

They take `predictions` and `targets`, f32[...], and return the mean loss, f32[]; the sum with
`reduction="sum"`, one loss for each example with `reduction="none"`. Shapes of which neither is
that of both broadcast, as (n, 1) and (n,), are a `ShapeError`. For classes they take
`logits`, f32[..., C], whose softmax are the probabilities, and `labels`, i32[...], integers from 0
on. Labels outside of the classes are a `BoundsError` where they are known, as indices are
(`RLX_CHECKS`); else their loss is NaN.
"""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ...ir.lazy import listed as listed
from ...trace.arguments import flag as flag
from ...trace.array import Array
from ...trace.array_arguments import known_real as known_real
from ...trace.axes import one_axis as one_axis
from ...transforms.custom import stop_gradient as stop_gradient
from ..functional import softplus as softplus
from .classes import (
    binary_cross_entropy as binary_cross_entropy,
    cross_entropy as cross_entropy,
    ctc as ctc,
    hinge as hinge,
    nll as nll,
    sigmoid_focal as sigmoid_focal,
    softmax_focal as softmax_focal,
)
from .reduction import (
    of_all as of_all,
    of_both as of_both,
    positive as positive,
    reduced as reduced,
)

__all__ = [
    "binary_cross_entropy",
    "cosine_distance",
    "cosine_similarity",
    "cross_entropy",
    "ctc",
    "gaussian_nll",
    "hinge",
    "huber",
    "kl_divergence",
    "log_cosh",
    "mean_absolute_error",
    "mean_squared_error",
    "nll",
    "poisson_nll",
    "sigmoid_focal",
    "smooth_l1",
    "softmax_focal",
    "triplet_margin",
]

__dir__ = listed(__name__)

# -- of numbers ------------------------------------------------------------------------------------


def mean_squared_error(predictions: Any, targets: Any, *, reduction: str = "mean") -> Array:
    """Mean squared error: the square of the difference.

    `f32[...], f32[...] → f32[]`.
    """
    return of_both(lambda x, y: rnp.square(x - y), predictions, targets, reduction)


def mean_absolute_error(predictions: Any, targets: Any, *, reduction: str = "mean") -> Array:
    """Mean absolute error: the absolute value of the difference.

    `f32[...], f32[...] → f32[]`.
    """
    return of_both(lambda x, y: rnp.abs(x - y), predictions, targets, reduction)


def huber(predictions: Any, targets: Any, *, delta: float = 1.0, reduction: str = "mean") -> Array:
    """Huber loss: half the squared difference up to `delta`, a line beyond it.

    `f32[...], f32[...] → f32[]`. From "Robust Estimation of a Location Parameter", Huber, 1964.
    """

    delta = positive("huber: delta", delta)

    def loss(x: Any, y: Any) -> Any:
        distance = rnp.abs(x - y)
        near = rnp.minimum(distance, delta)
        return 0.5 * near * near + delta * (distance - near)

    return of_both(loss, predictions, targets, reduction)


def smooth_l1(
    predictions: Any, targets: Any, *, beta: float = 1.0, reduction: str = "mean"
) -> Array:
    """Smooth L1 loss: the size of the difference, a parabola below `beta`.

    `f32[...], f32[...] → f32[]`. Beyond `beta` it is less by `beta` / 2. It is `huber` with
    `delta=beta`, divided by it. From "Fast R-CNN", Girshick, 2015.

    >>> smooth_l1([0.5, 3.0], [0.0, 0.0], beta=2.0, reduction="none")
    Array([0.0625, 2.    ], dtype=float32)
    """
    beta = positive("smooth_l1: beta", beta)
    return huber(predictions, targets, delta=beta, reduction=reduction) / beta


def log_cosh(predictions: Any, targets: Any, *, reduction: str = "mean") -> Array:
    """Log-cosh loss: log(cosh(difference)), a smooth absolute error.

    `f32[...], f32[...] → f32[]`. From "Log Hyperbolic Cosine Loss Improves Variational
    Auto-Encoder", Chen et al., 2018.

    >>> log_cosh([0.0, 100.0], [0.0, 0.0], reduction="none").tolist()
    [0.0, 99.306...]
    """

    def loss(x: Any, y: Any) -> Any:
        return x - y + softplus(-2 * (x - y)) - math.log(2)

    return of_both(loss, predictions, targets, reduction)


def poisson_nll(
    predictions: Any,
    targets: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Array:
    """Negative log-likelihood of counts by Poisson distributions.

    `f32[...], f32[...] → f32[]`: rate - target * log(rate). The predictions are logarithms of
    rates, or with `log_input=False` rates, to which `eps` is added in the logarithm. `full` adds
    what does not depend on them, log(target!), by Stirling's formula for targets above 1.

    >>> poisson_nll([0.0], [2.0])
    Array(1., dtype=float32)
    """
    is_log, is_full = flag("poisson_nll: log_input", log_input), flag("poisson_nll: full", full)
    eps = positive("poisson_nll: eps", eps)

    def loss(x: Any, y: Any) -> Any:
        losses = rnp.exp(x) - y * x if is_log else x - y * rnp.log(x + eps)
        if not is_full:
            return losses
        safe = rnp.where(y > 1, y, 1.0)
        stirling = safe * rnp.log(safe) - safe + 0.5 * rnp.log(2 * math.pi * safe)
        return losses + rnp.where(y > 1, stirling, 0.0)

    return of_both(loss, predictions, targets, reduction)


def gaussian_nll(
    predictions: Any,
    targets: Any,
    variances: Any,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    """Negative log-likelihood of targets by normal distributions.

    `f32[...], f32[...], f32[...] → f32[]`: of means, targets and `variances`. Variances below `eps`
    count as `eps`, with the gradient that they would have there. `full` adds the constant log(2 pi)
    / 2. From "Estimating the Mean and Variance of the Target Probability Distribution", Nix and
    Weigend, 1994.

    >>> gaussian_nll([1.0], [3.0], [1.0])
    Array(2., dtype=float32)
    """
    is_full, eps = flag("gaussian_nll: full", full), positive("gaussian_nll: eps", eps)

    def loss(x: Any, y: Any, variance: Any) -> Any:
        at_least = variance + stop_gradient(rnp.maximum(variance, eps) - variance)
        losses = 0.5 * (rnp.log(at_least) + rnp.square(x - y) / at_least)
        return losses + 0.5 * math.log(2 * math.pi) if is_full else losses

    return of_all(loss, (predictions, targets, variances), reduction)


# -- of distributions and vectors ------------------------------------------------------------------


def kl_divergence(
    log_predictions: Any, targets: Any, *, log_targets: bool = False, reduction: str = "mean"
) -> Array:
    """Kullback-Leibler divergence of predictions from targets, along the last axis.

    `f32[..., C], f32[..., C] → f32[]`: `log_predictions` are logarithms of probabilities, as
    `nn.log_softmax` gives them, the targets are probabilities, or with `log_targets` their
    logarithms. The mean is of examples, as PyTorch's "batchmean". From "On Information and
    Sufficiency", Kullback and Leibler, 1951.

    >>> round(float(kl_divergence(rnp.log(rnp.array([0.5, 0.5])), [1.0, 0.0])), 4)
    0.6931
    """
    is_log = flag("kl_divergence: log_targets", log_targets)

    def loss(x: Any, y: Any) -> Any:
        if is_log:
            return rnp.sum(rnp.exp(y) * (y - x), -1)
        safe = rnp.where(y > 0, y, 1.0)
        return rnp.sum(rnp.where(y > 0, y * (rnp.log(safe) - x), 0.0), -1)

    return of_both(loss, log_predictions, targets, reduction)


def cosine_similarity(
    x: Any, y: Any, *, axis: int = -1, eps: float = 1e-8, reduction: str = "mean"
) -> Array:
    """Cosine of the angle between vectors along an axis, from -1 to 1.

    `f32[..., n], f32[..., n] → f32[]`, of `x` and `y` along `axis`. Norms below `eps` count as
    `eps`, so that a vector of zeros has the cosine 0 to all.

    >>> round(float(cosine_similarity([1.0, 0.0], [1.0, 1.0])), 4)
    0.7071
    """
    eps = positive("cosine_similarity: eps", eps)

    def loss(x: Any, y: Any) -> Any:
        along = one_axis("cosine_similarity", axis, max(x.ndim, y.ndim))
        along -= max(x.ndim, y.ndim)
        return rnp.sum(_unit(x, along, eps) * _unit(y, along, eps), along)

    return of_all(loss, (x, y), reduction)


def cosine_distance(
    x: Any, y: Any, *, axis: int = -1, eps: float = 1e-8, reduction: str = "mean"
) -> Array:
    """One minus `cosine_similarity`, from 0 to 2: `f32[..., n], f32[..., n] → f32[]`.

    `x`, `y`, `axis` and `eps` are as there.

    >>> cosine_distance([1.0, 0.0], [-2.0, 0.0])
    Array(2., dtype=float32)
    """
    similarity = cosine_similarity(x, y, axis=axis, eps=eps, reduction="none")
    return reduced(1 - similarity, reduction)


def triplet_margin(
    anchors: Any,
    positives: Any,
    negatives: Any,
    *,
    margin: float = 1.0,
    norm: float = 2.0,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    """Triplet loss: positives should be nearer than negatives, by a `margin`.

    `f32[..., n], f32[..., n], f32[..., n] → f32[]` of `anchors`, `positives` and `negatives`:
    max(0, d(a, p) - d(a, n) + margin). The distance is the `norm` of the difference plus `eps`, as
    in PyTorch. From "FaceNet", Schroff et al., 2015.

    >>> round(float(triplet_margin([0.0], [3.0], [2.0])), 3)
    2.0
    """
    margin, eps = known_real("triplet_margin: margin", margin), known_real("eps", eps)
    order = positive("triplet_margin: norm", norm)

    def distance(x: Any, y: Any) -> Any:
        return rnp.linalg.vector_norm(x - y + eps, axis=-1, ord=order)

    def loss(a: Any, p: Any, n: Any) -> Any:
        return rnp.maximum(distance(a, p) - distance(a, n) + margin, 0.0)

    return of_all(loss, (anchors, positives, negatives), reduction)


def _unit(x: Any, axis: int, eps: float) -> Array:
    """Vectors of length 1; the gradient at zero is that of x / eps."""
    square = rnp.sum(rnp.square(x), axis, keepdims=True)
    is_long = square > eps * eps
    return x / rnp.where(is_long, rnp.sqrt(rnp.where(is_long, square, 1.0)), eps)
