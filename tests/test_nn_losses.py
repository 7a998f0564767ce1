"""Losses against PyTorch and optax in float64, with their gradients; labels that are no class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import nn
from rlx.ir.errors import BoundsError, RlxError, ShapeError
from rlx.nn import losses

RANDOM = np.random.default_rng(0)
LOGITS, OTHER, THIRD = (RANDOM.normal(size=(6, 5)) for _ in range(3))
LABELS = np.array([0, 4, 2, 2, 1, 3])
WEIGHT = RANDOM.uniform(0.5, 2.0, 5)
CHANCES = RANDOM.dirichlet(np.ones(5), 6)
CHANCES[0, 1] = 0.0
LOG_CHANCES = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
BITS = RANDOM.integers(0, 2, (6, 5)).astype(float)
COUNTS = RANDOM.integers(0, 5, (6, 5)).astype(float)
VARIANCES = RANDOM.uniform(0.1, 2.0, (6, 5))
VARIANCES[0, 0] = 1e-9
REDUCTIONS = ("mean", "sum", "none")


def torch_of(*given: Any) -> list[Any]:
    torch = pytest.importorskip("torch")
    return [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in given]


def same(mine: Callable[..., Any], theirs: Callable[..., Any], *operands: np.ndarray) -> None:
    """Values, and gradients for all floats, are equal to PyTorch's."""
    tensors = torch_of(*operands)
    wanted = theirs(*tensors)
    cotangent = np.random.default_rng(1).normal(size=tuple(wanted.shape))
    places = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
    (wanted * torch_of(cotangent)[0].detach()).sum().backward()

    def loss(*xs: Any) -> tuple[Any, Any]:
        y = mine(*xs)
        return rlx.numpy.sum(y * cotangent), y

    run = rlx.jit(rlx.value_and_grad(loss, places, has_aux=True))
    (_, y), slopes = run(*operands)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, wanted.detach().numpy(), 1e-10, 1e-12)
    np.testing.assert_allclose(mine(*operands), wanted.detach().numpy(), 1e-10, 1e-12)
    for place, slope in zip(places, slopes, strict=True):
        np.testing.assert_allclose(slope, tensors[place].grad.numpy(), 1e-9, 1e-11)


def functional() -> Any:
    return pytest.importorskip("torch").nn.functional


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("ignored", [None, 2, -100])
def test_cross_entropy(reduction: str, smoothing: float, weight: Any, ignored: int | None):
    labels = np.where(LABELS == 1, -100, LABELS) if ignored == -100 else LABELS
    others = None if weight is None else torch_of(weight)[0].detach()

    def theirs(x: Any) -> Any:
        index = -1 if ignored is None else ignored
        return functional().cross_entropy(
            x,
            torch_of(labels)[0],
            others,
            ignore_index=index,
            label_smoothing=smoothing,
            reduction=reduction,
        )

    def mine(x: Any) -> Any:
        return losses.cross_entropy(
            x,
            labels,
            label_smoothing=smoothing,
            weight=weight,
            ignore_index=ignored,
            reduction=reduction,
        )

    same(mine, theirs, LOGITS)


def test_nll():
    labels, weight = torch_of(LABELS)[0], torch_of(WEIGHT)[0].detach()
    for reduction in REDUCTIONS:
        same(
            lambda x, r=reduction: losses.nll(
                x, LABELS, weight=WEIGHT, ignore_index=2, reduction=r
            ),
            lambda x, r=reduction: functional().nll_loss(
                x, labels, weight, ignore_index=2, reduction=r
            ),
            LOG_CHANCES,
        )


def cosine(x: Any, y: Any) -> Any:
    return functional().cosine_similarity(x, y)


