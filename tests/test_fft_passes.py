"""Transforms as native passes: every length without large prime factors, in any place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.ops.fft import factors
from rlx.trace.apply import apply

RANDOM = np.random.default_rng(3)


def numbers(*shape: int, dtype: Any = np.complex128) -> np.ndarray:
    parts = RANDOM.normal(size=(2, *shape))
    return (parts[0] + 1j * parts[1]).astype(dtype)


def is_near(result: Any, exact: np.ndarray, dtype: Any, count: int) -> bool:
    """Whether the error is that of a fast transform, in the mean of all elements."""
    error = np.linalg.norm(np.asarray(result) - exact) / np.linalg.norm(exact)
    return bool(error <= 3 * np.finfo(dtype).eps * (1 + math.log2(count)))


def test_factors():
    for n in range(1, 600):
        found = factors(n)
        largest = max((p for p in range(2, n + 1) if n % p == 0 and is_prime(p)), default=1)
        assert (found is None) == (largest > 13)
        assert found is None or math.prod(found) == n


def is_prime(n: int) -> bool:
    return all(n % d for d in range(2, math.isqrt(n) + 1))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 27, 30, 32, 60, 91, 360, 512])
def test_lengths(n: int, dtype: Any):
    x = numbers(3, n, dtype=dtype)
    f = rlx.jit(lambda x: [apply("fft", x, kind=k, lengths=(n,)) for k in ("fft", "ifft")])
    forward, back = f(x)
    assert is_near(forward, np.fft.fft(x.astype(np.complex128)), dtype, n)
    assert is_near(back, np.fft.ifft(x.astype(np.complex128)), dtype, n)
    assert forward.dtype == back.dtype == dtype
    assert "library" not in f.lower(x).compile().report()


@pytest.mark.parametrize("shape", [(12, 20), (1, 16), (16, 1), (4, 6, 10), (2, 1, 3)])
@pytest.mark.parametrize("kind", ["fft", "ifft"])
def test_several_axes(shape: tuple[int, ...], kind: str):
    x = numbers(2, *shape)
    result = rlx.jit(lambda x: apply("fft", x, kind=kind, lengths=shape))(x)
    axes = range(1, x.ndim)
    exact = getattr(np.fft, kind + "n")(x, axes=axes)
    assert is_near(result, exact, np.float64, math.prod(shape))


@pytest.mark.parametrize("shape", [(2**15,), (200, 256), (5000, 4)])
def test_work_for_several_threads(shape: tuple[int, ...]):
    x = numbers(*shape, dtype=np.complex64)
    result = rlx.jit(rnp.fft.fft)(x)
    assert is_near(result, np.fft.fft(x.astype(np.complex128)), np.complex64, shape[-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 4, 6, 14, 30, 32, 64, 100])
def test_real_numbers(n: int, dtype: Any):
    x, (up, down) = RANDOM.normal(size=(3, n)).astype(dtype), RANDOM.normal(size=(2, 3, n // 2 + 1))
    half = (up + 1j * down).astype(np.complex64 if dtype == np.float32 else np.complex128)
    f = rlx.jit(lambda x, half: (rnp.fft.rfft(x), rnp.fft.irfft(half)))
    forward, back = f(x, half)
    assert is_near(forward, np.fft.rfft(x.astype(np.float64)), dtype, n)
    assert is_near(back, np.fft.irfft(half.astype(np.complex128)), dtype, n)
    assert "library" not in f.lower(x, half).compile().report()


@pytest.mark.parametrize("shape", [(6, 8), (3, 4, 10), (5, 1, 2)])
def test_real_numbers_along_several_axes(shape: tuple[int, ...]):
    x, half = RANDOM.normal(size=(2, *shape)), numbers(2, *shape[:-1], shape[-1] // 2 + 1)
    axes = range(1, x.ndim)
    forward, back = rlx.jit(
        lambda x, half: (rnp.fft.rfftn(x, axes=axes), rnp.fft.irfftn(half, axes=axes))
    )(x, half)
    assert is_near(forward, np.fft.rfftn(x, axes=axes), np.float64, math.prod(shape))
    assert is_near(back, np.fft.irfftn(half, axes=axes), np.float64, math.prod(shape))


def test_the_ends_of_half_a_spectrum_count_as_real():
    half = numbers(5)
    half.imag[0], half.imag[-1] = np.nan, np.inf
    assert np.isfinite(np.fft.irfft(half)).all()
    assert np.allclose(rlx.jit(rnp.fft.irfft)(half), np.fft.irfft(half), rtol=0, atol=1e-14)


def test_other_lengths_are_library_calls():
    line = RANDOM.normal(size=9)
    f = rlx.jit(rnp.fft.rfft)
    assert is_near(f(line), np.fft.rfft(line), np.float64, 9)
    assert "fft: library (NumPy)" in f.lower(line).compile().report()
    for x in (numbers(17), numbers(34, dtype=np.complex64)):
        f = rlx.jit(rnp.fft.fft)
        assert is_near(f(x), np.fft.fft(x), x.dtype, 34)
        assert "fft: library (NumPy)" in f.lower(x).compile().report()


def test_a_batch_of_unknown_size():
    f = rlx.jit(rnp.fft.fft, dynamic={"a": {0: rlx.dim("n", min=0)}})
    for count in (0, 1, 9):
        x = numbers(count, 24)
        assert np.allclose(f(x), np.fft.fft(x), rtol=0, atol=1e-12)


def test_inside_of_loops_and_transforms():
    x = numbers(4, 8)

    def f(x: Any) -> Any:
        return rlx.scan(lambda c, row: (c + rnp.fft.fft(row * c), rnp.fft.ifft(c)), x[0], x)

    def plain(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        c, rows = x[0], []
        for row in x:
            c, before = c + np.fft.fft(row * c), np.fft.ifft(c)
            rows.append(before)
        return c, np.stack(rows)

    for result, exact in zip(rlx.jit(f)(x), plain(x), strict=True):
        assert np.allclose(result, exact, rtol=1e-12, atol=0)
    grad = rlx.grad(lambda re: rnp.sum(abs(rnp.fft.fft(re + 1j * x.imag)) ** 2))
    assert np.allclose(rlx.jit(grad)(x.real), 16 * x.real, rtol=1e-12)
