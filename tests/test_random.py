"""`rlx.random` gives the numbers of `jax.random` for the same key."""

from __future__ import annotations

from typing import Any

import jax.random
import numpy as np
import pytest

import rlx
import rlx.random as random
from rlx.ir.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from rlx.trace.make_graph import trace

SEED = 7
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
LOGITS = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
CHANCES = np.array([0.1, 0.2, 0.3, 0.4], np.float32)


def keys() -> tuple[Any, Any]:
    return random.key(SEED), jax.random.PRNGKey(SEED)


def assert_same(ours: Any, theirs: Any) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def assert_near(ours: Any, theirs: Any) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 42, 2**31, 2**32 - 1])
def test_keys(seed: int):
    assert_same(random.key(seed), jax.random.PRNGKey(np.uint32(seed)))
    assert_same(random.key(np.array(seed, np.uint32)), jax.random.PRNGKey(np.uint32(seed)))


def test_wide_seeds_keep_all_bits():
    assert random.key(5 * 2**32 + 3).tolist() == [5, 3]
    assert random.key(np.array(5 * 2**32 + 3)).tolist() == [5, 3]
    assert random.key(-1).tolist() == [0, 2**32 - 1]  # of an int32, as in JAX


@pytest.mark.parametrize("num", [1, 2, 5, (2, 3), ()])
def test_split(num: Any):
    ours, theirs = keys()
    assert_same(random.split(ours, num), jax.random.split(theirs, num))


@pytest.mark.parametrize("data", [0, 9, 2**32 - 1])
def test_fold_in(data: int):
    ours, theirs = keys()
    assert_same(random.fold_in(ours, data), jax.random.fold_in(theirs, np.uint32(data)))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_bits(dtype: str):
    ours, theirs = keys()
    assert_same(random.bits(ours, (3, 5), dtype), jax.random.bits(theirs, (3, 5), dtype))


def test_64_bits_are_the_words_of_the_generator():
    ours, theirs = keys()
    with jax.enable_x64(True):
        expected = np.asarray(jax.random.bits(theirs, (4,), "uint64"))
        assert_same(random.uniform(ours, (4,), "float64"), jax.random.uniform(theirs, (4,), float))
    assert_same(random.bits(ours, (4,), "uint64"), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5)])
def test_uniform(shape: tuple[int, ...], dtype: str):
    ours, theirs = keys()
    assert_same(random.uniform(ours, shape, dtype), jax.random.uniform(theirs, shape, dtype))


def test_uniform_between_bounds():
    ours, theirs = keys()
    low = np.array([-2.0, 0.0, 5.0], np.float32)
    assert_near(
        random.uniform(ours, (200, 3), minval=low, maxval=low + 4),
        jax.random.uniform(theirs, (200, 3), minval=low, maxval=low + 4),
    )


@pytest.mark.parametrize(
    "name", ["normal", "exponential", "gumbel", "laplace", "logistic", "cauchy"]
)
def test_continuous(name: str):
    ours, theirs = keys()
    assert_near(getattr(random, name)(ours, (400,)), getattr(jax.random, name)(theirs, (400,)))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("truncated_normal", (-2.0, 1.5)),
        ("lognormal", (0.5,)),
        ("pareto", (2.0,)),
        ("rayleigh", (2.0,)),
        ("weibull_min", (2.0, 3.0)),
        ("triangular", (0.0, 0.3, 2.0)),
    ],
)
def test_continuous_with_parameters(name: str, parameters: tuple[float, ...]):
    ours, theirs = keys()
    assert_near(
        getattr(random, name)(ours, *parameters, (400,)),
        getattr(jax.random, name)(theirs, *parameters, (400,)),
    )


