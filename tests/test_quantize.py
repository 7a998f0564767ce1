"""Numbers of few bits: quantizing, its derivatives, reduced precision, bits of products."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax as theirs

import rlx
from rlx import lax, nn
from rlx.ir.errors import AttributeValueError, RlxError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 6)).astype("float32")
LINE = (0.05 + RANDOM.random(6)).astype("float32")


def scaled(x: np.ndarray, scale: Any, zero: Any, low: float, high: float) -> np.ndarray:
    return np.clip(np.rint(x / scale) + np.rint(zero), low, high)


# -- quantizing -----------------------------------------------------------------------------------


RANGES = [
    ("int8", (-128, 127)),
    ("uint8", (0, 255)),
    ("int8", (-8, 7)),
    ("int16", (-32768, 32767)),
]


@pytest.mark.parametrize(("dtype", "bounds"), RANGES)
def test_numbers_are_rounded_and_cut(dtype: str, bounds: tuple[int, int]) -> None:
    for scale, zero, axis in ((0.03, 3, None), (LINE, np.arange(6), 1), (LINE[:4], 0, 0)):
        at = np.asarray(scale)[:, None] if axis == 0 else scale
        q = nn.quantize(X, scale, zero, dtype=dtype, axis=axis, bounds=bounds)
        wanted = scaled(X, np.float32(at), np.float32(zero), *bounds)
        assert q.dtype == dtype
        np.testing.assert_array_equal(q, wanted)
        back = nn.dequantize(q, scale, zero, axis=axis)
        np.testing.assert_allclose(back, (wanted - zero) * at, rtol=1e-6)
        fake = nn.fake_quantize(X, scale, zero, dtype=dtype, axis=axis, bounds=bounds)
        np.testing.assert_array_equal(fake, back)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits_round_by_themselves(dtype: str) -> None:
    x = np.array([0.1, -3.3, 1e9, 0.0], "float32")
    top = float(ml_dtypes.finfo(dtype).max)
    wanted = np.clip(x / np.float32(0.5), -top, top).astype(dtype)
    q = nn.quantize(x, 0.5, dtype=dtype)
    np.testing.assert_array_equal(np.asarray(q).view("uint8"), wanted.view("uint8"))
    np.testing.assert_array_equal(nn.dequantize(q, 0.5), wanted.astype("float32") * 0.5)
    np.testing.assert_array_equal(nn.fake_quantize(x, 0.5, dtype=dtype), nn.dequantize(q, 0.5))


@pytest.mark.parametrize("wide", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_what_is_left_of_floats_in_8_bits(dtype: str, wide: str) -> None:
    every = np.arange(256, dtype="uint8").view(dtype).astype(wide)
    known = np.unique(every[np.isfinite(every)])
    middles = (known[1:] + known[:-1]) / 2
    beside = [np.nextafter(middles, way, dtype=wide) for way in (np.inf, -np.inf)]
    x = np.concatenate([known, -known[:1], [-0.0, 1e-30, -1e-30, np.nan], middles, *beside])
    x = x.astype(wide)
    fake = rlx.jit(lambda x: nn.fake_quantize(x, 1.0, dtype=dtype)).lower(x).compile()
    assert "library" not in fake.report()
    np.testing.assert_array_equal(fake(x), x.astype(dtype).astype(wide))


def test_half_size_numbers_are_scaled_in_float32() -> None:
    x = np.array([1.0, 30.5, 100.0], "float16")
    q = nn.quantize(x, np.float32(0.1234567), dtype="int16")
    np.testing.assert_array_equal(q, np.rint(x.astype("float32") / np.float32(0.1234567)))
    assert nn.dequantize(q, np.float32(0.1234567), dtype="bfloat16").dtype == "bfloat16"
    assert nn.fake_quantize(x, np.float32(0.1)).dtype == "float16"


def test_scales_cover_the_numbers() -> None:
    for symmetric in (True, False):
        for axis in (None, 0):
            scale, zero = nn.quantization_scale(X, axis=axis, symmetric=symmetric)
            fake = nn.fake_quantize(X, scale, zero, axis=axis)
            step = np.asarray(scale)[:, None] if axis == 0 else np.asarray(scale)
            assert np.all(np.abs(fake - X) <= 0.5001 * step)
            if symmetric:
                assert not np.asarray(zero).any()
    # all zeros still have a scale
    assert nn.quantization_scale(np.zeros(3, "float32"))[0] > 0


# -- derivatives ----------------------------------------------------------------------------------


def test_rounding_is_passed_straight_through() -> None:
    x = np.array([-9.0, -0.2, 0.8, 1.3, 90.0], "float32")
    scale, zero = np.float32(0.5), np.float32(1.0)

    def total(x: Any, scale: Any, zero: Any) -> Any:
        return (nn.fake_quantize(x, scale, zero, bounds=(-8, 7)) * np.arange(1.0, 6)).sum()

    for grad in (rlx.grad(total, (0, 1, 2)), rlx.jit(rlx.grad(total, (0, 1, 2)))):
        slope, of_scale, of_zero = grad(x, scale, zero)
        weights = np.arange(1.0, 6, dtype="float32")
        np.testing.assert_array_equal(slope, [0, 2, 3, 4, 0])
        units = x / scale
        inner = np.rint(units) - units
        steps = np.array([-9, *inner[1:4], 6], "float32")
        np.testing.assert_allclose(of_scale, (steps * weights).sum(), rtol=1e-6)
        np.testing.assert_allclose(of_zero, -0.5 * (1 + 5), rtol=1e-6)


def test_slopes_along_an_axis_and_in_batches() -> None:
    def total(x: Any, scale: Any) -> Any:
        return (nn.fake_quantize(x, scale, axis=1) ** 2).sum()

    slopes = rlx.grad(total, (0, 1))(X, LINE)
    one = [rlx.grad(total, (0, 1))(X[:, i : i + 1], LINE[i : i + 1]) for i in range(6)]
    np.testing.assert_allclose(slopes[0], np.concatenate([s[0] for s in one], 1), rtol=1e-6)
    np.testing.assert_allclose(slopes[1], np.concatenate([s[1] for s in one]), rtol=1e-5)
    rows = rlx.vmap(lambda x, s: nn.fake_quantize(x, s))(X, LINE[:4])
    np.testing.assert_array_equal(rows, nn.fake_quantize(X, LINE[:4], axis=0))
    q = rlx.vmap(lambda x: nn.quantize(x, LINE, axis=0))(X)
    np.testing.assert_array_equal(q, nn.quantize(X, LINE, axis=1))


def test_dequantizing_is_smooth_in_its_scale() -> None:
    q = np.array([-3, 5, 127], "int8")
    slopes = rlx.grad(lambda s, z: nn.dequantize(q, s, z).sum(), (0, 1))(0.5, 2.0)
    np.testing.assert_allclose(slopes, [129 - 6, -1.5])


def test_a_learned_step_fits() -> None:
    x = X.ravel()

    def loss(scale: Any) -> Any:
        return ((nn.fake_quantize(x, scale, bounds=(-8, 7)) - x) ** 2).mean()

    step, scale = rlx.jit(rlx.value_and_grad(loss)), np.float32(1.0)
    first = float(loss(scale))
    for _ in range(60):
        _, slope = step(scale)
        scale = np.float32(scale - 0.3 * np.asarray(slope))
    assert float(loss(scale)) < first / 4


def test_what_has_no_meaning_is_refused() -> None:
    for call in (
        lambda: nn.quantize(X, 0.1, dtype="float16"),
        lambda: nn.quantize(X, LINE),
        lambda: nn.quantize(X, LINE, axis=2),
        lambda: nn.quantize(X, LINE, axis=0),
        lambda: nn.quantize(X, 0.1, bounds=(-200, 100)),
        lambda: nn.quantize(X, 0.1, bounds=(7, -8)),
        lambda: nn.dequantize(X, 0.1),
        lambda: nn.dequantize(np.ones(2, "int8"), 0.1, dtype="int32"),
        lambda: nn.fake_quantize(np.arange(3), 0.1),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix


# -- reduced precision ----------------------------------------------------------------------------

EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -3.0, 6e-5, 6.2e-5, 7e4, 65519.0, 65520.0, 1e-8]


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (5, 2), (4, 3), (8, 0), (2, 1), (11, 52)])
def test_reduced_precision_is_that_of_jax(bits: tuple[int, int]) -> None:
    for dtype in ("float32", "float16", "bfloat16"):
        x = np.concatenate([EDGES, RANDOM.normal(size=40) * 10.0 ** RANDOM.integers(-4, 4, 40)])
        with np.errstate(over="ignore"):
            x = x.astype(dtype)
        # the quick way in which JAX compiles for tests takes NaN for infinity
        fused = {"xla_cpu_use_fusion_emitters": True}
        wanted = jax.jit(lambda x: theirs.reduce_precision(x, *bits), compiler_options=fused)(x)
        wanted = np.asarray(wanted).astype("float32")
        for got in (lax.reduce_precision(x, *bits),
                    rlx.jit(lambda x: lax.reduce_precision(x, *bits))(x)):  # fmt: skip
            np.testing.assert_array_equal(np.asarray(got).astype("float32"), wanted)


def test_reduced_precision_has_the_slope_of_jax() -> None:
    got = rlx.jvp(lambda x: lax.reduce_precision(x, 5, 2), (1.3,), (1.3,))
    assert list(map(float, got)) == [1.25, 1.25]
    assert rlx.grad(lambda x: lax.reduce_precision(x, 5, 2))(1.3) == 1.0
    with pytest.raises(RlxError, match="exponent"):
        lax.reduce_precision(1.0, 0, 3)


# -- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_high_halves_of_products(dtype: str) -> None:
    info = np.iinfo(dtype)
    x, y = RANDOM.integers(info.min, info.max, (2, 30), dtype=dtype, endpoint=True)
    x[:3], y[:3] = [info.min, info.max, info.min], [info.min, info.max, info.max]
    wanted = [(int(a) * int(b)) >> info.bits for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(lax.mulhi(x, y), np.array(wanted, dtype))
    np.testing.assert_array_equal(rlx.jit(lax.mulhi)(x, y), np.array(wanted, dtype))


def test_bits_are_read_in_other_widths_as_in_jax() -> None:
    floats = RANDOM.normal(size=(3, 2)).astype("float32")
    for to in ("uint8", "int16", "bfloat16", "float8_e5m2", "int32"):
        wanted = np.asarray(theirs.bitcast_convert_type(floats, to))
        got = np.asarray(lax.bitcast_convert_type(floats, to))
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.view("uint8"), wanted.view("uint8"))
        back = rlx.jit(lambda x: lax.bitcast_convert_type(x, "float32"))(got)
        np.testing.assert_array_equal(back, floats)
    for call in (
        lambda: lax.bitcast_convert_type(floats, "complex64"),
        lambda: lax.bitcast_convert_type(floats > 0, "uint8"),
        lambda: lax.bitcast_convert_type(floats[:, :1], "float64"),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix


def test_greatest_and_least_numbers_by_their_approximate_names() -> None:
    values, _ = lax.approx_max_k(X, 3)
    np.testing.assert_array_equal(values, -np.sort(-X, -1)[:, :3])
    least, where = lax.approx_min_k(X, 2, reduction_dimension=0)
    np.testing.assert_array_equal(least, np.sort(X, 0)[:2])
    np.testing.assert_array_equal(np.take_along_axis(X, np.asarray(where), 0), least)
    slope = rlx.grad(lambda x: lax.approx_max_k(x, 2)[0].sum())(X)
    np.testing.assert_array_equal(slope.sum(-1), [2.0] * 4)


def test_running_sums_of_exponentials_are_exact_and_differentiate() -> None:
    x = np.array([[1.0, -np.inf, 300.0, 2.0], [-np.inf, -np.inf, 1.0, 0.0]])
    weights = np.arange(8.0).reshape(2, 4)
    for axis, reverse in ((0, False), (1, False), (1, True)):

        def total(x: Any, axis: int = axis, reverse: bool = reverse) -> Any:
            return (lax.cumlogsumexp(x, axis, reverse) * weights).sum()

        turn = (lambda x, axis=axis: np.flip(x, axis)) if reverse else (lambda x: x)
        with np.errstate(invalid="ignore"):
            wanted = turn(np.logaddexp.accumulate(turn(x), axis))
        np.testing.assert_allclose(lax.cumlogsumexp(x, axis, reverse), wanted, rtol=1e-14)
        place = np.maximum(x, -5.0) / 8
        sums = turn(np.logaddexp.accumulate(turn(place), axis))
        after = np.flip(np.cumsum(np.flip(turn(weights * np.exp(-sums)), axis), axis), axis)
        np.testing.assert_allclose(rlx.grad(total)(place), np.exp(place) * turn(after), rtol=1e-12)


@pytest.mark.parametrize("name", ["quantize", "dequantize", "fake_quantize"])
@pytest.mark.parametrize("scale", [0, -0.5, np.nan, [0.5, 0.0, 1.0], np.array([-1.0, 1, 1])])
def test_scales_are_above_zero(name, scale):
    x = np.ones(3, "int8" if name == "dequantize" else "float32")
    axis = None if np.ndim(scale) == 0 else 0
    for given in (scale, rlx.array(scale)):
        with pytest.raises(AttributeValueError, match=f"{name}: the scale (is|has) ") as caught:
            getattr(nn, name)(x, given, axis=axis)
        assert "test_quantize.py" in caught.value.where
    # while it is recorded nobody knows
    assert rlx.jit(lambda s: getattr(nn, name)(x, s, axis=axis))(rlx.array(scale)).shape == (3,)
