"""Grids, polynomials, bits and files of rlx.numpy, compared with JAX and NumPy."""

from __future__ import annotations

import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ArgumentError, AttributeValueError, DtypeError, FileFormatError, RlxError

random = np.random.default_rng(0)
X = random.normal(size=(5, 4)).astype(np.float32)
POINTS = random.uniform(-1, 1, (40, 2)).astype(np.float32)
WEIGHTS = random.uniform(0, 1, 40).astype(np.float32)
LINE = np.array([0.0, 0.5, 2.0, 2.25, 4.0], np.float32)


def same(found: Any, wanted: Any) -> None:
    """Compare two trees of arrays."""
    for x, y in zip(rlx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


CALLS = [
    lambda np: np.mgrid[0:3, 1:6:2],
    lambda np: np.mgrid[0:1:5j, 0:3],
    lambda np: np.mgrid[2:5],
    lambda np: np.ogrid[0:3, 0:1:3j],
    lambda np: np.r_[0:4, 7, X[0, :2]],
    lambda np: np.r_[-1:1:6j, 0.0],
    lambda np: np.r_["0,2", X[0], X[1]],
    lambda np: np.r_["0,2,0", X[0], X[1]],
    lambda np: np.r_["1,3", X, X],
    lambda np: np.r_["-1", X, X],
    lambda np: np.c_[X[0], X[1]],
    lambda np: np.c_[X, X[:, :1]],
    lambda np: X[np.s_[1:3, ...]] + 0,
    lambda np: X[np.index_exp[1]] + 0,
    lambda np: np.mask_indices(3, np.triu),
    lambda np: np.mask_indices(3, np.tril, 1),
    lambda np: np.gradient(X),
    lambda np: np.gradient(X, 2.0, 0.5),
    lambda np: np.gradient(X, axis=0),
    lambda np: np.gradient(X, 2.0, axis=(1,)),
    lambda np: np.gradient(X, LINE, axis=0),
    lambda np: np.gradient(jnp.arange(5)),
    lambda np: np.histogram2d(POINTS[:, 0], POINTS[:, 1], 4),
    lambda np: np.histogram2d(POINTS[:, 0], POINTS[:, 1], (3, 4), ((-1, 0.5), (0, 1)), WEIGHTS),
    lambda np: np.histogramdd(POINTS, 3, density=True),
    lambda np: np.histogramdd(POINTS, [np.linspace(-1.0, 1.0, 4), 2]),
    lambda np: np.packbits(X > 0),
    lambda np: np.packbits(X > 0, 0, "little"),
    lambda np: np.unpackbits(np.packbits(X > 0, 1), 1, count=4),
    lambda np: np.unpackbits(jnp.arange(7, dtype="uint8"), bitorder="little", count=-3),
    lambda np: np.unpackbits(jnp.arange(7, dtype="uint8"), count=60),
    lambda np: np.polydiv(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1.0, 1.0])),
    lambda np: np.polydiv(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0, 2.0])),
    lambda np: np.poly(jnp.array([1.0, -2.0, 3.0])),
    lambda np: np.polyfit(LINE, LINE**2 - 1, 2),
    lambda np: np.polyfit(LINE, np.stack([LINE**2, LINE], 1), 2, w=jnp.arange(5.0) + 1),
    lambda np: np.sort(np.roots(jnp.array([0.0, 1.0, -6.0, 11.0, -6.0, 0.0])).real),
    lambda np: np.roots(jnp.array([0.0, 0.0])),
    lambda np: np.frombuffer(b"\x01\x02\x03", "uint8", 2, 1),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_jax(call):
    same(call(rnp), call(jnp))


def test_under_jit_and_grad():
    same(rlx.jit(lambda x: rnp.gradient(x, axis=0))(X), jnp.gradient(jnp.array(X), axis=0))
    same(rlx.jit(lambda x: rnp.r_[x, 0:2])(X[0]), np.concatenate([X[0], [0, 1]]).astype("float32"))
    found = rlx.grad(lambda y: rnp.polyfit(LINE, y, 1)[0])(LINE**2)
    same(found, jax.grad(lambda y: jnp.polyfit(LINE, y, 1)[0])(jnp.array(LINE**2)))


