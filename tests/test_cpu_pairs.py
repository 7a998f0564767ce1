"""Products of bfloat16 with one order of sums, whichever kernel computes them."""

import itertools
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from test_cpu_gemm import Layout, Product, kind_of, problem_of, stored

import rlx
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.loops.pairs import adds_pairs

INVARIANT = replace(host(), batch_invariant=True)
pytestmark = pytest.mark.skipif(
    not adds_pairs(INVARIANT), reason="the processor adds no pairs of bfloat16"
)
BFLOAT16 = ml_dtypes.bfloat16
DEVICES = [INVARIANT, replace(INVARIANT, l1=2 << 10, l2=16 << 10, l3=64 << 10)]
LAYOUTS = [Layout(a, b) for a, b in itertools.product(("rows", "columns", "gaps"), repeat=2)]


def flushed(x: np.ndarray) -> np.ndarray:
    """Numbers of float32 with zeros for those that are subnormal."""
    x = x.astype(np.float32)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def one_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sums of pairs, the second product first, each rounded once."""
    a, b = (flushed(x).astype(np.float64) for x in (a, b))
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for even in range(0, a.shape[1], 2):
        for k in (even + 1, even)[even + 1 == a.shape[1] :]:
            total = flushed(a[:, k : k + 1] * b[k] + total.astype(np.float64))
    return total


@pytest.mark.parametrize("scale", [1.0, 2e-20])
@pytest.mark.parametrize(
    ("size", "kinds"),
    [
        ((1, 40, 33), {"columns", "small", "packed", "streamed"}),
        ((7, 64, 70), {"columns", "small", "packed", "streamed"}),
        ((40, 1, 51), {"columns", "small", "packed"}),
        ((20, 36, 301), {"small", "packed", "streamed"}),
        ((33, 40, 65), {"groups"}),
    ],
)
def test_every_kernel_adds_in_one_order(size, kinds, scale):
    m, n, k = size
    a = (stored((m, k), "rows", "bfloat16", 1).astype(np.float32) * scale).astype(BFLOAT16)
    b = (stored((k, n), "rows", "bfloat16", 2).astype(np.float32) * scale).astype(BFLOAT16)
    wanted, seen = one_order(a, b), set()
    for number, layout in enumerate(LAYOUTS):
        x, y = stored((m, k), layout.a, "bfloat16", 1), stored((k, n), layout.b, "bfloat16", 2)
        x[...], y[...] = a, b
        product = Product(
            problem_of(x, y, 0, "bfloat16", "float32"), DEVICES[number % 2], 1 + number % 3
        )
        assert product(x, y).tobytes() == wanted.tobytes(), kind_of(product.plan)
        seen.add(kind_of(product.plan))
    assert seen <= kinds and len(seen) >= min(2, len(kinds))


def test_products_of_open_sizes_add_in_this_order():
    a = np.random.default_rng(0).normal(size=(40, 131)).astype(BFLOAT16)
    b = np.random.default_rng(1).normal(size=(131, 33)).astype(BFLOAT16)

    def product(x, w):
        return rlx.numpy.matmul(x, w, preferred_element_type="float32")

    axes = {"x": {0: "n", 1: "k"}, "w": {0: "k"}}
    for dynamic in ({"x": {0: "n"}}, axes, {"w": {1: "m"}}):
        f = rlx.jit(product, deterministic="batch", dynamic=dynamic)
        for count in (1, 9, 40):
            got = np.asarray(f(a[:count], b))
            assert got.tobytes() == one_order(a[:count], b).tobytes(), (dynamic, count)
