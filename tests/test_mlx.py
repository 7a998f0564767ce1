"""The device mlx: every op as its reference, and whatever a table of ops must not lose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from audit import COMPLETE, Case
from libraries import OURS
from opinions import flat
from program_families import FAMILIES
from program_lines import MIXED_RULES
from programs import close, made, tolerance_of as third

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends import registry
from rlx.runtime.supports import SWEPT

if not registry.availability("mlx").is_available:
    pytest.skip(registry.availability("mlx").reason, allow_module_level=True)

X = np.array([1.0, -2.0, 3.0], np.float32)
PROGRAMS = 40


def both(f, *xs):
    """The results of a function on mlx, and by the reference."""
    found = rlx.jit(f, device="mlx")(*xs)
    return rlx.tree.map(np.asarray, (found, rlx.jit(f, device="reference")(*xs)))


def report(f, *xs) -> str:
    return rlx.jit(f, device="mlx").lower(*xs).compile().report()


# -- every op -------------------------------------------------------------------------------------


def some_dtypes(case: Case, number: int) -> Sequence[str]:
    """Another third of the dtypes for each sample of an op; all of them for `AUDIT=all`."""
    return SWEPT if COMPLETE else SWEPT[number % 3 :: 3]


def test_every_op_is_its_reference():
    found = rlx.testing.check_backend("mlx", only=some_dtypes)
    assert len(found.outcomes) > 1000
    if rlx.Device("mlx").description.startswith("cpu"):
        assert not found.gaps


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "uint64", "float16", "float64"]
)
def test_integers_wrap_divide_and_saturate(dtype: str):
    special = np.array([0, 1, -1, 100, -128, 127, 2**31 - 1, -(2**31), 2**62], np.int64)
    with np.errstate(all="ignore"):
        x = special.astype(dtype)
    y = np.roll(x, 1)

    def f(x, y):
        if dtype == "bool":
            return x & y, ~x, x.astype("int8") + y.astype("int8")
        parts = [x // y if dtype.startswith("float") else rlx.lax.div(x, y), rlx.lax.rem(x, y)]
        return [*parts, x * y, -x, rnp.abs(x), x.astype("uint8"), x.astype("int64")]

    for found, wanted in zip(*both(f, x, y), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("to", ["int8", "uint8", "int32", "int64", "uint64", "bool"])
@pytest.mark.parametrize("of", ["float16", "bfloat16", "float32", "float64"])
def test_floats_become_the_nearest_integer(of: str, to: str):
    numbers = [0.5, -0.5, 1.5, -1.5, 300.7, -300.7, 1e10, -1e10, 1e25, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        x = np.array(numbers).astype(rnp.dtype(of))
    found, wanted = both(lambda x: x.astype(to), x)
    np.testing.assert_array_equal(found, wanted)


def test_special_numbers():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 88.8, -104.0, 1.0], np.float32)
    functions = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sign", "sqrt", "cbrt")

    def f(x):
        y = x[::-1]
        made = [getattr(rnp, name)(x) for name in functions]
        made += [f(x) for f in (rnp.sort, rnp.argmax, rlx.lax.erf, rlx.lax.erfc, rlx.lax.logistic)]
        return [*made, rnp.maximum(x, y), rnp.minimum(x, y), rlx.lax.rem(x, y)]

    for found, wanted in zip(*both(f, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0)


def test_written_numbers_keep_nan_and_the_sign_of_zero():
    x, updates = np.array([-0.0, 1, np.nan, 2]), np.array([np.nan, 7, 3], np.float64)

    def f(x, updates):
        at = x.at[np.array([1, 3, 2])]
        return at.set(updates), at.min(updates), at.max(updates), rnp.sin(x[:1].astype("float32"))

    for found, wanted in zip(*both(f, x, updates), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert np.signbit(found[0])


def test_doubles_are_rounded_to_halves_once():
    halves = np.array([1, 1 + 2**-10, 6e-8, 65472.0])
    middle = (halves + np.nextafter(halves.astype(np.float16), np.float16(np.inf))) / 2
    x = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), [-np.inf]])
    found, wanted = both(lambda x: x.astype("float16"), np.concatenate([x, -x]))
    np.testing.assert_array_equal(found, wanted)


def test_functions_of_doubles_have_the_digits_of_doubles():
    x = np.concatenate([np.linspace(-40, 40, 301), np.arange(-9, 9) * np.pi / 2])
    functions = (rnp.exp, rnp.sin, rnp.cos, rnp.tan, rlx.lax.erf, rlx.lax.erfc, rlx.lax.logistic)
    for found, wanted in zip(*both(lambda x: [f(x) for f in functions], x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=8 * np.finfo(float).eps, atol=1e-300)


def test_products_of_integers_wrap():
    random = np.random.default_rng(0)
    for dtype in ("int8", "uint16", "int32", "int64", "uint64"):
        info = np.iinfo(dtype)
        x, y = (random.integers(info.min, info.max, s, dtype) for s in ((5, 40), (40, 7)))
        found, wanted = both(lambda x, y: x @ y, x, y)
        np.testing.assert_array_equal(found, wanted)


# -- programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed: int):
    wide = ["float64", "float64", "float32", "bfloat16", "int32", "uint8", "bool", "complex128"]
    program = made(seed, MIXED_RULES + FAMILIES, wide)
    found, wanted = both(flat(program, OURS, rlx), *program.inputs)
    for x, y, limit in zip(found, wanted, program.tolerances, strict=True):
        assert x.dtype == y.dtype
        close(x, y, limit if third(y.dtype) else 0)


def test_gradients_through_loops_and_choices():
    def f(w, xs):
        def step(c, x):
            c = rlx.cond(x.sum() > 0, lambda c: rnp.tanh(w @ c), lambda c: rnp.sin(c) * x, c)
            return c, c[0]

        last, firsts = rlx.scan(step, xs[0], xs)
        return rnp.sum(last) + rnp.sum(firsts * firsts)

    random = np.random.default_rng(0)
    w, xs = random.normal(size=(4, 4)), random.normal(size=(40, 4))
    found, wanted = both(rlx.grad(f, argnums=(0, 1)), w, xs)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    told = report(f, w, xs)
    assert "scan: by Python, between pieces" in told
    assert "cond: by Python, between pieces" in told


def test_loops_stop_and_run_backwards():
    def f(x, limit):
        y = rlx.while_loop(lambda y: y.sum() < limit, lambda y: y * 2, x)
        backwards = rlx.scan(lambda c, r: (c * 0.5 + r, c), x[0], y, reverse=True)
        return y, backwards, rlx.scan(lambda c, r: (c, r + c), x[0], y[:0])

    found, wanted = both(f, np.abs(X), np.float32(99))
    for x, y in zip(*map(rlx.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_a_train_step_is_that_of_the_cpu():
    model = nn.MLP([8, 16, 3], key=rlx.random.key(0))
    random = np.random.default_rng(0)
    x, y = random.normal(size=(32, 8)).astype("float32"), random.integers(0, 3, 32)

    def step(model, x, y):
        def loss(model):
            return nn.losses.cross_entropy(model(x), y)

        value, slopes = rlx.value_and_grad(loss)(model)
        return value, rlx.tree.map(lambda p, g: p - 0.1 * g, model, slopes)

    results = []
    for device in ("mlx", "cpu"):
        now = model
        for _ in range(3):
            value, now = rlx.jit(step, device=device)(now, x, y)
        results.append([np.asarray(p) for p in (value, *rlx.tree.leaves(now))])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_sizes_may_be_named():
    f = rlx.jit(lambda x: (x * 2).sum(0), device="mlx", dynamic={"x": {0: "n"}}, specialize=True)
    for n in (1, 5, 9):
        np.testing.assert_array_equal(f(np.ones((n, 2), np.float32)), [2 * n, 2 * n])


# -- where things run -----------------------------------------------------------------------------


def test_arrays_lie_in_the_memory_of_mlx():
    f = rlx.jit(lambda x: x * 2)
    for dtype in ("bfloat16", "float64", "complex128", "float8_e5m2", "bool"):
        with np.errstate(all="ignore"):
            x = X.astype(rnp.dtype(dtype))
        there = rnp.array(x).to("mlx")
        assert (there.device, there.dtype, there.shape) == ("mlx", x.dtype, x.shape)
        np.testing.assert_array_equal(np.asarray(there), x)
    assert f(rnp.array(X).to("mlx")).device == "mlx"


def test_what_mlx_lacks_runs_on_the_host_and_says_so():
    seen = []

    def f(x):
        y = rnp.linalg.qr(x @ x)[1]
        rlx.debug.callback(lambda y: seen.append(y.shape), y)
        return rnp.sin(y) + rlx.pure_callback(np.copysign, x, x, y)

    x = np.random.default_rng(0).normal(size=(3, 3))
    found, wanted = both(f, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert seen == [(3, 3)] * 2
    told = report(f, x).splitlines()
    assert "qr: library: on the host" in told and "sin: native" in told
    assert "pieces: op by op in MLX (3)" in told  # before, between and after


def test_the_highest_tier_is_compiled_by_mlx():
    f = rlx.jit(rlx.value_and_grad(lambda x: (x * rnp.exp(-x)).sum()), device="mlx", tier="max")
    value, slope = f(X)
    np.testing.assert_allclose(value, np.sum(X * np.exp(-X)), rtol=1e-6)
    np.testing.assert_allclose(slope, (1 - X) * np.exp(-X), rtol=1e-6)
    assert "pieces: compiled by MLX" in f.lower(X).compile().report()


def test_threads_come_and_go():
    code = """
