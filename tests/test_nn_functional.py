"""`rlx.nn.functional` and `rlx.nn.initializers` against `jax.nn`: signatures, values, slopes."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.nn.functional as ours
from rlx.ir.errors import RlxError
from rlx.nn import initializers

RANDOM = np.random.default_rng(0)
X = np.concatenate(
    [RANDOM.normal(size=20) * 3, [0.0, -0.0, 1.0, -1.0, 6.0, -3.0, 3.0, 30.0, -30.0]]
)
X = X.astype("float32")
ROWS = RANDOM.normal(size=(3, 6)).astype("float32")
WHERE = RANDOM.random((3, 6)) < 0.6
ONE_NUMBER = (
    "relu relu6 gelu silu swish celu elu selu hard_sigmoid hard_silu hard_swish hard_tanh "
    "leaky_relu log_sigmoid mish sigmoid soft_sign softplus sparse_plus sparse_sigmoid squareplus "
    "tanh identity"
).split()


def names(module: Any) -> list[str]:
    return [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))]


def parameters(function: Any) -> list[Any]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.default, p.kind) for p in parameters if p.name != "out_sharding"]


def test_signatures_are_those_of_jax() -> None:
    for name in names(jax.nn):
        assert parameters(getattr(ours, name)) == parameters(getattr(jax.nn, name)), name
        assert getattr(rlx.nn, name) is getattr(ours, name)
    for name in names(jax.nn.initializers):
        if name != "Initializer":
            mine, other = getattr(initializers, name), getattr(jax.nn.initializers, name)
            assert parameters(mine) == parameters(other), name


def close(got: Any, wanted: Any, tolerance: float = 2e-6) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(
        got.astype("float64"), wanted.astype("float64"), rtol=tolerance, atol=tolerance
    )


def test_activations_and_slopes_are_those_of_jax() -> None:
    def every(module: Any, grad: Any) -> Any:
        def one(name: str, x: Any) -> Any:
            fn = getattr(module, name)
            return fn(x), grad(lambda x: fn(x).sum())(x)

        return lambda x: {name: one(name, x) for name in ONE_NUMBER}

    wanted = jax.jit(every(jax.nn, jax.grad))(X)
    for got in (every(ours, rlx.grad)(X), rlx.jit(every(ours, rlx.grad))(X)):
        for name in ONE_NUMBER:
            close(got[name][0], wanted[name][0], 1e-5)
            # where two pieces meet, a slope of either is one
            away = ~np.isin(X, [0.0, 1.0, -1.0, 3.0, -3.0, 6.0])
            close(np.asarray(got[name][1])[away], np.asarray(wanted[name][1])[away], 1e-5)


def test_functions_along_axes_are_those_of_jax() -> None:
    calls = (
        lambda m: m.softmax(ROWS, where=WHERE),
        lambda m: m.softmax(ROWS, axis=(0, 1), where=WHERE),
        lambda m: m.log_softmax(ROWS, axis=0, where=WHERE),
        lambda m: m.logsumexp(ROWS, axis=1, b=np.abs(ROWS), where=WHERE),
        lambda m: m.logsumexp(ROWS, return_sign=True, b=-np.abs(ROWS))[0],
        lambda m: m.logmeanexp(ROWS, axis=1, where=WHERE, keepdims=True),
        lambda m: m.standardize(ROWS, axis=0, epsilon=1e-3),
        lambda m: m.standardize(ROWS, where=WHERE),
        lambda m: m.standardize(ROWS, mean=0.5, variance=2.0, algorithm="stable"),
        lambda m: m.glu(ROWS, axis=1),
        lambda m: m.gelu(ROWS, approximate=False),
        lambda m: m.squareplus(ROWS, b=2.0),
        lambda m: m.log1mexp(np.abs(ROWS)),
        lambda m: m.one_hot(np.array([1, 0, 5, -1]), 3, dtype="bfloat16", axis=0),
        lambda m: m.one_hot(np.array([1, 0]), 3),
        lambda m: m.celu(ROWS, alpha=0.5),
        lambda m: m.elu(ROWS, 2.0),
        lambda m: m.leaky_relu(ROWS, 0.3),
    )
    wanted = jax.jit(lambda: [call(jax.nn) for call in calls])()
    for call, other in zip(calls, wanted, strict=True):
        close(call(ours), other, 5e-6)


# -- attention ------------------------------------------------------------------------------------

Q, K, V = (RANDOM.normal(size=(2, n, h, 8)).astype("float32") for n, h in ((5, 4), (6, 2), (6, 2)))
BIAS = RANDOM.normal(size=(2, 4, 5, 6)).astype("float32")
MASK = RANDOM.random((1, 4, 5, 6)) < 0.7
LENGTHS = np.array([3, 5], "int32")
ATTENTION = (
    {},
    {"bias": BIAS, "scale": 0.7, "is_causal": True, "local_window_size": 2},
    {"bias": BIAS[:1, :1], "mask": MASK, "local_window_size": (1, 2), "implementation": "xla"},
    {"mask": MASK[:, :1], "query_seq_lengths": LENGTHS, "key_value_seq_lengths": LENGTHS - 1},
)


def test_attention_is_that_of_jax() -> None:
    def every(module: Any, grad: Any) -> Any:
        def one(settings: dict[str, Any], *xs: Any) -> Any:
            def total(q: Any, k: Any, v: Any) -> Any:
                made, rest = module.dot_product_attention(q, k, v, return_residual=True, **settings)
                return (made * np.arange(8.0)).sum(), (made, rest)

            return grad(total, (0, 1, 2), has_aux=True)(*xs)

        return lambda *xs: [one(settings, *xs) for settings in ATTENTION]

    wanted = jax.jit(every(jax.nn, jax.grad))(Q, K, V)
    got = rlx.jit(every(ours, rlx.grad))(Q, K, V)
    for settings, mine, other in zip(ATTENTION, got, wanted, strict=True):
        for one, two in zip([*mine[0], *mine[1]], [*other[0], *other[1]], strict=True):
            close(one, two, 2e-5)
        close(ours.dot_product_attention(Q, K, V, **settings), other[1][0], 2e-5)


@pytest.mark.parametrize("size", [(23, 23, 4, 4), (40, 17, 4, 2)])
def test_attention_in_blocks_is_attention(size: tuple, monkeypatch: pytest.MonkeyPatch):
    """The keys that no query of a block sees are left out; every number stays as it is."""
    (length, count, heads, groups), random = size, np.random.default_rng(0)
    q, k, v = (
        random.normal(size=(2, n, h, 8)) for n, h in ((length, heads), *[(count, groups)] * 2)
    )
    lengths = np.array([count - 5, count], "int32")
    attention = importlib.import_module("rlx.nn.attention")
    for settings in (
        {},
        {"is_causal": True},
        {"local_window_size": (5, 0)},
        {"local_window_size": (2, 4), "is_causal": True},
        {"local_window_size": (-2, 4)},
        {"mask": random.random((2, 1, length, count)) < 0.7, "is_causal": True},
        {"bias": random.normal(size=(1, heads, length, count)), "local_window_size": 3},
        {"key_value_seq_lengths": lengths, "is_causal": True},
    ):
        made = []
        for large in (1 << 60, 1):
            monkeypatch.setattr(attention, "LARGE", large)
            monkeypatch.setattr(attention, "BLOCK", 5)
            made.append(ours.dot_product_attention(q, k, v, return_residual=True, **settings))
        for whole, parts in zip(*made, strict=True):
            close(parts, whole, 1e-12)


def test_attention_without_a_batch_and_of_half_size() -> None:
    whole = ours.dot_product_attention(Q, K, V)
    close(ours.dot_product_attention(Q[0], K[0], V[0]), whole[0], 2e-5)
    close(rlx.vmap(ours.dot_product_attention)(Q, K, V), whole, 2e-5)
    for dtype in ("float16", "bfloat16"):
        q, k, v = (np.asarray(jnp.asarray(x, dtype)) for x in (Q, K, V))
        exact = ours.dot_product_attention(*(x.astype("float32") for x in (q, k, v)))
        got = np.asarray(ours.dot_product_attention(q, k, v))
        assert got.dtype == dtype
        # computed in float32 and rounded once
        epsilon = float(rlx.numpy.finfo(dtype).eps)
        np.testing.assert_allclose(
            got.astype("float32"), np.asarray(exact), rtol=0.51 * epsilon, atol=1e-6
        )


def test_what_attention_refuses() -> None:
    for call in (
        lambda: ours.dot_product_attention(Q, K[:, :, :, :4], V),
        lambda: ours.dot_product_attention(Q[:, :, :3], K, V),
        lambda: ours.dot_product_attention(Q, K, V, bias=BIAS[:, :, :3]),
        lambda: ours.dot_product_attention(Q, K, V, mask=BIAS),
        lambda: ours.dot_product_attention(Q, K, V, query_seq_lengths=LENGTHS[:1]),
        lambda: ours.dot_product_attention(Q, K, V, implementation="magic"),
        lambda: ours.scaled_matmul(ROWS, ROWS, ROWS, ROWS),
        lambda: ours.get_scaled_dot_general_config("int3"),
        lambda: ours.standardize(ROWS, algorithm="slow"),
        lambda: initializers.orthogonal()(rlx.random.key(0), (3,)),
        lambda: initializers.delta_orthogonal()(rlx.random.key(0), (3, 3)),
        lambda: initializers.delta_orthogonal()(rlx.random.key(0), (3, 4, 3)),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix


# -- scaled products ------------------------------------------------------------------------------


def test_scaled_products() -> None:
    eight = jnp.float8_e4m3fn
    a, b = (np.asarray(jnp.asarray(RANDOM.normal(size=(2, n, 64)), eight)) for n in (3, 5))
    s, t = (np.exp2(RANDOM.integers(-3, 3, (2, n, 2))).astype("float32") for n in (3, 5))
    wide = [x.astype("float32") * np.repeat(y, 32, -1) for x, y in ((a, s), (b, t))]
    wanted = np.einsum("bmk,bnk->bmn", *wide)
    close(ours.scaled_matmul(a, b, s, t), wanted, 1e-5)
    assert ours.scaled_matmul(a, b, s, t, "bfloat16").dtype == "bfloat16"


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_products_of_rounded_blocks(mode: str) -> None:
    x, y = (RANDOM.normal(size=(2, n, 64)).astype("float32") for n in (3, 5))
    config = ours.get_scaled_dot_general_config(mode)
    numbers = (((2,), (2,)), ((0,), (0,)))

    def product(x: Any, y: Any) -> Any:
        return ours.scaled_dot_general(x, y, numbers, configs=[config] * 3)

    exact = np.einsum("bmk,bnk->bmn", x, y)
    error = np.abs(np.asarray(product(x, y)) - exact) / np.linalg.norm(x, axis=-1)[:, :, None]
    step = {"mxfp8": 2**-3, "nvfp4": 2**-1}[mode]
    assert error.max() < step * np.linalg.norm(y, axis=-1).max() / 4
    few = rlx.grad(lambda y: product(x, y).sum())(y)[:, 0]  # the rounded x, summed over its rows
    assert 0 < np.abs(few - x.sum(1)).max() < 3 * step * np.abs(x).max()
    blocks = product(np.eye(64, dtype="float32")[None], y[:1, :1])[0, :, 0]
    scaled = np.asarray(blocks).reshape(-1, config.block_size)
    # rounded numbers are rounded to themselves
    again = product(np.eye(64, dtype="float32")[None], np.asarray(blocks)[None, None])[0, :, 0]
    np.testing.assert_allclose(np.asarray(again).reshape(scaled.shape), scaled, rtol=1e-6)
    close(ours.scaled_dot_general(x, y, numbers), exact, 1e-5)


# -- initial values -------------------------------------------------------------------------------

SHAPE = (3, 4, 5)
INITIALIZERS = (
    lambda m: m.orthogonal(),
    lambda m: m.orthogonal(2.0, 0),
    lambda m: m.delta_orthogonal(0.5),
    lambda m: m.truncated_normal(0.3, lower=-1.0, upper=0.5),
    lambda m: m.variance_scaling(2.0, "fan_geo_avg", "normal"),
    lambda m: m.variance_scaling(2.0, "fan_avg", "truncated_normal", 0, 1, 2),
    lambda m: m.variance_scaling(2.0, "fan_in", "uniform", (0, 1), 2),
    lambda m: m.constant(3, "int32"),
)


def test_initial_values_are_those_of_jax() -> None:
    def every(module: Any, key: Any) -> Any:
        initial = module.initializers
        complex_ones = [
            initial.variance_scaling(1.5, "fan_in", distribution)(key, SHAPE, "complex64")
            for distribution in ("truncated_normal", "uniform")
        ]
        return [*(make(initial)(key, SHAPE) for make in INITIALIZERS), *complex_ones]

    wanted = jax.jit(lambda: every(jax.nn, jax.random.key(3)))()
    for got, other in zip(every(rlx.nn, rlx.random.key(3)), wanted, strict=True):
        assert got.dtype == other.dtype
        np.testing.assert_allclose(got, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_initial_values_of_8_bits_are_rounded_ones(dtype: str) -> None:
    key, make = rlx.random.key(3), initializers
    for initial in (
        *(make.normal(), make.uniform(), make.truncated_normal(), make.lecun_normal()),
        *(make.he_uniform(), make.orthogonal(), make.delta_orthogonal()),
    ):
        wanted = np.asarray(initial(key, SHAPE)).astype(dtype)
        got = np.asarray(initial(key, SHAPE, dtype))
        np.testing.assert_array_equal(got.astype("float32"), wanted.astype("float32"))
