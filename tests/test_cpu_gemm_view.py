"""Products that read windows in place: convolutions large enough for every way of packing them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.backends import registry
from rlx.backends.cpu import backend
from rlx.backends.cpu.llvm.host import host
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.types import Type, as_dtype
from rlx.trace.array import Array

EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def attributes(random: np.random.Generator) -> dict[str, Any]:
    """Those of a convolution of two axes."""
    pairs = tuple((int(a), int(b)) for a, b in random.integers(0, 3, (2, 2)))
    strides, dilations = (tuple(map(int, random.choice([1, 1, 2], 2))) for _ in range(2))
    return {
        "window_strides": strides,
        "padding": pairs,
        "lhs_dilation": (1, 1),
        "rhs_dilation": dilations,
    }


def compare(op: Any, arrays: list[np.ndarray], wanted: np.ndarray, terms: int) -> None:
    """Run one op on the cpu device and compare."""
    graph = build(op, [Type(as_dtype(x.dtype.name), x.shape) for x in arrays], "windows")
    executable = registry.get("cpu").compile(graph, Array)
    got = executable.entry(*arrays).host()
    bound = (
        4 * EPS[arrays[0].dtype.name] + terms * EPS["float32" if got.itemsize < 8 else "float64"]
    )
    wanted = wanted.astype(np.float64)
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("seed", range(6))
def test_windows_in_any_layout(seed: int, width: int, monkeypatch: pytest.MonkeyPatch):
    if width > host().vector_bytes:
        pytest.skip("the processor has no such vectors")
    narrow = replace(host(), vector_bytes=width, vector_registers=32 if width == 64 else 16)
    monkeypatch.setattr(backend, "host", lambda: narrow)
    random = np.random.default_rng(seed)
    attrs = attributes(random)
    dtype = ["float32", "float64", "float16", "bfloat16", "float32", "float32"][seed]
    n, c, o = (int(k) for k in random.integers([1, 1, 3], [4, 40, 24]))
    h, w, kh, kw = (int(k) for k in random.integers([7, 5, 1, 1], [30, 40, 5, 5]))
    x = random.normal(size=(n, c, h, w)).astype(as_dtype(dtype))
    kernel = random.normal(size=(o, c, kh, kw)).astype(as_dtype(dtype))
    op = ops.conv_general_dilated
    full = dict(attrs, feature_group_count=1, batch_group_count=1, dtype=None)
    wide = [a.astype(np.float64) for a in (x, kernel)]
    wanted = op.rules.reference(*wide, **full)
    compare(lambda x, k: op(x, k, **attrs), [x, kernel], wanted, c * kh * kw)
    # the same with channels last in memory
    last = [
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
        np.ascontiguousarray(kernel.transpose(2, 3, 1, 0)),
    ]

    def channels_last(x: Any, k: Any) -> Any:
        made = op(ops.transpose(x, axes=(0, 3, 1, 2)), ops.transpose(k, axes=(3, 2, 0, 1)), **attrs)
        return ops.transpose(made, axes=(0, 2, 3, 1))

    compare(channels_last, last, wanted.transpose(0, 2, 3, 1), c * kh * kw)


@pytest.mark.parametrize("seed", range(4))
def test_cotangents_of_both_operands(seed: int):
    random = np.random.default_rng(seed)
    n, c, o, h, w = [(4, 3, 20, 13, 16), (2, 24, 6, 28, 28), (9, 5, 7, 7, 7), (1, 40, 33, 14, 9)][
        seed
    ]
    attrs = {"window_strides": [(1, 1), (2, 2), (1, 1), (3, 1)][seed], "padding": ((1, 1), (1, 1))}
    x, k = random.normal(size=(n, c, h, w)), random.normal(size=(o, c, 3, 3))

    def convolve(x: Any, k: Any) -> Any:
        return rlx.lax.conv_general_dilated(x, k, **attrs)

    ct = random.normal(size=rlx.eval_shape(convolve, x, k).shape)

    def pulled(x: Any, k: Any, ct: Any) -> Any:
        return rlx.vjp(convolve, x, k)[1](ct)

    got = rlx.jit(pulled)(x, k, ct)
    wanted = rlx.jit(pulled, device="reference")(x, k, ct)
    for g, r in zip(got, wanted, strict=True):
        bound = 4 * n * h * w * c * EPS["float64"]
        np.testing.assert_allclose(np.asarray(g), np.asarray(r), rtol=bound, atol=bound)


def test_nothing_outside_of_the_operand_is_read():
    """A row of NaN behind an image must not reach the sums."""
    rows = np.full((3, 8, 17), np.nan, np.float32)
    rows[1] = 1.0

    def one(rows: Any) -> Any:
        k = rlx.numpy.ones((5, 1, 3, 3), "float32")
        image = rows[1:2, None]
        return rlx.lax.conv_general_dilated(image, k, (1, 1), ((1, 1), (1, 1)))

    got = np.asarray(rlx.jit(one)(rows))
    assert got[0, :, 1:-1, 1:-1].tolist() == np.full((5, 6, 15), 9.0).tolist()
    assert got[0, 0, 0, 0] == 4.0


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize(
    ("colors", "window", "stride", "size", "padding"),
    [(3, 7, 2, 32, 3), (3, 5, 1, 21, 2), (5, 3, 2, 18, 1), (1, 7, 2, 40, 0), (12, 3, 1, 17, 1)],
)
def test_short_runs_along_the_depth(
    colors: int, window: int, stride: int, size: int, padding: int, width: int,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    """Few colors, last or first in memory: rows of windows that fill no whole vectors."""
    if width > host().vector_bytes:
        pytest.skip("the processor has no such vectors")
    narrow = replace(host(), vector_bytes=width, vector_registers=32 if width == 64 else 16)
    monkeypatch.setattr(backend, "host", lambda: narrow)
    random = np.random.default_rng(colors)
    x = random.normal(size=(2, size, size, colors)).astype(np.float32)
    kernel = random.normal(size=(window, window, colors, 20)).astype(np.float32)
    attrs = {
        "window_strides": (stride, stride),
        "padding": ((padding, padding),) * 2,
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
    }
    op = ops.conv_general_dilated
    first = [x.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1)]
    full = dict(attrs, feature_group_count=1, batch_group_count=1, dtype=None)
    wanted = op.rules.reference(*(a.astype(np.float64) for a in first), **full)
    terms = colors * window**2
    compare(lambda x, k: op(x, k, **attrs), [np.ascontiguousarray(a) for a in first], wanted, terms)

    def channels_last(x: Any, k: Any) -> Any:
        made = op(ops.transpose(x, axes=(0, 3, 1, 2)), ops.transpose(k, axes=(3, 2, 0, 1)), **attrs)
        return ops.transpose(made, axes=(0, 2, 3, 1))

    compare(channels_last, [x, kernel], wanted.transpose(0, 2, 3, 1), terms)


@pytest.mark.parametrize(
    ("colors", "window", "groups", "outputs"),
    [(6, (7, 3), 1, 2), (4, (2, 5), 2, 17), (3, (1, 4), 1, 40)],
)
def test_bytes_are_widened_where_they_are_packed(
    colors: int, window: tuple[int, int], groups: int, outputs: int
):
    random = np.random.default_rng(colors)
    x = random.integers(-9, 9, (3, 19, 17, colors * groups)).astype(np.int8)
    kernel = random.integers(-9, 9, (*window, colors, outputs * groups)).astype(np.int8)

    def one(x: Any, k: Any) -> Any:
        names = ("NHWC", "HWIO", "NHWC")
        options = {"dimension_numbers": names, "feature_group_count": groups}
        return rlx.lax.conv_general_dilated(
            x, k, (2, 1), ((1, 0), (2, 1)), preferred_element_type=np.int32, **options
        )

    wanted = rlx.jit(one, device="reference")(x, kernel)
    np.testing.assert_array_equal(rlx.jit(one)(x, kernel), wanted)