import threading, numpy as np, rlx
f = rlx.jit(lambda x: (x @ x).sum(), device="mlx", tier="max")
x = np.ones((4, 4), "float32")
found = []
for _ in range(2):
    threads = [threading.Thread(target=lambda: found.append(float(f(x)))) for _ in range(3)]
    [t.start() for t in threads], [t.join() for t in threads]
print(found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{[64.0] * 6}\n"), done.stderr


# -- errors ---------------------------------------------------------------------------------------


def test_memory_that_is_not_enough_is_an_error_and_nothing_more():
    f = rlx.jit(lambda x: (x[:, None, None] + x[None, :, None]).sum(0), device="mlx")
    grow = rlx.jit(lambda x: rnp.broadcast_to(x, (2**22, 2**22)) + 1, device="mlx")
    with pytest.raises(rlx.DeviceMemoryError, match=r"add: f32\[4194304, 4194304\] takes 7.0e\+13"):
        grow(np.float32(1))
    assert f(X).shape == (3, 1)


def test_devices_that_are_not_there_say_why():
    with pytest.raises(rlx.DeviceUnavailable, match="MLX has no device 'tpu'"):
        rlx.Session("mlx:tpu")
    if sys.platform != "darwin":
        with pytest.raises(rlx.DeviceUnavailable, match="Metal is on Macs only"):
            rlx.jit(lambda x: x, device="metal")


def test_a_gpu_of_apple_has_no_doubles():
    from rlx.backends.mlx.backend import NO_DOUBLE, MlxBackend

    class Gpu(MlxBackend):
        is_gpu = True  # as on a Mac

    backend = Gpu()
    graph = rlx.make_graph(lambda x: x * 2)(np.float64(1))
    with pytest.raises(rlx.UnsupportedDtype, match="mlx has no float64") as caught:
        backend.compile(graph, rlx.Array)
    assert "convert it to float32" in str(caught.value)
    assert backend.target.stored.isdisjoint(NO_DOUBLE)
