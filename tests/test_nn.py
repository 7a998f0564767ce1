"""Modules, layers, losses and initial values, compared with `jax.nn` and with formulas."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.nn
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import (
    ArgumentError,
    AttributeValueError,
    DtypeError,
    ImmutableError,
    ShapeError,
    StaticArgumentError,
)
from rlx.nn import initializers, losses

KEY = rlx.random.key(0)
NUMBERS = np.array([-40.0, -3.0, -0.5, 0.0, 0.5, 3.0, 40.0], np.float32)
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32) * 4
LABELS = np.array([2, 0, 3], np.int32)


def assert_close(ours: Any, theirs: Any, tolerance: float = 2e-6) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


# -- modules --------------------------------------------------------------------------------------


class Scaled(nn.Module):
    inner: nn.Linear
    tables: dict[str, Any]
    factor: float = nn.field(static=True, default=2.0)

    def __call__(self, x: Any) -> Any:
        return self.inner(x) * self.factor


def scaled() -> Scaled:
    return Scaled(nn.Linear(4, 2, key=KEY), {"b": rnp.ones(3), "a": rnp.zeros(2)})


def test_a_module_is_a_tree_of_its_fields():
    leaves, structure = rlx.tree.flatten(scaled())
    assert [x.shape for x in leaves] == [(4, 2), (2,), (2,), (3,)]
    again = rlx.tree.unflatten(structure, leaves)
    assert isinstance(again, Scaled)
    assert again.factor == 2.0
    assert again.inner.weight is leaves[0]


def test_static_fields_belong_to_the_structure():
    first, second = scaled(), scaled().replace(factor=3.0)
    assert rlx.tree.structure(first) == rlx.tree.structure(scaled())
    assert rlx.tree.structure(first) != rlx.tree.structure(second)


def test_paths_name_the_fields():
    paths = rlx.tree.map_with_path(lambda path, x: rlx.tree.keystr(path), scaled())
    assert paths.inner.weight == ".inner.weight"
    assert paths.tables == {"a": ".tables['a']", "b": ".tables['b']"}


def test_modules_cannot_be_changed():
    module = scaled()
    with pytest.raises(ImmutableError, match=r"Scaled.factor cannot be changed"):
        module.factor = 3.0
    with pytest.raises(ImmutableError):
        del module.factor
    assert module.replace(factor=3.0).factor == 3.0
    with pytest.raises(ArgumentError, match="has no field 'size'"):
        module.replace(size=3)


def test_mistakes_in_modules_are_found_when_one_is_made():
    class Forgetful(nn.Module):
        weight: Any

        def __init__(self) -> None:
            pass

    class Functional(nn.Module):
        function: Callable[[Any], Any]

    class Listed(nn.Module):
        sizes: Any = nn.field(static=True)

    with pytest.raises(ArgumentError, match=r"Forgetful.weight was not set"):
        Forgetful()
    with pytest.raises(DtypeError, match=r"Functional.function holds"):
        Functional(nn.relu)
    with pytest.raises(StaticArgumentError, match="list cannot be hashed"):
        Listed([1, 2])
    with pytest.raises(StaticArgumentError, match="is static but holds an array"):
        Listed(rnp.ones(2))


def test_modules_print_types_not_numbers():
    assert repr(scaled().inner) == "Linear(weight=f32[4, 2], bias=f32[2])"
    assert repr(scaled()) == inspect.cleandoc(
        """
        Scaled(
          inner=Linear(weight=f32[4, 2], bias=f32[2]),
          tables={'b': f32[3], 'a': f32[2]},
          factor=2.0,
        )
        """
    )


def test_modules_can_be_copied_and_pickled():
    model = nn.MLP([4, 3, 2], key=KEY)
    for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_close(again(ROWS), model(ROWS))


def test_a_module_inherits_fields():
    class Twice(Scaled):
        times: int = nn.field(static=True, default=2)

    module = Twice(nn.Linear(4, 2, key=KEY), {})
    assert (module.factor, module.times) == (2.0, 2)
    assert len(rlx.tree.leaves(module)) == 2


def test_a_module_inherits_how_it_is_made():
    class Base(nn.Module):
        weight: rlx.Array

        def __init__(self, size: int) -> None:
            self.weight = rnp.ones(size)

    class Times(Base):
        factor: float = 2.0
        names: dict = nn.field(default_factory=dict)

        def __call__(self, x: Any) -> Any:
            return self.factor * self.weight * x

    class Lost(Base):
        bias: rlx.Array

    assert str(inspect.signature(Times)).startswith("(size: ")
    assert rlx.jit(Times(3))(rnp.arange(3.0)).tolist() == [0, 2, 4] and Times(2).names == {}
    with pytest.raises(ArgumentError, match=r"Lost\.bias was not set"):
        Lost(3)
    with pytest.raises(ArgumentError, match="Times takes no argument 'weight'"):
        Times(weight=rnp.ones(3))


def test_gradients_have_the_shape_of_the_module():
    model = nn.MLP([4, 8, 4], key=KEY)

    def loss(model: nn.MLP) -> Any:
        return losses.cross_entropy(model(ROWS), LABELS)

    value, grads = rlx.value_and_grad(loss)(model)
    assert isinstance(grads, nn.MLP)
    quick_value, quick = rlx.jit(rlx.value_and_grad(loss))(model)
    assert_close(value, quick_value)
    rlx.tree.map(assert_close, grads, quick)

    def reference(weights: Any) -> Any:
        (w, b), (v, c) = weights
        logits = jax.nn.relu(ROWS @ w + b) @ v + c
        return -jax.nn.log_softmax(logits)[np.arange(3), LABELS].mean()

    weights = [(np.asarray(x.weight), np.asarray(x.bias)) for x in model.layers]
    expected = jax.tree.leaves(jax.grad(reference)(weights))
    found = [x for layer in grads.layers for x in (layer.weight, layer.bias)]
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)


# -- layers ---------------------------------------------------------------------------------------


def test_linear():
    layer = nn.Linear(4, 2, key=KEY)
    assert_close(layer(ROWS), ROWS @ np.asarray(layer.weight))
    assert layer(ROWS[0]).shape == (2,)
    without = nn.Linear(4, 2, key=KEY, use_bias=False)
    assert without.bias is None
    assert len(rlx.tree.leaves(without)) == 1
    with pytest.raises(ShapeError, match="matmul"):
        layer(ROWS.T)


def test_embedding():
    layer = nn.Embedding(5, 3, key=KEY)
    assert_close(layer([[1, 4]]), np.asarray(layer.weight)[[[1, 4]]])


def test_norms():
    centered = ROWS - ROWS.mean(-1, keepdims=True)
    deviation = np.sqrt(ROWS.var(-1, keepdims=True) + 1e-5)
    assert_close(nn.LayerNorm(4)(ROWS), centered / deviation, 1e-5)
    root = np.sqrt((ROWS**2).mean(-1, keepdims=True) + 1e-6)
    assert_close(nn.RMSNorm(4)(ROWS), ROWS / root, 1e-5)


def test_dropout():
    x = rnp.ones((100, 100))
    layer = nn.Dropout(0.25)
    assert nn.inference(layer)(x) is nn.inference(layer)(x, key=KEY) is nn.Dropout(0.0)(x) is x
    assert nn.inference(nn.inference(layer), False).inference is False
    dropped = np.asarray(layer(x, key=KEY))
    assert set(np.unique(dropped).tolist()) == {0.0, np.float32(1 / 0.75).item()}
    assert abs(dropped.mean() - 1) < 0.02
    assert not np.array_equal(dropped, layer(x, key=rlx.random.key(1)))
    assert not np.asarray(nn.Dropout(1.0)(x, key=KEY)).any()
    with pytest.raises(ArgumentError, match="is no probability"):
        nn.Dropout(1.5)


class Halved(nn.Module):
    """A layer of a user, which knows no keys."""

    factor: Any

    def __call__(self, x: Any) -> Any:
        return x * self.factor


class Noisy(nn.Module):
    """A layer of a user that takes anything by keyword."""

    def __call__(self, x: Any, **more: Any) -> Any:
        return x + rlx.random.normal(more["key"], x.shape)


def test_layers_in_a_sequence_need_not_take_a_key():
    model = nn.Sequential([Halved(rnp.array(0.5)), lambda x: x + 1, nn.Sequential([nn.relu])])
    x = rnp.array([2.0, -4.0])
    for key in (None, KEY):
        np.testing.assert_array_equal(model(x, key=key), [2.0, 0.0])
    np.testing.assert_array_equal(nn.Sequential([nn.WeightNorm(Weighted(x))])(x, key=KEY), x * x)
    both = nn.Sequential([Halved(rnp.array(0.5)), nn.Dropout(0.5), Noisy()])
    y = rlx.jit(lambda model, x: model(x, key=KEY))(both, x)
    keys = [rlx.random.fold_in(KEY, i) for i in range(3)]
    np.testing.assert_allclose(y, Noisy()(nn.Dropout(0.5)(x * 0.5, key=keys[1]), key=keys[2]))
    with pytest.raises(ArgumentError, match="was given no key"):
        both(x)


class Weighted(nn.Module):
    weight: Any

    def __call__(self, x: Any) -> Any:
        return x * self.weight


def test_dropout_of_whole_axes():
    x = rnp.ones((6, 5, 4, 3))
    y = np.asarray(nn.Dropout(0.5, broadcast_dims=(1, -2))(x, key=KEY))
    assert (y == y[:, :1, :1]).all() and set(np.unique(y)) == {0.0, 2.0}


def test_sequential_gives_each_layer_its_key():
    layers = nn.Sequential([nn.Linear(4, 4, key=KEY), nn.tanh, nn.Dropout(0.5)])
    dropped = nn.Dropout(0.5)(nn.tanh(layers.layers[0](ROWS)), key=rlx.random.fold_in(KEY, 2))
    assert_close(layers(ROWS, key=KEY), dropped)
    assert_close(nn.inference(layers)(ROWS), nn.tanh(layers.layers[0](ROWS)))


def test_dropout_without_a_key_is_an_error():
    model = {"head": nn.Sequential([nn.tanh, nn.Dropout(0.5)])}
    with pytest.raises(ArgumentError) as error:
        model["head"](ROWS)
    what, _, *fix = str(error.value).splitlines()
    assert what == "Dropout(rate=0.5) is in training mode, and was given no key"
    assert "\n".join(fix) == (
        "  fix    pass key=..., a key of rlx.random, for training, or make the model\n"
        "         ready for use: model = nn.inference(model)"
    )
    assert_close(nn.inference(model)["head"](ROWS), np.tanh(ROWS))


def test_mlp():
    model = nn.MLP([4, 8, 2], key=KEY, activation=nn.gelu)
    hidden = nn.gelu(model.layers[0](ROWS))
    assert_close(model(ROWS), model.layers[1](hidden))
    with pytest.raises(ArgumentError, match="has no input and output size"):
        nn.MLP([4], key=KEY)


# -- functions ------------------------------------------------------------------------------------

ACTIVATIONS = [
    "relu", "relu6", "leaky_relu", "sigmoid", "softplus", "log_sigmoid", "silu", "gelu", "mish",
    "elu", "celu", "selu", "soft_sign", "hard_tanh", "hard_sigmoid", "hard_silu", "identity",
]  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str):
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    assert_close(ours(NUMBERS), theirs(NUMBERS), 1e-5)
    slopes = rlx.grad(lambda x: rnp.sum(ours(x)))(NUMBERS)
    away = np.isin(NUMBERS, [-3.0, 3.0, 0.0], invert=True)  # where some have a corner
    expected = jax.grad(lambda x: theirs(x).sum())(NUMBERS)
    assert_close(np.asarray(slopes)[away], np.asarray(expected)[away], 1e-5)


def test_exact_gelu():
    assert_close(nn.gelu(NUMBERS, approximate=False), jax.nn.gelu(NUMBERS, approximate=False), 1e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "standardize"])
@pytest.mark.parametrize("axis", [0, -1, (0, 1)])
def test_functions_along_axes(name: str, axis: Any):
    assert_close(getattr(nn, name)(ROWS, axis), getattr(jax.nn, name)(ROWS, axis), 1e-5)


def test_logsumexp_keeps_axes():
    assert nn.logsumexp(ROWS, keepdims=True).shape == (1, 1)
    assert nn.logsumexp(ROWS, axis=1, keepdims=True).shape == (3, 1)


def test_glu_and_one_hot():
    assert_close(nn.glu(ROWS), jax.nn.glu(ROWS))
    for axis in (-1, 0, 1):
        assert_close(nn.one_hot(LABELS, 4, axis=axis), jax.nn.one_hot(LABELS, 4, axis=axis))


# -- losses ---------------------------------------------------------------------------------------


def test_cross_entropy():
    expected = -np.asarray(jax.nn.log_softmax(ROWS))[np.arange(3), LABELS]
    assert_close(losses.cross_entropy(ROWS, LABELS, reduction="none"), expected, 1e-5)
    assert_close(losses.cross_entropy(ROWS, LABELS), expected.mean(), 1e-5)
    assert_close(losses.cross_entropy(ROWS, LABELS, reduction="sum"), expected.sum(), 1e-5)
    with pytest.raises(AttributeValueError, match="mean, sum, none"):
        losses.cross_entropy(ROWS, LABELS, reduction="max")


def test_binary_cross_entropy():
    targets = np.array([0, 1, 0, 1, 0.25, 1, 1], np.float32)
    chance = 1 / (1 + np.exp(-NUMBERS.astype(np.float64)))
    log, log_other = np.log(chance), -NUMBERS.astype(np.float64) + np.log(chance)
    expected = -(targets * log + (1 - targets) * log_other)
    found = losses.binary_cross_entropy(NUMBERS, targets, reduction="none")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_distances():
    a, b = ROWS, ROWS[::-1].copy()
    assert_close(losses.mean_squared_error(a, b), ((a - b) ** 2).mean(), 1e-5)
    assert_close(losses.mean_absolute_error(a, b), np.abs(a - b).mean(), 1e-5)
    size = np.abs(a - b)
    expected = np.where(size <= 2, size**2 / 2, 2 * (size - 1)).astype(np.float32)
    assert_close(losses.huber(a, b, delta=2.0, reduction="none"), expected, 1e-5)
    slopes = np.asarray(rlx.grad(lambda x: losses.huber(x, b, delta=2.0, reduction="sum"))(a))
    np.testing.assert_allclose(slopes, np.clip(a - b, -2, 2), rtol=1e-5)


# -- initial values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["glorot_uniform", "glorot_normal", "lecun_uniform", "lecun_normal", "he_uniform", "he_normal"],
)
def test_initializers_give_the_numbers_of_jax(name: str):
    ours = getattr(initializers, name)()(KEY, (3, 8, 16))
    theirs = getattr(jax.nn.initializers, name)()(jax.random.PRNGKey(0), (3, 8, 16))
    assert_close(ours, theirs, 1e-5)


def test_plain_initializers():
    theirs = jax.random.PRNGKey(0)
    assert_close(initializers.zeros(KEY, (2,)), np.zeros(2, np.float32))
    assert_close(initializers.ones(KEY, (2,)), np.ones(2, np.float32))
    assert_close(initializers.constant(3)(KEY, (2,)), np.full(2, 3, np.float32))
    for name in ("uniform", "normal", "truncated_normal"):
        ours = getattr(initializers, name)(0.5)(KEY, (30,))
        assert_close(ours, getattr(jax.nn.initializers, name)(0.5)(theirs, (30,)), 1e-5)


def test_initializers_explain():
    with pytest.raises(ShapeError, match="no axes of inputs and outputs"):
        initializers.he_normal()(KEY, (3,))
    with pytest.raises(AttributeValueError, match="the mode 'fan' does not exist"):
        initializers.variance_scaling(1.0, "fan", "normal")


class Gain(nn.Module):
    """A module with a compiled method."""

    w: rlx.Array

    def __init__(self, w):
        self.w = rlx.array(w)

    @rlx.jit
    def apply(self, x, *, offset=0.0):
        """Scale x."""
        return self.w * x + offset


def test_a_compiled_method_takes_its_module_as_a_pytree():
    one, two = Gain([1.0, 2.0]), Gain([3.0, 4.0])
    np.testing.assert_array_equal(one.apply(2.0), [2.0, 4.0])
    np.testing.assert_array_equal(two.apply(2.0, offset=1.0), [7.0, 9.0])
    slope = rlx.grad(lambda m: m.apply(2.0).sum())(one)
    np.testing.assert_array_equal(slope.w, [2.0, 2.0])


@pytest.mark.parametrize(
    ("ours", "theirs", "points"),
    [
        (rnp.cbrt, jnp.cbrt, [np.inf, -np.inf, 8.0]),
        (nn.relu6, jax.nn.relu6, [-1.0, 0.0, 3.0, 7.0]),
        (nn.hard_tanh, jax.nn.hard_tanh, [-2.0, -1.0, 0.5, 1.0, np.inf]),
        (nn.logsumexp, jax.nn.logsumexp, [np.inf, 1.0, 0.0]),
        (nn.logsumexp, jax.nn.logsumexp, [-np.inf, 1.0, 0.0]),
    ],
)
def test_derivatives_at_corners_and_infinities(ours, theirs, points):
    x = np.array(points, np.float32)
    found = rlx.grad(lambda x: ours(x).sum())(x)
    wanted = jax.grad(lambda x: theirs(x).sum())(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