def test_files_give_arrays_back(tmp_path):
    rnp.save(tmp_path / "x.npy", X)
    same(rnp.load(tmp_path / "x.npy"), X)
    rnp.savez(tmp_path / "x.npz", X, other=LINE)
    same(rnp.load(tmp_path / "x.npz"), {"arr_0": X, "other": LINE})
    X.tofile(tmp_path / "x.bytes")
    same(rnp.fromfile(tmp_path / "x.bytes", "float32"), X.reshape(-1))
    same(rnp.fromiter(iter([1, 2]), int), np.array([1, 2], np.int32))
    same(rnp.fromstring("1 2 3", sep=" "), np.array([1, 2, 3], np.float32))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04 no archive", b"text"])
def test_a_broken_file_is_an_error(content):
    with pytest.raises(FileFormatError, match="not a NumPy file"):
        rnp.load(io.BytesIO(content))


def test_objects_are_not_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises((FileFormatError, DtypeError)):
        rnp.load(tmp_path / "x.npy")


@pytest.mark.parametrize(
    "call",
    [
        lambda: rnp.gradient(X, 1.0, 2.0, 3.0),
        lambda: rnp.gradient(X[:1]),
        lambda: rnp.gradient(X, edge_order=2),
        lambda: rnp.r_["x", X],
        lambda: rnp.packbits(X, bitorder="middle"),
        lambda: rnp.unpackbits(X),
    ],
)
def test_bad_input(call):
    with pytest.raises((ArgumentError, AttributeValueError)):
        call()


@pytest.mark.parametrize(
    ("signature", "shapes"),
    [
        (None, [(3, 1), (1, 4), ()]),
        ("(),(),()->()", [(2, 1, 3), (3,), (4, 1)]),
        ("(n),(n),()->()", [(5, 3), (3,), (2, 1)]),
        ("(m,n),(n),(k)->(m,k)", [(2, 3), (4, 3), (5, 1, 6)]),
        ("(n),(),()->(n),()", [(1, 3), (4,), (1,)]),
    ],
)
def test_vectorize(signature, shapes):
    def fn(np):
        def inner(x, y, z):
            if signature and "k" in signature:
                return (x @ y)[:, None] * z
            if signature and signature.endswith("(n),()"):
                return x * y, z + y
            return np.sum(x * y) + z

        return inner

    given = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    found = rnp.vectorize(fn(rnp), signature=signature)(*given)
    same(found, jnp.vectorize(fn(jnp), signature=signature)(*given))
    same(rlx.jit(rnp.vectorize(fn(rnp), signature=signature))(*given), found)


