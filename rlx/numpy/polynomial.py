"""Polynomials with the highest power first, interpolation, windows."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.errors import AttributeValueError, ShapeError
from ..ir.types import is_inexact
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.arguments import choice, count_of, flag
from ..trace.array import Array, new_array
from ..trace.array_arguments import known_real, scalar, vector, with_axes
from ..trace.axes import integer
from ..trace.promotion import FLOAT, broadcast_to, convert, convert_exactly, result_dtype
from ..transforms.eager import eager
from .contraction import convolve, matmul, outer
from .creation import eye, ones, vander, zeros
from .elementwise import Tensor, add, divide, exp, greater, less, multiply, sqrt, subtract
from .indexing import known_array, take
from .linalg import eigvals, inv, lstsq
from .logic import where
from .manipulation import concatenate, stack
from .reductions import sum as total
from .sets import trim_zeros
from .sorting import searchsorted


def polyval(p: Tensor, x: Tensor, *, unroll: int = 16) -> Array:
    """Evaluate a polynomial at x by Horner's scheme; `unroll` has no effect.

    `p` holds the coefficients, the highest power first.
    """
    p = with_axes("polyval: p", p, 1)
    x = convert_exactly(x, result_dtype(p, as_operand(x)))
    result = multiply(x, 0)
    for i in range(p.shape[0]):
        result = add(multiply(result, x), p[i])
    return result


def _longer(p: Any, size: int) -> Array:
    zero = as_tensor(np.zeros((), p.dtype))
    return apply("pad", p, zero, low=(size - p.shape[0],), high=(0,), interior=(0,))


def _same_length(name: str, p: Tensor, q: Tensor) -> tuple[Array, Array]:
    p, q = vector(f"{name}: a1", p), vector(f"{name}: a2", q)
    size = p.shape[0] if p.shape[0] > q.shape[0] else q.shape[0]
    return _longer(p, size), _longer(q, size)


def polyadd(a1: Tensor, a2: Tensor) -> Array:
    """The sum of two polynomials, `a1` and `a2`."""
    return add(*_same_length("polyadd", a1, a2))


def polysub(a1: Tensor, a2: Tensor) -> Array:
    """The difference of two polynomials, `a1` and `a2`."""
    return subtract(*_same_length("polysub", a1, a2))


def polymul(a1: Tensor, a2: Tensor, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, `a1` and `a2`.

    `trim_leading_zeros` drops those of both first, which needs known numbers.
    """
    a1, a2 = vector("polymul: a1", a1), vector("polymul: a2", a2)
    if flag("polymul: trim_leading_zeros", trim_leading_zeros):
        a1, a2 = (trim_zeros(a, "f") for a in (a1, a2))
    return convolve(a1, a2)


