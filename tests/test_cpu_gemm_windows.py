"""Windows of padded images that products read where they lie, and images they store into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.backends.cpu import backend
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.products.choice import GemmPlan

NAMES = ("NHWC", "HWIO", "NHWC")
EPS = {"float32": 2.0**-24, "float64": 2.0**-53}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[GemmPlan]:
    """Every plan of a product with work that is made."""
    made: list[GemmPlan] = []
    of = GemmPlan.of

    def noted(*args: Any) -> GemmPlan:
        made.append(of(*args))
        return made[-1]

    monkeypatch.setattr(GemmPlan, "of", noted)
    return made


def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches so small that sums are cut."""
    small = replace(host(), l1=2 << 10, l2=16 << 10, l3=64 << 10)
    monkeypatch.setattr(backend, "host", lambda: small)


def compare(function: Any, *arrays: np.ndarray, terms: int) -> None:
    """Compare a function's results and its cotangents with the reference device's."""
    ct = np.random.default_rng(9).normal(size=rlx.eval_shape(function, *arrays).shape)
    ct = ct.astype(arrays[0].dtype)

    def pulled(ct: Any, *arrays: Any) -> Any:
        made, pull = rlx.vjp(function, *arrays)
        return made, pull(ct)

    def results(device: str, dtype: Any) -> list[np.ndarray]:
        given = [a.astype(dtype) for a in (ct, *arrays)]
        made, cotangents = rlx.jit(pulled, device=device)(*given)
        return [np.asarray(a) for a in (made, *cotangents)]

    got, wanted = results("cpu", ct.dtype), results("reference", np.float64)
    for g, w in zip(got, wanted, strict=True):
        bound = (terms + ct.size // ct.shape[-1]) * EPS[g.dtype.name]
        scale = np.abs(w).max() + 1
        np.testing.assert_allclose(g.astype(np.float64), w, rtol=0, atol=bound * scale)


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    ("shape", "outputs", "window", "stride", "dilation", "dtype"),
    [
        ((2, 12, 14, 24), 40, (3, 3), 1, 1, "float32"),
        ((1, 9, 13, 33), 50, (3, 3), 1, 1, "float32"),  # lines of a prime number
        ((2, 11, 15, 3), 20, (7, 5), 2, 1, "float32"),
        ((3, 12, 30, 16), 34, (3, 2), 1, 2, "float64"),
        ((2, 8, 17, 40), 33, (3, 3), 1, 1, "float32"),  # no tile is as high as a line
    ],
)
def test_windows_are_read_in_place(
    shape: tuple, outputs: int, window: tuple, stride: int, dilation: int, dtype: str,
    is_cut: bool, monkeypatch: pytest.MonkeyPatch, plans: list[GemmPlan],
):  # fmt: skip
    if is_cut:
        small_caches(monkeypatch)
    random = np.random.default_rng(outputs)
    shape = (shape[0] + is_cut, *shape[1:])  # not the code that was compiled for larger caches
    x = random.normal(size=shape).astype(dtype)
    kernel = random.normal(size=(*window, shape[-1], outputs)).astype(dtype)

    def convolve(x: Any, k: Any) -> Any:
        steps, pads = (stride, stride), ((1, 2), (dilation, dilation))
        return rlx.lax.conv_general_dilated(
            x, k, steps, pads, rhs_dilation=(dilation, dilation), dimension_numbers=NAMES
        )

    compare(convolve, x, kernel, terms=max(window) ** 2 * shape[-1])
    if shape[-2:] == (13, 33) and host().vector_bytes < 64:
        return  # tiles that divide a prime number are low: with short vectors a copy costs less
    in_place = [p.blocking for p in plans if p.blocking and p.blocking.reads_windows]
    assert in_place
    assert any(blocking.pieces > 1 for blocking in in_place) or not is_cut


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    ("shape", "outputs", "window", "base", "dilation", "groups"),
    [
        ((2, 6, 14, 24), 40, (3, 3), (2, 2), 1, 1),
        ((1, 5, 17, 20), 33, (3, 4), (2, 2), 1, 1),  # tiles go over the ends of lines
        ((2, 4, 13, 12), 36, (5, 3), (3, 2), 2, 1),
        ((2, 6, 8, 24), 40, (3, 3), (1, 2), 1, 2),
    ],
)
def test_transposed_convolutions_store_into_images(
    shape: tuple, outputs: int, window: tuple, base: tuple, dilation: int, groups: int,
    is_cut: bool, monkeypatch: pytest.MonkeyPatch, plans: list[GemmPlan],
):  # fmt: skip
    if is_cut:
        small_caches(monkeypatch)
    random = np.random.default_rng(outputs)
    shape = (shape[0] + is_cut, *shape[1:])
    x = random.normal(size=shape).astype(np.float32)
    kernel = random.normal(size=(*window, shape[-1] // groups, outputs)).astype(np.float32)

    def convolve(x: Any, k: Any) -> Any:
        return rlx.lax.conv_general_dilated(
            x, k, (1, 1), ((2, 1), (1, 2)), lhs_dilation=base, rhs_dilation=(dilation, dilation),
            dimension_numbers=NAMES, feature_group_count=groups,
        )  # fmt: skip

    compare(convolve, x, kernel, terms=max(window) ** 2 * shape[-1])
    made = rlx.eval_shape(convolve, x, kernel).shape
    is_whole = made[1] % base[0] == made[2] % base[1] == 0  # else the last phase is cut off
    assert groups > 1 or not is_whole or any(p.problem.c_lines for p in plans)


def test_an_epilogue_stores_into_an_image(plans: list[GemmPlan]):
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 6, 14, 24)).astype(np.float32)
    kernel = random.normal(size=(3, 3, 24, 40)).astype(np.float32)

    def convolve(x: Any, k: Any) -> Any:
        y = rlx.lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=NAMES)
        return rlx.numpy.tanh(y + 1)

    compare(convolve, x, kernel, terms=9 * 24)
    assert any(p.problem.c_lines for p in plans)
