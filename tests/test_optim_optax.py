"""Optimizers and schedules against optax: 100 steps in float64, and every schedule's values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import optim
from rlx.optim import schedules

optax = pytest.importorskip("optax")
STEPS = 100
RATE = 0.02


def pairs(o: Any, is_ours: bool) -> dict[str, Any]:
    """Optimizers of one of the libraries; names that differ are written for both."""
    contrib = o if is_ours else o.contrib
    muon, key = contrib.muon, rlx.random.key(0) if is_ours else jax.random.key(0)
    falling = schedules.linear(RATE, 0.0, STEPS) if is_ours else o.linear_schedule(RATE, 0.0, STEPS)
    return {
        **wrapped(o, contrib, is_ours),
        **contributed(o, contrib),
        "sgd": o.sgd(RATE, 0.9, nesterov=True),
        "rmsprop": o.rmsprop(RATE, momentum=0.5),
        "adam": o.adam(falling, eps_root=1e-9),
        "adamw": o.adamw(RATE, weight_decay=0.1, mask={"w": True, "v": True, "b": False}),
        "adagrad": o.adagrad(RATE),
        "adadelta": o.adadelta(1.0, weight_decay=0.01),
        "adafactor": o.adafactor(RATE),
        "adafactor_of_rows": o.adafactor(RATE, min_dim_size_to_factor=3, weight_decay_rate=0.01),
        "adamax": o.adamax(RATE),
        "nadam": o.nadam(RATE),
        "radam": o.radam(RATE),
        "radam_nesterov": o.radam(RATE, b2=0.9, nesterov=True),
        "lamb": o.lamb(RATE, weight_decay=0.1),
        "lars": o.lars(RATE, 0.1, trust_coefficient=0.1, nesterov=True),
        "lion": o.lion(RATE),
        "novograd": o.novograd(RATE, weight_decay=0.1),
        "adabelief": o.adabelief(RATE),
        "adabelief_nesterov": o.adabelief(falling, eps=1e-8, nesterov=True),
        "adamaxw": o.adamaxw(RATE, weight_decay=falling),
        "adan": o.adan(RATE, weight_decay=0.1),
        "amsgrad": o.amsgrad(RATE),
        "fromage": o.fromage(RATE),
        "nadamw": o.nadamw(RATE, weight_decay=0.1),
        "noisy_sgd": o.noisy_sgd(RATE, key=key),
        "optimistic": o.optimistic_gradient_descent(RATE, 0.9, 0.7),
        "plain_sgd": o.sgd(falling),
        "rmsprop_centered": o.rmsprop(RATE, 0.8, 1e-6, 0.1, False, True, 0.5, True),
        "rmsprop_of_torch": o.rmsprop(RATE, initial_scale=0.2, eps_in_sqrt=False),
        "sign_sgd": o.sign_sgd(RATE),
        "signum": o.signum(RATE),
        "sm3": o.sm3(RATE),
        "yogi": o.yogi(RATE),
        "prodigy": contrib.prodigy(1.0, estim_lr0=1e-3),
        "prodigy_guarded": contrib.prodigy(
            falling, (0.8, 0.99), 0.9, weight_decay=0.1, safeguard_warmup=True, estim_lr0=1e-2
        ),
        "injected_adamw": o.inject_hyperparams(o.adamw)(falling, b1=0.8, weight_decay=0.1),
        "injected_sgd": o.inject_hyperparams(o.sgd)(RATE, momentum=0.7),
        "muon": muon(RATE, weight_decay=0.1),
        "muon_of_size": muon(RATE, nesterov=False, consistent_rms=0.2, adam_learning_rate=0.1),
    }


def wrapped(o: Any, contrib: Any, is_ours: bool) -> dict[str, Any]:
    """Optimizers made of optimizers."""
    decay = o.add_decay if is_ours else o.add_decayed_weights

    def by_rank(tree: Any) -> Any:
        return {key: "matrix" if x.ndim == 2 else "rest" for key, x in tree.items()}

    accumulated = (
        o.multi_steps(o.adam(RATE), 3)
        if is_ours
        else o.MultiSteps(o.adam(RATE), 3, accumulator_dtype=jnp.float64)
    )
    climb = o.chain(contrib.normalize(), o.sgd(0.05, 0.5))
    rising = schedules.linear(0.0, RATE, 9) if is_ours else o.linear_schedule(0.0, RATE, 9)
    return {
        "ema": o.chain(o.ema(0.9), o.sgd(RATE)),
        "sam": contrib.sam(o.adam(RATE), climb),
        "sam_of_three": contrib.sam(o.sgd(RATE, 0.9), climb, 3, reset_state=False),
        "schedule_free": contrib.schedule_free(o.sgd(RATE), RATE),
        "schedule_free_rising": contrib.schedule_free(o.adamw(rising, 0.0), rising, 0.95, 1.0),
        "zeros": o.partition({"matrix": o.set_to_zero(), "rest": o.sgd(RATE)}, by_rank),
        "multi_steps": accumulated,
        "masked": o.chain(o.sgd(RATE), o.masked(decay(0.01), {"w": True, "v": False, "b": True})),
        "partition": o.partition({"matrix": o.lion(RATE), "rest": o.adam(RATE)}, by_rank),
        "lookahead": o.lookahead(o.adam(RATE), 5, 0.5),
        "lookahead_reset": o.lookahead(o.adam(RATE), 5, 0.5, reset_state=True),
    }


def contributed(o: Any, contrib: Any) -> dict[str, Any]:
    """Optimizers that optax has in `contrib`, under the same names."""
    more = {"cooldown": 2, "accumulation_size": 2, "min_scale": 0.1}
    plateau = contrib.reduce_on_plateau(0.5, 3, rtol=1e-2, **more)
    return {
        "ademamix": contrib.ademamix(RATE, b3=0.99, weight_decay=0.1),
        "ademamix_rising": contrib.ademamix(
            RATE, b3=lambda t: 0.5 + t / 256, alpha=lambda t: t / 32, eps_root=1e-9
        ),
        "adopt": contrib.adopt(RATE),
        "adopt_ahead": contrib.adopt(RATE, 0.8, 0.99, nesterov=True, use_clipping=False),
        "clipped_by_parameters": o.chain(o.adaptive_grad_clip(0.1), o.sgd(RATE, 0.9)),
        "cocob": contrib.cocob(weight_decay=0.01),
        "dadapt_adamw": contrib.dadapt_adamw(1.0, estim_lr0=1e-3, weight_decay=0.1),
        "mechanize": contrib.mechanize(o.adam(1.0), s_init=1e-3),
        "plateau": o.chain(o.sgd(RATE), plateau),
        "schedule_free_adamw": contrib.schedule_free_adamw(RATE, 9, weight_decay=0.1),
        "schedule_free_sgd": contrib.schedule_free_sgd(RATE, 9, weight_decay=0.1),
    }


def numbers() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The parameters, and a disturbance of their gradients for each step."""
    random = np.random.default_rng(0)
    params = {"w": random.normal(size=(4, 3)), "v": random.normal(size=(2, 3)), "b": np.ones(5)}
    return params, {key: random.normal(size=(STEPS, *x.shape)) for key, x in params.items()}