def test_vectorize_excludes_arguments():
    fn = lambda x, name, scale=1.0: x * scale if name == "scale" else x  # noqa: E731
    found = rnp.vectorize(fn, excluded={1})(X, "scale", 3.0)
    same(found, X * 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_functions_along_axes(axis):
    x = random.normal(size=(2, 3, 4)).astype(np.float32)
    for name in ("sort", "sum", "outer"):
        ours = getattr(rnp, name) if name != "outer" else lambda v: rnp.outer(v, v)
        theirs = getattr(jnp, name) if name != "outer" else lambda v: jnp.outer(v, v)
        same(rnp.apply_along_axis(ours, axis, x), jnp.apply_along_axis(theirs, axis, x))
    same(rnp.apply_over_axes(rnp.sum, x, (0, axis)), jnp.apply_over_axes(jnp.sum, x, (0, axis)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: rnp.vectorize(rnp.dot, signature="(n,(n)->()"),
        lambda: rnp.vectorize(rnp.dot, signature="(n),(n)->()")(X),
        lambda: rnp.vectorize(rnp.dot, signature="(n),(n)->()")(X, 1.0),
        lambda: rnp.vectorize(rnp.dot, signature="(n),(n)->()")(X, X.T),
        lambda: rnp.vectorize(3),
    ],
)
def test_bad_vectorize(call):
    with pytest.raises(RlxError):
        call()


def _complex_numbers(parts: list[float], shape: tuple[int, ...]) -> np.ndarray:
    x = np.zeros(shape, "complex64")
    x.real, x.imag = random.choice(parts, shape), random.choice(parts, shape)
    return x


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("parts", [[0.0, -1.0, 2.0], [0.0, 1.0, np.nan, np.inf, -np.inf]])
def test_extremes_of_complex_numbers_are_numpys(name, parts):
    axes = (None, 0, -1, (0, 2), ()) if name.startswith("m") else (None, 0, -1)
    ours, theirs = getattr(rnp, name), getattr(np, name)
    x = _complex_numbers(parts, (3, 2, 4))
    for axis in axes:
        for keepdims in (False, True):
            wanted = theirs(x, axis, keepdims=keepdims)
            found = np.asarray(ours(x, axis, keepdims=keepdims))
            np.testing.assert_array_equal(
                np.stack([found.real, found.imag]), [wanted.real, wanted.imag]
            )
    rows = rlx.jit(rlx.vmap(ours))(x)
    np.testing.assert_array_equal(rows, [ours(row) for row in x])


def test_complex_numbers_have_a_range_a_slope_and_bins():
    x = np.array([1 + 2j, 3 - 1j, 3 + 1j, -7j], "complex64")
    same(rnp.ptp(x), np.ptp(x))
    same(rnp.max(x, initial=2, where=[True, False, False, True]), np.complex64(2))
    same(rnp.nanmin(np.append(x, np.complex64(np.nan))), np.complex64(-7j))
    slope = jax.grad(lambda x: jnp.abs(jnp.max(x)))(x)
    same(rlx.grad(lambda x: rnp.abs(rnp.max(x)))(x), slope)
    counts, edges = rnp.histogram(x, 4)
    assert counts.tolist() == [1, 1, 0, 2]
    same(edges, np.histogram_bin_edges(x, 4))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_running_extremes_of_truths(name):
    x = random.random((3, 5)) > 0.5
    for axis in (0, 1):
        found = getattr(rnp, name).accumulate(x, axis)
        same(found, getattr(np, name).accumulate(x, axis))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(400, 90), (40, 41), (5, 1)])
def test_sums_of_long_convolutions_are_as_near_as_numpys(mode, sizes):
    random = np.random.default_rng(0)
    a, v = (random.normal(size=n).astype(np.float32) for n in sizes)
    for name in ("convolve", "correlate"):
        theirs, ours = getattr(np, name), getattr(rnp, name)
        exact = theirs(a.astype(float), v.astype(float), mode)
        most = 4 * abs(theirs(a, v, mode) - exact).max() + 1e-6
        for made in (ours(a, v, mode), rlx.jit(lambda a, v, f=ours: f(a, v, mode))(a, v)):
            assert made.shape == exact.shape and abs(np.asarray(made) - exact).max() <= most
        whole = [(3 * x).astype("int32") for x in (a, v)]
        assert ours(*whole, mode).tolist() == theirs(*whole, mode).tolist()
        flags = a > 0, v > 1
        assert ours(*flags, mode).tolist() == theirs(*flags, mode).tolist()
    halves = [x.astype(np.float16) for x in (a, v)]
    exact = np.convolve(*(x.astype(float) for x in halves), mode)
    np.testing.assert_allclose(rnp.convolve(*halves, mode), exact, rtol=2e-3, atol=2e-3)


def test_a_convolution_lays_out_no_windows():
    n, k = 5_000_000, 300
    traced = rlx.make_graph(rnp.convolve)(rlx.spec((n,)), rlx.spec((k,)))
    assert max(v.type.size for node in traced.walk() for v in node.results) <= n + 2 * k
    assert max(p.type.size for p in traced.params) <= n
