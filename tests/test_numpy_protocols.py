"""NumPy's functions of rlx arrays, known and traced, and JAX's of known ones."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ImmutableError

X = np.array([[1.0, 2.0, 0.5], [3.0, -1.0, 4.0]], np.float32)
ONE = "sin exp tanh floor isnan negative abs sign square".split()
TWO = "add subtract multiply divide maximum hypot arctan2 less equal".split()
ALONG = "sum mean max argmax cumsum std sort any".split()
CALLS = {
    **{name: lambda x, name=name: getattr(np, name)(x) for name in ONE},
    **{name: lambda x, name=name: getattr(np, name)(X + 1, x) for name in TWO},
    **{f"{name} along": lambda x, name=name: getattr(np, name)(x, axis=1) for name in ALONG},
    "argsort": lambda x: np.argsort(x, axis=1, kind="stable"),
    "where": lambda x: np.where(x > 1, x, 0.0),
    "concatenate": lambda x: np.concatenate([x, X], axis=0),
    "stack": lambda x: np.stack([X, x]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, X),
    "clip": lambda x: np.clip(x, a_min=0.0, a_max=2.0),
    "reduce": lambda x: np.add.reduce(x, axis=1),
    "accumulate": lambda x: np.multiply.accumulate(x, axis=1),
    "outer": lambda x: np.subtract.outer(x[0], x[1]),
    "norm": lambda x: np.linalg.norm(x, axis=0),
    "fft": lambda x: np.fft.fft(x).real,
    "divmod": lambda x: np.stack(divmod(X + 5, x)),
    "a number on the left": lambda x: np.float32(2) * x + np.int64(1) - X,
    "product": lambda x: X.T @ x,
}


@pytest.mark.parametrize("part", range(4))
def test_numpy_of_rlx_arrays_is_rlx_numpy(part):
    names = list(CALLS)[part::4]
    traced = rlx.jit(lambda x: [CALLS[name](x) for name in names])(X)
    for name, found in zip(names, traced, strict=True):
        known = CALLS[name](rnp.array(X))
        assert type(known) is rlx.Array, name
        assert known.dtype == found.dtype
        for made in (known, found):
            np.testing.assert_allclose(np.asarray(made), CALLS[name](X), 1e-5, 1e-6, err_msg=name)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(TWO), st.booleans(), st.sampled_from(["float32", "int32", "float64", "bool"])
)
def test_operands_of_numpy_mix_with_rlx_arrays(name, first, dtype):
    if name == "subtract" and dtype == "bool":
        return  # neither library subtracts truth values from numbers in a way of its own
    f, own = getattr(np, name), getattr(rnp, name)
    other = np.ones((2, 3), dtype)
    args = (rnp.array(X), other) if first else (other, rnp.array(X))
    found, wanted = f(*args), own(*args)
    assert found.dtype == wanted.dtype
    assert found.tolist() == wanted.tolist()


def test_derivatives_go_through():
    slopes = rlx.grad(lambda x: np.sum(np.sin(x) * X))(X)
    np.testing.assert_allclose(np.asarray(slopes), np.cos(X) * X, 1e-6)
    assert rlx.jit(rlx.vmap(lambda x: np.max(np.exp(x))))(X).shape == (2,)


def test_numpy_does_what_rlx_does_not_with_known_arrays():
    x, target = rnp.array(X), np.zeros_like(X)
    np.add(x, 1, out=target)
    np.testing.assert_array_equal(target, X + 1)
    assert np.add(x, 1, dtype="float64").dtype == np.float64
    np.put(target, [0], x[1, 2])
    assert target[0, 0] == 4.0
    target -= x
    np.copyto(target, x * 2)
    np.testing.assert_array_equal(target, X * 2)
    assert type(np.busday_count("2026-01-01", "2026-01-02")) is np.int64
    assert np.array_equal(np.trim_zeros(rnp.array([0.0, 1.0])), [1.0])
    assert np.histogramdd(x)[0].sum() == 2
    with pytest.raises(ImmutableError, match="copyto writes"):
        np.copyto(x, X)
    with pytest.raises(ImmutableError, match="add writes"):
        np.add(X, X, out=(x,))


ERRORS = {
    "another function": (
        lambda x: np.real_if_close(x),
        """ConcretizationError: numpy.real_if_close() needs the numbers of a tensor, which it has \
not while `f` is traced
  where  WHERE
         f32[2, 3]   argument 0 of f, x
  fix    rlx has no numpy.real_if_close: use other functions of rlx.numpy, or rlx.pure_callback""",
    ),
    "a function that writes": (
        lambda x: np.copyto(np.zeros((2, 3)), x),
        """ConcretizationError: numpy.copyto() needs the numbers of a tensor, which it has not \
while `f` is traced
  where  WHERE
         f32[2, 3]   argument 0 of f, x
  fix    rlx has no numpy.copyto: use other functions of rlx.numpy, or rlx.pure_callback""",
    ),
    "an argument": (
        lambda x: np.add(x, 1, out=np.zeros((2, 3))),
        """ArgumentError: numpy.add: of traced arrays it takes no `out`
  where  WHERE
         rlx.numpy.add(x, y)
  fix    leave it out: convert (x.astype), choose (rlx.numpy.where) or assign (y[...] = x) in a \
step of its own""",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_numpy_cannot_do_while_tracing(name):
    call, text = ERRORS[name]

    def f(x):
        return call(x)

    with pytest.raises(rlx.RlxError) as caught:
        rlx.jit(f)(X)
    found = re.sub(
        r"(?m)^  where  test_numpy_protocols\.py.*$", "  where  WHERE", str(caught.value)
    )
    assert f"{type(caught.value).__name__}: {found}" == text


def test_jax_takes_known_arrays():
    x = rnp.array(X)
    assert (jnp.ones((2, 3)) + x).shape == (2, 3)
    np.testing.assert_array_equal(np.asarray(jnp.concatenate([x, X])), np.concatenate([X, X]))
    with pytest.raises(rlx.ConcretizationError, match=r"rlx\.from_jax"):
        rlx.jit(lambda x: jnp.concatenate([x, x]))(X)


def test_what_numpy_writes_to_is_written_or_an_error():
    x, own = rlx.array([1.0, 2.0, 3.0]), np.ones(3)
    np.add.at(own, [0, 0], rlx.array([1.0, 2.0]))
    np.put(own, rlx.array([2]), 7.0)
    np.multiply(x[:1], 2, out=own[:1])
    assert own.tolist() == [2.0, 1.0, 7.0]
    for write in (
        lambda: np.add.at(x, [0], 1.0),
        lambda: np.put(x, [0], 1.0),
        lambda: np.copyto(x, own),
        lambda: np.place(x, own > 1, 5.0),
        lambda: np.add(own, own, out=x),
        lambda: np.add.reduce(own, out=x[0]),
        lambda: rlx.jit(lambda x: np.add.at(x, [0], 1.0))(x),
    ):
        with pytest.raises(ImmutableError, match="writes to an array"):
            write()
    assert x.tolist() == [1.0, 2.0, 3.0]
