"""Optimizers against PyTorch and optax where steps need more than gradients; halves, and state."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.ir.errors import RlxError

RATE = 0.1
RANDOM = np.random.default_rng(0)
KEY = rlx.random.key(0)


def noise(steps: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(steps, *shape))


def walk(optimizer: Any, start: np.ndarray, grads: np.ndarray, **more: Any) -> np.ndarray:
    """The parameters after each step with these gradients."""

    def step(carry: Any, grad: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(grad, state, params, **more)
        params = optim.apply_updates(params, updates)
        return (params, state), params

    run = rlx.jit(lambda p, grads: rlx.scan(step, (p, optimizer.init(p)), grads)[1])
    return np.asarray(run(start, grads))


@pytest.mark.parametrize("kind", ["Rprop", "RMSprop", "SGD", "AdamW"])
def test_trajectories_are_those_of_torch(kind: str):
    """Rprop of optax 0.2 makes each step one call later; the paper and PyTorch do not."""
    torch = pytest.importorskip("torch")
    options, mine = {
        "Rprop": ({"lr": RATE}, optim.rprop(RATE)),
        "RMSprop": (
            {"lr": RATE, "alpha": 0.9, "centered": True, "momentum": 0.5},
            optim.chain(
                optim.scale_by_stddev(0.9, eps_in_sqrt=False),
                optim.add_momentum(0.5),
                optim.scale(-RATE),
            ),
        ),
        "SGD": ({"lr": RATE, "momentum": 0.9, "nesterov": True}, optim.sgd(RATE, 0.9, True)),
        "AdamW": ({"lr": RATE, "weight_decay": 0.2}, optim.adamw(RATE, weight_decay=0.2)),
    }[kind]
    start, grads = RANDOM.normal(size=(4, 3)), noise(60, 4, 3)
    theirs = torch.tensor(start, requires_grad=True)
    optimizer = getattr(torch.optim, kind)([theirs], **options)
    wanted = []
    for grad in grads:
        theirs.grad = torch.tensor(grad)
        optimizer.step()
        wanted.append(theirs.detach().numpy().copy())
    np.testing.assert_allclose(walk(mine, start, grads), wanted, 1e-9, 1e-11)


def test_a_rate_by_a_function_of_the_step_is_one_by_a_number():
    start, grads = RANDOM.normal(size=(4, 3)).astype("float32"), noise(20, 4, 3).astype("float32")
    for make in (optim.fromage, lambda rate: optim.adan(0.1, weight_decay=rate), optim.sm3):
        by_number, by_function = (walk(make(r), start, grads) for r in (0.25, lambda n: 0.25))
        np.testing.assert_allclose(by_function, by_number, 1e-5, 1e-6)


def bowl(x: Any) -> Any:
    return (x**2 * np.array([1.0, 4.0, 0.5])).sum()


def descend(library: Any, make: Any, transforms: Any, scan: Any, **given: Any) -> Any:
    """The way down the bowl of an optimizer that needs the value or the gradient function."""
    optimizer = make(library)
    known = {"value": bowl, "grad_fn": lambda x: transforms.grad(lambda p, i: bowl(p))}

    def step(carry: Any, _: Any) -> Any:
        params, state = carry
        more = {name: known[name](params) for name in given["more"]}
        updates, state = optimizer.update(transforms.grad(bowl)(params), state, params, **more)
        params = library.apply_updates(params, updates)
        return (params, state), params

    start = np.array([1.0, -2.0, 3.0])
    run = transforms.jit(lambda p: scan(step, (p, optimizer.init(p)), None, 30)[1])
    return run(start)


@pytest.mark.parametrize(
    ("more", "make"),
    [
        (["value"], lambda o: o.polyak_sgd(0.2, f_min=-0.1)),
        (["value"], lambda o: o.polyak_sgd(0.9, 0.5, 0.3, 1e-3, "sps+")),
        (
            ["grad_fn"],
            lambda o: getattr(o, "contrib", o).sam(
                o.adam(0.05),
                o.chain(getattr(o, "contrib", o).normalize(), o.sgd(0.1)),
                3,
                opaque_mode=True,
            ),
        ),
    ],
    ids=["polyak", "polyak_plus", "sam"],
)
def test_optimizers_that_need_more_go_the_way_of_optax(more: list[str], make: Any):
    optax = pytest.importorskip("optax")
    found = descend(optim, make, rlx, rlx.scan, more=more)
    with jax.enable_x64(True):
        wanted = descend(optax, make, jax, jax.lax.scan, more=more)
    np.testing.assert_allclose(found, wanted, 1e-7, 1e-9)


def test_two_visible_steps_of_sam_are_an_opaque_one():
    climb = optim.chain(optim.normalize(), optim.sgd(0.1))
    visible = optim.sam(optim.sgd(0.05, 0.9), climb)
    opaque = optim.sam(optim.sgd(0.05, 0.9), climb, opaque_mode=True)
    grad = rlx.grad(bowl)
    x = y = rnp.array([1.0, -2.0, 3.0])
    one, other = visible.init(x), opaque.init(y)
    for _ in range(5):
        for _ in range(2):
            updates, one = visible.update(grad(x), one, x)
            x = optim.apply_updates(x, updates)
        more = {"grad_fn": lambda p, i: grad(p)}
        updates, other = opaque.update(grad(y), other, y, **more)
        y = optim.apply_updates(y, updates)
        np.testing.assert_allclose(x, y, 1e-5, 1e-6)


def test_parameters_for_use_of_schedule_free_are_those_of_optax():
    optax = pytest.importorskip("optax")

    def trained(o: Any, transforms: Any) -> Any:
        make = getattr(o, "contrib", o)
        optimizer = make.schedule_free(o.sgd(0.3), 0.3, 0.8)
        params = transforms.numpy.array([1.0, -2.0, 3.0])
        state = optimizer.init(params)
        for _ in range(12):
            updates, state = optimizer.update(transforms.grad(bowl)(params), state, params)
            params = o.apply_updates(params, updates)
        return make.schedule_free_eval_params(state, params)

    np.testing.assert_allclose(trained(optim, rlx), trained(optax, jax), 2e-4, 1e-5)


OPTIMIZERS = {
    "adabelief": optim.adabelief(RATE),
    "adan": optim.adan(RATE),
    "ademamix": optim.ademamix(RATE),
    "amsgrad": optim.amsgrad(RATE),
    "clipped": optim.chain(optim.adaptive_grad_clip(0.1), optim.sgd(RATE)),
    "cocob": optim.cocob(alpha=1.0),
    "dadapt_adamw": optim.dadapt_adamw(estim_lr0=RATE),
    "fromage": optim.fromage(RATE),
    "mechanize": optim.mechanize(optim.adam(1.0), s_init=RATE),
    "momentum": optim.sgd(RATE, 0.9),
    "noisy_sgd": optim.noisy_sgd(RATE, key=KEY),
    "optimistic": optim.optimistic_gradient_descent(RATE),
    "rmsprop": optim.rmsprop(RATE, centered=True),
    "rprop": optim.rprop(RATE),
    "sam": optim.sam(optim.sgd(RATE), optim.chain(optim.normalize(), optim.sgd(RATE)), 1),
    "schedule_free": optim.schedule_free(optim.sgd(RATE), RATE),
    "signum": optim.signum(RATE),
    "sm3": optim.sm3(RATE),
    "yogi": optim.yogi(RATE),
}


class Normed(nn.Module):
    """A weight, and a mean that is not trained."""

    weight: Any
    mean: Any = nn.field(state=True)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_halves_and_state_of_modules_stay(name: str):
    optimizer = OPTIMIZERS[name]
    model = Normed([rnp.ones((3, 2), "bfloat16"), rnp.array(2.0, "float16")], rnp.ones(3))
    grads = rlx.tree.map(lambda x: x * 0.5, model).replace(mean=rnp.zeros(3))
    state = optimizer.init(model)
    updates, after = optimizer.update(grads, state, model)
    changed = optim.apply_updates(model, updates)
    assert [x.type for x in rlx.tree.leaves(after)] == [x.type for x in rlx.tree.leaves(state)]
    for before, now, given in zip(*map(rlx.tree.leaves, (model, changed, updates)), strict=True):
        assert before.dtype == now.dtype == given.dtype
        assert np.isfinite(np.asarray(now, "float32")).all()
    np.testing.assert_array_equal(changed.mean, np.ones(3))
    assert (changed.weight[0] != 1.0).all() and changed.weight[1] != 2.0


def test_momentum_of_halves_is_summed_in_float32():
    optimizer, w = optim.sgd(1.0, 0.999), rnp.zeros(1, "bfloat16")
    state = optimizer.init(w)
    for _ in range(300):
        updates, state = optimizer.update(rnp.ones(1, "bfloat16"), state)
    np.testing.assert_allclose(-np.asarray(updates, "float32"), (1 - 0.999**300) / 0.001, 2**-8)


WRONG = {
    "optim.noisy_sgd(0.1, key=3)": "key",
    "optim.chain(SGD, None)": "one of the optimizers is None, not an optimizer",
    'optim.sam(SGD, SGD, "two")': "sync_period",
    "optim.sam(SGD, SGD).update(P, optim.sam(SGD, SGD).init(P))": "sam needs the parameters",
    "OPAQUE.update(P, OPAQUE.init(P), P)": "needs the function that gives gradients",
    "optim.polyak_sgd().update(P, optim.polyak_sgd().init(P), P)": "needs the value",
    'optim.polyak_sgd(variant="slow")': "there is no variant 'slow'",
    "optim.schedule_free(SGD, 0.1, b1=0.0)": "b1 is 0.0, not above 0",
    "optim.reduce_on_plateau(1.5)": "factor is 1.5",
    "optim.reduce_on_plateau(0.5, 0)": "patience is 0",
    "optim.reduce_on_plateau().update(P, optim.reduce_on_plateau().init(P), P)": "needs the value",
    "optim.mechanize(SGD).update(P, optim.mechanize(SGD).init(P))": "needs the parameters",
    "optim.mechanize(SGD, num_betas=0)": "num_betas is 0",
    "optim.ademamix(0.1, b3='x')": "b3",
    "optim.adopt(0.1, clip_value_fn=3)": "clip_value_fn is 3, not a function",
    "optim.schedule_free_eval_params((), P)": "the state is",
    'optim.rmsprop(0.1, centered="x")': "centered",
    "optim.adamw(0.1, 0.9, 0.99, 1e-8, 0.0, 0.1)": "positional",
    "optim.sm3(0.1).update(P, optim.yogi(0.1).init(P))": "the optimizer has a Sm3State",
}


@pytest.mark.parametrize("expression", WRONG)
def test_mistakes_are_named(expression: str):
    sgd = optim.sgd(RATE)
    known = {"optim": optim, "SGD": sgd, "P": rnp.ones(2)}
    known["OPAQUE"] = optim.sam(sgd, sgd, opaque_mode=True)
    is_python = WRONG[expression] == "positional"
    with pytest.raises(TypeError if is_python else RlxError, match=WRONG[expression]) as caught:
        eval(expression, known)
    assert is_python or getattr(caught.value, "fix", "")


def test_injected_numbers_change_without_a_compile():
    optimizer = optim.inject_hyperparams(optim.adamw)(learning_rate=0.5, b1=0.0)
    params = rnp.array([4.0, -2.0])
    state = optimizer.init(params)
    assert set(state.hyperparams) == {
        "learning_rate",
        "b1",
        "b2",
        "eps",
        "eps_root",
        "weight_decay",
    }
    step = rlx.jit(optimizer.update)
    _, state = step(params, state, params)
    faster = state._replace(hyperparams={**state.hyperparams, "learning_rate": 1.0})
    twice, _ = step(params, faster._replace(count=state.count), params)
    same, _ = step(params, state, params)
    np.testing.assert_allclose(twice, 2 * same, rtol=1e-6)
    assert step.cache_size() <= 2  # a Python number is one more kind, once
    with pytest.raises(rlx.errors.ArgumentError, match="adamw has no argument 'rate'"):
        optim.inject_hyperparams(optim.adamw, static_args="rate")


@pytest.mark.parametrize(
    "name",
    "adam rmsprop lion lamb radam nadam adafactor adabelief novograd yogi amsgrad adan".split(),
)
def test_numbers_of_optimizers_may_be_injected(name):
    params = {"w": rnp.array([[4.0, -2.0]]), "b": rnp.array([1.0])}
    plain = getattr(optim, name)(0.5)
    injected = optim.inject_hyperparams(getattr(optim, name))(0.5)
    state, wanted = injected.init(params), plain.init(params)
    for _ in range(2):
        updates, state = injected.update(params, state, params)
        expected, wanted = plain.update(params, wanted, params)
    for x, y in zip(rlx.tree.leaves(updates), rlx.tree.leaves(expected), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-7)
