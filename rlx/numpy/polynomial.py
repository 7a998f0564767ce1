"""Polynomials with the highest power first, interpolation, windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..trace.apply import apply, as_operand, as_tensor
from ..trace.array import Array
from ..trace.promotion import convert, result_dtype
from .contraction import convolve
from .elementwise import Tensor, add, divide, exp, greater, less, multiply, subtract
from .indexing import take
from .logic import where
from .manipulation import concatenate
from .sorting import searchsorted


def polyval(p: Tensor, x: Tensor) -> Any:
    """The value of a polynomial at x."""
    p = as_tensor(p)
    result = multiply(as_tensor(x), 0)
    for i in range(p.shape[0]):
        result = add(multiply(result, x), p[i])
    return result


def _longer(p: Any, size: int) -> Any:
    zero = as_tensor(np.zeros((), p.dtype))
    return apply("pad", p, zero, low=(size - p.shape[0],), high=(0,), interior=(0,))


def _same_length(p: Tensor, q: Tensor) -> tuple[Any, Any]:
    p, q = as_tensor(p), as_tensor(q)
    size = p.shape[0] if p.shape[0] > q.shape[0] else q.shape[0]
    return _longer(p, size), _longer(q, size)


def polyadd(p: Tensor, q: Tensor) -> Any:
    """The sum of two polynomials."""
    return add(*_same_length(p, q))


def polysub(p: Tensor, q: Tensor) -> Any:
    """The difference of two polynomials."""
    return subtract(*_same_length(p, q))


def polymul(p: Tensor, q: Tensor) -> Any:
    """The product of two polynomials."""
    return convolve(p, q)


def polyder(p: Tensor, m: int = 1) -> Any:
    """The m-th derivative of a polynomial."""
    p = as_tensor(p)
    for _ in range(m):
        powers = np.arange(p.shape[0] - 1, 0, -1).astype(p.dtype)
        p = multiply(p[:-1], powers)
    return p


def polyint(p: Tensor, m: int = 1, k: float = 0.0) -> Any:
    """The m-th integral of a polynomial, with a constant."""
    p = as_tensor(p)
    dtype = result_dtype(p, inexact=True)
    for _ in range(m):
        powers = np.arange(p.shape[0], 0, -1).astype(dtype)
        p = concatenate([divide(p, powers), np.full((1,), k, dtype)])
    return p


def interp(
    x: Tensor,
    xp: Tensor,
    fp: Tensor,
    left: Tensor | None = None,
    right: Tensor | None = None,
    period: float | None = None,
) -> Any:
    """The value at x on the line through the points (xp, fp), whose xp rise."""
    dtype = result_dtype(*map(as_operand, (x, xp, fp)), inexact=True)
    x, xp, fp = (convert(as_tensor(a), dtype) for a in (x, xp, fp))
    if period is not None:
        x, xp = x % period, xp % period
        order = xp.argsort()
        xp, fp = xp[order], fp[order]
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    last = xp.shape[0] - 1
    place = searchsorted(xp, x, side="right").clip(1, last)
    x0, x1 = take(xp, place - 1, mode="clip"), take(xp, place, mode="clip")
    y0, y1 = take(fp, place - 1, mode="clip"), take(fp, place, mode="clip")
    width = subtract(x1, x0)
    # points on top of one another have no slope
    share = where(width == 0, 0, divide(subtract(x, x0), where(width == 0, 1, width)))
    result = add(y0, multiply(share, subtract(y1, y0)))
    result = where(less(x, xp[0]), fp[0] if left is None else left, result)
    return where(greater(x, xp[-1]), fp[-1] if right is None else right, result)


# -- windows ------------------------------------------------------------------------------------


def _window(size: int, *weights: float) -> Any:
    """A sum of cosines, weights[k] that of k whole turns along the window."""
    if size <= 1:
        return Array(np.ones(max(size, 0), "float32"))
    angle = 2 * math.pi * np.arange(size) / (size - 1)
    row = sum(w * np.cos(k * angle) for k, w in enumerate(weights))
    return Array(np.asarray(row, "float32"))


def hanning(size: int) -> Any:
    """A raised cosine that is zero at both ends."""
    return _window(size, 0.5, -0.5)


def hamming(size: int) -> Any:
    """A raised cosine with small steps at both ends."""
    return _window(size, 0.54, -0.46)


def blackman(size: int) -> Any:
    """A window of three cosines."""
    return _window(size, 0.42, -0.5, 0.08)


def bartlett(size: int) -> Any:
    """A triangle that is zero at both ends."""
    return Array(np.bartlett(size).astype("float32"))


def kaiser(size: int, beta: float) -> Any:
    """A window of a Bessel function; beta trades width for low sides."""
    return Array(np.kaiser(size, beta).astype("float32"))


# -- the Bessel function i0 ---------------------------------------------------------------------

# Chebyshev coefficients of exp(-x) i0(x) on [0, 8] and of exp(-x) sqrt(x) i0(x) on [8, inf],
# from Cephes (https://www.netlib.org/cephes), the precision of float32 and more
_NEAR = [
    -1.30002500998624804212e-8,
    6.04699502254191894932e-8,
    -2.67079385394061173391e-7,
    1.11738753912010371815e-6,
    -4.41673835845875056359e-6,
    1.64484480707288970893e-5,
    -5.75419501008210370398e-5,
    1.88502885095841655729e-4,
    -5.76375574538582365885e-4,
    1.63947561694133579842e-3,
    -4.32430999505057594430e-3,
    1.05464603945949983183e-2,
    -2.37374148058994688156e-2,
    4.93052842396707084878e-2,
    -9.49010970480476444210e-2,
    1.71620901522208775349e-1,
    -3.04682672343198398683e-1,
    6.76795274409476084995e-1,
]
_FAR = [
    3.39623202570838634515e-9,
    2.26666899049817806459e-8,
    2.04891858946906374183e-7,
    2.89137052083475648297e-6,
    6.88975834691682398426e-5,
    3.36911647825569408990e-3,
    8.04490411014108831608e-1,
]


def i0(x: Tensor) -> Any:
    """The modified Bessel function of order 0."""
    x = abs(convert(as_tensor(x), result_dtype(as_operand(x), inexact=True)))
    near = _chebyshev(subtract(divide(x, 2), 2), _NEAR)
    safe = where(less(x, 8), 8, x)
    far = divide(_chebyshev(subtract(divide(32, safe), 2), _FAR), apply("sqrt", safe))
    return multiply(exp(x), where(less(x, 8), near, far))


def _chebyshev(x: Any, coefficients: list[float]) -> Any:
    before, last, result = 0.0, 0.0, coefficients[0]
    for c in coefficients[1:]:
        before, last = last, result
        result = add(subtract(multiply(x, last), before), c)
    return multiply(0.5, subtract(result, before))
