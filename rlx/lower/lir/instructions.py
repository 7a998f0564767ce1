"""The scalar instructions in NumPy: `NUMPY[name](result_dtype, *arrays)`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _plain(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda dtype, *args: fn(*args)


def _is_integer(x: np.ndarray) -> bool:
    return x.dtype.kind in "iu"


def _div(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not _is_integer(x):
        return np.divide(x, y)
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    whole = x // safe
    ones = np.array(-1).astype(dtype)  # all bits set
    return np.where(y == 0, ones, whole + ((x % safe != 0) & ((x < 0) != (safe < 0)))).astype(dtype)


def _rem(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not _is_integer(x):
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))).astype(dtype)


def _pow(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not _is_integer(x):
        return np.power(x, y)
    positive = np.power(x, np.maximum(y, 0))
    small = np.where(np.abs(x) == 1, np.power(x, np.abs(y)), 0)
    return np.where(y < 0, small, positive).astype(dtype)


def _half(fn: Callable[[float], float]) -> Callable[..., np.ndarray]:
    """Apply a function of one double element by element."""
    return lambda dtype, x: np.vectorize(fn, otypes=[np.float64])(x.astype(np.float64))


def _logistic(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.promote_types(np.float32, x.dtype) if x.dtype.kind == "f" else np.float32)
    return 1 / (1 + np.exp(-wide))


def _erf_inv(p: float) -> float:
    if not -1 < p < 1:
        return math.copysign(math.inf, p) if abs(p) == 1 else math.nan
    size, left = abs(p), 1 - abs(p)
    # The start is Winitzki's, good to three digits; each step of Halley's triples them.
    log = math.log(left * (2 - left))
    middle = 2 / (math.pi * 0.147) + log / 2
    x = math.sqrt(math.sqrt(middle * middle - log / 0.147) - middle)
    for _ in range(3):
        error = math.erf(x) - size if size < 0.5 else left - math.erfc(x)
        step = error * math.sqrt(math.pi) / 2 * math.exp(x * x)
        x -= step / (1 + x * step)
    return math.copysign(x, p)


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _shift(fn: Callable[..., np.ndarray], x: np.ndarray, y: np.ndarray, beyond: Any) -> np.ndarray:
    """A shift instruction, which gives `beyond` for counts of the width or more."""
    width = x.dtype.itemsize * 8
    by = _unsigned(y)
    safe = np.minimum(by, width - 1).astype(x.dtype)
    return np.where(by >= width, beyond, fn(x, safe)).astype(x.dtype)


def _shr_logical(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _shift(np.right_shift, _unsigned(x), _unsigned(y), 0).view(x.dtype)


def _shr_arithmetic(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    beyond = np.where(signed < 0, -1, 0)
    return _shift(np.right_shift, signed, y.view(signed.dtype), beyond).view(x.dtype)


def _clz(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    count = np.zeros(x.shape, np.int64)
    for bit in range(x.dtype.itemsize * 8):
        count = np.where(_unsigned(x) >> bit & 1, bit + 1, count)
    return x.dtype.itemsize * 8 - count


def _not(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    return np.logical_not(x) if x.dtype.kind == "b" else np.invert(x)


def _convert(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "biu" or dtype.kind not in "iu":
        return x.astype(dtype)
    info, x = np.iinfo(dtype), np.trunc(x.astype(np.float64))
    inside = (x > float(info.min)) & (x < float(info.max))
    result = np.where(inside, x, 0).astype(dtype)
    result = np.where(x >= float(info.max), np.array(info.max, dtype), result)
    return np.where(x <= float(info.min), np.array(info.min, dtype), result)


NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _div,
    "rem": _rem,
    "pow": _pow,
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "sign": _plain(np.sign),
    "sqrt": _plain(np.sqrt),
    "rsqrt": lambda dtype, x: np.asarray(1, x.dtype) / np.sqrt(x),
    "cbrt": _plain(np.cbrt),
    "exp": _plain(np.exp),
    "exp2": _plain(np.exp2),
    "expm1": _plain(np.expm1),
    "log": _plain(np.log),
    "log1p": _plain(np.log1p),
    "logistic": _logistic,
    "sin": _plain(np.sin),
    "cos": _plain(np.cos),
    "tan": _plain(np.tan),
    "asin": _plain(np.arcsin),
    "acos": _plain(np.arccos),
    "atan": _plain(np.arctan),
    "atan2": _plain(np.arctan2),
    "sinh": _plain(np.sinh),
    "cosh": _plain(np.cosh),
    "tanh": _plain(np.tanh),
    "asinh": _plain(np.arcsinh),
    "acosh": _plain(np.arccosh),
    "atanh": _plain(np.arctanh),
    "erf": _half(math.erf),
    "erfc": _half(math.erfc),
    "erf_inv": _half(_erf_inv),
    "floor": _plain(np.floor),
    "ceil": _plain(np.ceil),
    "round": _plain(np.rint),
    "trunc": _plain(np.trunc),
    "is_finite": _plain(np.isfinite),
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _not,
    "shl": lambda dtype, x, y: _shift(np.left_shift, x, y, 0),
    "shr_logical": _shr_logical,
    "shr_arithmetic": _shr_arithmetic,
    "popcount": lambda dtype, x: np.bitwise_count(_unsigned(x)),
    "clz": _clz,
    "select": _plain(np.where),
    "convert": _convert,
    "bitcast": lambda dtype, x: x.view(dtype),
}