OF_TORCH: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "kl_divergence": (
        losses.kl_divergence,
        lambda x, y: functional().kl_div(x, y, reduction="batchmean"),
        (LOG_CHANCES, CHANCES + 1e-3),
    ),
    "kl_divergence with log_targets": (
        lambda x, y: losses.kl_divergence(x, y, log_targets=True, reduction="sum"),
        lambda x, y: functional().kl_div(x, y, reduction="sum", log_target=True),
        (LOG_CHANCES, OTHER),
    ),
    "hinge": (
        lambda x: losses.hinge(x, 2 * BITS - 1, reduction="none"),
        lambda x: (1 - x * (2 * torch_of(BITS)[0].detach() - 1)).clamp(min=0),
        (LOGITS,),
    ),
    "cosine_similarity": (
        lambda x, y: losses.cosine_similarity(x, y, reduction="none"),
        cosine,
        (LOGITS, OTHER),
    ),
    "cosine_distance": (
        lambda x, y: losses.cosine_distance(x, y, axis=0),
        lambda x, y: (1 - functional().cosine_similarity(x, y, 0)).mean(),
        (LOGITS, OTHER),
    ),
    "triplet_margin": (
        losses.triplet_margin,
        lambda a, p, n: functional().triplet_margin_loss(a, p, n),
        (LOGITS, OTHER, THIRD),
    ),
    "triplet_margin with norm 3": (
        lambda a, p, n: losses.triplet_margin(a, p, n, norm=3, margin=0.5, reduction="none"),
        lambda a, p, n: functional().triplet_margin_loss(a, p, n, 0.5, p=3, reduction="none"),
        (LOGITS, OTHER, THIRD),
    ),
    "smooth_l1": (
        lambda x, y: losses.smooth_l1(x, y, beta=0.7, reduction="none"),
        lambda x, y: functional().smooth_l1_loss(x, y, reduction="none", beta=0.7),
        (LOGITS, OTHER),
    ),
    "poisson_nll": (
        lambda x: losses.poisson_nll(x, COUNTS, full=True),
        lambda x: functional().poisson_nll_loss(x, torch_of(COUNTS)[0].detach(), full=True),
        (LOGITS,),
    ),
    "poisson_nll of rates": (
        lambda x: losses.poisson_nll(x, COUNTS, log_input=False, reduction="none"),
        lambda x: functional().poisson_nll_loss(
            x, torch_of(COUNTS)[0].detach(), log_input=False, reduction="none"
        ),
        (VARIANCES,),
    ),
    "gaussian_nll": (
        lambda x, y, v: losses.gaussian_nll(x, y, v, full=True, reduction="sum"),
        lambda x, y, v: functional().gaussian_nll_loss(x, y, v, full=True, reduction="sum"),
        (LOGITS, OTHER, VARIANCES),
    ),
}


@pytest.mark.parametrize("name", OF_TORCH)
def test_loss_is_that_of_torch(name: str):
    mine, theirs, operands = OF_TORCH[name]
    same(mine, theirs, *operands)


def test_softmax_focal_by_its_formula():
    torch = pytest.importorskip("torch")

    def theirs(x: Any) -> Any:
        logs = torch.log_softmax(x, -1)[range(6), LABELS]
        return -((1 - logs.exp()) ** 1.5) * logs * torch.tensor(WEIGHT)[LABELS]

    def mine(x: Any) -> Any:
        return losses.softmax_focal(x, LABELS, gamma=1.5, weight=WEIGHT, reduction="none")

    same(mine, theirs, LOGITS)
    sure = rlx.grad(losses.softmax_focal)(rlx.array([[200.0, 0.0]]), [0])
    assert sure.tolist() == [[0.0, 0.0]]


OF_OPTAX: dict[str, Callable[..., Any]] = {
    "kl_divergence": lambda optax, x: optax.kl_divergence(x, CHANCES),
    "hinge": lambda optax, x: optax.hinge_loss(x, CHANCES),
    "cosine_distance": lambda optax, x: optax.cosine_distance(x, CHANCES, epsilon=1e-8),
    "sigmoid_focal": lambda optax, x: optax.sigmoid_focal_loss(x, CHANCES),
    "log_cosh": lambda optax, x: optax.log_cosh(x, CHANCES),
}


@pytest.mark.parametrize("name", OF_OPTAX)
def test_loss_is_that_of_optax(name: str):
    optax, jax = pytest.importorskip("optax"), pytest.importorskip("jax")

    def mine(x: Any) -> Any:
        return getattr(losses, name)(x, CHANCES, reduction="none")

    with jax.enable_x64(True):
        wanted, pull = jax.vjp(lambda x: OF_OPTAX[name](optax, x), jax.numpy.asarray(LOGITS))
        (slope,) = pull(wanted)
    y, pull = rlx.vjp(mine, LOGITS)
    np.testing.assert_allclose(y, wanted, 1e-10, 1e-12)
    np.testing.assert_allclose(pull(y)[0], slope, 1e-9, 1e-11)


def test_alpha_of_sigmoid_focal_weighs_the_targets():
    weights = np.where(BITS == 1, 0.25, 0.75)
    plain = losses.sigmoid_focal(LOGITS, BITS, reduction="none")
    weighed = losses.sigmoid_focal(LOGITS, BITS, alpha=0.25, reduction="none")
    np.testing.assert_allclose(weighed, plain * weights, 1e-12)


# -- ctc -------------------------------------------------------------------------------------------

SEQUENCES = RANDOM.normal(size=(4, 9, 5))
TEXTS = np.array([[1, 2, 2, 4], [3, 3, 3, 3], [4, 1, 0, 0], [2, 1, 2, 1]])
TIMES, COUNTED = np.array([9, 8, 5, 9]), np.array([4, 4, 2, 0])


