"""Triangular forms of a square matrix by unitary ones: hessenberg, schur."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...body import Library
from ...errors import GradientError
from ...op import ALIGNED, define
from ...types import Type, as_dtype, is_complex
from .matrices import ITERATED, check_matrix, operations

STEPS = 40  # for each eigenvalue, after which the rest is NaN


def _each(factor: Callable[..., Any], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The results for each matrix of a batch, computed in 64 bits."""
    wide = np.complex128 if is_complex(x.dtype) else np.float64
    many = x.astype(wide).reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))
    first, second = np.empty_like(many), np.empty_like(many)
    for i, a in enumerate(many):
        first[i], second[i] = factor(a)
    return first.reshape(x.shape), second.reshape(x.shape)


def _refuse(name: str) -> NoReturn:
    raise GradientError(
        f"{name}: the unitary matrix is not unique, and has no derivative",
        fix="differentiate a function of the matrix, such as sqrtm or eigvals, or use "
        "rlx.stop_gradient",
    )


@define
def hessenberg(x: Type) -> tuple[Type, Type]:
    """H and Q with x = Q H Qᴴ, Q unitary, and H zero below the first lower diagonal.

    `f32[..., n, n] → f32[..., n, n], f32[..., n, n]`.
    """
    check_matrix(x, square=True)
    return x, x


hessenberg.reference(lambda x: _each(_hessenberg, x))


