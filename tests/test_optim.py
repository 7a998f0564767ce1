"""Optimizers against their formulas written in NumPy, schedules against their corners."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.ir.errors import ArgumentError
from rlx.optim import schedules

RATE = 0.1
STEPS = 5


def gradients() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.normal(size=3).astype(np.float32) for _ in range(STEPS)]


def run(optimizer: optim.Optimizer, *, jit: bool = False) -> np.ndarray:
    """The parameter after some steps with fixed gradients."""
    params = {"w": rnp.array([1.0, -2.0, 3.0])}
    state = optimizer.init(params)

    def step(params: Any, state: Any, grads: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    step = rlx.jit(step) if jit else step
    for gradient in gradients():
        params, state = step(params, state, {"w": rnp.array(gradient)})
    return np.asarray(params["w"])


def momentum_by_hand(nesterov: bool) -> np.ndarray:
    w, v = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    for g in gradients():
        v = g + 0.9 * v
        w = w - RATE * (g + 0.9 * v if nesterov else v)
    return w


def adam_by_hand(decay: float = 0.0) -> np.ndarray:
    w, m, s = np.array([1.0, -2.0, 3.0]), np.zeros(3), np.zeros(3)
    for t, g in enumerate(gradients(), 1):
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        ratio = (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
        w = w - RATE * (ratio + decay * w)
    return w


def rmsprop_by_hand() -> np.ndarray:
    w, s = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    for g in gradients():
        s = 0.9 * s + 0.1 * g * g
        w = w - RATE * g / np.sqrt(s + 1e-8)
    return w


BY_HAND: dict[str, tuple[optim.Optimizer, Callable[[], np.ndarray]]] = {
    "sgd": (optim.sgd(RATE), lambda: np.array([1.0, -2.0, 3.0]) - RATE * sum(gradients())),
    "momentum": (optim.sgd(RATE, 0.9), lambda: momentum_by_hand(False)),
    "nesterov": (optim.sgd(RATE, 0.9, nesterov=True), lambda: momentum_by_hand(True)),
    "adam": (optim.adam(RATE), adam_by_hand),
    "adamw": (optim.adamw(RATE, weight_decay=0.3), lambda: adam_by_hand(0.3)),
    "rmsprop": (optim.rmsprop(RATE), rmsprop_by_hand),
}


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", BY_HAND)
def test_optimizers(name: str, jit: bool):
    optimizer, by_hand = BY_HAND[name]
    np.testing.assert_allclose(run(optimizer, jit=jit), by_hand(), rtol=1e-5)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_schedule_can_stand_for_the_rate(name: str):
    def halved(rate: Any) -> optim.Optimizer:
        return {
            "sgd": lambda: optim.sgd(rate),
            "momentum": lambda: optim.sgd(rate, 0.9),
            "nesterov": lambda: optim.sgd(rate, 0.9, nesterov=True),
            "adam": lambda: optim.adam(rate),
            "adamw": lambda: optim.adamw(rate, weight_decay=0.3),
            "rmsprop": lambda: optim.rmsprop(rate),
        }[name]()

    same = run(halved(schedules.constant(RATE)))
    np.testing.assert_allclose(same, BY_HAND[name][1](), rtol=1e-5)


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_dtypes_stay(name: str, dtype: str):
    params = (rnp.ones(3, dtype), [rnp.zeros((2, 2), dtype)])
    optimizer = BY_HAND[name][0]
    state = optimizer.init(params)
    updates, after = optimizer.update(params, state, params)
    for x, y in zip(rlx.tree.leaves(state), rlx.tree.leaves(after), strict=True):
        assert x.type == y.type
    new = optim.apply_updates(params, updates)
    assert all(x.dtype == dtype for x in rlx.tree.leaves((updates, new)))


def test_the_minimum_is_found():
    def loss(params: Any) -> Any:
        return rnp.sum((params["a"] - 3.0) ** 2) + (params["b"] + 1.0) ** 2

    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1))
    params = {"a": rnp.zeros(2), "b": rnp.array(0.0)}
    state = optimizer.init(params)

    @rlx.jit
    def step(params: Any, state: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(rlx.grad(loss)(params), state, params)
        return optim.apply_updates(params, updates), state

    for _ in range(300):
        params, state = step(params, state)
    np.testing.assert_allclose(params["a"], [3.0, 3.0], atol=1e-2)
    np.testing.assert_allclose(params["b"], -1.0, atol=1e-2)


def test_decay_obeys_its_mask():
    params = {"bias": rnp.ones(2), "weight": rnp.ones(2)}
    grads = rlx.tree.map(rnp.zeros_like, params)
    mask = {"bias": False, "weight": True}
    for form in (mask, lambda params: mask):
        optimizer = optim.adamw(RATE, weight_decay=0.5, mask=form)
        updates, _ = optimizer.update(grads, optimizer.init(params), params)
        np.testing.assert_array_equal(updates["bias"], [0.0, 0.0])
        np.testing.assert_allclose(updates["weight"], [-0.05, -0.05], rtol=1e-6)
    with pytest.raises(ArgumentError, match="weight decay needs the parameters"):
        optimizer.update(grads, optimizer.init(params))


def test_clipping():
    grads = (rnp.array([3.0]), rnp.array([0.0, 4.0]))
    assert float(optim.global_norm(grads)) == 5.0

    def clipped(optimizer: optim.Optimizer, grads: Any) -> Any:
        return optimizer.update(grads, optimizer.init(grads))[0]

    short = clipped(optim.clip_by_global_norm(1.0), grads)
    assert float(optim.global_norm(short)) == pytest.approx(1.0)
    same = clipped(optim.clip_by_global_norm(10.0), grads)
    np.testing.assert_allclose(same[1], [0.0, 4.0], rtol=1e-6)
    nothing = clipped(optim.clip_by_global_norm(1.0), rlx.tree.map(rnp.zeros_like, grads))
    assert float(optim.global_norm(nothing)) == 0.0
    np.testing.assert_array_equal(clipped(optim.clip_by_value(0.5), grads)[1], [0.0, 0.5])


def test_the_norm_of_half_size_floats_does_not_overflow():
    assert float(optim.global_norm([rnp.full((4,), 30000.0, "float16")])) == 60000.0


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (schedules.constant(0.1), {0: 0.1, 9: 0.1}),
        (schedules.linear(1.0, 0.0, 10), {0: 1.0, 5: 0.5, 10: 0.0, 99: 0.0}),
        (schedules.exponential(1.0, 0.5, 10), {0: 1.0, 5: math.sqrt(0.5), 10: 0.5}),
        (schedules.exponential(1.0, 0.5, 10, staircase=True), {9: 1.0, 10: 0.5}),
        (schedules.exponential(1.0, 0.5, 1, end=0.2), {1: 0.5, 9: 0.2}),
        (schedules.cosine(1.0, 10, end=0.2), {0: 1.0, 5: 0.6, 10: 0.2, 99: 0.2}),
        (schedules.piecewise(1.0, {20: 0.5, 10: 0.1}), {9: 1.0, 10: 0.1, 20: 0.05}),
        (schedules.warmup(10, schedules.constant(1.0)), {0: 0.0, 5: 0.5, 10: 1.0, 50: 1.0}),
        (schedules.warmup_cosine(1.0, 10, 30), {0: 0.0, 5: 0.5, 10: 1.0, 20: 0.5, 30: 0.0}),
    ],
)
def test_schedules(schedule: optim.optimizer.Schedule, rates: dict[int, float]):
    for step, rate in rates.items():
        assert float(schedule(rnp.asarray(step))) == pytest.approx(rate, abs=1e-6)
    fast = rlx.jit(schedule)
    for step, rate in rates.items():
        assert float(fast(rnp.asarray(step))) == pytest.approx(rate, abs=1e-6)


def test_the_first_state_can_be_donated():
    optimizer = optim.adam(0.1)
    params = {"w": rnp.ones(3)}

    def step(params: dict, state: Any) -> tuple[dict, Any]:
        updates, state = optimizer.update(params, state, params)
        return optim.apply_updates(params, updates), state

    expected, _ = step(params, optimizer.init(params))
    donating = rlx.jit(step, donate_argnums=(0, 1))
    moved, state = donating({"w": rnp.ones(3)}, optimizer.init(params))
    np.testing.assert_allclose(moved["w"], expected["w"], rtol=1e-6)
    assert int(state[0].count) == 1


class Normed(nn.Module):
    """A weight, and a mean that is not trained."""

    weight: Any
    mean: Any = nn.field(state=True)


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.adagrad(RATE),
        optim.adafactor(RATE, weight_decay_rate=0.1),
        optim.lamb(RATE, weight_decay=0.1),
        optim.lars(RATE, 0.1),
        optim.lion(RATE),
        optim.novograd(RATE),
        optim.muon(RATE),
        optim.lbfgs(RATE, linesearch=None),
        optim.multi_steps(optim.adam(RATE), 1),
        optim.partition({"all": optim.adamw(RATE)}, lambda tree: "all"),
        optim.masked(optim.radam(RATE), lambda tree: rlx.tree.map(lambda x: True, tree)),
    ],
)
def test_state_of_modules_stays(optimizer: optim.Optimizer):
    model = Normed(rnp.ones(3), rnp.ones(3))
    grads = rlx.grad(lambda model: (model.weight * model.mean).sum())(model)
    updates, _ = optimizer.update(grads, optimizer.init(model), model)
    changed = optim.apply_updates(model, updates)
    np.testing.assert_array_equal(changed.mean, np.ones(3))
    assert (changed.weight != 1.0).all()


def test_members_of_an_ensemble_train_under_vmap():
    optimizer = optim.chain(optim.adafactor(RATE), optim.ema(0.5))

    def trained(w: Any) -> Any:
        state = optimizer.init(w)
        for _ in range(2):
            updates, state = optimizer.update(2 * w, state, w)
            w = optim.apply_updates(w, updates)
        return w

    many = rnp.array([[1.0, 2.0], [3.0, -4.0]])
    alone = np.stack([np.asarray(trained(w)) for w in many])
    np.testing.assert_allclose(rlx.vmap(trained)(many), alone, rtol=1e-5)


POLYAK = optim.polyak_sgd(1.0)
AROUND = {
    "masked": optim.masked(POLYAK, {"a": True, "b": False}),
    "partition": optim.partition({"p": POLYAK}, "p"),
    "multi_steps": optim.multi_steps(POLYAK, 1),
    "schedule_free": optim.schedule_free(POLYAK, 1.0),
    "scaled": optim.scaled(POLYAK, optim.StaticLossScale(1.0)),
}


@pytest.mark.parametrize("name", AROUND)
def test_what_an_inner_optimizer_needs_passes_through_the_outer(name: str):
    params = {"a": rnp.array([1.0, 2.0]), "b": rnp.array([3.0])}
    grads = {"a": rnp.array([0.5, -1.0]), "b": rnp.array([0.0])}
    optimizer = optim.chain(AROUND[name])
    updates, _ = optimizer.update(grads, optimizer.init(params), params, value=1.0)
    plain, _ = POLYAK.update(grads, POLYAK.init(params), params, value=1.0)
    ratio = np.asarray(updates["a"]) / np.asarray(plain["a"])
    np.testing.assert_allclose(ratio, ratio[0])
    assert ratio[0] > 0


def test_trees_of_one_leaf_none_or_numbers_are_trained_too():
    for params in (rnp.ones(2), {}, {"a": 1.0}, {"a": rnp.ones((0, 3))}):
        for make in (optim.muon, optim.lbfgs, optim.sm3, optim.signum, optim.adafactor):
            more = {"linesearch": None} if make is optim.lbfgs else {}
            optimizer = make(0.5, **more)
            updates, _ = optimizer.update(params, optimizer.init(params), params)
            trained = optim.apply_updates(params, updates)
            for x, y in zip(rlx.tree.leaves(trained), rlx.tree.leaves(params), strict=True):
                assert np.all(np.asarray(x) < np.asarray(y))


def test_mistakes_with_wrappers_are_named():
    params = {"a": rnp.ones(1), "b": rnp.ones(1)}
    with pytest.raises(ArgumentError, match="no optimizer has the label 'fsat'; there are 'fast'"):
        optim.partition({"fast": optim.sgd(RATE)}, {"a": "fast", "b": "fsat"}).init(params)
    with pytest.raises(rlx.errors.StructureError, match="differ in structure"):
        optim.masked(optim.sgd(RATE), {"a": True}).init(params)
    with pytest.raises(ArgumentError, match=r"pass LookaheadParams\.init_synced"):
        optim.lookahead(optim.sgd(RATE), 5, 0.5).init(params)
    with pytest.raises(rlx.errors.RlxError, match="every_k_schedule"):
        optim.multi_steps(optim.sgd(RATE), 0)
    with pytest.raises(ArgumentError, match="b1 is 'high', not a number"):
        optim.lion(RATE, b1="high")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="trust_ratio needs the parameters"):
        optim.scale_by_trust_ratio().update(params, ())
    with pytest.raises(ArgumentError, match="not 1 steps"):
        schedules.join_schedules([schedules.constant(1.0)] * 2, [1, 2])
    with pytest.raises(ArgumentError, match="needs the value, the gradient and the function"):
        optim.lbfgs().update(params, optim.lbfgs().init(params), params)
    with pytest.raises(ArgumentError, match="the state has no value"):
        optim.value_and_grad_from_state(lambda p: p["a"].sum())(params, state=())
    with pytest.raises(
        rlx.errors.ShapeError, match=r"an update is f32\[3\], its parameter f32\[1\]"
    ):
        optim.apply_updates(params, {"a": rnp.ones(3), "b": rnp.ones(1)})
    with pytest.raises(ArgumentError, match="not a matrix"):
        optim.scale_by_muon().update(params, optim.scale_by_muon().init(params))
    with pytest.raises(AttributeError, match=r"use optim\.multi_steps"):
        optim.MultiSteps  # type: ignore[attr-defined]  # noqa: B018


def test_a_line_search_leaves_state_alone_and_works_under_vmap():
    def loss(model: Normed) -> Any:
        return ((model.weight * model.mean - 6.0) ** 4).sum()

    optimizer = optim.lbfgs()

    @rlx.jit
    @rlx.vmap
    def fitted(start: Any) -> Normed:
        def step(_: Any, carry: Any) -> Any:
            model, state = carry
            value, grad = optim.value_and_grad_from_state(loss)(model, state=state)
            more = {"value": value, "grad": grad, "value_fn": loss}
            updates, state = optimizer.update(grad, state, model, **more)
            return optim.apply_updates(model, updates), state

        model = Normed(start, rnp.full(start.shape, 2.0))
        return rlx.fori_loop(0, 40, step, (model, optimizer.init(model)))[0]

    models = fitted(rnp.array([[0.0, 1.0], [9.0, -7.0]]))
    np.testing.assert_allclose(models.weight, np.full((2, 2), 3.0), atol=0.1)
    np.testing.assert_array_equal(models.mean, np.full((2, 2), 2.0))
