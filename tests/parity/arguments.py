"""The arrays that the expressions of the tables name."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np

_random = np.random.default_rng(7)


def _normal(*shape: int) -> np.ndarray:
    return _random.normal(size=shape).astype(np.float32)


def _within(low: float, high: float, *shape: int) -> np.ndarray:
    return _random.uniform(low, high, size=shape).astype(np.float32)


def _complex(*shape: int) -> np.ndarray:
    return (_normal(*shape) + 1j * _normal(*shape)).astype(np.complex64)


_SQUARE = _normal(3, 3)

ARRAYS: dict[str, np.ndarray] = {
    # float32: a matrix, a row, a column, positive, between -1 and 1, above 1, a scalar, empty
    "a": _normal(3, 4),
    "b": _normal(4),
    "col": _normal(3, 1),
    "p": _within(0.5, 3.0, 3, 4),
    "p2": _within(0.5, 3.0, 3, 4),
    "u": _within(-0.9, 0.9, 3, 4),
    "up": _within(0.1, 0.9, 3, 4),
    "big": _within(1.2, 3.0, 3, 4),
    "s": np.array(0.7, np.float32),
    "z": np.zeros((0, 4), np.float32),
    "v": np.array([3.0, 1.0, 2.5, -1.5, 5.0, 0.5], np.float32),
    "o": np.array([-1.0, 0.0, 0.5, 2.0, 4.0], np.float32),
    "r": np.array([3.0, 1.0, 2.0, 1.0, 3.0], np.float32),
    "w": _normal(4, 5),
    "t3": _normal(2, 3, 4),
    "t4": _normal(2, 4, 5),
    "N": np.array([[1.0, np.nan, 3.0, -2.0], [4.0, 5.0, np.nan, 0.5]], np.float32),
    "F": np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.5], np.float32),
    "half": np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32),
    # images and kernels
    "img": _normal(2, 3, 6, 7),
    "ker": _normal(4, 3, 3, 2),
    "sig": _normal(2, 3, 9),
    "tap": _normal(4, 3, 3),
    # matrices: any, positive definite, lower, a stack, symmetric
    "A": _SQUARE + 2 * np.eye(3, dtype=np.float32),
    "S": (_SQUARE @ _SQUARE.T + np.eye(3)).astype(np.float32),
    "L": (np.tril(_SQUARE) + 2 * np.eye(3)).astype(np.float32),
    "As": _normal(2, 3, 3) + 2 * np.eye(3, dtype=np.float32),
    "y3": _normal(3),
    "Y": _normal(3, 2),
    # other dtypes
    "i": np.array([[3, -4, 5, 1], [-7, 8, 0, 2], [6, -1, 9, -3]], np.int32),
    "j": np.array([[2, 3, -2, 1], [5, -3, 1, 4], [-1, 2, 7, -5]], np.int32),
    "k": np.array([2, 0, 1], np.int32),
    "k4": np.array([1, 0, 2, 1], np.int32),
    "n": np.array([0, 1, 1, 3, 2, 1, 5], np.int32),
    "si": np.array(2, np.int32),
    "m": np.array([[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 1]], np.bool_),
    "m4": np.array([True, False, True, True]),
    "c": _complex(3, 4),
    "c4": _complex(4),
    "C": _complex(3, 3) + 2 * np.eye(3, dtype=np.complex64),
    "h": _normal(3, 4).astype(np.float16),
    "hp": _within(0.5, 2.0, 3, 4).astype(np.float16),
    "g": _normal(3, 4).astype(ml_dtypes.bfloat16),
    "q": np.array([[5, 3, 200, 7], [0, 255, 17, 1], [2, 9, 64, 128]], np.uint8),
    "i8": np.array([[5, -3, 100, 7], [0, -128, 17, 1], [2, 9, 64, 127]], np.int8),
    "uw": np.array([[5, 3, 2**31, 7], [0, 2**32 - 1, 17, 1], [2, 9, 64, 128]], np.uint32),
    "d": np.array([0.1, 1.0, -2.0]),
    # a key of random numbers
    "K": np.array([0, 42], np.uint32),
}


def seed_of(text: str) -> np.random.Generator:
    """A generator that depends on nothing but a text."""
    return np.random.default_rng(zlib.crc32(text.encode()))


def direction(name: str, like: Any) -> np.ndarray:
    """A tangent or cotangent: as `like`, of size about one."""
    like = np.asarray(like)
    generator = seed_of(name)
    found = generator.normal(size=like.shape)
    if like.dtype.kind == "c":
        found = found + 1j * generator.normal(size=like.shape)
    return found.astype(like.dtype)


def batch(x: np.ndarray, name: str) -> np.ndarray:
    """Three versions of an argument that keep its sign and order, or its set of integers."""
    if x.dtype.kind in "biu" and name != "K":
        return np.stack([x, np.roll(x, 1), np.roll(x, 2)])
    if name == "K":
        return np.stack([x, x + 5, x[::-1]]).astype(x.dtype)
    factors = np.array([1.0, 0.9, 0.8], x.dtype).reshape(3, *[1] * x.ndim)
    return (x[None] * factors).astype(x.dtype)