def _hessenberg(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Householder's reflections, column by column."""
    h, q = a.copy(), np.eye(len(a), dtype=a.dtype)
    for k in range(len(a) - 2):
        v = _mirror(h[k + 1 :, k])
        h[k + 1 :] -= 2 * np.outer(v, v.conj() @ h[k + 1 :])
        h[:, k + 1 :] -= 2 * np.outer(h[:, k + 1 :] @ v, v.conj())
        q[:, k + 1 :] -= 2 * np.outer(q[:, k + 1 :] @ v, v.conj())
        h[k + 2 :, k] = 0
    return h, q


def _mirror(x: np.ndarray) -> np.ndarray:
    """The unit vector v for which x - 2 v (v · x) has its first element alone."""
    v = x.copy()
    size = np.linalg.norm(x)
    phase = x[0] / abs(x[0]) if x[0] != 0 else 1.0
    v[0] += phase * size
    length = np.linalg.norm(v)
    return v / length if length > 0 else v


hessenberg.body(Library())
hessenberg.library_work("direct", operations(lambda m, n, _: 14 * n**3 / 3))
hessenberg.jvp(lambda primals, tangents: _refuse("hessenberg"))
hessenberg.batch(ALIGNED)


# in float32, where the audit takes no slopes
_ONE, _MANY = (Type(as_dtype("float32"), shape) for shape in ((4, 4), (2, 3, 3)))
_SQUARE, _TRIANGLE = (np.array([[2, 1], [k, 3]], np.float32) for k in (1, 0))
_EYE = np.eye(2, dtype=np.float32)
hessenberg.samples(_ONE)
hessenberg.samples(_MANY)
hessenberg.samples(_SQUARE, expect=[_SQUARE, _EYE])


@define
def schur(x: Type) -> tuple[Type, Type]:
    """T and Z with x = Z T Zᴴ, Z unitary, and T triangular.

    T of a real matrix has a block of two rows on its diagonal for each pair of complex
    eigenvalues, with equal diagonal elements. `f32[..., n, n] → f32[..., n, n], f32[..., n, n]`.
    """
    check_matrix(x, square=True)
    return x, x


schur.reference(lambda x: _each(_complex_schur if is_complex(x.dtype) else _real_schur, x))


def _deflated(h: np.ndarray, high: int) -> int:
    """The first row of the block that ends at `high`; what is small above it becomes 0."""
    for i in range(high, 0, -1):
        near = abs(h[i - 1, i - 1]) + abs(h[i, i])
        if abs(h[i, i - 1]) <= np.finfo(np.float64).eps * (near or np.linalg.norm(h)):
            h[i, i - 1] = 0
            return i
    return 0


def _without_end(h: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.full_like(h, np.nan), np.full_like(z, np.nan)


def _complex_schur(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR steps with Wilkinson's shift. Golub and Van Loan, "Matrix Computations", 7.5."""
    h, z = _hessenberg(a)
    high, count = len(a) - 1, 0
    while high > 0:
        low = _deflated(h, high)
        if low == high:
            high, count = high - 1, 0
            continue
        if count == STEPS or not np.isfinite(h[high, high]):
            return _without_end(h, z)
        count += 1
        shift = _shift(h[high - 1 : high + 1, high - 1 : high + 1], count)
        _complex_step(h, z, low, high, shift)
    return np.triu(h), z


def _shift(block: np.ndarray, count: int) -> complex:
    if count % 10 == 0:  # out of a circle
        return block[1, 1] + abs(block[1, 0])
    values = np.linalg.eigvals(block)
    return values[np.argmin(abs(values - block[1, 1]))]


def _complex_step(h: np.ndarray, z: np.ndarray, low: int, high: int, shift: complex) -> None:
    x, y = h[low, low] - shift, h[low + 1, low]
    for k in range(low, high):
        v = _mirror(np.array([x, y]))
        _reflect(h, z, v, k, max(k - 1, low), min(k + 3, high + 1))
        if k < high - 1:
            x, y = h[k + 1, k], h[k + 2, k]
    for k in range(low, high - 1):
        h[k + 2, k] = 0


def _reflect(h: np.ndarray, z: np.ndarray, v: np.ndarray, k: int, left: int, below: int) -> None:
    """The reflection by v of the rows and columns from k on; `h` is known to be 0 elsewhere."""
    end = k + len(v)
    h[k:end, left:] -= 2 * np.outer(v, v.conj() @ h[k:end, left:])
    h[:below, k:end] -= 2 * np.outer(h[:below, k:end] @ v, v.conj())
    z[:, k:end] -= 2 * np.outer(z[:, k:end] @ v, v.conj())


def _real_schur(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Francis's double steps. Golub and Van Loan, "Matrix Computations", algorithm 7.5.2."""
    h, z = _hessenberg(a)
    high, count = len(a) - 1, 0
    while high > 0:
        low = _deflated(h, high)
        if low >= high - 1:
            if low == high - 1:
                _split(h, z, low)
            high, count = (high - 1 if low == high else high - 2), 0
            continue
        if count == STEPS or not np.isfinite(h[high, high]):
            return _without_end(h, z)
        count += 1
        _real_step(h, z, low, high, count)
    for i in range(2, len(a)):
        h[i, : i - 1] = 0
    return h, z


def _real_step(h: np.ndarray, z: np.ndarray, low: int, high: int, count: int) -> None:
    total = h[high - 1, high - 1] + h[high, high]
    product = h[high - 1, high - 1] * h[high, high] - h[high - 1, high] * h[high, high - 1]
    if count % 10 == 0:  # out of a circle
        size = abs(h[high, high - 1]) + abs(h[high - 1, high - 2])
        total, product = 1.5 * size, size * size
    first, second = h[low, low], h[low + 1, low]
    x = first * first + h[low, low + 1] * second - total * first + product
    y, w = second * (first + h[low + 1, low + 1] - total), second * h[low + 2, low + 1]
    for k in range(low, high - 1):
        v = _mirror(np.array([x, y, w]))
        _reflect(h, z, v, k, max(k - 1, low), min(k + 4, high + 1))
        x, y = h[k + 1, k], h[k + 2, k]
        w = h[k + 3, k] if k < high - 2 else 0.0
    _reflect(h, z, _mirror(np.array([x, y])), high - 1, max(high - 2, low), high + 1)
    for k in range(low, high - 1):
        h[k + 2 : min(k + 4, high + 1), k] = 0


def _split(h: np.ndarray, z: np.ndarray, k: int) -> None:
    """Turn a block of two rows so that it is triangular, or has equal diagonal elements."""
    (a, b), (c, d) = h[k : k + 2, k : k + 2]
    half = (a - d) / 2
    root = half * half + b * c
    if root >= 0:
        value = half + math.copysign(math.sqrt(root), half)
        length = math.hypot(value, c)
        cosine, sine = (value / length, c / length) if length else (1.0, 0.0)
    else:
        length = math.hypot(b + c, a - d)
        cosine = math.sqrt((1 + abs(b + c) / length) / 2)
        sine = -half / (length * cosine) * math.copysign(1.0, b + c)
    turn = np.array([[cosine, sine], [-sine, cosine]])
    h[k : k + 2, k:] = turn @ h[k : k + 2, k:]
    h[: k + 2, k : k + 2] = h[: k + 2, k : k + 2] @ turn.T
    z[:, k : k + 2] = z[:, k : k + 2] @ turn.T
    if root >= 0:
        h[k + 1, k] = 0
    else:
        h[k, k] = h[k + 1, k + 1] = (h[k, k] + h[k + 1, k + 1]) / 2


schur.body(Library())
schur.library_work("iterative", operations(lambda m, n, _: 25 * n**3, ITERATED))
schur.jvp(lambda primals, tangents: _refuse("schur"))
schur.batch(ALIGNED)
schur.samples(_ONE)
schur.samples(_MANY)
schur.samples(_TRIANGLE, expect=[_TRIANGLE, _EYE])
