"""`rlx.to_jax` and `rlx.to_stablehlo`: functions of rlx run, and differentiated, by JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
import rlx.scipy.linalg
from rlx import nn
from rlx.interop import containers

WEIGHTS = rnp.array(np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3))
X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
TOLERANCE = 64 * float(np.finfo(np.float32).eps)


def agree(found, wanted):
    for a, b in zip(jax.tree.leaves(found), rlx.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def net(params, x):
    hidden = nn.functional.gelu(x @ params["w"] + WEIGHTS[0])
    last, sums = rlx.scan(lambda c, row: (c * 0.5 + row, c.sum()), hidden[0], hidden)
    chosen = rlx.cond(last.sum() > 0, rnp.sin, rnp.cos, last)
    return nn.functional.softmax(hidden).sum(0) * chosen, sums


PARAMS = {"w": np.asarray(WEIGHTS) * 0.3}


def test_values_and_structures():
    found = jax.jit(rlx.to_jax(net))(PARAMS, X)
    assert isinstance(found[0], jax.Array)
    agree(found, net(PARAMS, X))
    agree(rlx.to_jax(net)(PARAMS, X), net(PARAMS, X))


def test_derivatives_and_batches_of_jax():
    def loss(params, x):
        y, sums = net(params, x)
        return (y**2).sum() + sums.sum()

    converted = rlx.to_jax(loss)
    agree(jax.jit(jax.grad(converted))(PARAMS, X), rlx.grad(loss)(PARAMS, X))
    many = jax.vmap(converted, in_axes=(None, 0))(PARAMS, np.stack([X, X + 1]))
    agree(many, rlx.vmap(loss, in_axes=(None, 0))(PARAMS, np.stack([X, X + 1])))


def test_second_derivatives_of_jax():
    def loss(x):
        return (nn.functional.gelu(x @ WEIGHTS) ** 2).sum()

    agree(jax.jit(jax.hessian(rlx.to_jax(loss)))(X[0]), rlx.hessian(loss)(X[0]))


@pytest.mark.parametrize(
    "fun",
    [rnp.abs, rnp.logaddexp, nn.functional.softplus, nn.functional.relu, rnp.maximum, rnp.cumprod],
    ids=lambda fun: fun.__name__,
)
def test_derivatives_in_corners_are_those_of_rlx(fun):
    zeros = np.zeros(3, np.float32)
    given = (zeros, zeros) if fun in (rnp.logaddexp, rnp.maximum) else (zeros,)

    def total(*xs):
        return fun(*xs).sum()

    agree(jax.jit(jax.grad(rlx.to_jax(total)))(*given), rlx.grad(total)(*given))


def test_custom_derivatives_are_kept():
    @rlx.custom_vjp
    def scaled(x, n):
        return x * n

    scaled.defvjp(lambda x, n: (scaled(x, n), x), lambda x, ct: (ct * 100 * x, None))

    @rlx.custom_jvp
    def doubled(x, n):
        return x * n

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), 50 * tangents[0]))
    for fun, wanted in ((scaled, 200), (doubled, 50)):
        assert jax.jit(jax.grad(rlx.to_jax(fun)))(2.0, 3.0) == wanted
        many = jax.vmap(jax.grad(rlx.to_jax(lambda x, fun=fun: fun(x, 3))))(jnp.array([2.0, 2.0]))
        assert many.tolist() == [wanted, wanted]


def test_complex_numbers_and_windows():
    def factored(a):
        return rnp.abs(rnp.linalg.cholesky(a)).sum()

    matrix = (np.eye(2) * 3 + 0.5).astype(np.complex64)
    agree(jax.grad(rlx.to_jax(factored))(matrix), np.conj(rlx.grad(factored)(matrix)))

    def windows(x):
        return rlx.lax.reduce_window(x, 1.0, rlx.lax.mul, (2,)).sum()

    agree(jax.grad(rlx.to_jax(windows))(X[0]), rlx.grad(windows)(X[0]))


def test_what_numpy_computes_has_no_derivative_in_jax():
    f = rlx.to_jax(lambda a: rlx.scipy.linalg.schur(a)[0].sum())
    matrix = np.array([[1.0, 2.0], [0.5, 3.0]], np.float32)
    agree(f(matrix), rlx.scipy.linalg.schur(matrix)[0].sum())
    with pytest.raises((rlx.GradientError, TypeError)):
        jax.grad(f)(matrix)


def test_errors_of_python_functions_come_out():
    spec = rlx.spec((2, 3), "float32")
    f = rlx.to_jax(lambda x: rlx.pure_callback(lambda v: 1 // 0, spec, x))
    for run in (f, jax.jit(f)):
        with pytest.raises((ZeroDivisionError, jax.errors.JaxRuntimeError), match="division"):
            jax.block_until_ready(run(X))


def test_what_is_stopped_has_no_derivative():
    f = rlx.to_jax(lambda x: x * rlx.stop_gradient(x) + rnp.floor(x))
    assert jax.grad(f)(3.0) == 3


def test_there_and_back():
    converted = rlx.from_jax(rlx.to_jax(net))
    agree(rlx.jit(converted)(PARAMS, X), net(PARAMS, X))


def test_text_in_stablehlo():
    text = rlx.to_stablehlo(lambda x: rnp.sin(x) @ WEIGHTS, rlx.spec((2, 3)))
    for word in ("stablehlo.sine", "stablehlo.dot_general", "tensor<2x3xf32>"):
        assert word in text
    assert "f64" in rlx.to_stablehlo(lambda x: x * 2, rlx.spec((2,), "float64"))
    unused = rlx.to_stablehlo(lambda x, y: y * 2, rlx.spec((2,)), rlx.spec((3,)))
    assert "%arg0: tensor<2xf32>" in unused and "%arg1: tensor<3xf32>" in unused
    with pytest.raises(rlx.ArgumentError, match="no number"):
        rlx.to_stablehlo(lambda x: x * 2, rlx.spec(("n",)))


def test_what_only_numpy_computes_has_no_text():
    spec = rlx.spec((3, 3))
    for f in (lambda x: rlx.pure_callback(np.sin, spec, x), rlx.scipy.linalg.schur):
        with pytest.raises(rlx.UnsupportedOp, match="a text cannot call Python") as caught:
            rlx.to_stablehlo(f, spec)
    assert caught.value.what.startswith("schur: ")


@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
def test_a_typed_key_is_a_key_of_rlx(run):
    key = jax.random.key(3)
    agree(run(rlx.to_jax(rlx.random.normal))(key), rlx.random.normal(rlx.random.key(3)))
    drawn = run(rlx.to_jax(lambda keys: rlx.from_jax(jax.random.normal)(keys["k"])))({"k": key})
    agree(drawn, jax.random.normal(key))
    agree(run(rlx.to_jax(net))(PARAMS, X), net(PARAMS, X))  # traced arrays are no keys after that


def test_without_jax_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(containers, "find_spec", lambda name: None)
    conversions = (rlx.to_jax, rlx.from_jax, lambda f: rlx.to_stablehlo(f, rlx.spec(())))
    for convert in conversions:
        with pytest.raises(rlx.DeviceUnavailable, match="JAX is not installed") as caught:
            convert(lambda x: x)
        assert (
            "test_to_jax.py" in str(caught.value) and caught.value.fix == 'pip install "rlx[xla]"'
        )