def trajectory(library: Any, transform: Any, optimizer: Any, name: str, scan: Any) -> Any:
    """The parameters after each step; gradients are those of a parabola, disturbed."""
    params, noise = numbers()
    pair: Any = (
        library.LookaheadParams.init_synced(params) if name.startswith("lookahead") else params
    )

    def step(carry: Any, noise: Any) -> Any:
        params, state = carry
        fast = params.fast if name.startswith("lookahead") else params
        grads = {key: 0.3 * fast[key] + noise[key] for key in noise}
        more = {"value": abs(fast["w"]).sum()} if name == "plateau" else {}
        updates, state = optimizer.update(grads, state, params, **more)
        params = library.apply_updates(params, updates)
        return (params, state), params

    return transform(lambda p, noise: scan(step, (p, optimizer.init(p)), noise)[1])(pair, noise)


OURS, THEIRS = pairs(optim, True), pairs(optax, False)


@pytest.mark.parametrize("name", OURS)
def test_trajectories_are_those_of_optax(name: str):
    found = trajectory(optim, rlx.jit, OURS[name], name, rlx.scan)
    with jax.enable_x64(True):
        wanted = trajectory(optax, jax.jit, THEIRS[name], name, jax.lax.scan)
    for x, y in zip(rlx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.dtype == "float64"
        # optax has the decay of Adafactor in float32, which shows where a parameter crosses zero
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "yogi", "novograd", "lamb", "lbfgs", "clip"])
def test_complex_parameters_go_the_way_of_optax(name: str):
    """Squares are those of sizes, |g|², so that a step keeps the direction of a gradient."""
    random = np.random.default_rng(0)
    drawn = random.normal(size=(6, 3)) + 1j * random.normal(size=(6, 3))

    def walked(library: Any, p: Any, grads: Any) -> Any:
        more = {"linesearch": None} if name == "lbfgs" else {}
        chained = library.chain(library.clip_by_global_norm(1.0), library.sgd(RATE))
        optimizer = chained if name == "clip" else getattr(library, name)(RATE, **more)
        state, update = optimizer.init(p), (jax if library is optax else rlx).jit(optimizer.update)
        for g in grads:
            updates, state = update(g, state, p)
            p = library.apply_updates(p, updates)
        return np.asarray(p)

    with jax.enable_x64(True):
        wanted = walked(optax, jnp.asarray(drawn[0]), map(jnp.asarray, drawn[1:]))
    np.testing.assert_allclose(
        walked(optim, rnp.array(drawn[0]), map(rnp.array, drawn[1:])), wanted
    )