def test_modes_of_twice_the_bits():
    ours, theirs = keys()
    assert_near(
        random.gumbel(ours, (400,), mode="high"), jax.random.gumbel(theirs, (400,), mode="high")
    )
    for p in (0.3, 1e-6):
        assert_same(
            random.bernoulli(ours, p, (400,), mode="high"),
            jax.random.bernoulli(theirs, p, (400,), mode="high"),
        )
    assert_same(
        random.categorical(ours, LOGITS, mode="high"),
        jax.random.categorical(theirs, LOGITS, mode="high"),
    )
    assert_same(
        random.choice(ours, 4, (3,), False, CHANCES, mode="high"),
        jax.random.choice(theirs, 4, (3,), False, CHANCES, mode="high"),
    )
    for name in ("gumbel", "bernoulli"):
        with pytest.raises(AttributeValueError, match="there is no mode"):
            getattr(random, name)(ours, mode="middle")


def test_complex_normal():
    ours, theirs = keys()
    assert_near(
        random.normal(ours, (400,), "complex64"), jax.random.normal(theirs, (400,), "complex64")
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_normal_has_moments_and_is_finite(dtype: str):
    sample = np.asarray(random.normal(random.key(0), (20000,), dtype)).astype(np.float64)
    assert np.isfinite(sample).all()
    assert abs(sample.mean()) < 0.02
    assert abs(sample.var() - 1) < 0.04


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 10), (-5, 5), (0, 2**31 - 1), (-(2**31), 2**31 - 1)],
)
def test_randint(low: int, high: int):
    ours, theirs = keys()
    assert_same(
        random.randint(ours, (50,), low, high), jax.random.randint(theirs, (50,), low, high)
    )


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("uint8", 0, 256), ("int8", -128, 128), ("int16", 0, 300), ("uint32", 0, 2**31 - 1)],
)
def test_randint_of_dtype(dtype: str, low: int, high: int):
    ours, theirs = keys()
    assert_same(
        random.randint(ours, (50,), low, high, dtype),
        jax.random.randint(theirs, (50,), low, high, dtype),
    )


@pytest.mark.parametrize(("low", "high"), [(3, 3), (5, 2)])
def test_randint_of_arrays_that_leave_no_integer(low: int, high: int):
    ours, theirs = keys()
    low, high = np.full(5, low, np.int32), np.full(5, high, np.int32)
    assert_same(random.randint(ours, (5,), low, high), jax.random.randint(theirs, (5,), low, high))


def test_randint_reaches_the_last_number():
    drawn = np.asarray(random.randint(random.key(0), (4000,), 2**32 - 2, 2**32, "uint32"))
    assert set(drawn.tolist()) == {2**32 - 2, 2**32 - 1}


def test_bernoulli_rademacher_geometric():
    ours, theirs = keys()
    assert_same(random.bernoulli(ours, 0.3, (50,)), jax.random.bernoulli(theirs, 0.3, (50,)))
    assert_same(random.bernoulli(ours, CHANCES), jax.random.bernoulli(theirs, CHANCES))
    assert_same(random.rademacher(ours, (50,)), jax.random.rademacher(theirs, (50,)))
    assert_same(random.geometric(ours, 0.2, (50,)), jax.random.geometric(theirs, 0.2, (50,)))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"axis": 0}, {"shape": (7, 4)}, {"shape": (3, 4), "replace": False}],
    ids=str,
)
def test_categorical(arguments: dict[str, Any]):
    ours, theirs = keys()
    assert_same(
        random.categorical(ours, LOGITS, **arguments),
        jax.random.categorical(theirs, LOGITS, **arguments),
    )


def test_permutation():
    ours, theirs = keys()
    assert_same(random.permutation(ours, 100), jax.random.permutation(theirs, 100))
    assert_same(random.permutation(ours, ROWS), jax.random.permutation(theirs, ROWS))
    assert_same(
        random.permutation(ours, ROWS, 1, independent=True),
        jax.random.permutation(theirs, ROWS, 1, independent=True),
    )


