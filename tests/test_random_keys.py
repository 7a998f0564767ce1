"""Streams of keys, and the check that no key is used twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
import rlx.random as random
from rlx.ir.errors import ArgumentError, KeyReuseError
from rlx.trace.make_graph import trace


@pytest.fixture
def checked():
    with rlx.config.using(key_reuse=True):
        yield


# -- reuse ----------------------------------------------------------------------------------------


def twice(key: Any) -> Any:
    return random.normal(key, (2,)) + random.uniform(key, (2,))


def after_split(key: Any) -> Any:
    first, _ = random.split(key)
    return random.normal(first) + random.normal(key)


def same_row(key: Any) -> Any:
    keys = random.split(key)
    return random.normal(keys[0]) + random.gamma(keys[0], 2.0)


def same_fold(key: Any) -> Any:
    return random.normal(random.fold_in(key, 3)) + random.normal(random.fold_in(key, 3))


def in_and_before_loop(key: Any) -> Any:
    x = random.normal(key)
    return rlx.scan(lambda total, _: (total + random.normal(key), None), x, None, 3)[0]


def proper(key: Any) -> Any:
    """Each key once; the functions use their keys more than once themselves."""
    first, second, third = random.split(key, 3)
    rest = random.split(third)
    folds = [random.normal(random.fold_in(rest[0], i)) for i in range(3)]
    counts = random.poisson(first, 20.0).astype("float32") + random.binomial(second, 30.0, 0.4)
    branch = rlx.cond(counts > 20, random.normal, lambda k: random.uniform(k), rest[1])
    return counts + sum(folds) + branch


@pytest.mark.parametrize("fn", [twice, after_split, same_row, same_fold, in_and_before_loop])
def test_a_key_used_twice_is_an_error(checked: None, fn: Any):
    with pytest.raises(KeyReuseError) as caught:
        fn(random.key(0))
    assert "test_random_keys.py" in str(caught.value.where)
    assert "first used at" in caught.value.notes[0]
    assert "split" in caught.value.fix


@pytest.mark.parametrize("fn", [twice, after_split, in_and_before_loop])
def test_a_key_used_twice_while_tracing_is_an_error(checked: None, fn: Any):
    key = random.key(0)
    with pytest.raises(KeyReuseError):
        rlx.jit(fn)(key)
    with pytest.raises(KeyReuseError):
        rlx.vmap(fn)(random.split(key, 3))
    with pytest.raises(KeyReuseError):
        trace(lambda: fn(random.key(1)), ())


def test_a_known_key_counts_in_every_derivative(checked: None):
    key = random.key(0)

    def loss(w: Any, key: Any) -> Any:
        return (w * random.normal(key, (3,))).sum()

    rlx.grad(loss)(2.0, key)
    with pytest.raises(KeyReuseError):
        rlx.grad(loss)(2.0, key)


def test_proper_use_is_no_error(checked: None):
    for _ in range(2):  # keys made again may be used again
        eager = proper(random.key(0))
    compiled = rlx.jit(proper)
    np.testing.assert_allclose(compiled(random.key(0)), eager, rtol=1e-5)
    rlx.vmap(proper)(random.split(random.key(0), 3))
    for seed in range(2):
        key = random.key(seed)
        random.normal(random.clone(key))
        random.normal(random.clone(key))


def test_recording_again_is_no_reuse(checked: None):
    key = random.key(0)
    noisy = rlx.jit(lambda x: x + random.normal(key, x.shape))
    assert noisy(rnp.zeros(2)).shape == (2,)
    assert noisy(rnp.zeros(3)).shape == (3,)


def test_without_the_setting_nothing_is_checked():
    assert not rlx.config.key_reuse
    assert twice(random.key(0)).shape == (2,)


# -- streams --------------------------------------------------------------------------------------


def test_a_stream_gives_new_keys_in_a_fixed_order():
    with random.stream(3):
        first = [random.normal(None, (2,)), random.randint(None, (2,), 0, 9)]
    with random.stream(random.key(3)) as source:
        again = [
            random.normal(None, (2,)),
            random.randint(key=None, shape=(2,), minval=0, maxval=9),
        ]
        with random.stream(3):
            inner = random.normal(shape=(2,))
        after = random.normal(None, (2,))
        key = source.key()
    for x, y in zip(first, again, strict=True):
        assert x.tolist() == y.tolist()
    assert inner.tolist() == first[0].tolist()
    assert after.tolist() == random.normal(random.fold_in(random.key(3), 2), (2,)).tolist()
    assert key.tolist() == random.fold_in(random.key(3), 3).tolist()


def test_a_stream_is_no_reuse_of_keys(checked: None):
    for _ in range(2):
        with random.stream(0):
            proper(None)
            random.split(None)
            random.normal(None)
    key = random.key(0)
    random.normal(key)
    with pytest.raises(KeyReuseError):
        random.stream(key)


def test_derivatives_draw_anew_in_each_run():
    def loss(w: Any) -> Any:
        return (w * random.normal(None, (3,))).sum()

    with random.stream(0):
        first, second = rlx.grad(loss)(1.0), rlx.grad(loss)(1.0)
    assert float(first) != float(second)


def test_a_compiled_function_opens_its_own_stream():
    @rlx.jit
    def draw(key: Any) -> Any:
        with random.stream(key):
            return random.normal(None, (2,)) + random.uniform(None, (2,))

    key = random.key(5)
    with random.stream(key):
        eager = random.normal(None, (2,)) + random.uniform(None, (2,))
    np.testing.assert_allclose(draw(key), eager, rtol=1e-6)
    assert draw(random.key(6)).tolist() != draw(key).tolist()


def test_a_stream_does_not_reach_into_what_runs_many_times():
    def step(total: Any, _: Any) -> tuple[Any, None]:
        return total + random.normal(None), None

    with random.stream(0):
        for call in (
            lambda: rlx.jit(lambda x: x + random.normal(None))(1.0),
            lambda: rlx.scan(step, 0.0, None, 3),
        ):
            with pytest.raises(ArgumentError, match="recorded once") as caught:
                call()
            assert caught.value.fix


def test_no_key_and_no_stream():
    with pytest.raises(ArgumentError, match="normal: there is no key"):
        random.normal(None, (2,))
