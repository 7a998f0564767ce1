"""Metrics of classifiers against scikit-learn, and against their formulas in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sklearn.metrics as sk

import rlx
import rlx.numpy as rnp
from rlx.train import (
    accuracy,
    confusion_matrix,
    f1,
    precision,
    recall,
    roc_auc,
    top_k_accuracy,
)

EPS = 2.0**-23
SCORES = {precision: sk.precision_score, recall: sk.recall_score, f1: sk.f1_score}


def drawn(classes: int, seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels, half of them equal; the greatest class is missing on both sides."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, max(classes - 1, 2), count)
    found = np.where(chance.random(count) < 0.5, labels, chance.integers(0, labels.max() + 1))
    return found.astype("i4"), labels.astype("i4")


@pytest.mark.parametrize("average", ["macro", "micro", None])
@pytest.mark.parametrize("score", SCORES, ids=lambda f: f.__name__)
def test_scores_are_those_of_scikit_learn(score, average):
    compiled = rlx.jit(lambda f, y: score(f, y, average=average, classes=5))
    for seed in range(3):
        found, labels = drawn(5, seed)
        options = {} if average else {"labels": range(5)}
        wanted = SCORES[score](labels, found, average=average, zero_division=0, **options)
        got = score(found, labels, average=average, classes=5)
        np.testing.assert_allclose(got, wanted, rtol=4 * EPS)
        np.testing.assert_allclose(compiled(found, labels), wanted, rtol=4 * EPS)
        if average:  # classes that never occur do not count
            np.testing.assert_allclose(score(found, labels, average=average), got, rtol=4 * EPS)


@pytest.mark.parametrize("score", SCORES, ids=lambda f: f.__name__)
def test_binary_scores(score):
    compiled = rlx.jit(score)
    for seed in range(3):
        found, labels = drawn(2, seed)
        wanted = SCORES[score](labels, found)
        for kind in ("i4", "u1", "bool"):
            np.testing.assert_allclose(
                score(found.astype(kind), labels.astype(kind)), wanted, rtol=4 * EPS
            )
        np.testing.assert_allclose(compiled(found, labels), wanted, rtol=4 * EPS)
        logits = np.eye(2, dtype="f4")[found]
        np.testing.assert_allclose(score(logits, labels), wanted, rtol=4 * EPS)
    zeros = np.zeros(3, "i4")
    assert score(zeros, zeros) == SCORES[score](zeros, zeros, zero_division=0) == 0


def test_scores_by_their_formulas():
    found, labels = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 2, 0, 1])
    p, r = np.array([1 / 2, 1 / 1, 1 / 3]), np.array([1 / 2, 1 / 3, 1 / 1])
    for score, each in ((precision, p), (recall, r), (f1, 2 * p * r / (p + r))):
        np.testing.assert_allclose(score(found, labels, average=None), each, rtol=4 * EPS)
        np.testing.assert_allclose(score(found, labels, average="macro"), each.mean(), rtol=4 * EPS)
        assert score(found, labels, average="micro") == 0.5 == accuracy(found, labels)


def test_the_confusion_matrix():
    compiled = rlx.jit(lambda f, y: confusion_matrix(f, y, classes=5))
    for seed in range(3):
        found, labels = drawn(5, seed)
        wanted = sk.confusion_matrix(labels, found, labels=range(5))
        got = confusion_matrix(found, labels, classes=5)
        assert got.dtype == "int32" and got.tolist() == wanted.tolist()
        assert compiled(found, labels).tolist() == wanted.tolist()
        logits = rnp.asarray(np.eye(5, dtype="f4")[found]).reshape(6, 10, 5)
        assert confusion_matrix(logits, labels.reshape(6, 10)).tolist() == wanted.tolist()
    assert confusion_matrix([False, True], [True, True]).tolist() == [[0, 0], [1, 1]]


def test_accuracy():
    found, labels = drawn(5, 0)
    logits = np.eye(5, dtype="f4")[found]
    wanted = sk.accuracy_score(labels, found)
    for given in (found, logits, logits.astype("f2")):
        np.testing.assert_allclose(accuracy(given, labels), wanted, rtol=2 * EPS)
        np.testing.assert_allclose(rlx.jit(accuracy)(given, labels), wanted, rtol=2 * EPS)
        each = accuracy(given, labels, reduction="none")
        assert each.tolist() == (found == labels).tolist()


def test_top_k_with_ties():
    scores = np.random.default_rng(0).integers(0, 4, (50, 6)).astype("f4")  # many are equal
    labels = np.random.default_rng(1).integers(0, 6, 50)
    for k in (1, 2, 5):
        wanted = sk.top_k_accuracy_score(labels, scores, k=k, labels=range(6))
        np.testing.assert_allclose(top_k_accuracy(scores, labels, k), wanted, rtol=2 * EPS)
        ranked = np.argsort(scores, axis=1, kind="stable")[:, ::-1][:, :k]
        hits = (ranked == labels[:, None]).any(1)
        compiled = rlx.jit(lambda s, y: top_k_accuracy(s, y, k, reduction="none"))  # noqa: B023 (called here)
        assert compiled(scores, labels).tolist() == hits.tolist()
    assert top_k_accuracy(scores, labels, 6) == 1.0
    nans = np.array([[np.nan, 1, 0], [np.nan, 1, 0], [np.inf, 1, -np.inf]], "f4")
    assert top_k_accuracy(nans, [0, 1, 0], 1, reduction="none").tolist() == [0, 0, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_roc_auc_counts_ties_half(dtype):
    compiled = rlx.jit(roc_auc)
    for seed in range(3):
        chance = np.random.default_rng(seed)
        labels = chance.integers(0, 2, 80)
        scores = (chance.integers(0, 6, 80) + labels).astype(dtype)
        wanted = sk.roc_auc_score(labels, scores)
        ones, zeros = scores[labels == 1][:, None], scores[labels == 0]
        np.testing.assert_allclose(wanted, ((ones > zeros) + (ones == zeros) / 2).mean())
        for found in (roc_auc(scores, labels == 1), compiled(scores, labels)):
            np.testing.assert_allclose(found, wanted, rtol=8 * EPS)
    assert roc_auc(scores.astype("f8"), labels).dtype == "float64"


def test_roc_auc_of_many_and_of_nothing():
    count = 100_000  # whose pairs no int32 can count
    scores = np.arange(count, dtype="f4")
    labels = scores % 3 == 0
    wanted = sk.roc_auc_score(labels, scores)
    np.testing.assert_allclose(rlx.jit(roc_auc)(scores, labels), wanted, rtol=16 * EPS)
    assert np.isnan(roc_auc([0.1, 0.2], [1, 1])) and np.isnan(roc_auc([0.1, np.nan], [1, 0]))


@pytest.mark.parametrize("fn", [confusion_matrix, *SCORES], ids=lambda f: f.__name__)
def test_labels_outside_are_an_error_or_not_counted(fn):
    options = {"classes": 2} if fn is confusion_matrix else {"classes": 2, "average": "micro"}
    with pytest.raises(rlx.BoundsError, match=f"{fn.__name__}: 2 is none of 2 classes") as caught:
        fn([0, 1, 1], [0, 2, 1], **options)
    assert "test_train_metrics.py" in caught.value.where
    compiled = rlx.jit(lambda f, y: fn(f, y, **options))
    for bad in (2, -1):
        got = compiled(np.array([0, 1, 1]), np.array([0, bad, 1]))
        np.testing.assert_array_equal(got, fn([0, 1], [0, 1], **options))


X, Y = np.zeros((4, 3), "f4"), np.zeros(4, "i4")
WRONG = {
    "accuracy: the predictions are f32[4], not classes": lambda: accuracy(X[:, 0], Y),
    "accuracy: the predictions f32[4, 3] do not fit the labels i32[3]": lambda: accuracy(X, Y[:3]),
    "accuracy: the labels are f32[4], not integers": lambda: accuracy(X, X[:, 0]),
    "accuracy: the logits f32[4, 1] are of fewer than two classes": lambda: accuracy(X[:, :1], Y),
    "accuracy: 4294967296 is none of 3 classes": lambda: accuracy(X, Y + np.int64(2**32)),
    "confusion_matrix: one of the classes is 4294967296": lambda: confusion_matrix(
        Y, Y + np.int64(2**32)
    ),
    "top_k_accuracy: the predictions are c64[4, 3]": lambda: top_k_accuracy(X * 1j, Y, 1),
    "roc_auc: the predictions are c64[4]": lambda: roc_auc(X[:, 0] * 1j, Y),
    "accuracy: 3 is none of 3 classes": lambda: accuracy(X, Y + 3),
    "top_k_accuracy: k is 4": lambda: top_k_accuracy(X, Y, 4),
    "top_k_accuracy: the predictions i32[4] do not fit": lambda: top_k_accuracy(Y, Y),
    "f1: there is no average 'weighted'": lambda: f1(Y, Y, average="weighted"),
    'recall: average="binary" is of two classes, not 3': lambda: recall(X, Y),
    "precision: 2 is none of 2 classes": lambda: precision(Y, Y + 2),
    "precision: classes is 4, the logits have 3": lambda: precision(
        X, Y, average="macro", classes=4
    ),
    "confusion_matrix: the number of classes is not known": lambda: rlx.jit(confusion_matrix)(Y, Y),
    "roc_auc: the scores are f32[3], the labels i32[4]": lambda: roc_auc(X[0], Y),
    "roc_auc: 2 is none of 2 classes": lambda: roc_auc(X[:, 0], Y + 2),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_arguments_are_named(text):
    with pytest.raises(rlx.RlxError, match=re.escape(text)) as caught:
        WRONG[text]()
    assert caught.value.fix and "test_train_metrics.py" in caught.value.where