@pytest.mark.parametrize("rows", [4, ROWS], ids=["integers", "rows"])
@pytest.mark.parametrize(
    "arguments", [{}, {"replace": False}, {"p": CHANCES}, {"p": CHANCES, "replace": False}], ids=str
)
def test_choice(rows: Any, arguments: dict[str, Any]):
    ours, theirs = keys()
    assert_same(
        random.choice(ours, rows, (3,), **arguments),
        jax.random.choice(theirs, rows, (3,), **arguments),
    )


def test_choice_of_columns():
    ours, theirs = keys()
    expected = jax.random.choice(theirs, ROWS, (2,), replace=False, axis=1)
    assert_same(random.choice(ours, ROWS, (2,), replace=False, axis=1), expected)


def test_the_graph_does_not_hold_the_key():
    def sample(key: Any) -> Any:
        return random.normal(key, (3,))

    first, second = (trace(sample, [random.key(seed)]).graph for seed in (0, 1))
    assert first.nodes
    assert str(first) == str(second)


@pytest.mark.parametrize(
    "draw",
    [
        lambda random, key: random.bits(key, (5,)),
        lambda random, key: random.split(key, 3),
        lambda random, key: random.fold_in(key, 3),
        lambda random, key: random.uniform(key, (5,)),
        lambda random, key: random.randint(key, (5,), 0, 10),
        lambda random, key: random.bernoulli(key, 0.3, (5,)),
        lambda random, key: random.permutation(key, 5),
        lambda random, key: random.categorical(key, LOGITS),
    ],
    ids=[
        "bits",
        "split",
        "fold_in",
        "uniform",
        "randint",
        "bernoulli",
        "permutation",
        "categorical",
    ],
)
def test_compiled_and_in_batches(draw: Any):
    ours, theirs = keys()
    assert_same(rlx.jit(lambda key: draw(random, key))(ours), draw(jax.random, theirs))
    many = rlx.vmap(lambda key: draw(random, key))
    expected = jax.vmap(lambda key: draw(jax.random, key))(jax.random.split(theirs, 4))
    assert_same(many(random.split(ours, 4)), expected)
    assert_same(rlx.jit(many)(random.split(ours, 4)), expected)


def test_compiled_normal_numbers_are_the_eager_ones():
    ours, theirs = keys()
    compiled = rlx.jit(lambda key: random.normal(key, (4000,)))(ours)
    assert_near(compiled, random.normal(ours, (4000,)))
    assert_near(compiled, jax.random.normal(theirs, (4000,)))


def test_seeds_can_be_traced():
    made = rlx.jit(random.key)(np.int32(5))
    assert_same(made, random.key(5))
    folded = rlx.jit(random.fold_in)(made, np.int32(3))
    assert_same(folded, random.fold_in(random.key(5), 3))


def test_samples_move_with_their_parameters():
    """Derivatives with respect to bounds and scales, the numbers drawn staying the same."""
    key = random.key(0)
    u = np.asarray(random.uniform(key, ()))
    slope = rlx.grad(lambda high: random.uniform(key, (), maxval=high))(np.float32(2.0))
    np.testing.assert_allclose(slope, u, rtol=1e-6)
    z = np.asarray(random.normal(key, ()))
    slope = rlx.grad(lambda sigma: random.lognormal(key, sigma))(np.float32(0.5))
    np.testing.assert_allclose(slope, z * np.exp(0.5 * z), rtol=1e-5)


def test_errors_say_what_to_do():
    key = random.key(0)
    with pytest.raises(ShapeError, match=r"a key of random numbers is uint32\[2\]"):
        random.normal(random.split(key), (3,))
    with pytest.raises(DtypeError, match="a seed is one integer"):
        random.key(0.5)
    with pytest.raises(DtypeError, match="have no fractions"):
        random.uniform(key, (3,), "int32")
    with pytest.raises(ArgumentError, match="cannot be picked from 4"):
        random.choice(key, 4, (5,), replace=False)