def polydiv(u: Tensor, v: Tensor, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and remainder of the polynomials `u` and `v`.

    `trim_leading_zeros` drops those of the remainder, which needs known numbers.
    """
    u, v = vector("polydiv: u", u, least=1), vector("polydiv: v", v, least=1)
    dtype = result_dtype(u, v, inexact=True)
    rest, divisor = (convert_exactly(x, dtype) for x in (u, v))
    steps = rest.shape[0] - divisor.shape[0] + 1
    if steps < 1:
        return zeros((1,), dtype), rest
    found = []
    for i in range(steps):
        factor = divide(rest[i], divisor[0])
        found.append(factor)
        rest = rest.at[i : i + divisor.shape[0]].add(-factor * divisor).at[i].set(0)
    return stack(found), trim_zeros(rest, "f") if flag(
        "polydiv: trim_leading_zeros", trim_leading_zeros
    ) else rest


def poly(seq_of_zeros: Tensor) -> Array:
    """The coefficients of the monic polynomial with the given roots, `seq_of_zeros`.

    For a square matrix it is the characteristic polynomial.
    """
    x = as_tensor(seq_of_zeros)
    x = eigvals(x) if x.ndim == 2 else vector("poly: seq_of_zeros", x)
    x = x if is_inexact(x.dtype) else convert(x, FLOAT)
    result = ones((1,), x.dtype)
    for i in range(x.shape[0]):
        result = convolve(result, stack([ones((), x.dtype), -x[i]]))
    return result


def polyfit(
    x: Tensor,
    y: Tensor,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Tensor | None = None,
    cov: bool | str = False,
) -> Any:
    """The coefficients of the least-squares polynomial of degree `deg`.

    `w` are weights of the residuals; singular values up to `rcond` times the largest count as zero.
    With `full` the sum of squared residuals, the rank, the singular values and rcond come along;
    with `cov` the covariance matrix of the coefficients, which "unscaled" does not scale by the
    residuals.
    """
    dtype = result_dtype(as_tensor(x), as_tensor(y), inexact=True)
    x, y = convert_exactly(x, dtype), convert_exactly(y, dtype)
    rows = vander(x, integer("polyfit: deg", deg) + 1)
    if w is not None:
        weights = convert_exactly(w, dtype)
        rows = multiply(rows, weights[:, None])
        y = multiply(y, weights if y.ndim == 1 else weights[:, None])
    scale = sqrt(total(multiply(rows, rows), 0))
    rcond = x.shape[0] * float(ml_dtypes.finfo(dtype).eps) if rcond is None else rcond
    found, misses, rank, values = lstsq(divide(rows, scale), y, rcond)
    found = divide(found, scale if found.ndim == 1 else scale[:, None])
    if flag("polyfit: full", full):
        return found, misses, rank, values, convert(rcond, dtype)
    if not choice("polyfit: cov", cov, (False, True, "unscaled")):
        return found
    thin = divide(rows, scale)
    spread = divide(inv(matmul(thin.T, thin)), outer(scale, scale))
    free = 1 if cov == "unscaled" else divide(misses, x.shape[0] - rows.shape[1])
    return found, multiply(spread if y.ndim == 1 else spread[:, :, None], free)


def roots(p: Tensor, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial `p`: the eigenvalues of its companion matrix.

    Zero coefficients at both ends are stripped, which needs known numbers; use `strip_zeros=False`
    in traced code.
    """
    p = vector("roots: p", p)
    p = p if is_inexact(p.dtype) else convert(p, FLOAT)
    trailing = 0
    if flag("roots: strip_zeros", strip_zeros):
        known = known_array("roots", p, "write roots(p, strip_zeros=False)")
        places = np.flatnonzero(known)
        first, last = (places[0], places[-1]) if len(places) else (0, -1)
        trailing = p.shape[0] - 1 - int(last) if len(places) else 0
        p = p[int(first) : int(last) + 1]
    size = p.shape[0] - 1
    complex_dtype = result_dtype(p, as_tensor(np.zeros((), np.complex64)))
    nothing = zeros((trailing,), complex_dtype)
    if size < 1:
        return nothing
    square = eye(size, k=-1, dtype=p.dtype).at[0].set(divide(-p[1:], p[0]))
    return concatenate([eigvals(square), nothing])


def polyder(p: Tensor, m: int = 1) -> Array:
    """The `m`-th derivative of a polynomial `p`."""
    p = vector("polyder: p", p)
    for _ in range(min(count_of("polyder: m", m), p.shape[0])):
        powers = np.arange(p.shape[0] - 1, 0, -1).astype(p.dtype)
        p = multiply(p[:-1], powers)
    return p


def polyint(p: Tensor, m: int = 1, k: Any = None) -> Array:
    """The `m`-th antiderivative of a polynomial `p`.

    `k` are the integration constants.
    """
    p, m = vector("polyint: p", p), count_of("polyint: m", m, most=10_000)
    dtype = result_dtype(p, inexact=True)
    constants = broadcast_to(convert_exactly(0 if k is None else k, dtype), (m,))
    for i in range(m):
        powers = np.arange(p.shape[0], 0, -1).astype(dtype)
        p = concatenate([divide(p, powers), constants[i : i + 1]])
    return p


def interp(
    x: Tensor,
    xp: Tensor,
    fp: Tensor,
    left: Tensor | str | None = None,
    right: Tensor | str | None = None,
    period: Tensor | None = None,
) -> Array:
    """Linear interpolation at `x` of the points (`xp`, `fp`) with ascending `xp`.

    Outside of the range the result is `left` and `right`: None takes the end point, "extrapolate"
    continues the line. `period` makes xp and x periodic.
    """
    for end in (left, right):
        if isinstance(end, str) and end != "extrapolate":
            raise AttributeValueError(
                f"interp: beyond an end there is no {end!r}",
                fix='give a number, or "extrapolate"',
            )
    dtype = result_dtype(*map(as_operand, (x, xp, fp)), inexact=True)
    x, xp, fp = (convert_exactly(a, dtype) for a in (x, xp, fp))
    if xp.ndim != 1 or tuple(xp.shape) != tuple(fp.shape):
        raise ShapeError(
            f"interp: the points are {xp.type} and {fp.type}",
            fix="give two vectors of one size; rlx.vmap takes a batch of them",
        )
    if period is not None:
        period = abs(as_tensor(scalar("interp: period", period)))
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
    if period is None and not isinstance(left, str):
        result = where(less(x, xp[0]), fp[0] if left is None else left, result)
    if period is None and not isinstance(right, str):
        result = where(greater(x, xp[-1]), fp[-1] if right is None else right, result)
    return result


# -- windows ------------------------------------------------------------------------------------


def _window(name: str, size: int, *weights: float) -> Array:
    """A sum of cosines, weights[k] that of k whole turns along the window."""
    size = count_of(f"{name}: M", size, -(2**31))
    if size <= 1:
        return new_array(np.ones(max(size, 0), "float32"))
    angle = 2 * math.pi * np.arange(size) / (size - 1)
    row = sum(w * np.cos(k * angle) for k, w in enumerate(weights))
    return new_array(np.array(row, "float32"))


def hanning(M: int) -> Array:
    """The Hann window of `M` points: a raised cosine, zero at both ends."""
    return _window("hanning", M, 0.5, -0.5)


def hamming(M: int) -> Array:
    """The Hamming window of `M` points: a raised cosine with steps at both ends."""
    return _window("hamming", M, 0.54, -0.46)


def blackman(M: int) -> Array:
    """The Blackman window of `M` points, a sum of three cosines."""
    return _window("blackman", M, 0.42, -0.5, 0.08)


def bartlett(M: int) -> Array:
    """The Bartlett window of `M` points: a triangle, zero at both ends."""
    return new_array(np.bartlett(count_of("bartlett: M", M, -(2**31))).astype("float32"))


def kaiser(M: int, beta: float) -> Array:
    """The Kaiser window of `M` points.

    A larger `beta` gives a wider main lobe and lower side lobes.
    """
    M = count_of("kaiser: M", M, -(2**31))
    beta = known_real("kaiser: beta", beta)
    with np.errstate(all="ignore"):  # an infinite beta makes NaNs
        return new_array(np.kaiser(M, beta).astype("float32"))


# -- the Bessel function i0 ---------------------------------------------------------------------


@eager
def i0(x: Tensor) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    x = convert_exactly(x, result_dtype(as_operand(x), inexact=True))
    return multiply(exp(abs(x)), apply("bessel_i0e", x))