def torch_ctc(x: Any, blank: int, reduction: str) -> Any:
    torch = pytest.importorskip("torch")
    return functional().ctc_loss(
        torch.log_softmax(x, -1).transpose(0, 1),
        *torch_of(TEXTS, TIMES, COUNTED),
        blank=blank,
        reduction=reduction,
    )


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_ctc_is_that_of_torch(reduction: str):
    def mine(x: Any) -> Any:
        return losses.ctc(x, TEXTS, logit_lengths=TIMES, label_lengths=COUNTED, reduction=reduction)

    same(mine, lambda x: torch_ctc(x, 0, reduction), SEQUENCES)


def test_ctc_is_that_of_optax_with_another_blank():
    optax, jax = pytest.importorskip("optax"), pytest.importorskip("jax")
    texts = np.array([[1, 2, 2, 3], [3, 3, 3, 3], [0, 1, 0, 0], [2, 1, 2, 1]])
    is_missing = np.arange(4) >= COUNTED[:, None]
    is_late = np.arange(9) >= TIMES[:, None]
    with jax.enable_x64(True):
        wanted = optax.ctc_loss(
            SEQUENCES, is_late.astype(float), texts, is_missing.astype(float), blank_id=4
        )
    found = losses.ctc(
        SEQUENCES, texts, logit_lengths=TIMES, label_lengths=COUNTED, blank=4, reduction="none"
    )
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_ctc_of_labels_that_do_not_fit_is_inf_with_gradient_zero():
    x = SEQUENCES[:1, :4]  # 3 3 3 3 needs 7 times

    def loss(x: Any) -> Any:
        return losses.ctc(x, TEXTS[1:2])

    assert np.isinf(loss(x)) and not np.any(rlx.grad(loss)(x))


# -- labels ----------------------------------------------------------------------------------------

OF_LABELS = {
    "cross_entropy": losses.cross_entropy,
    "nll": losses.nll,
    "softmax_focal": losses.softmax_focal,
}


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("label", [-1, 5])
def test_known_labels_that_are_no_class_are_errors(name: str, label: int):
    loss, labels = OF_LABELS[name], np.array([0, 1, 2, 3, 4, label])
    with pytest.raises(BoundsError, match=f"{name}: label {label} is none of 5 classes"):
        loss(LOGITS, labels)
    with pytest.raises(BoundsError, match=f"label {label} is none"):
        rlx.grad(loss)(LOGITS, labels)
    assert np.isnan(rlx.jit(loss)(LOGITS, labels))
    with rlx.config.using(checks=True), pytest.raises(RlxError, match=f"label {label} is none"):
        np.asarray(rlx.jit(loss)(LOGITS, labels))
    with rlx.config.using(checks=False):
        assert np.isnan(loss(LOGITS, labels))


def test_ctc_checks_labels_and_lengths_that_count():
    losses.ctc(SEQUENCES, np.where(TEXTS == 0, 9, TEXTS), label_lengths=COUNTED)
    for label in (9, 2**32 + 1):  # which is 1 in 32 bits
        with pytest.raises(BoundsError, match=f"ctc: label {label}"):
            losses.ctc(SEQUENCES, np.where(TEXTS == 0, np.int64(label), TEXTS))
    for label in (-1, 9, np.int64(2**32 + 1)):
        assert np.isnan(rlx.jit(losses.ctc)(SEQUENCES, np.where(TEXTS == 0, label, TEXTS)))
    with pytest.raises(BoundsError, match="label_lengths: 5 is no length"):
        losses.ctc(SEQUENCES, TEXTS, label_lengths=[5, 1, 1, 1])


@pytest.mark.parametrize("name", OF_LABELS)
def test_one_hot_labels_say_argmax(name: str):
    with pytest.raises(ShapeError, match=r"labels\.argmax\(-1\)"):
        OF_LABELS[name](LOGITS, nn.one_hot(LABELS, 5))


def test_wrong_numbers_are_errors():
    for wrong in (
        lambda: losses.cross_entropy(LOGITS, LABELS, label_smoothing=1.5),
        lambda: losses.cross_entropy(LOGITS, LABELS, weight=WEIGHT[:3]),
        lambda: losses.cross_entropy(LOGITS, LABELS.astype(float)),
        lambda: losses.smooth_l1(LOGITS, OTHER, beta=0.0),
        lambda: losses.ctc(SEQUENCES, TEXTS, blank=5),
        lambda: losses.ctc(LOGITS, TEXTS),
    ):
        with pytest.raises(RlxError) as error:
            wrong()
        assert error.value.fix


def test_half_size_losses_are_rounded_once():
    x = LOGITS.astype(np.float16)
    found = losses.cross_entropy(x, LABELS, label_smoothing=0.1)
    wanted = losses.cross_entropy(x.astype(np.float32), LABELS, label_smoothing=0.1)
    assert found == np.asarray(wanted).astype(np.float16)
