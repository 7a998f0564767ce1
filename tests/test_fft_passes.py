"""Transforms as native passes: every length without large prime factors, in any place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.ops.fft_passes import factors
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


def test_other_lengths_are_library_calls():
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
