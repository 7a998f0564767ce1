"""Metrics of classifiers, by the definitions of scikit-learn.

`__init__.py` says what they take.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, BoundsError, ConcretizationError, DtypeError, ShapeError
from ..ir.ops.custom import Rule
from ..ir.source import user_source
from ..ir.types import DTYPES
from ..nn.losses.reduction import reduced
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of
from ..trace.array import Array
from ..trace.array_arguments import vector
from ..trace.index.items import check_ends
from ..trace.promotion import FLOAT, convert

INT = DTYPES["int32"]
MOST_GUESSED = 1 << 20  # classes, if nobody says how many there are
AVERAGES = ("binary", "macro", "micro", None)


def accuracy(predictions: Any, labels: Any, *, reduction: str = "mean") -> Any:
    """Accuracy: the share of predictions that are the label.

    `f32[..., C], i32[...] → f32[]`, or `i32[...], i32[...] → f32[]` of classes. With
    `reduction="none"` it is 1 or 0 for each.

    >>> accuracy([[0.1, 0.9], [0.8, 0.2]], [1, 1])
    Array(0.5, dtype=float32)
    """
    found, labels, _ = _classes("accuracy", predictions, labels)
    return reduced(convert(found == labels, FLOAT), reduction)


def top_k_accuracy(scores: Any, labels: Any, k: int = 5, *, reduction: str = "mean") -> Any:
    """Top-k accuracy: the share of labels among the k classes of greatest scores.

    `f32[..., C], i32[...] → f32[]` of `scores` and labels; `k` is at most C. Of equal scores that
    of the later class counts as greater, as in scikit-learn; a score of NaN is greater than others,
    and no hit itself.

    >>> top_k_accuracy([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], [2, 2], k=2)
    Array(0.5, dtype=float32)
    """
    scores, labels = _real("top_k_accuracy", scores), _labels("top_k_accuracy", labels)
    if scores.ndim != labels.ndim + 1 or scores.shape[:-1] != labels.shape:
        raise _misfit("top_k_accuracy", scores, labels)
    count = scores.shape[-1]
    k = count_of("top_k_accuracy: k", k, 1, count)
    _check_labels("top_k_accuracy", labels, count)
    place, own = rnp.arange(count, dtype="int32"), labels[..., None]
    is_own = place == own
    score = rnp.sum(rnp.where(is_own, scores, 0), -1, keepdims=True, dtype=scores.dtype)
    is_before = ~(scores <= score) | ((scores == score) & (place > own))
    hits = (rnp.sum(is_before, -1) < k) & rnp.any(is_own, -1)
    return reduced(convert(hits, FLOAT), reduction)


def confusion_matrix(predictions: Any, labels: Any, *, classes: int | None = None) -> Any:
    """Confusion matrix: how often label i was predicted as class j, at [i, j].

    `f32[..., C], i32[...] → i32[C, C]`, or `i32[...], i32[...] → i32[C, C]` of classes.

    >>> confusion_matrix([0, 1, 1, 1], [0, 0, 1, 1]).tolist()
    [[1, 1], [0, 2]]
    """
    found, labels, count = _classes("confusion_matrix", predictions, labels)
    count = _count("confusion_matrix", classes, count, found, labels)
    is_inside = _inside(found, count) & _inside(labels, count)
    place = rnp.where(is_inside, labels * count + found, count * count)
    return rnp.reshape(rnp.bincount(place, length=count * count), (count, count))


def precision(
    predictions: Any, labels: Any, *, average: str | None = "binary", classes: int | None = None
) -> Any:
    """Precision: the share of predictions of a class that are right.

    `f32[..., C], i32[...] → f32[]`, or `i32[...], i32[...] → f32[]` of classes. `average="binary"`
    is of class 1 of two, an `ArgumentError` for others; "macro" is the mean of all classes that
    occur, "micro" counts all alike, and None gives that of each class, f32[C]. Where nothing was
    predicted as a class it is 0.

    >>> precision([0, 1, 1, 1], [0, 0, 1, 1])
    Array(0.6666667, dtype=float32)
    """
    hits, predicted, actual = _counts("precision", predictions, labels, average, classes)
    return _averaged(hits, predicted, predicted + actual, average)


def recall(
    predictions: Any, labels: Any, *, average: str | None = "binary", classes: int | None = None
) -> Any:
    """Recall: the share of examples of a class that are predicted as such.

    Arguments, `average` too, are those of `precision`. Where a class does not occur it is 0.

    >>> recall([0, 1, 0, 1], [0, 1, 1, 1])
    Array(0.6666667, dtype=float32)
    """
    hits, predicted, actual = _counts("recall", predictions, labels, average, classes)
    return _averaged(hits, actual, predicted + actual, average)


def f1(
    predictions: Any, labels: Any, *, average: str | None = "binary", classes: int | None = None
) -> Any:
    """F1 score: the harmonic mean of precision and recall.

    It is that of each class, before the `average`. Arguments are those of `precision`. Where a
    class neither occurs nor is predicted it is 0.

    >>> f1([0, 1, 0, 1], [0, 1, 1, 1]).item()
    0.8...
    """
    hits, predicted, actual = _counts("f1", predictions, labels, average, classes)
    both = predicted + actual
    return _averaged(2 * hits, both, both, average)


def roc_auc(scores: Any, labels: Any) -> Any:
    """Area under the ROC curve: the chance that a 1 has a greater score than a 0.

    `f32[n], i32[n] → f32[]` of `scores` and labels 0 and 1, or bools; equal scores count half. It
    is NaN if there is only one class, or a score is NaN; other shapes are a `ShapeError`. It is the
    statistic of "On a Test of Whether one of Two Random Variables is Stochastically Larger than the
    Other", Mann and Whitney, 1947.

    >>> roc_auc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
    Array(0.875, dtype=float32)
    """
    scores = vector("roc_auc: scores", _real("roc_auc", scores))
    labels = _labels("roc_auc", labels)
    if scores.shape != labels.shape:
        raise ShapeError(
            f"roc_auc: the scores are {scores.type}, the labels {labels.type}",
            fix="give one score for each label: of logits of two classes, logits[:, 1]",
        )
    _check_labels("roc_auc", labels, 2)
    dtype = rnp.result_type(scores, FLOAT)
    order = rnp.argsort(scores)
    ordered, is_one = scores[order], labels[order] == 1
    zeros = rnp.pad(rnp.cumsum(labels[order] == 0, dtype="int32"), (1, 0))  # before each place
    below = zeros[rnp.searchsorted(ordered, ordered, side="left")]
    up_to = zeros[rnp.searchsorted(ordered, ordered, side="right")]
    pairs = rnp.sum(rnp.where(is_one, convert(below + up_to, dtype), 0.0)) / 2
    ones = rnp.sum(is_one, dtype=dtype)
    area = pairs / (ones * convert(zeros[-1], dtype))
    return rnp.where(rnp.any(scores != scores), math.nan, area)


# -- arguments -------------------------------------------------------------------------------------


def _classes(name: str, predictions: Any, labels: Any) -> tuple[Any, Any, int | None]:
    """The predicted classes, the labels, and the number of classes, if there are logits."""
    x, labels = _real(name, predictions), _labels(name, labels)
    if x.shape == labels.shape:
        if x.dtype.kind not in "biu":
            raise DtypeError(
                f"{name}: the predictions are {x.type}, not classes",
                fix="give logits of shape (..., classes), or classes: of logits of a 1, logits > 0;"
                "\nof one-hot labels take labels.argmax(-1)",
            )
        return _wide(x), labels, None
    if x.ndim != labels.ndim + 1 or x.shape[:-1] != labels.shape:
        raise _misfit(name, x, labels)
    if x.shape[-1] in (0, 1):
        raise ShapeError(
            f"{name}: the logits {x.type} are of fewer than two classes",
            fix="give classes: of logits of a 1, logits[..., 0] > 0",
        )
    _check_labels(name, labels, x.shape[-1])
    return convert(rnp.argmax(x, -1), INT), labels, x.shape[-1]


def _misfit(name: str, x: Any, labels: Any) -> ShapeError:
    return ShapeError(
        f"{name}: the predictions {x.type} do not fit the labels {labels.type}",
        fix="give logits with one more axis than the labels, the classes; of one-hot labels take\n"
        "labels.argmax(-1)",
    )


def _labels(name: str, labels: Any) -> Any:
    labels = as_tensor(labels)
    if labels.dtype.kind not in "biu":
        raise DtypeError(
            f"{name}: the labels are {labels.type}, not integers",
            fix='convert them: labels.astype("int32")',
        )
    return _wide(labels)


def _wide(x: Any) -> Any:
    """Integers in int32, or in the dtype of their own that holds more."""
    return convert(x, rnp.promote_types(x.dtype, INT))


def _real(name: str, x: Any) -> Any:
    x = as_tensor(x)
    if x.dtype.kind == "c":
        raise DtypeError(
            f"{name}: the predictions are {x.type}, which have no order",
            fix="take a part of them, or their size: x.real, abs(x)",
        )
    return x


def _check_labels(name: str, labels: Any, count: Any) -> None:
    """Raise a `BoundsError` for labels that are no class, where they are known."""
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, count: Any = count) -> None:
        if low < 0 or high >= count:
            raise BoundsError(
                f"{name}: {int(low if low < 0 else high)} is none of {int(count)} classes",
                where=where,
                fix=f"use labels from 0 to {int(count) - 1}",
            )

    check_ends(labels, count, Rule(look, (name, where, count)))


def _count(name: str, given: int | None, found: int | None, x: Any, labels: Any) -> int:
    """The number of classes; both sides are checked to be of them."""
    if given is not None:
        count = count_of(f"{name}: classes", given, 1)
        if found not in (None, count):
            raise ArgumentError(
                f"{name}: classes is {count}, the logits have {found}", fix="leave out classes"
            )
    elif found is not None:
        count = found
    else:
        known = [y if isinstance(y, Array) else y.concrete for y in (x, labels)]
        if any(y is None for y in known):
            raise ConcretizationError(
                f"{name}: the number of classes is not known while it is recorded",
                fix=f"say it: {name}(..., classes=10)",
            )
        count = 1 + max((int(np.max(y)) for y in known if np.size(y)), default=0)
        if count > MOST_GUESSED:
            raise ArgumentError(
                f"{name}: one of the classes is {count - 1}",
                fix=f"give classes from 0 on; if there are so many, say it: {name}(..., classes=n)",
            )
    for side in (x, labels):
        _check_labels(name, side, count)
    return count


# -- counting --------------------------------------------------------------------------------------


def _inside(x: Any, count: int) -> Any:
    return (x >= 0) & (x < count)


def _counts(
    name: str, predictions: Any, labels: Any, average: str | None, classes: int | None
) -> tuple[Any, Any, Any]:
    """For each class how often it was rightly predicted, predicted, and there."""
    choice(f"{name}: average", average, AVERAGES)
    found, labels, count = _classes(name, predictions, labels)
    if average == "binary":
        if {classes, count} - {None, 2}:
            raise ArgumentError(
                f'{name}: average="binary" is of two classes, not {count or classes}',
                fix='use average="macro" or "micro", or None for each class',
            )
        count = 2
    count = _count(name, None if average == "binary" else classes, count, found, labels)
    is_inside = _inside(found, count) & _inside(labels, count)

    def times(x: Any, where: Any) -> Any:
        return rnp.bincount(rnp.ravel(rnp.where(where, x, count)), length=count)

    hits = times(labels, is_inside & (found == labels))
    return hits, times(found, is_inside), times(labels, is_inside)


def _averaged(hits: Any, of: Any, occurs: Any, average: str | None) -> Any:
    """The shares of hits of all classes, as `average` says."""
    if average == "micro":
        hits, of = rnp.sum(hits), rnp.sum(of)
    shares = rnp.where(of > 0, hits / rnp.maximum(of, 1), 0.0)
    if average == "binary":
        return shares[1]
    if average == "macro":
        return rnp.sum(rnp.where(occurs > 0, shares, 0.0)) / rnp.sum(occurs > 0)
    return shares
