"""Factorizations and Fourier transforms of open sizes: one compiled function, NumPy's numbers."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import parse
from rlx.ir.dims import compare, dim, minimum
from rlx.ir.text import show

SHAPES = [(3, 3), (5, 2), (2, 4)]
OF_MATRICES = {
    "svd": lambda a: rnp.linalg.svd(a, full_matrices=False),
    "svdvals": lambda a: rnp.linalg.svd(a, compute_uv=False),
    "full svd": rnp.linalg.svd,
    "qr": rnp.linalg.qr,
    "complete qr": lambda a: rnp.linalg.qr(a, mode="complete"),
    "pinv": rnp.linalg.pinv,
    "matrix_rank": rnp.linalg.matrix_rank,
    "norm 2": lambda a: rnp.linalg.norm(a, 2),
    "norm -2": lambda a: rnp.linalg.norm(a, -2),
    "norm nuc": lambda a: rnp.linalg.norm(a, "nuc"),
    "lstsq": lambda a: rnp.linalg.lstsq(a, a[:, 0])[0],
    "fft2": rnp.fft.fft2,
    "rfft2": lambda a: rnp.fft.rfft2(a, norm="ortho"),
    "ifft": lambda a: rnp.fft.ifft(a, axis=0, norm="forward"),
    "irfft": lambda a: rnp.fft.irfft(a, axis=1),
    "ihfft": rnp.fft.ihfft,
}


def _matrix(shape):
    return np.random.default_rng(0).normal(size=shape)


def _agree(found, expected):
    for x, y in zip(rlx.tree.leaves(found), rlx.tree.leaves(expected), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, atol=1e-9)


@pytest.mark.parametrize("name", OF_MATRICES)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_matrices_of_open_sizes(name, device):
    compute = OF_MATRICES[name]
    compiled = rlx.jit(lambda a: compute(a), dynamic={"a": {0: "n", 1: "m"}}, device=device)
    for shape in SHAPES:
        a = _matrix(shape)
        _agree(compiled(a), compute(rnp.asarray(a)))


DIFFERENTIATED = {
    "svd": lambda a: sum(rnp.sum(rnp.abs(x) ** 3) for x in OF_MATRICES["svd"](a)),
    "qr": lambda a: sum(rnp.sum(x**3) for x in rnp.linalg.qr(a)),
    "pinv": lambda a: rnp.sum(rnp.linalg.pinv(a) ** 3),
    "nuc": lambda a: rnp.linalg.norm(a, "nuc"),
    "fft": lambda a: rnp.sum(rnp.abs(rnp.fft.fft2(a)) ** 2),
    "rfft": lambda a: rnp.sum(rnp.real(rnp.fft.rfft(a)) ** 3),
    "irfft": lambda a: rnp.sum(rnp.fft.irfft(a) ** 3),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_for_open_sizes(name):
    slope = rlx.grad(DIFFERENTIATED[name])
    compiled = rlx.jit(lambda a: slope(a), dynamic={"a": {0: "n", 1: "m"}})
    for shape in SHAPES:
        a = _matrix(shape)
        _agree(compiled(a), slope(rnp.asarray(a)))


def test_the_lesser_size_is_ordered_and_prints():
    n, m = dim("n"), dim("m")
    least = minimum(n, m)
    assert compare(n, least) and compare(m, least) and compare(n + m - least, n)
    assert compare(least, 1) and compare(least, n) is None
    assert least.substitute({"n": 3, "m": 5}) == 3
    assert least.substitute({"n": m + 1}) == m
    graph = rlx.make_graph(lambda a: rnp.linalg.svd(a)[1])(rlx.spec((n, m)))
    assert show(parse(show(graph))) == show(graph)
