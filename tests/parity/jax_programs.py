"""Programs written for JAX, word for word: with rlx in its place they give the same numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.flatten_util
import jax.numpy
import jax.ops
import jax.scipy.linalg
import jax.scipy.special
import jax.scipy.stats
import jax.tree_util
import numpy as np
import pytest

import rlx

JAX = (jax, jax.numpy, jax.nn)
RLX = (rlx, rlx.numpy, rlx.nn.functional)
Program = Callable[[Any, Any, Any], Any]


def rk4_ode(jax: Any, jnp: Any, nn: Any) -> Any:

    def f(t, y, a):
        return jnp.stack([y[1], -a * jnp.sin(y[0])])

    @functools.partial(jax.jit, static_argnames=("n",))
    def solve(y0, a, n=50):
        h = 0.05

        def step(carry, _):
            t, y = carry
            k1 = f(t, y, a)
            k2 = f(t + h / 2, y + h / 2 * k1, a)
            k3 = f(t + h / 2, y + h / 2 * k2, a)
            k4 = f(t + h, y + h * k3, a)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return ((t + h, y), y)

        return jax.lax.scan(step, (0.0, y0), None, length=n)[1]

    return (
        solve(jnp.array([1.0, 0.0]), 2.0),
        jax.jacfwd(lambda a: solve(jnp.array([1.0, 0.0]), a)[-1])(2.0),
    )


def gaussian_process(jax: Any, jnp: Any, nn: Any) -> Any:

    def k(x, y):
        return jnp.exp(-0.5 * jnp.square(x[:, None] - y[None, :]))

    def nll(p, x, y):
        K = p["s"] * k(x / p["l"], x / p["l"]) + 0.01 * jnp.eye(x.shape[0])
        L = jnp.linalg.cholesky(K)
        a = jax.scipy.linalg.cho_solve((L, True), y)
        return 0.5 * y @ a + jnp.sum(jnp.log(jnp.diagonal(L)))

    x = jnp.linspace(0, 1, 12)
    y = jnp.sin(6 * x)
    return jax.value_and_grad(nll)({"s": 1.0, "l": 0.5}, x, y)


def transformer_block(jax: Any, jnp: Any, nn: Any) -> Any:

    def ln(x, g, b):
        m = x.mean(-1, keepdims=True)
        v = x.var(-1, keepdims=True)
        return (x - m) * jax.lax.rsqrt(v + 1e-05) * g + b

    def block(p, x, mask):
        h = ln(x, p["g"], p["b"])
        q, k, v = jnp.split(h @ p["qkv"], 3, axis=-1)
        q, k, v = [t.reshape(*t.shape[:-1], 2, -1).swapaxes(-2, -3) for t in (q, k, v)]
        s = jnp.einsum("...qd,...kd->...qk", q, k) / jnp.sqrt(q.shape[-1])
        s = jnp.where(mask, s, jnp.finfo(s.dtype).min)
        o = (
            jnp.einsum("...qk,...kd->...qd", nn.softmax(s, axis=-1), v)
            .swapaxes(-2, -3)
            .reshape(x.shape)
        )
        x = x + o @ p["o"]
        return x + nn.gelu(ln(x, p["g"], p["b"]) @ p["up"]) @ p["down"]

    key = jax.random.PRNGKey(0)
    ks = jax.random.split(key, 5)
    p = {
        "g": jnp.ones(8),
        "b": jnp.zeros(8),
        "qkv": jax.random.normal(ks[0], (8, 24)) * 0.3,
        "o": jax.random.normal(ks[1], (8, 8)) * 0.3,
        "up": jax.random.normal(ks[2], (8, 32)) * 0.3,
        "down": jax.random.normal(ks[3], (32, 8)) * 0.3,
    }
    x = jax.random.normal(ks[4], (2, 6, 8))
    mask = jnp.tril(jnp.ones((6, 6), bool))
    return jax.jit(jax.value_and_grad(lambda p: jnp.mean(block(p, x, mask) ** 2)))(p)


def kalman(jax: Any, jnp: Any, nn: Any) -> Any:
    A = jnp.array([[1.0, 0.1], [0.0, 1.0]])
    C = jnp.array([[1.0, 0.0]])
    Q = jnp.eye(2) * 0.01
    R = jnp.eye(1) * 0.1

    def step(s, z):
        m, P = s
        m = A @ m
        P = A @ P @ A.T + Q
        S = C @ P @ C.T + R
        K = jnp.linalg.solve(S, C @ P).T
        m = m + K @ (z - C @ m)
        P = P - K @ C @ P
        return ((m, P), (m, jnp.linalg.slogdet(S)[1]))

    zs = jnp.sin(jnp.arange(20.0) / 3)[:, None]
    return jax.jit(lambda zs: jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), zs))(zs)


def metropolis(jax: Any, jnp: Any, nn: Any) -> Any:

    def logp(x):
        return -jnp.sum(x**4 / 4 - x**2 / 2)

    def kernel(s, key):
        x, lp = s
        k1, k2 = jax.random.split(key)
        y = x + 0.5 * jax.random.normal(k1, x.shape)
        lq = logp(y)
        acc = jnp.log(jax.random.uniform(k2)) < lq - lp
        return ((jnp.where(acc, y, x), jnp.where(acc, lq, lp)), acc)

    ks = jax.random.split(jax.random.key(3), 200)
    (x, lp), acc = jax.lax.scan(kernel, (jnp.zeros(3), logp(jnp.zeros(3))), ks)
    return (x, lp, acc.mean())


def sinkhorn(jax: Any, jnp: Any, nn: Any) -> Any:

    def sink(C, eps, n):
        f = jnp.zeros(C.shape[0])
        g = jnp.zeros(C.shape[1])

        def body(i, fg):
            f, g = fg
            f = -eps * jax.scipy.special.logsumexp((g[None] - C) / eps, axis=1)
            g = -eps * jax.scipy.special.logsumexp((f[:, None] - C) / eps, axis=0)
            return (f, g)

        f, g = jax.lax.fori_loop(0, n, body, (f, g))
        return jnp.sum(jnp.exp((f[:, None] + g[None] - C) / eps) * C)

    C = jnp.abs(jnp.arange(5.0)[:, None] - jnp.arange(6.0)[None]) / 5
    return (sink(C, 0.1, 20), jax.grad(sink)(C, 0.1, 5))


def segment_sums_and_graph_net(jax: Any, jnp: Any, nn: Any) -> Any:
    src = jnp.array([0, 1, 2, 2, 3])
    dst = jnp.array([1, 2, 0, 3, 0])
    h = jnp.arange(12.0).reshape(4, 3)
    m = jax.ops.segment_sum(h[src], dst, num_segments=4)
    mx = jax.ops.segment_max(h[src], dst, num_segments=4)
    return (m, mx, jax.grad(lambda h: jnp.sum(jax.ops.segment_sum(h[src] ** 2, dst, 4)))(h))


def tree_util(jax: Any, jnp: Any, nn: Any) -> Any:
    t = {"a": jnp.ones(3), "b": (jnp.zeros(2), [jnp.arange(2)])}
    found, td = jax.tree_util.tree_flatten(t)
    t2 = jax.tree_util.tree_unflatten(td, [x * 2 for x in found])
    t3 = jax.tree_util.tree_map(lambda x, y: x + y, t, t2)
    n = jax.tree_util.tree_reduce(lambda a, b: a + b.sum(), t3, 0)
    paths = [jax.tree_util.keystr(k) for k, _ in jax.tree_util.tree_flatten_with_path(t)[0]]
    assert paths == ["['a']", "['b'][0]", "['b'][1][0]"], paths
    return (t3, n, jax.tree.map(jnp.shape, t), jax.tree_util.tree_structure(t).num_leaves)


def ravel_pytree(jax: Any, jnp: Any, nn: Any) -> Any:
    flat, un = jax.flatten_util.ravel_pytree({"w": jnp.ones((2, 2)), "b": jnp.arange(3.0)})
    return (flat, un(flat * 2))


def newton(jax: Any, jnp: Any, nn: Any) -> Any:

    def newton(x):
        g = jax.grad(rosen)
        H = jax.hessian(rosen)

        def cond(s):
            return (jnp.linalg.norm(g(s[0])) > 0.0001) & (s[1] < 50)

        def body(s):
            return (s[0] - jnp.linalg.solve(H(s[0]), g(s[0])), s[1] + 1)

        return jax.lax.while_loop(cond, body, (x, 0))

    def rosen(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return jax.jit(newton)(jnp.array([1.2, 1.2, 1.3]))


def conv_net(jax: Any, jnp: Any, nn: Any) -> Any:

    def net(p, x):
        x = jax.lax.conv_general_dilated(
            x, p["c"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = nn.relu(x)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(x.shape[0], -1)
        return nn.log_softmax(x @ p["d"])

    ks = jax.random.split(jax.random.PRNGKey(1), 3)
    p = {
        "c": jax.random.normal(ks[0], (3, 3, 1, 4)) * 0.3,
        "d": jax.random.normal(ks[1], (4 * 4 * 4, 10)) * 0.1,
    }
    x = jax.random.normal(ks[2], (5, 8, 8, 1))
    y = jnp.array([1, 2, 3, 4, 0])

    def loss(p):
        return -jnp.mean(jnp.take_along_axis(net(p, x), y[:, None], axis=1))

    return jax.jit(jax.value_and_grad(loss))(p)


def custom_derivative(jax: Any, jnp: Any, nn: Any) -> Any:

    @jax.custom_vjp
    def clip(x, lo, hi):
        return x

    def fwd(x, lo, hi):
        return (x, (lo, hi))

    def bwd(r, g):
        return (jnp.clip(g, r[0], r[1]), None, None)

    clip.defvjp(fwd, bwd)

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    @log1pexp.defjvp
    def _(primals, tangents):
        (x,) = primals
        (t,) = tangents
        return (log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t)

    return (
        jax.grad(lambda x: clip(x * 3, -0.1, 0.1) ** 2)(2.0),
        jax.vmap(jax.grad(jax.grad(log1pexp)))(jnp.arange(3.0)),
    )


def vmap_things(jax: Any, jnp: Any, nn: Any) -> Any:
    W = jax.random.normal(jax.random.PRNGKey(0), (4, 3))
    xs = jax.random.normal(jax.random.PRNGKey(1), (7, 3))
    per = jax.vmap(jax.grad(lambda w, x: jnp.tanh(w @ x).sum()), in_axes=(None, 0))(W, xs)
    out = jax.vmap(lambda a, b: a * b, in_axes=(0, 1), out_axes=1)(xs, xs.T)
    pm = jax.vmap(lambda x: x - jax.lax.pmean(x, "i"), axis_name="i")(xs)
    hv = jax.jvp(jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 3)), (xs[0],), (xs[1],))
    return (
        per,
        out,
        pm,
        hv,
        jax.linearize(jnp.sin, 1.0)[1](2.0),
        jax.vjp(jnp.dot, xs[0], xs[1])[1](2.0),
    )


def indexing_zoo(jax: Any, jnp: Any, nn: Any) -> Any:
    x = jnp.arange(24.0).reshape(4, 6)
    i = jnp.array([0, 2])
    m = x > 10
    return (
        x[i],
        x[i, 1:3],
        x[:, None, ::2],
        x.at[i].add(1.0),
        x.at[m].set(0.0),
        x.at[::2, 1].multiply(2),
        x[..., -1],
        x[jnp.newaxis, i[:, None], i],
        x.at[0, 0].get(),
        x.at[100].get(mode="fill", fill_value=-1),
        jnp.where(m, x, -x),
        x[::-1, ::-2],
    )


def fft_solver(jax: Any, jnp: Any, nn: Any) -> Any:
    n = 32
    u = jnp.sin(2 * jnp.pi * jnp.arange(n) / n)
    k = jnp.fft.fftfreq(n, 1 / n)
    du = jnp.fft.ifft(1j * k * jnp.fft.fft(u)).real * 2 * jnp.pi
    return (
        du,
        jnp.fft.rfft2(jnp.outer(u, u)),
        jnp.fft.fftshift(k),
        jnp.convolve(u, jnp.ones(3) / 3, mode="same"),
    )


def stats(jax: Any, jnp: Any, nn: Any) -> Any:
    x = jax.random.normal(jax.random.PRNGKey(0), (100,))
    return (
        jnp.percentile(x, jnp.array([5, 50, 95])),
        jnp.histogram(x, bins=10),
        jnp.cov(jnp.stack([x, x**2])),
        jax.scipy.stats.norm.logpdf(x),
        jnp.quantile(x, 0.3),
        jnp.median(x),
        jnp.corrcoef(x, x**3),
        jnp.std(x, ddof=1),
        jnp.bincount(jnp.array([1, 2, 2, 5]), length=6),
    )


def svd_pca_and_lstsq(jax: Any, jnp: Any, nn: Any) -> Any:
    X = jax.random.normal(jax.random.PRNGKey(0), (20, 4))
    _u, s, vt = jnp.linalg.svd(X - X.mean(0), full_matrices=False)
    return (
        s,
        jnp.abs(vt),
        jnp.linalg.lstsq(X, X @ jnp.arange(4.0))[0],
        jnp.linalg.eigh(X.T @ X)[0],
        jnp.linalg.norm(X, axis=1),
        jnp.linalg.pinv(X),
        jnp.linalg.matrix_rank(X),
        jnp.linalg.cond(X),
    )


def checkpoint_and_remat_scan(jax: Any, jnp: Any, nn: Any) -> Any:

    def layer(x, w):
        return (jnp.tanh(x @ w), None)

    ws = jax.random.normal(jax.random.PRNGKey(2), (5, 4, 4)) * 0.5

    def f(ws):
        return jax.lax.scan(jax.checkpoint(layer), jnp.ones((2, 4)), ws)[0].sum()

    return (
        jax.grad(f)(ws),
        jax.grad(lambda ws: jax.lax.scan(layer, jnp.ones((2, 4)), ws)[0].sum())(ws),
    )


def dtype_rules(jax: Any, jnp: Any, nn: Any) -> Any:
    return [
        jnp.ones(3, jnp.bfloat16) * 2,
        jnp.arange(3) / 2,
        jnp.ones(2, jnp.int8) + jnp.ones(2, jnp.uint8),
        jnp.array(1) + 1.5,
        jnp.float16(1) * jnp.ones(2),
        jnp.sum(jnp.ones(3, bool)),
        jnp.mean(jnp.arange(4)),
        jnp.array([1, 2]).astype(complex),
        jnp.zeros(2, jnp.uint32) - 1,
        jnp.issubdtype(jnp.float32, jnp.floating),
        jnp.exp(1),
        jnp.int32(7) // 2,
        jnp.array(7) % -3,
        jnp.power(2, jnp.arange(3)),
        jnp.bool_(True) + 1,
        jnp.full((2,), 1),
        jnp.full((2,), 1.5),
        jnp.linspace(0, 1, 3, dtype=int),
    ]


def cond_switch_map(jax: Any, jnp: Any, nn: Any) -> Any:
    return [
        jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0),
        jax.lax.switch(2, [lambda x: x, lambda x: x * 2, lambda x: x * 3], 5.0),
        jax.lax.map(lambda x: x**2, jnp.arange(4.0)),
        jax.lax.associative_scan(jnp.multiply, jnp.arange(1.0, 6.0)),
        jax.lax.select(jnp.array([True, False]), jnp.ones(2), jnp.zeros(2)),
        jax.lax.top_k(jnp.array([3.0, 1.0, 2.0]), 2),
        jax.lax.sort(jnp.array([3, 1, 2])),
        jax.lax.cumsum(jnp.arange(4.0), reverse=True),
        jax.lax.fori_loop(0, 5, lambda i, x: x + i, 0),
    ]


def array_methods(jax: Any, jnp: Any, nn: Any) -> Any:
    x = jnp.arange(6.0).reshape(2, 3)
    y = jax.device_put(x).block_until_ready()
    return [
        y.T,
        y.sum(0),
        y.mean(),
        y.max(1),
        y.argmax(),
        y.astype(int),
        y.ravel(),
        y.reshape(3, -1),
        y.transpose(),
        y.swapaxes(0, 1),
        y.flatten(),
        y.dot(y.T),
        y.cumsum(1),
        y.round(1),
        y.std(),
        y.clip(1, 2),
        y.squeeze(),
        y.repeat(2, 0),
        y.take(jnp.array([0, 1])),
        float(y[0, 1]),
        int(y[1, 2]),
        len(y),
        y.size,
        y.ndim,
        y.itemsize,
        y.nbytes,
    ]


PROGRAMS: list[Program] = [
    rk4_ode,
    gaussian_process,
    transformer_block,
    kalman,
    metropolis,
    sinkhorn,
    segment_sums_and_graph_net,
    tree_util,
    ravel_pytree,
    newton,
    conv_net,
    custom_derivative,
    vmap_things,
    indexing_zoo,
    fft_solver,
    stats,
    svd_pca_and_lstsq,
    checkpoint_and_remat_scan,
    dtype_rules,
    cond_switch_map,
    array_methods,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_for_jax_runs(program: Program) -> None:
    found, wanted = (rlx.tree.leaves(program(*RLX)), jax.tree.leaves(program(*JAX)))
    for got, want in zip(found, wanted, strict=True):
        got, want = (np.asarray(got), np.asarray(want))
        assert got.dtype == want.dtype
        wide = [x.astype("complex128" if x.dtype.kind == "c" else "float64") for x in (got, want)]
        np.testing.assert_allclose(*wide, rtol=0.002, atol=0.0002)
