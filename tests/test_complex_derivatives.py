"""Derivatives of complex functions and of integers, beside JAX, and what is refused."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError

Z = np.array([0.3 + 0.7j, -0.4 + 0.2j, 0.6 - 0.5j])
W = np.array([0.2 - 0.6j, 0.8 + 0.1j, -0.7 - 0.3j])
FUNCTIONS = {  # of two complex arrays, by the vocabulary
    **{
        name: lambda n, z, w, name=name: getattr(n, name)(z)
        for name in "exp expm1 log log1p sqrt sin cos tan sinh cosh tanh arcsin arccos arctan "
        "arcsinh arctanh square reciprocal conj real imag abs angle sum prod cumsum cumprod mean "
        "var negative exp2 log2".split()
    },
    "arccosh": lambda n, z, w: n.arccosh(z + 2),
    "sinc": lambda n, z, w: n.sinc(z),
    "add": lambda n, z, w: z + w,
    "mul": lambda n, z, w: z * w,
    "div": lambda n, z, w: z / w,
    "pow": lambda n, z, w: z**w,
    "integer power": lambda n, z, w: z**3 + z**-2,
    "where": lambda n, z, w: n.where(n.abs(z) > 0.6, z * w, n.conj(z)),
    "matmul": lambda n, z, w: n.outer(z, w) @ n.outer(w, n.conj(z)),
    "vdot": lambda n, z, w: n.vdot(z, w),
    "einsum": lambda n, z, w: n.einsum("i,j->ij", z, n.conj(w)),
    "convolve": lambda n, z, w: n.convolve(z, w),
    "fft": lambda n, z, w: n.fft.fft(z * w),
    "ifft": lambda n, z, w: n.fft.ifft(z) * w,
    "rfft": lambda n, z, w: n.fft.rfft(n.real(z)) * w[:2],
    "irfft": lambda n, z, w: n.fft.irfft(z),
    "solve": lambda n, z, w: n.linalg.solve(n.outer(z, w) + 2 * n.eye(3), z),
    "inv": lambda n, z, w: n.linalg.inv(n.outer(z, w) + 2 * n.eye(3)),
    "det": lambda n, z, w: n.linalg.det(n.outer(z, w) + 2 * n.eye(3)),
    "norm": lambda n, z, w: n.linalg.norm(n.stack([z, w])),
    "cholesky": lambda n, z, w: n.linalg.cholesky(n.outer(z, n.conj(z)) + n.eye(3)),
    "eigvalsh": lambda n, z, w: n.linalg.eigvalsh(n.outer(z, n.conj(z)) + n.diag(n.abs(w))),
    "indexing": lambda n, z, w: z[n.array([2, 0])] * w[1],
    "update": lambda n, z, w: z.at[1].set(w[0] * z[0]),
    "stack and pad": lambda n, z, w: n.pad(n.stack([z, w.conj()]), 1).T,
    "roll and flip": lambda n, z, w: n.roll(z, 1) * n.flip(w),
    "parts": lambda n, z, w: n.real(z) + 1j * n.imag(w) ** 2,
    "astype": lambda n, z, w: (n.abs(z) ** 2).astype("complex128") * w,
}


def close(got, wanted):
    for x, y in zip(rlx.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=2.0**-40, atol=2.0**-40)


def derivatives(lib, n, name, z, w):
    """The value and both modes, with complex directions and weights."""
    fn = functools.partial(FUNCTIONS[name], n)
    value, pull = lib.vjp(fn, z, w)
    weights = (np.cos(np.arange(value.size)) + 0.5j * np.arange(value.size)).reshape(value.shape)
    ct = n.asarray(weights if n.iscomplexobj(value) else weights.real)
    return value, pull(ct), lib.jvp(fn, (z, w), (w, z * z))[1]


@functools.cache
def wanted():
    with jax.enable_x64(True):
        z, w = jnp.asarray(Z), jnp.asarray(W)
        all_of = jax.jit(lambda z, w: {f: derivatives(jax, jnp, f, z, w) for f in FUNCTIONS})
        quick = {"xla_backend_optimization_level": 0}
        return all_of.lower(z, w).compile(compiler_options=quick)(z, w)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_derivatives_are_those_of_jax(name):
    close(derivatives(rlx, rnp, name, rlx.array(Z), rlx.array(W)), wanted()[name])


def test_holomorphic_functions():
    fn = lambda z: (rnp.sin(z) * z**2).sum()  # noqa: E731
    exact = np.cos(Z) * Z**2 + 2 * np.sin(Z) * Z
    close(rlx.grad(fn, holomorphic=True)(Z), exact)
    close(rlx.value_and_grad(fn, holomorphic=True)(Z)[1], exact)
    pointwise = lambda z: {"s": rnp.sin(z), "q": z * z}  # noqa: E731
    for jacobian in (rlx.jacfwd, rlx.jacrev):
        found = jacobian(pointwise, holomorphic=True)(Z)
        close(found, {"s": np.diag(np.cos(Z)), "q": np.diag(2 * Z)})
    second = rlx.hessian(lambda z: (z**3).sum(), holomorphic=True)(Z)
    close(second, np.diag(6 * Z))
    slope, extra = rlx.grad(lambda z: (z * z, "aux"[:0] or 1), has_aux=True, holomorphic=True)(1j)
    assert (complex(slope), extra) == (2j, 1)


X = np.array([1.0, 2.0, 3.0])
N = np.array([3, 1, 2])


def loss(params):
    return (params["x"] ** 2 * params["n"]).sum()


def test_integers_have_gradients_without_numbers():
    params = {"x": X, "n": N, "b": np.array([True])}
    with jax.enable_x64(True):
        theirs = jax.grad(loss, allow_int=True)(params)
    ours = rlx.grad(loss, allow_int=True)(params)
    close(ours["x"], theirs["x"])
    assert ours["n"] == rlx.Float0((3,))
    assert ours["n"].dtype == theirs["n"].dtype == rlx.float0
    assert np.asarray(ours["b"]).shape == theirs["b"].shape
    compiled = rlx.jit(rlx.grad(loss, allow_int=True))(params)
    close(compiled["x"], theirs["x"])
    assert compiled["n"] == ours["n"]
    assert "Float0((3,))" in repr(ours["n"])
    _, pull = rlx.vjp(lambda x, n: x * n, X, N)
    assert pull(X)[1] == rlx.Float0((3,))
    value, slope = rlx.jvp(lambda x, n: (x * n, n + 1), (X, N), (X, None))
    assert (value[1].dtype, slope[1]) == (N.dtype, rlx.Float0((3,)))
    _, push = rlx.linearize(lambda x, n: (x * n, n), X, N)
    assert push(X, rlx.Float0((3,)))[1] == rlx.Float0((3,))
    close(rlx.jacrev(lambda p: p["x"] * p["n"], allow_int=True)(params)["x"], np.diag(N))


def test_aux_everywhere():
    fn = lambda x, y: (x * y, {"n": 3, "sum": x + y})  # noqa: E731
    value, push, extra = rlx.linearize(fn, 2.0, 5.0, has_aux=True)
    assert [float(v) for v in (value, push(1.0, 0.0), extra["sum"])] == [10.0, 5.0, 7.0]
    value, pull, extra = rlx.vjp(fn, 2.0, 5.0, has_aux=True)
    assert [float(ct) for ct in pull(1.0)] == [5.0, 2.0]
    value, slope, extra = rlx.jvp(fn, (2.0, 5.0), (1.0, 0.0), has_aux=True)
    assert [float(value), float(slope), extra["n"]] == [10.0, 5.0, 3]
    for jacobian in (rlx.jacfwd, rlx.jacrev):
        rows, extra = jacobian(fn, (1, 0), has_aux=True)(X, X)
        close(rows, (np.diag(X), np.diag(X)))
        close(extra["sum"], 2 * X)
    rows, extra = rlx.hessian(lambda x: ((x**3).sum(), x), has_aux=True)(X)
    close(rows, np.diag(6 * X))


def test_jacobians_of_trees():
    fn = lambda p, y: {"a": p["u"] * y, "b": (p["v"] @ y,)}  # noqa: E731
    params = {"u": X, "v": np.outer(X, X)}
    whole = np.einsum("ij,k->ijk", np.eye(3), X)
    exact = {
        "a": ({"u": np.diag(X), "v": np.zeros((3, 3, 3))}, np.diag(X)),
        "b": (({"u": np.zeros((3, 3)), "v": whole}, np.outer(X, X)),),
    }
    for jacobian in (rlx.jacfwd, rlx.jacrev):
        close(jacobian(fn, (0, 1))(params, X), exact)
    loss = lambda p, y: (p["u"] * p["u"] * y).sum()  # noqa: E731
    found = rlx.hessian(loss, (0, 1))(params, X)
    close(found[0]["u"][0]["u"], np.diag(2 * X))
    close(found[0]["u"][1], np.diag(2 * X))
    close(found[1][0]["u"], np.diag(2 * X))
    close(found[1][1], np.zeros((3, 3)))


def to_complex(x):
    return x + 1j


@pytest.mark.parametrize(
    ("run", "what", "fix"),
    [
        (lambda: rlx.grad(loss)({"x": X, "n": N}), "integers have no gradient", "astype"),
        (lambda: rlx.grad(to_complex)(1.0), "scalar loss, to_complex returned c", "holomorphic"),
        (lambda: rlx.grad(abs, holomorphic=True)(1j), "needs a complex result", "holomorphic"),
        (lambda: rlx.grad(to_complex, holomorphic=True)(1.0), "must be complex", "astype"),
        (lambda: rlx.jacfwd(abs)(Z), "the argument is c128", "holomorphic=True"),
        (lambda: rlx.jacrev(to_complex)(X), "the value is c128", "holomorphic=True"),
        (lambda: rlx.jacrev(abs, holomorphic=True)(Z), "the value is f64", "leave holomorphic"),
        (lambda: rlx.jacfwd(abs, holomorphic=True)(X), "the argument is f64", "leave holomorphic"),
        (lambda: rlx.jvp(lambda n: n, (N,), (X,)), "that of i64", "Float0"),
        (lambda: rlx.jvp(lambda n: n, (3,), (1,)), "has no numbers", "Float0"),
        (lambda: rlx.vjp(lambda n: n, 3)[1](2), "has no numbers", "Float0"),
        (lambda: rlx.jacfwd(lambda n: 2.0 * n)(N), "integers have no gradient", "astype"),
    ],
)
def test_what_has_no_derivative_is_said(run, what, fix):
    with pytest.raises(RlxError, match=what) as caught:
        run()
    assert fix in caught.value.fix
