"""Where things run: each transform follows the rule of `jit`, and so do functions inside others."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.transforms.jit.jitted import Jitted

X = np.array([1.0, 2.0, 3.0], np.float32)


def total(x: Any) -> Any:
    return (x * x).sum()


@rlx.custom_vjp
def square(x: Any) -> Any:
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))


@rlx.custom_jvp
def cube(x: Any) -> Any:
    return x**3


cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))


def pulled(f: Any, x: Any) -> Any:
    value, back = rlx.vjp(f, x)
    return value, back(X)


def pushed(f: Any, x: Any) -> Any:
    value, push = rlx.linearize(f, x)
    return value, push(X)


def twice(x: Any) -> Any:
    return x * 2.0  # its linear map holds no arrays


def ones(x: Any) -> Any:
    return rnp.ones(3)


TRANSFORMS = {
    "jit": rlx.jit(twice),
    "an op": rnp.sin,
    "grad": rlx.grad(total),
    "value_and_grad": rlx.value_and_grad(total),
    "grad of grad": rlx.grad(lambda x: rlx.grad(total)(x).sum()),
    "grad of a constant": rlx.grad(lambda x: ones(x).sum()),
    "vjp": lambda x: pulled(square, x),
    "vjp, linear": lambda x: pulled(twice, x),
    "vjp of a constant": lambda x: pulled(ones, x),
    "jvp": lambda x: rlx.jvp(total, (x,), (X,)),
    "jvp of a constant": lambda x: rlx.jvp(lambda x: (x, ones(x)), (x,), (X,)),
    "linearize": lambda x: pushed(cube, x),
    "linearize, linear": lambda x: pushed(twice, x),
    "linear_transpose": lambda x: rlx.linear_transpose(twice, x)(x),
    "vmap": rlx.vmap(twice),
    "vmap of a constant": rlx.vmap(lambda x: 1.0, axis_size=3),
    "jacfwd": rlx.jacfwd(twice),
    "jacrev": rlx.jacrev(twice),
    "hessian": rlx.hessian(total),
    "hvp": lambda x: rlx.hvp(total, (x,), (X,)),
    "checkpoint": rlx.grad(rlx.checkpoint(total)),
    "custom_vjp": rlx.grad(lambda x: square(x).sum()),
    "custom_jvp": rlx.grad(lambda x: cube(x).sum()),
    "cond": lambda x: rlx.cond(x[0] > 0, twice, ones, x),
    "scan": lambda x: rlx.scan(lambda carry, row: (carry + row, carry), 0.0, x),
    "while_loop": lambda x: rlx.while_loop(lambda x: x[0] < 5, lambda x: x + 1, x),
    "custom_linear_solve": lambda x: rlx.lax.custom_linear_solve(twice, x, lambda _, b: b / 2),
    "places": lambda x: (rnp.nonzero(x), rnp.unique(x)),
}


def places(tree: Any) -> set[str]:
    return {leaf.device for leaf in rlx.tree.leaves(tree)}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_runs_where_jit_does(name: str, boxed: str):
    f = TRANSFORMS[name]
    assert places(f(rnp.array(X).to(boxed))) == {boxed}
    here = rnp.array(X)
    with rlx.device(boxed):
        assert places(f(X)) == places(f(here)) == {boxed}
    assert places(f(X)) == places(f(here)) == {"cpu"}


# -- a function for a device, inside of others ----------------------------------------------------


def inner_of(device: str) -> Any:
    def inner(x: Any) -> Any:
        return x * 2.0

    return rlx.jit(inner, device=device)


OUTER = {
    "jit": lambda f: rlx.jit(lambda x: f(x) + 1),
    "jit of the same device": lambda f: rlx.jit(lambda x: f(x) + 1, device="boxed"),
    "jit of any device": lambda f: rlx.jit(lambda x: f(x) + 1, device="auto"),
    "lower": lambda f: lambda x: rlx.jit(lambda x: f(x) + 1).lower(x).compile()(x),
    "grad": lambda f: rlx.grad(lambda x: f(x).sum()),
    "jit of grad": lambda f: rlx.jit(rlx.grad(lambda x: f(x).sum())),
    "vjp": lambda f: lambda x: pulled(f, x),
    "jvp": lambda f: lambda x: rlx.jvp(f, (x,), (x,)),
    "vmap": rlx.vmap,
    "jit of vmap": lambda f: rlx.jit(rlx.vmap(f)),
    "hessian": lambda f: rlx.hessian(lambda x: total(f(x))),
    "scan": lambda f: lambda x: rlx.scan(lambda carry, row: (carry, f(row)), 0.0, x)[1],
    "cond": lambda f: rlx.grad(lambda x: rlx.cond(x[0] > 0, f, ones, x).sum()),
    "checkpoint": rlx.checkpoint,
    "itself": lambda f: f,
}


@pytest.mark.parametrize("name", OUTER)
def test_a_function_takes_others_to_its_device(name: str, boxed: str):
    f = OUTER[name](inner_of(boxed))
    for _ in range(2):
        assert places(f(X)) == {boxed}
    with rlx.disable_jit():
        assert places(f(X)) == {boxed}


def test_a_function_for_another_device_is_an_error(boxed: str):
    inner, here = inner_of(boxed), inner_of("cpu")
    there = rnp.array(X).to(boxed)

    def outer(x: Any) -> Any:
        return inner(x) + 1

    def both(x: Any) -> Any:
        return inner(x) + here(x)

    def host(x: Any) -> Any:
        return here(x) + 1

    wrong: list[Any] = [
        (lambda: rlx.jit(outer, device="cpu")(X), "outer is compiled for 'cpu', but inner"),
        (
            lambda: rlx.Session("cpu").compile(outer, X),
            "outer is compiled for 'cpu', but inner",
        ),
        (lambda: rlx.jit(both)(X), "both: inner runs on 'boxed', inner on 'cpu'"),
        (lambda: rlx.vmap(both)(X), "both: inner runs on 'boxed', inner on 'cpu'"),
        (lambda: rlx.jit(host)(there), "host: inner runs on 'cpu', but an array lies on 'boxed'"),
        (lambda: rlx.grad(lambda x: host(x).sum())(there), "inner runs on 'cpu', but an array"),
    ]
    for call, text in wrong:
        with pytest.raises(rlx.DeviceMismatchError) as caught:
            call()
        assert text in str(caught.value) and "test_placement.py" in str(caught.value)
        assert "leave the device out of inner" in str(caught.value) or "both" in text
    assert places(rlx.jit(outer)(there)) == {boxed}
    # what any device may run becomes a part of the other function
    free = rlx.jit(lambda x: x + 1, device="auto")
    assert places(rlx.jit(lambda x: free(x), device="reference")(X)) == {"cpu"}


def test_the_fastest_device_is_called_as_if_it_were_named(
    boxed: str, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Any] = []

    def best(self: Jitted, traced: Any, call: Any) -> str:
        asked.append(call.leaves)
        return boxed if call.leaves[0].shape == (3,) else "cpu"

    monkeypatch.setattr(Jitted, "_best", best)
    f = rlx.jit(twice, device="auto")
    there, more = rnp.array(X).to(boxed), np.ones(4, np.float32)
    for _ in range(2):
        assert f(X).device == f(there).device == boxed
        assert f(more).device == "cpu"
    assert len(asked) == 2
    monkeypatch.setattr(Jitted, "_call", None)  # what looks at the arguments
    for x, place in ((X, boxed), (more, "cpu"), (rnp.array(X), boxed), (more, "cpu")):
        assert f(x).device == place


def test_a_recorded_function_runs_where_it_brings_an_array(boxed: str):
    ways: list[Any] = [
        lambda x: x.to(boxed),
        lambda x: x.to_device(boxed),
        lambda x: rlx.device_put({"x": x}, boxed)["x"],
        lambda x: rnp.asarray(x, device=boxed),
    ]
    for bring in ways:
        assert rlx.jit(lambda x, bring=bring: bring(x) + 1)(X).device == boxed
        assert rlx.grad(lambda x, bring=bring: total(bring(x)))(X).device == boxed
        with pytest.raises(rlx.DeviceMismatchError, match=r"but x\.to"):
            rlx.jit(lambda x, bring=bring: bring(x) + 1, device="cpu")(X)
    assert rlx.jit(lambda x: x.to(None).to("cpu") + 1)(rnp.array(X).to(boxed)).device == boxed


def test_training_on_a_device_copies_nothing_to_the_host(
    boxed: str, monkeypatch: pytest.MonkeyPatch
):
    x, y = (rnp.ones((5, n), device=boxed) for n in (4, 2))
    model = rlx.device_put(rlx.nn.Linear(4, 2, key=rlx.random.key(0)), boxed)
    optimizer = rlx.optim.adam(0.01)

    def loss(model: Any) -> Any:
        return ((model(x) - y) ** 2).mean()

    def step(model: Any, state: Any) -> Any:
        value, slopes = rlx.value_and_grad(loss)(model)
        updates, state = optimizer.update(slopes, state, model)
        return value, rlx.optim.apply_updates(model, updates), state

    state = optimizer.init(model)
    assert places((model, state)) == {boxed}
    copied: list[Any] = []
    copy = sys.modules["boxed_backend"].BoxMemory.to_host
    monkeypatch.setattr(
        sys.modules["boxed_backend"].BoxMemory,
        "to_host",
        lambda self, data: [copied.append(data), copy(self, data)][1],
    )
    values = []
    for train in (step, rlx.jit(step), rlx.jit(step)):
        value, model, state = train(model, state)
        assert places((model, state)) == {boxed}
        values.append(value)
    assert not copied
    assert values[0].item() > values[1].item() > values[2].item() and len(copied) == 3
