"""State that is not trained: gradients, optimizers and transforms see it as what it is."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.ir.errors import ArgumentError, LeakedTracerError, RlxError, StructureError

KEY = rlx.random.key(0)
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32) * 2 + 1


class Counted(nn.Module):
    """A layer with a weight, a running sum, and a count of calls."""

    weight: rlx.Array
    total: rlx.Array = nn.field(state=True)
    count: rlx.Array = nn.field(state=True)

    def __call__(self, x: Any) -> Any:
        now = nn.latest(self)
        nn.update_state(self, total=now.total + rnp.sum(x), count=now.count + 1)
        return x * self.weight + now.total


class Nested(nn.Module):
    """A layer whose state is a tree."""

    found: dict[str, rlx.Array] = nn.field(state=True)


def counted() -> Counted:
    return Counted(rnp.array([1.0, 2.0, 3.0]), rnp.array(0.5), rnp.array(0))


def network() -> nn.Sequential:
    first, last = rlx.random.split(KEY)
    return nn.Sequential(
        [nn.Linear(3, 4, key=first), nn.BatchNorm(4), nn.relu, nn.Linear(4, 2, key=last)]
    )


def loss(model: Any, x: Any) -> Any:
    y, model = nn.with_state(model)(x)
    return rnp.mean(rnp.square(y - 1.0)), model


def assert_equal(tree: Any, other: Any) -> None:
    assert rlx.tree.structure(tree) == rlx.tree.structure(other)
    for x, y in zip(rlx.tree.leaves(tree), rlx.tree.leaves(other), strict=True):
        np.testing.assert_allclose(x, y, 1e-5, 1e-6)


def assert_text(error: pytest.ExceptionInfo[RlxError], text: str) -> None:
    found = re.sub(r"(test_nn_state\.py):\d+", r"\1:N", str(error.value))
    assert found == inspect.cleandoc(text)


# -- gradients and optimizers ----------------------------------------------------------------------


def test_state_has_a_gradient_of_zeros():
    def total(layer, x):
        return rnp.sum(x * layer.weight * layer.total + layer.count)

    layer, x = counted(), rnp.ones(3)
    value, pull_back = rlx.vjp(total, layer, x)
    for slope in (
        rlx.grad(total)(layer, x),
        rlx.jit(rlx.grad(total))(layer, x),
        rlx.value_and_grad(total, (0, 1))(layer, x)[1][0],
        pull_back(1.0)[0],
    ):
        assert slope.weight.tolist() == [0.5, 0.5, 0.5]
        assert slope.total.item() == 0.0
        assert slope.count.item() == 0
        assert slope.count.dtype == np.int32
    assert value.item() == 3.0


def test_jacobians_and_hessians_of_state_are_zero():
    def total(layer):
        return layer.weight * layer.weight * layer.total

    floats = counted().replace(count=rnp.array(0.0))
    for jacobian in (rlx.jacrev(total)(counted()), rlx.jacfwd(total)(floats)):
        assert jacobian.weight.tolist() == np.diag([1.0, 2.0, 3.0]).tolist()
        assert not np.any(jacobian.total)
        assert not np.any(jacobian.count)
    hessian = rlx.hessian(lambda layer: rnp.sum(total(layer)))(floats)
    assert hessian.weight.weight.tolist() == np.eye(3).tolist()
    assert not np.any(hessian.weight.total)
    assert not np.any(hessian.total.weight)


def test_the_gradient_of_nothing_but_state_is_zero():
    lora = nn.LoRA(nn.Linear(3, 2, key=KEY), 1, key=KEY)
    slope = rlx.grad(lambda m: rnp.sum(m.layer(X)))(lora)
    assert not any(np.any(x) for x in rlx.tree.leaves(slope))
    tree = rlx.grad(lambda layer: layer["b"].mean.sum())({"b": nn.BatchNorm(3)})
    assert tree["b"].mean.tolist() == [0.0, 0.0, 0.0]


def test_integers_outside_of_state_still_have_no_gradient():
    with pytest.raises(rlx.GradientError, match="integers have no gradient"):
        rlx.grad(lambda m: rnp.sum(m["layer"].weight) * m["n"])({"layer": counted(), "n": 3})


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.adamw(0.1, weight_decay=0.5),
        optim.sgd(0.1, momentum=0.9),
        optim.rmsprop(lambda step: 0.1),
        optim.chain(optim.clip_by_global_norm(1.0), optim.add_decay(0.1), optim.scale(-0.1)),
        optim.chain(optim.Optimizer(lambda p: (), lambda g, s, p=None: (g, s)), optim.scale(-0.1)),
        optim.scaled(optim.adam(0.1), optim.StaticLossScale(2.0)),
    ],
)
def test_optimizers_pass_state_by(optimizer: optim.Optimizer):
    layer = counted()
    state = optimizer.init(layer)
    for _ in range(2):
        slope = layer.replace(total=rnp.array(0.0), count=rnp.array(0))
        updates, state = optimizer.update(slope, state, layer)
        assert rlx.tree.structure(updates) == rlx.tree.structure(layer)
        after = optim.apply_updates(layer, updates)
        assert after.total.item() == 0.5
        assert (after.count.item(), after.count.dtype) == (0, np.int32)
        assert not np.array_equal(after.weight, layer.weight)
    moments = [x for x in rlx.tree.leaves(state) if x.shape]
    assert all(x.shape == (3,) for x in moments)


def test_norms_and_masks_of_optimizers_leave_state_out():
    layer = counted()
    squared = optim.global_norm(layer.replace(total=rnp.array(99.0))) ** 2
    assert squared.item() == pytest.approx(14.0)
    mask = rlx.tree.map(lambda x: True, layer)
    for given in (mask, lambda params: rlx.tree.map(lambda x: True, params)):
        decay = optim.add_decay(1.0, given)
        updates, _ = decay.update(layer, (), layer)
        assert updates.weight.tolist() == [2.0, 4.0, 6.0]


# -- updates ---------------------------------------------------------------------------------------


def test_a_layer_used_twice_finds_its_own_update():
    class Twice(nn.Module):
        layer: Counted
        same: Counted

        def __call__(self, x):
            return self.same(self.layer(x))

    one = counted()
    _, model = nn.with_state(Twice(one, one))(rnp.zeros(3))
    assert (model.layer.count.item(), model.same.count.item()) == (2, 2)
    assert model.layer.total.item() == 2.0
    assert one.count.item() == 0


def test_state_of_a_layer_and_of_layers_within_it():
    class Outer(nn.Module):
        inner: dict
        calls: rlx.Array = nn.field(state=True)

        def __call__(self, x):
            nn.update_state(self, calls=self.calls + 1)
            return self.inner["a"](x)

    model = Outer({"a": counted(), "b": counted()}, rnp.array(0))
    _, model = nn.with_state(model)(rnp.ones(3))
    found = [model.calls, model.inner["a"].count, model.inner["b"].count]
    assert [x.item() for x in found] == [1, 1, 0]


def test_with_state_of_methods_trees_and_nested():
    def both(models, x):
        y, inner = nn.with_state(models["a"])(x)
        return models["b"](y), inner

    models = {"a": counted(), "b": counted()}
    with pytest.raises(ArgumentError) as error:
        nn.with_state(models, both)(rnp.ones(3))
    assert_text(
        error,
        """
        Counted has new state of a nn.with_state inside of this one, which would lose it
          where  test_nn_state.py:N in test_with_state_of_methods_trees_and_nested      nn.with_state(models, both)(rnp.ones(3))
          fix    hand it over: y, new = nn.with_state(layer)(x); nn.update_state(layer, new);
                 or call the layer itself: y = layer(x)
        """,  # noqa: E501
    )

    def handed_over(models, x):
        y, inner = both(models, x)
        nn.update_state(models["a"], inner)
        return models["a"](y), inner  # goes on where the inner one stopped

    (_, inner), after = nn.with_state(models, handed_over)(rnp.ones(3))
    assert inner.count.item() == 1
    assert [after["a"].count.item(), after["b"].count.item()] == [2, 1]
    assert after["a"].total.item() == 22.0


def test_state_is_handed_from_level_to_level():
    def one(model, x):
        y, new = nn.with_state(model)(x)
        nn.update_state(model, new)
        return y

    def two(model, x):
        y, new = nn.with_state(model, one)(x)
        nn.update_state(model, new)
        return y

    model = network()
    _, expected = nn.with_state(model)(X)
    for call in (one, two):
        _, after = nn.with_state(model, call)(X)
        assert_equal(after, expected)
    with pytest.raises(ArgumentError, match=r"BatchNorm has new state of a nn\.with_state inside"):
        nn.with_state(model, lambda model, x: nn.with_state(model, two)(x))(X)
    with pytest.raises(StructureError, match="the layer and the updated one differ"):
        nn.with_state(model, lambda m, x: nn.update_state(m, m.layers[1]))(X)
    with pytest.raises(StructureError, match="the updated one and the layer differ"):
        nn.update_state(X, model)
    with pytest.raises(ArgumentError, match="its new state would be lost"):
        nn.update_state(model.layers[1])


def test_training_compiles_once_and_donates():
    optimizer = optim.adam(0.05)

    @rlx.jit(donate_argnames=("model", "state"))
    def step(model, state, x):
        (value, model), slope = rlx.value_and_grad(loss, has_aux=True)(model, x)
        updates, state = optimizer.update(slope, state, model)
        return value, optim.apply_updates(model, updates), state

    model = network()
    state, values = optimizer.init(model), []
    for _ in range(20):
        value, model, state = step(model, state, X)
        values.append(value.item())
    assert step.cache_size() == 1
    assert values[-1] < values[0] / 2
    norm = model.layers[1]
    assert 0 < np.abs(norm.mean).max()
    ready = nn.inference(model)
    assert_equal(ready(X), rlx.jit(ready)(X))
    assert np.asarray(ready(X[:1])).shape == (1, 2)


def test_gradients_outside_of_jit_give_new_state_at_each_call():
    model, expected = network(), network().layers[1].mean
    for _ in range(4):
        hidden = model.layers[0](X)
        (_, model), _ = rlx.value_and_grad(loss, has_aux=True)(model, X)
        expected = 0.99 * expected + 0.01 * rnp.mean(hidden, 0)
        np.testing.assert_allclose(model.layers[1].mean, expected, 1e-5, 1e-6)


def test_scan_over_steps_carries_the_model():
    def step(model, x):
        _, model = loss(model, x)
        return model, model.layers[1].mean

    batches = np.stack([X, X + 1, X * 2])
    after, means = rlx.jit(rlx.scan, static_argnums=0)(step, network(), batches)
    expected = network()
    for x, mean in zip(batches, means, strict=True):
        _, expected = loss(expected, x)
        np.testing.assert_allclose(mean, expected.layers[1].mean, 1e-5, 1e-6)
    assert_equal(after, expected)


def test_scan_over_stacked_layers():
    stacked = rlx.tree.map(lambda *xs: rnp.stack(xs), *[counted() for _ in range(3)])

    def run(stacked, x):
        return rlx.scan(lambda x, layer: nn.with_state(layer)(x), x, stacked)

    y, after = rlx.jit(run)(stacked, rnp.ones(3))
    assert after.count.tolist() == [1, 1, 1]
    x, layers = rnp.ones(3), []
    for _ in range(3):
        x, layer = nn.with_state(counted())(x)
        layers.append(layer)
    assert_equal((y, after), (x, rlx.tree.map(lambda *xs: rnp.stack(xs), *layers)))

    class Stack(nn.Module):
        layers: Counted

        def __call__(self, x):
            x, layers = run(self.layers, x)
            nn.update_state(self.layers, layers)
            return x

    y, model = rlx.jit(lambda model, x: nn.with_state(model)(x))(Stack(stacked), rnp.ones(3))
    assert_equal((y, model.layers), (x, after))


def test_checkpoint_returns_the_model():
    def value(model, x):
        y, model = rlx.checkpoint(lambda m, x: nn.with_state(m)(x))(model, x)
        return rnp.mean(rnp.square(y - 1.0)), model

    plain = rlx.value_and_grad(loss, has_aux=True)(network(), X)
    assert_equal(rlx.value_and_grad(value, has_aux=True)(network(), X), plain)


def test_members_of_a_batch_share_statistics_by_axis_name():
    norm = nn.BatchNorm(3, axis_name="replica")
    halves = rnp.reshape(rnp.asarray(X), (2, 4, 3))
    y, after = rlx.vmap(lambda x: nn.with_state(norm)(x), axis_name="replica", out_axes=(0, None))(
        halves
    )
    whole, expected = nn.with_state(nn.BatchNorm(3))(X)
    np.testing.assert_allclose(np.asarray(y).reshape(8, 3), whole, 1e-5, 1e-5)
    np.testing.assert_allclose(after.mean, expected.mean, 1e-5)
    np.testing.assert_allclose(after.var, expected.var, 1e-5)


def test_a_model_of_each_member():
    norms = rlx.tree.map(lambda *xs: rnp.stack(xs), nn.BatchNorm(3), nn.BatchNorm(3))
    batches = np.stack([X, X * 3 + 1])
    _, after = rlx.vmap(lambda norm, x: nn.with_state(norm)(x))(norms, batches)
    for i in range(2):
        _, expected = nn.with_state(nn.BatchNorm(3))(batches[i])
        np.testing.assert_allclose(after.mean[i], expected.mean, 1e-5)
        np.testing.assert_allclose(after.var[i], expected.var, 1e-5)


def test_export_of_a_model_in_use(tmp_path):
    _, model = nn.with_state(network())(X)
    model = nn.inference(model)
    path = tmp_path / "model.rlx"
    rlx.export(model, rlx.spec(("n", 3))).save(path)
    np.testing.assert_allclose(rlx.load_exported(path)(X), model(X), 1e-5, 1e-6)


def test_threads_collect_for_themselves():
    from concurrent.futures import ThreadPoolExecutor

    def total(n: float) -> float:
        _, layer = nn.with_state(counted(), lambda m, x: [m(x) for _ in range(20)])(rnp.full(3, n))
        return layer.total.item()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(total, range(8))) == [0.5 + 60 * n for n in range(8)]


# -- errors ----------------------------------------------------------------------------------------


def test_new_state_is_not_lost():
    with pytest.raises(ArgumentError) as error:
        nn.BatchNorm(3)(X)
    assert_text(
        error,
        """
        BatchNorm is in training mode, and its new state would be lost
          where  test_nn_state.py:N in test_new_state_is_not_lost      nn.BatchNorm(3)(X)
          fix    call the model through nn.with_state, y, model = nn.with_state(model)(x), or make it
                 ready for use: model = nn.inference(model)
        """,  # noqa: E501
    )


def test_new_state_does_not_leak_out_of_a_body():
    norm = nn.BatchNorm(3)

    def run(norm, x):
        return rlx.scan(lambda x, _: (norm(x), None), x, length=2)

    with pytest.raises(LeakedTracerError) as error:
        nn.with_state(norm, run)(X)
    assert_text(
        error,
        """
        BatchNorm has new state in `<lambda>`, a function that is traced by itself
          where  test_nn_state.py:N in <lambda>      return rlx.scan(lambda x, _: (norm(x), None), x, length=2)
          fix    call nn.with_state inside of it, and return the updated layer from there (as scan does
                 with a carry) for nn.update_state(layer, updated), or use nn.inference(model)
        """,  # noqa: E501
    )


def test_a_layer_that_is_another():
    norm = nn.BatchNorm(3)

    def run(norm, x):
        return rlx.checkpoint(lambda norm, x: norm(x))(norm, x)

    with pytest.raises(ArgumentError) as error:
        nn.with_state(norm, run)(X)
    assert_text(
        error,
        """
        BatchNorm is in training mode, and is no part of the model that nn.with_state was given
          where  test_nn_state.py:N in <lambda>      return rlx.checkpoint(lambda norm, x: norm(x))(norm, x)
          fix    pass the model that holds it; or, if a function that scan, vmap, checkpoint or jit traces
                 was given the layer, call nn.with_state inside of it, and return the updated layer from there (as scan does
                 with a carry) for nn.update_state(layer, updated), or use nn.inference(model)
        """,  # noqa: E501
    )


def test_updates_that_cannot_be():
    layer = counted()

    def update(**values):
        return nn.with_state(layer, lambda m: nn.update_state(m, **values))()

    with pytest.raises(ArgumentError, match=r"Counted.weight is no state.*\n.*\n.*total, count"):
        update(weight=1.0)
    with pytest.raises(ArgumentError, match=r"Counted\.other is no state"):
        update(other=1.0)
    with pytest.raises(
        StructureError, match=r"Counted.count is i32\[\], and its new value f32\[\]"
    ):
        update(count=layer.count + 0.5)
    with pytest.raises(StructureError, match=r"Counted.total is f32\[\], .* f32\[3\]"):
        update(total=rnp.ones(3))
    with pytest.raises(StructureError, match="its state and the new value differ in structure"):
        nested = Nested({"a": rnp.ones(2)})
        nn.with_state((nested,), lambda m: nn.update_state(m[0], found={"b": rnp.ones(2)}))()


def test_fields_and_models_that_cannot_be():
    with pytest.raises(ArgumentError, match="static, or it is state, not both"):
        nn.field(static=True, state=True)
    with pytest.raises(ArgumentError, match="with_state: the model is 3, not a function"):
        nn.with_state(3)
    with pytest.raises(ArgumentError, match="with_state: call is 3, not a function"):
        nn.with_state(counted(), 3)
