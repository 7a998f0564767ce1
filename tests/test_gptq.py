"""GPTQ: codes of weights that make up for each other's errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import nn
from rlx.ir.errors import ArgumentError
from rlx.quantization import Scheme, gptq
from rlx.quantization.ranges import Codes, fitted_rows

RANDOM = np.random.default_rng(0)
SCHEMES = ["w4_gptq", Scheme(8, granularity=32, weight_rounding="gptq")]


def inputs(count: int, features: int) -> np.ndarray:
    """Rows of features that go together, some of which are far larger than others."""
    mix = RANDOM.standard_normal((features, features)) / 8
    sizes = np.exp(RANDOM.standard_normal(features))
    return (RANDOM.standard_normal((count, features)) * sizes @ mix).astype(np.float32)


def decibels(right: Any, given: Any) -> float:
    right, given = np.asarray(right, np.float64), np.asarray(given, np.float64)
    return float(10 * np.log10((right**2).sum() / ((right - given) ** 2).sum()))


def by_least_squares(w: np.ndarray, moment: np.ndarray, codes: Codes) -> np.ndarray:
    """Codes in turn; what comes after is solved for anew each time."""
    depth = len(moment)
    moment = moment + np.eye(depth) * gptq.DAMPING * np.diag(moment).mean()
    near, left = w.astype(np.float64), w.astype(np.float64)
    for j in range(depth):
        if j % 32 == 0:
            inverses = [np.linalg.inv(moment[i:, i:])[0, 0] for i in range(j, j + 32)]
            group = left[:, j : j + 32].astype(np.float32)
            step, start = fitted_rows(group, (1 / np.array(inverses)).astype(np.float32), codes)
        near[:, j] = codes.nearest(left[:, j], step, start)
        done, rest = slice(j + 1), slice(j + 1, None)
        off = (w[:, done] - near[:, done]) @ moment[done, rest]
        left[:, rest] = w[:, rest] + off @ np.linalg.inv(moment[rest, rest])
    return near


@pytest.mark.parametrize("codes", [Codes.of(4, False), Codes.of(4, True), Codes.of(8, True)])
def test_weights_make_up_for_the_errors_of_those_before(codes):
    x, w = inputs(200, 96).astype(np.float64), RANDOM.standard_normal((7, 96)).astype(np.float32)
    moment = x.T @ x
    near, steps, starts = gptq.rounded_lines(w, moment, 32, codes)
    np.testing.assert_allclose(near, by_least_squares(w, moment, codes), rtol=1e-3, atol=2e-5)
    rows = w.reshape(-1, 32)
    step, start = fitted_rows(rows, np.ones(32, np.float32), codes)
    nearest = codes.nearest(rows, step[:, None], start[:, None]).reshape(w.shape)
    errors = [(((y - w) @ x.T) ** 2).sum() for y in (near, nearest)]
    assert errors[0] < errors[1] / 2
    held = codes.nearest(near.reshape(-1, 32), *(v.reshape(-1, 1) for v in (steps, starts)))
    np.testing.assert_allclose(held, near.reshape(-1, 32), atol=1e-6)


def test_lines_make_up_for_what_inputs_have_lost(monkeypatch):
    """Weights of rounded inputs give what those of the float function gave: least squares."""
    x, w = inputs(300, 64).astype(np.float64), RANDOM.standard_normal((5, 64)).astype(np.float32)
    few = np.round(x * 2) / 2
    monkeypatch.setattr(gptq, "DAMPING", 1e-7)
    fitted = gptq.fitted_lines(w, few.T @ few, (x - few).T @ few)
    best = np.linalg.lstsq(few, x @ w.T, rcond=None)[0].T
    errors = [((few @ y.T - x @ w.T) ** 2).sum() for y in (best, fitted, w)]
    assert errors[0] <= errors[1] < 1.01 * errors[0] < errors[2] / 1.4
    assert gptq.fitted_lines(w, few.T @ few, np.zeros((64, 64))) is w


def test_what_is_in_such_codes_already_stays():
    w = nn.quantize_blocks(RANDOM.standard_normal((24, 64)).astype(np.float32), "q4_1")
    q = rlx.quantize(lambda x: nn.linear(x, w.dequantize()), [inputs(40, 64)], scheme="w4_gptq")
    (found,) = q.weights.values()
    np.testing.assert_array_equal(found.dequantize(), w.dequantize())


@pytest.mark.parametrize("scheme", SCHEMES, ids=["w4", "w8"])
def test_results_are_nearer_than_those_of_nearest_codes(scheme):
    model, x = nn.MLP([64, 96, 32, 8], key=rlx.random.key(0)), inputs(400, 64)
    plain = rlx.quantize(model, [x[:300]], scheme="w4" if scheme == "w4_gptq" else "w8")
    q = rlx.quantize(model, [x[:150], x[150:300]], scheme=scheme)
    y = model(x[300:])
    assert decibels(y, q(x[300:])) > decibels(y, plain(x[300:])) + 3
    assert "GPTQ" in str(q.report()) or "w4_gptq" in str(q.report())


def test_matrices_of_a_batch_have_inputs_of_their_own():
    w, x = RANDOM.standard_normal((3, 64, 8)).astype(np.float32), inputs(90, 64)
    x = np.stack([x[i : i + 30] * (i + 1) for i in range(0, 90, 30)])
    q = rlx.quantize(lambda x: x @ w, [x], scheme="w4_gptq")
    for i in range(3):
        alone = rlx.quantize(lambda x, i=i: x @ w[i], [x[i]], scheme="w4_gptq")
        np.testing.assert_allclose(q(x)[i], alone(x[i]), rtol=1e-4, atol=1e-3)


def test_convolutions_are_rounded_to_the_nearest():
    layer, x = nn.Conv(32, 8, (3, 3), key=rlx.random.key(0)), inputs(2 * 64, 32)
    x = x.reshape(2, 8, 8, 32)
    q, plain = (rlx.quantize(layer, [x], scheme=scheme) for scheme in ("w4_gptq", "w4"))
    np.testing.assert_allclose(q(x), plain(x), atol=0.2 * np.abs(plain(x)).max())


def test_what_it_cannot_use_is_told():
    w = np.ones((64, 8), np.float32)
    with pytest.raises(ArgumentError, match="example 0 of the calibration has specs") as caught:
        rlx.quantize(lambda x: x @ w, [rlx.spec((2, 64))], scheme="w4_gptq")
    assert caught.value.fix
    with pytest.raises(ArgumentError, match="not finite: the inputs of"):
        rlx.quantize(lambda x: x @ w, [np.full((2, 64), np.inf, np.float32)], scheme="w4_gptq")
    with pytest.raises(ArgumentError, match="scales of groups"):
        Scheme(weight_rounding="gptq")


@pytest.mark.parametrize("scheme", ["w8", "w4", "w4_gptq"])
def test_scales_that_float16_does_not_hold_are_told(scheme):
    x, w = (np.random.default_rng(0).normal(size=s).astype("float32") for s in ((8, 32), (32, 4)))
    held = rlx.quantize(lambda x: x @ (1e4 * w), [x], scheme=scheme)(x)
    np.testing.assert_allclose(held, x @ (1e4 * w), atol=2e4)
    with pytest.raises(ArgumentError, match="blocks have float16, up to 65504"):
        rlx.quantize(lambda x: x @ (1e8 * w), [x], scheme=scheme)