@pytest.mark.parametrize("name", OURS)
def test_eager_steps_are_those_of_jit(name: str):
    """Five steps; the first state is then given away, and the types of a state stay."""
    params, noise = numbers()
    optimizer, pair = OURS[name], rlx.tree.map(rnp.asarray, params)
    pair = optim.LookaheadParams.init_synced(pair) if name.startswith("lookahead") else pair

    def step(params: Any, state: Any, grads: Any) -> Any:
        more = {"value": 1.0} if name == "plateau" else {}
        updates, state = optimizer.update(grads, state, params, **more)
        return optim.apply_updates(params, updates), state

    donating = rlx.jit(step, donate_argnums=(0, 1))
    eager: Any = (pair, optimizer.init(pair))
    fast: Any = rlx.tree.map(lambda x: rnp.array(x, copy=True), pair), optimizer.init(pair)
    types = [x.type for x in rlx.tree.leaves(eager)]
    for i in range(5):
        grads = {key: rnp.asarray(n[i]) for key, n in noise.items()}
        eager, fast = step(eager[0], eager[1], grads), donating(fast[0], fast[1], grads)
        assert [x.type for x in rlx.tree.leaves(eager)] == types
    for x, y in zip(rlx.tree.leaves(eager), rlx.tree.leaves(fast), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def valley(params: Any) -> Any:
    """A convex one, in which rounding does not grow from step to step, and steep at first."""
    x, y = params["x"], params["y"]
    return (30 * (y - x) ** 2 + (1 - x) ** 4 + 0.1 * y**2).sum()


def descent(library: Any, transform: Any, optimizer: Any, scan: Any) -> Any:
    """The parameters after each step down the valley."""
    read = library.value_and_grad_from_state(valley)

    def step(carry: Any, _: Any) -> Any:
        params, state = carry
        value, grads = read(params, state=state)
        more = {"value": value, "grad": grads, "value_fn": valley}
        updates, state = optimizer.update(grads, state, params, **more)
        params = library.apply_updates(params, updates)
        return (params, state), params

    def run(params: Any) -> Any:
        return scan(step, (params, optimizer.init(params)), None, STEPS)[1]

    return transform(run)({"x": np.array([-1.2, 0.5, 2.0]), "y": np.array([1.0, -0.7, 1.5])})


@pytest.mark.parametrize(
    "make",
    [
        lambda o: o.lbfgs(),
        lambda o: o.lbfgs(None, 3, False, o.scale_by_zoom_linesearch(7, 0.9, 0.01, 3.0)),
    ],
    ids=["default", "short"],
)
def test_lbfgs_goes_the_way_of_optax(make: Any):
    found = descent(optim, rlx.jit, make(optim), rlx.scan)
    with jax.enable_x64(True):
        wanted = descent(optax, jax.jit, make(optax), jax.lax.scan)
    for x, y in zip(rlx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.dtype == "float64"
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)
    slope = rlx.grad(valley)({key: x[-1] for key, x in found.items()})
    assert optim.global_norm(slope) < 1e-2


SCHEDULES = {
    "polynomial": (
        schedules.polynomial(1.0, 0.1, 3, 20, begin=5),
        optax.polynomial_schedule(1.0, 0.1, 3, 20, 5),
    ),
    "linear": (schedules.linear(1.0, 0.1, 20), optax.linear_schedule(1.0, 0.1, 20)),
    "cosine": (schedules.cosine(2.0, 20, end=0.2), optax.cosine_decay_schedule(2.0, 20, 0.1)),
    "exponential": (
        schedules.exponential(1.0, 0.5, 10, end=0.1),
        optax.exponential_decay(1.0, 10, 0.5, end_value=0.1),
    ),
    "piecewise": (
        schedules.piecewise(1.0, {10: 0.5, 20: 0.1}),
        optax.piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.1}),
    ),
    "warmup_cosine": (
        schedules.warmup_cosine(1.0, 10, 30, end=0.1),
        optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 30, 0.1),
    ),
    "warmup_exponential": (
        schedules.warmup_exponential(1.0, 10, 0.5, 7, start=0.1, staircase=True, end=0.2),
        optax.warmup_exponential_decay_schedule(
            0.1, 1.0, 10, 7, 0.5, staircase=True, end_value=0.2
        ),
    ),
    "linear_onecycle": (
        schedules.linear_onecycle(30, 2.0),
        optax.linear_onecycle_schedule(30, 2.0),
    ),
    "cosine_onecycle": (
        schedules.cosine_onecycle(30, 2.0),
        optax.cosine_onecycle_schedule(30, 2.0),
    ),
    "join_schedules": (
        schedules.join_schedules(
            [schedules.constant(0.3), schedules.linear(1.0, 0.0, 9), schedules.constant(0.1)],
            [8, 25],
        ),
        optax.join_schedules(
            [
                optax.constant_schedule(0.3),
                optax.linear_schedule(1.0, 0.0, 9),
                optax.constant_schedule(0.1),
            ],
            [8, 25],
        ),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_have_the_values_of_optax(name: str):
    ours, theirs = SCHEDULES[name]
    steps = np.arange(40, dtype=np.int32)
    found = rlx.jit(rlx.vmap(ours))(steps)
    np.testing.assert_allclose(found, jax.vmap(theirs)(steps), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose([float(ours(int(n))) for n in (0, 8, 30)], found[[0, 8, 30]], 1e-5)
