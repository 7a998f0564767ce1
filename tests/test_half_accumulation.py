"""Floats of 16 and 8 bits: sums and products are computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax, nn
from rlx.scipy import signal, special

DTYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
PLACES = np.arange(300) % 3
KEPT = np.arange(300) % 3 > 0
LABELS = np.arange(40) % 10
UNIT, WIDE, NEAR_ONE = (-1.0, 1.0), (-3.0, 3.0), (0.7, 1.3)


def add(x: Any, y: Any) -> Any:
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, y, y, "VALID")


def total(x: Any) -> Any:
    """A sum in float32 or wider, to take slopes of."""
    return x.sum(dtype=rnp.promote_types(x.dtype, "float32"))


class Case:
    """A function, the shapes of its arguments, and their range."""

    def __init__(self, fn: Callable[..., Any], *shapes: Any, range: Any = UNIT) -> None:
        self.fn, self.shapes, self.range = fn, shapes, range

    def arrays(self, dtype: str) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        return [random.uniform(*self.range, shape).astype(dtype) for shape in self.shapes]


LINE, ROWS = (300,), (4, 300)
CASES = {
    "sum": Case(lambda x: rnp.sum(x, 1), ROWS),
    "sum of all": Case(rnp.sum, (16, 300)),
    "prod": Case(lambda x: rnp.prod(x, 1), (4, 12), range=NEAR_ONE),
    "mean": Case(lambda x: rnp.mean(x, 0), (300, 4)),
    "mean where": Case(lambda x: rnp.mean(x, 1, where=KEPT), ROWS),
    "var": Case(lambda x: rnp.var(x, 1), ROWS),
    "std": Case(lambda x: rnp.std(x, 1), ROWS),
    "average": Case(lambda x, w: rnp.average(x, 1, weights=w), ROWS, ROWS, range=(0.1, 1)),
    "nansum": Case(lambda x: rnp.nansum(x, 1), ROWS),
    "nanmean": Case(lambda x: rnp.nanmean(x, 1), ROWS),
    "nanprod": Case(lambda x: rnp.nanprod(x, 1), (4, 12), range=NEAR_ONE),
    "median": Case(lambda x: rnp.median(x, 1), (4, 30)),
    "quantile": Case(lambda x: rnp.quantile(x, 0.3, 1), (4, 31)),
    "cov": Case(rnp.cov, (3, 200)),
    "corrcoef": Case(rnp.corrcoef, (3, 200)),
    "trapezoid": Case(rnp.trapezoid, LINE),
    "cumsum": Case(lambda x: rnp.cumsum(x, 1), ROWS),
    "cumprod": Case(lambda x: rnp.cumprod(x, 1), (4, 14), range=NEAR_ONE),
    "cumlogsumexp": Case(lambda x: lax.cumlogsumexp(x, 1), (4, 60)),
    "matmul": Case(rnp.matmul, (5, 300), (300, 6)),
    "dot": Case(rnp.dot, LINE, LINE),
    "vdot": Case(rnp.vdot, LINE, LINE),
    "inner": Case(rnp.inner, ROWS, (5, 300)),
    "tensordot": Case(rnp.tensordot, (4, 20, 10), (20, 10, 3)),
    "einsum of sums": Case(lambda x, y: rnp.einsum("bij,bjk->bk", x, y), (3, 20, 10), (3, 10, 4)),
    "einsum of three": Case(
        lambda *xs: rnp.einsum("ij,jk,kl->il", *xs), (3, 20), (20, 30), (30, 4)
    ),
    "multi_dot": Case(lambda *xs: rnp.linalg.multi_dot(xs), (3, 20), (20, 30), (30, 4)),
    "matrix_power": Case(lambda x: rnp.linalg.matrix_power(x, 4), (6, 6), range=(-0.5, 0.5)),
    "dot_general": Case(
        lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), (3, 4, 200), (3, 200, 5)
    ),
    "convolve": Case(rnp.convolve, (100,), (30,)),
    "signal.convolve": Case(signal.convolve, (12, 12), (5, 5)),
    "conv": Case(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), (1, 8, 9, 9), (4, 8, 3, 3)),
    "slope of conv": Case(
        lambda x, k: rlx.grad(lambda k: total(lax.conv(x, k, (1, 1), "SAME")))(k),
        (2, 8, 9, 9),
        (4, 8, 3, 3),
    ),
    "trace": Case(rnp.trace, (200, 200)),
    "norm": Case(rnp.linalg.norm, LINE),
    "norm of 3": Case(lambda x: rnp.linalg.norm(x, 3), LINE),
    "matrix norm": Case(lambda x: rnp.linalg.matrix_norm(x, ord=1), (20, 20)),
    "vector norm": Case(lambda x: rnp.linalg.vector_norm(x, axis=1), ROWS),
    "reduce": Case(lambda x: lax.reduce(x, np.zeros((), x.dtype), lambda a, b: a + b, (0,)), LINE),
    "reduce_window": Case(lambda x: add(x, (8, 8)), (32, 32)),
    "average pool": Case(lambda x: nn.avg_pool(x, (8, 8)), (1, 16, 16, 2)),
    "scatter_add": Case(lambda x: rnp.zeros(3, x.dtype).at[PLACES].add(x), LINE),
    "scatter_mul": Case(
        lambda x: rnp.ones(3, x.dtype).at[PLACES[:30]].multiply(x), (30,), range=NEAR_ONE
    ),
    "slope of gather": Case(
        lambda x, w: rlx.grad(lambda x: total(x[PLACES] * w))(x), (3,), LINE
    ),
    "bincount": Case(lambda x: rnp.bincount(PLACES, weights=x), LINE),
    "slope of a sum": Case(
        lambda x, b: rlx.grad(lambda b: total(x + b))(b), (300, 4), (4,)
    ),
    "softmax": Case(nn.softmax, ROWS, range=WIDE),
    "softmax where": Case(lambda x: nn.softmax(x, where=KEPT), ROWS, range=WIDE),
    "log_softmax": Case(nn.log_softmax, ROWS, range=WIDE),
    "logsumexp": Case(lambda x: nn.logsumexp(x, 1), ROWS, range=WIDE),
    "logsumexp where": Case(lambda x: nn.logsumexp(x, 1, where=KEPT), ROWS, range=WIDE),
    "logsumexp of weights": Case(
        lambda x, b: special.logsumexp(x, 1, b=rnp.abs(b)), ROWS, ROWS, range=WIDE
    ),
    "logmeanexp": Case(lambda x: nn.logmeanexp(x, 1), ROWS, range=WIDE),
    "standardize": Case(nn.standardize, ROWS),
    "layer_norm": Case(nn.layer_norm, ROWS, LINE, LINE),
    "rms_norm": Case(nn.rms_norm, ROWS, LINE),
    "gelu": Case(nn.gelu, LINE, range=WIDE),
    "silu": Case(nn.silu, LINE, range=WIDE),
    "mish": Case(nn.mish, LINE, range=WIDE),
    "selu": Case(nn.selu, LINE, range=WIDE),
    "softplus": Case(nn.softplus, LINE, range=WIDE),
    "soft_sign": Case(nn.soft_sign, LINE, range=WIDE),
    "hard_silu": Case(nn.hard_silu, LINE, range=WIDE),
    "squareplus": Case(nn.squareplus, LINE, range=WIDE),
    "glu": Case(nn.glu, LINE, range=WIDE),
    "hypot": Case(rnp.hypot, LINE, LINE),
    "logaddexp": Case(rnp.logaddexp, LINE, LINE),
    "attention": Case(nn.dot_product_attention, *[(2, 30, 2, 8)] * 3),
    "cross_entropy": Case(
        lambda x: nn.losses.cross_entropy(x, LABELS), (40, 10), range=WIDE
    ),
    "binary_cross_entropy": Case(nn.losses.binary_cross_entropy, LINE, LINE),
    "mean_squared_error": Case(nn.losses.mean_squared_error, LINE, LINE),
    "mean_absolute_error": Case(nn.losses.mean_absolute_error, LINE, LINE),
    "huber": Case(lambda x, y: nn.losses.huber(x, y, delta=0.5), LINE, LINE),
}  # fmt: skip


def off_by(got: Any, exact: Any, dtype: str) -> float:
    """How many units of the last place numbers are from the exact ones, 0.5 for one rounding."""
    got, exact = np.asarray(got), np.asarray(exact)
    assert got.dtype == dtype
    assert got.shape == exact.shape
    info = ml_dtypes.finfo(dtype)
    # float32 sums leave an error that counts where the terms almost cancel
    least = max(float(info.smallest_normal), 1e-3 * float(np.max(np.abs(exact))))
    size = np.maximum(np.abs(exact), least)
    return float(np.max(np.abs(got.astype("float64") - exact) / size)) / float(info.eps)


@pytest.fixture(scope="module")
def exact() -> dict[tuple[str, str], np.ndarray]:
    """The results in float64, of the same numbers."""
    return {
        (name, dtype): np.asarray(case.fn(*[x.astype("float64") for x in case.arrays(dtype)]))
        for name, case in CASES.items()
        for dtype in DTYPES
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_results_are_rounded_once(name: str, dtype: str, exact: Any) -> None:
    case = CASES[name]
    got = case.fn(*map(rlx.array, case.arrays(dtype)))
    assert off_by(got, exact[name, dtype], dtype) < 0.56


def test_compiled_results_are_rounded_once(exact: Any) -> None:
    dtype = "bfloat16"
    arrays = {name: case.arrays(dtype) for name, case in CASES.items()}
    every = rlx.jit(lambda arrays: {name: CASES[name].fn(*xs) for name, xs in arrays.items()})
    for name, got in every(arrays).items():
        assert off_by(got, exact[name, dtype], dtype) < 0.56, name


@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_round_once(dtype: str) -> None:
    key = rlx.random.key(0)
    random = np.random.default_rng(0)
    for plain, shape in (
        (nn.Linear(300, 5, key=key), (4, 300)),
        (nn.Conv(8, 4, (3, 3), key=key), (2, 6, 6, 8)),
        (nn.ConvTranspose(8, 4, (3, 3), key=key), (2, 6, 6, 8)),
    ):
        plain = plain.replace(bias=plain.bias + 0.3)
        layer = rlx.tree.map(lambda leaf: leaf.astype(dtype), plain)
        x = random.uniform(-1, 1, shape).astype(dtype)
        wide = rlx.tree.map(lambda leaf: leaf.astype("float64"), layer)
        assert off_by(layer(rlx.array(x)), wide(x.astype("float64")), dtype) < 0.56


def test_squares_beyond_the_range_do_no_harm() -> None:
    x = np.array([300.0, 400.0], "float16")
    assert rnp.linalg.norm(x) == 500
    assert rnp.linalg.vector_norm(x) == 500
    assert rnp.hypot(x[:1], x[1:]) == 500
    assert nn.losses.mean_squared_error(x / 100, 0 * x) == 12.5
    many = np.full(4096, 100.0, "float16")
    assert rnp.mean(many) == 100
    assert rnp.std(many) == 0
    assert rnp.average(many, weights=many) == 100


def test_float8_without_infinity_has_no_nan_in_masked_sums() -> None:
    x = np.array([[1.0, 2.0, -1.0]], "float8_e4m3fn")
    where = np.array([True, False, True])
    assert not np.isnan(np.asarray(nn.logsumexp(x, 1, where=where), "float32")).any()
    assert not np.isnan(np.asarray(nn.logmeanexp(x, 1, where=where), "float32")).any()
    assert not np.isnan(np.asarray(nn.softmax(x, where=where), "float32")).any()
