"""Special functions under the names of `jax.scipy.special`.

Integers become float32. Every function differentiates, batches and compiles; complex numbers are
an error unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, DtypeError
from ..ir.types import DTYPES, is_complex, is_half, is_integer
from ..numpy.elementwise import named
from ..trace import pytree
from ..trace.apply import apply, as_operand, as_tensor, operand_type
from ..trace.arguments import count_of, flag
from ..trace.array import Array
from ..trace.axes import integer, some_axes
from ..trace.promotion import (
    FLOAT,
    broadcast_operands,
    convert,
    fit_each,
    pointwise,
    promote_operands,
    result_dtype,
)
from ..trace.scan import scan
from .operands import Tensor, floats
from .special_series import (
    complex_loggamma,
    hyp2f1 as hyp2f1,
    sph_harm_y as sph_harm_y,
    wofz as wofz,
)

Axis = int | tuple[int, ...] | None
INT = DTYPES["int32"]
TERMS = 300  # of a power series for numbers below FAR
FAR, FAR_TERMS = 100.0, 30  # from there on an asymptotic series


def _unary(name: str, op: str, doc: str) -> Callable[[Tensor], Array]:
    """A function of one number that is one op."""
    return named(lambda x: pointwise(op, x, name=name, inexact=True), name, doc)


def _binary(name: str, op: str, doc: str) -> Callable[[Tensor, Tensor], Array]:
    """A function of two numbers that is one op."""
    return named(lambda x, y: pointwise(op, x, y, name=name, inexact=True), name, doc)


# -- the gamma function ---------------------------------------------------------------------------

gammaln = _unary("gammaln", "lgamma", "The logarithm of the absolute value of the gamma function.")
digamma = _unary("digamma", "digamma", "The digamma function, the derivative of `gammaln`.")


def betaln(a: Tensor, b: Tensor) -> Array:
    """The logarithm of the absolute value of the beta function."""
    return pointwise("betaln", a, b, name="betaln", inexact=True)


def gammainc(a: Tensor, x: Tensor) -> Array:
    """The regularized lower incomplete gamma function."""
    return pointwise("igamma", a, x, name="gammainc", inexact=True)


def gammaincc(a: Tensor, x: Tensor) -> Array:
    """The regularized upper incomplete gamma function."""
    return pointwise("igammac", a, x, name="gammaincc", inexact=True)


def loggamma(x: Tensor) -> Array:
    """The principal branch of the log of the gamma function; NaN for real x <= 0."""
    if rnp.iscomplexobj(x):
        return complex_loggamma(as_tensor(x))
    (x,) = floats("loggamma", x)
    return rnp.where(x > 0, apply("lgamma", x), math.nan)


def gammasgn(x: Tensor) -> Array:
    """The sign of the gamma function, -1 or 1; NaN at negative integers."""
    (x,) = floats("gammasgn", x)
    below = rnp.floor(x)
    half = below * 0.5
    is_odd = half != rnp.floor(half)
    is_minus = ((x < 0) & is_odd) | ((x == 0) & rnp.signbit(x))
    is_pole = ((x < 0) & (x == below)) | rnp.isnan(x)
    return rnp.where(is_pole, math.nan, rnp.where(is_minus, -1.0, 1.0)).astype(x.dtype)


def gamma(x: Tensor) -> Array:
    """The gamma function, (x - 1)! for integer x; NaN at negative integers."""
    if rnp.iscomplexobj(x):
        return rnp.exp(complex_loggamma(as_tensor(x)))
    (x,) = floats("gamma", x)
    return gammasgn(x) * rnp.exp(apply("lgamma", x))


def beta(a: Tensor, b: Tensor) -> Array:
    """The beta function, gamma(a) * gamma(b) / gamma(a + b)."""
    a, b = floats("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * rnp.exp(betaln(a, b))


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Array:
    """The regularized incomplete beta function; it has a derivative in x only."""
    return pointwise("betainc", a, b, x, name="betainc", inexact=True)


def factorial(n: Tensor, exact: bool = False) -> Array:
    """The factorial gamma(n + 1) of `n` as a float; 0 for negative n.

    `exact` must be False.
    """
    exact = flag("factorial: exact", exact)
    if exact:
        raise ArgumentError(
            "factorial: exact integers are not computed",
            fix="leave out exact=True, or use math.factorial",
        )
    (n,) = floats("factorial", n)
    return rnp.where(n < 0, 0.0, rnp.exp(apply("lgamma", n + 1)))


def comb(N: Tensor, k: Tensor, *, repetition: bool = False) -> Array:
    """The number of combinations of `N` things taken `k` at a time.

    With `repetition` a thing may be chosen more than once.
    """
    repetition = flag("comb: repetition", repetition)
    N, k = floats("comb", N, k)
    if repetition:
        return rnp.where((k == 0) & (N >= 0), 1.0, comb(N + k - 1, k))
    is_choice = (k <= N) & (N >= 0) & (k >= 0)
    N, k = rnp.where(is_choice, N, 0.0), rnp.where(is_choice, k, 0.0)
    size = gammaln(N + 1) - gammaln(k + 1) - gammaln(N + 1 - k)
    return rnp.where(is_choice, rnp.exp(size), 0.0)


def poch(z: Tensor, m: Tensor) -> Array:
    """The Pochhammer symbol (rising factorial) `gamma(z + m) / gamma(z)`."""
    z, m = floats("poch", z, m)
    sign = gammasgn(z + m) * gammasgn(z)
    result = sign * rnp.exp(apply("lgamma", z + m) - gammaln(z + 0 * m))
    return rnp.where((m == 0) & rnp.isnan(result), 1.0, result)


def multigammaln(a: Tensor, d: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension `d`."""
    d = count_of("multigammaln: d", d, least=1, most=1 << 16)
    (a,) = floats("multigammaln", a)
    halves = (np.arange(d) / 2).astype(a.dtype)
    total = rnp.sum(gammaln(rnp.expand_dims(a, -1) - halves), axis=-1)
    return total + 0.25 * d * (d - 1) * math.log(math.pi)


def polygamma(n: Tensor, x: Tensor) -> Array:
    """The polygamma function: the `n`-th derivative of `digamma`."""
    n, x = _with_order("polygamma", n, x)
    return apply("polygamma", n, x)


def _with_order(name: str, n: Tensor, x: Tensor) -> list[Any]:
    """An integer and a float of one shape."""
    order = as_operand(n)
    given = operand_type(order).dtype
    if not is_integer(given):
        raise DtypeError(
            f"{name}: the order n is {given.name}, not an integer",
            fix='convert it: n.astype("int32")',
        )
    (x,) = floats(name, x)
    return fit_each(name, [INT, x.dtype], [order, x])


def zeta(x: Tensor, q: Tensor | None = None) -> Array:
    """The Hurwitz zeta function: the sum of (k + q) ** -x over k >= 0.

    `q` is 1 if not given: Riemann's zeta function. NaN for x < 1.
    """
    if q is None:
        raise ArgumentError(
            "zeta: the argument q is missing",
            fix="write zeta(x, 1.0) for the Riemann zeta function of x > 1",
        )
    return pointwise("zeta", x, q, name="zeta", inexact=True)


MOST_FINITE_BERNOULLI = 64  # those that follow are beyond float32


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B_0 to B_n, with B_1 = -1/2; `n` is known.

    >>> bernoulli(4)
    Array([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333334], dtype=float32)
    """
    n = count_of("bernoulli: n", n)
    numbers = [Fraction(1)]
    for m in range(1, min(n, MOST_FINITE_BERNOULLI) + 1):
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append(-total / (m + 1))
    found = np.zeros(n + 1, np.float32)
    found[: len(numbers)] = numbers
    # of the even ones each has the other sign than the one before; the odd ones are 0
    found[MOST_FINITE_BERNOULLI + 2 :: 4] = np.inf
    found[MOST_FINITE_BERNOULLI + 4 :: 4] = -np.inf
    return Array(found)


# -- the normal distribution ----------------------------------------------------------------------

erf = _unary("erf", "erf", "The error function.")
erfc = _unary("erfc", "erfc", "The complementary error function 1 - erf(x).")
erfcx = _unary("erfcx", "erfcx", "The scaled complementary error function exp(x ** 2) * erfc(x).")
erfinv = _unary("erfinv", "erf_inv", "The inverse of the error function.")


def ndtr(x: Tensor) -> Array:
    """The cumulative distribution function of the standard normal distribution."""
    (x,) = floats("ndtr", x)
    return 0.5 * apply("erfc", x * -math.sqrt(0.5))


def log_ndtr(x: Tensor, series_order: int = 3) -> Array:
    """The logarithm of `ndtr`, accurate in the lower tail.

    `series_order`, an integer from 0 to 30, has no effect.
    """
    order = integer("log_ndtr: series_order", series_order)
    if not 0 <= order <= 30:
        raise ArgumentError(
            f"log_ndtr: series_order is {order}",
            fix="leave it out, or pick a number from 0 to 30",
        )
    return pointwise("log_ndtr", x, name="log_ndtr", inexact=True)


# -- integrals and Bessel functions ---------------------------------------------------------------

expi = _unary("expi", "expi", "The exponential integral Ei(x).")
spence = _unary("spence", "spence", "Spence's function, the dilogarithm of 1 - x.")
i0e = _unary("i0e", "bessel_i0e", "The modified Bessel function of order 0 times exp(-|x|).")
i1e = _unary("i1e", "bessel_i1e", "The modified Bessel function of order 1 times exp(-|x|).")


dawsn = _unary("dawsn", "dawsn", "Dawson's integral.")


def sici(x: Tensor) -> tuple[Array, Array]:
    """The sine and cosine integrals Si(x) and Ci(x)."""
    (x,) = floats("sici", x)
    return apply("sine_integral", x), apply("cosine_integral", x)


def fresnel(x: Tensor) -> tuple[Array, Array]:
    """The Fresnel sine and cosine integrals S(x) and C(x)."""
    (x,) = floats("fresnel", x)
    return apply("fresnel_sine", x), apply("fresnel_cosine", x)


def expn(n: Tensor, x: Tensor) -> Array:
    """The generalized exponential integral E_n(x) of integer order `n`."""
    n, x = _with_order("expn", n, x)
    return apply("expn", n, x)


def exp1(x: Tensor) -> Array:
    """The exponential integral E_1(x)."""
    return expn(1, x)


def i0(x: Tensor) -> Array:
    """The modified Bessel function of the first kind of order 0."""
    (x,) = floats("i0", x)
    return rnp.exp(abs(x)) * apply("bessel_i0e", x)


def i1(x: Tensor) -> Array:
    """The modified Bessel function of the first kind of order 1."""
    (x,) = floats("i1", x)
    return rnp.exp(abs(x)) * apply("bessel_i1e", x)


def bessel_jn(z: Tensor, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind of orders 0 to `v`, along axis 0.

    Miller's backward recurrence starts at order `n_iter`, which must be well above |z|, while its
    growth, about (2 / z) ** n_iter * n_iter!, must not overflow. NaN at z = 0.
    """
    order = integer("bessel_jn: v", v)
    steps = count_of("bessel_jn: n_iter", n_iter, most=1 << 20)
    if not 0 <= order <= steps:
        raise ArgumentError(
            f"bessel_jn: the order v is {order}, n_iter is {steps}",
            fix="pick v from 0 to n_iter",
        )
    (z,) = floats("bessel_jn", z)

    def step(carry: Any, k: Any) -> Any:
        above, here, total = carry
        below = 2.0 * (k + 1.0) * here / z - above
        is_even = k - 2.0 * rnp.floor(k / 2) == 0
        return (here, below, total + rnp.where(is_even, 2.0 * below, 0.0)), below

    zero = rnp.zeros_like(z)
    places = np.arange(steps + 1).astype(z.dtype)
    (_, _, total), values = scan(step, (zero, zero + 1e-16, zero), places, reverse=True)
    return values[: order + 1] / (total - values[0])


def hyp1f1(a: Tensor, b: Tensor, x: Tensor) -> Array:
    """Kummer's confluent hypergeometric function 1F1(a; b; x), for moderate a and b."""
    a, b, x = map(as_tensor, broadcast_operands("hyp1f1", *floats("hyp1f1", a, b, x)))
    # exp(x) * hyp1f1(b - a, b, -x) is the same and does not cancel
    is_negative = x < 0
    p, size = rnp.where(is_negative, b - a, a), abs(x)
    is_finite_sum = (p <= 0) & (p == rnp.floor(p))
    is_far = (size >= FAR) & ~is_finite_sum
    safe_b = rnp.where(b == 0, 1.0, b)
    near = _sum_of_ratios(rnp.where(is_far, 1.0, size), [p], [safe_b], TERMS)
    near = rnp.where(is_negative, rnp.exp(x) * near, near)
    # https://dlmf.nist.gov/13.7.E2
    size, p = rnp.where(is_far, size, FAR), rnp.where(is_far, p, 1.0)
    growth = (p - safe_b) * rnp.log(size) + gammaln(safe_b) - gammaln(p)
    growth = growth + rnp.where(is_negative, 0.0, size)
    series = _sum_of_ratios(1 / size, [safe_b - p, 1 - p], [], FAR_TERMS)
    far = gammasgn(safe_b) * gammasgn(p) * rnp.exp(growth) * series
    result = rnp.where(b == 0, math.inf, rnp.where(is_far, far, near))
    return rnp.where(a == 0, 1.0, result)


def _sum_of_ratios(x: Any, above: list[Any], below: list[Any], count: int) -> Array:
    """The sum of x ** k / k! times rising factorials, some above and some below."""

    def step(carry: Any, k: Any) -> Any:
        term, total = carry
        term = term * x / (k + 1)
        for factor in above:
            term = term * (factor + k)
        for factor in below:
            term = term / (factor + k)
        return (term, total + term), None

    one = rnp.ones_like(x)
    (_, total), _ = scan(step, (one, one), np.arange(count).astype(x.dtype))
    return total


# -- logarithms and information -------------------------------------------------------------------

xlogy = _binary("xlogy", "xlogy", "x * log(y), and 0 at x = 0 unless y is NaN.")
xlog1py = _binary("xlog1py", "xlog1py", "x * log(1 + y), and 0 at x = 0 unless y is NaN.")
logit = _unary("logit", "logit", "The logit log(x / (1 - x)), the inverse of `expit`.")
expit = _unary("expit", "logistic", "The logistic sigmoid 1 / (1 + exp(-x)).")


def entr(x: Tensor) -> Array:
    """The entropy -x * log(x); 0 at 0, -inf for negative x."""
    (x,) = floats("entr", x)
    is_negative = x < 0
    return rnp.where(is_negative, -math.inf, -apply("xlogx", rnp.where(is_negative, 1.0, x)))


def rel_entr(p: Tensor, q: Tensor) -> Array:
    """The relative entropy `p * log(p / q)`.

    It is 0 at p = 0 <= q, and inf outside of the domain.
    """
    p, q = floats("rel_entr", p, q)
    is_positive = (p > 0) & (q > 0)
    safe_p, safe_q = rnp.where(is_positive, p, 1.0), rnp.where(is_positive, q, 1.0)
    result = apply("xlogx", safe_p) - apply("xlogy", safe_p, safe_q)
    return rnp.where(is_positive, result, rnp.where((p == 0) & (q >= 0), 0.0, math.inf))


def kl_div(p: Tensor, q: Tensor) -> Array:
    """The Kullback-Leibler divergence terms `p * log(p / q) - p + q`."""
    p, q = floats("kl_div", p, q)
    return rel_entr(p, q) - p + q


def boxcox(x: Tensor, lmbda: Tensor) -> Array:
    """The Box-Cox transformation `(x ** lmbda - 1) / lmbda`; log(x) for lmbda = 0."""
    x, lmbda = floats("boxcox", x, lmbda)
    return _boxcox(rnp.log(x), lmbda)


def boxcox1p(x: Tensor, lmbda: Tensor) -> Array:
    """The Box-Cox transformation of 1 + x; `lmbda` is as for `boxcox`."""
    x, lmbda = floats("boxcox1p", x, lmbda)
    return _boxcox(rnp.log1p(x), lmbda)


def _boxcox(logarithm: Any, lmbda: Any) -> Array:
    is_zero = lmbda == 0
    safe = rnp.where(is_zero, 1.0, lmbda)
    return rnp.where(is_zero, logarithm, rnp.expm1(safe * logarithm) / safe)


def logsumexp(
    a: Tensor,
    axis: Axis = None,
    b: Tensor | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Tensor | None = None,
) -> Any:
    """The logarithm of the sum of exponentials of `a` over `axis`, without overflow.

    `b` are factors of the exponentials. `return_sign` returns the logarithm of the absolute value
    of the sum, and its sign. With `keepdims` the axes stay, of size 1. Elements where `where` is
    false are ignored.
    """
    keepdims = flag("keepdims", keepdims)
    operand = as_operand(a)
    x = as_tensor(convert(operand, result_dtype(operand, inexact=True)))
    if is_half(x.dtype):  # some of these dtypes have no infinity
        wide = logsumexp(convert(x, FLOAT), axis, b, keepdims, return_sign, where)
        return pytree.map(lambda y: convert(y, x.dtype), wide)
    x = x if where is None else rnp.where(where, x, -math.inf)
    axes = some_axes("logsumexp", axis, x.ndim if b is None else max(x.ndim, as_tensor(b).ndim))
    if b is None and not return_sign and not is_complex(x.dtype):
        total = apply("logsumexp", x, axes=axes)
        return rnp.expand_dims(total, axes) if keepdims else total
    if b is not None:
        x, b = rnp.broadcast_arrays(*promote_operands(x, b, inexact=True))
        x = rnp.where(b == 0, -math.inf, x)  # a factor 0 hides even an infinity
    peak = apply("stop_gradient", rnp.max(rnp.real(x), axes, keepdims=True))
    peak = rnp.where(rnp.isfinite(peak), peak, 0.0)
    terms = rnp.exp(x - peak)
    total = rnp.sum(terms if b is None else b * terms, axes, keepdims=keepdims)
    sign = rnp.sign(total)
    size = rnp.log(abs(total) if return_sign else total)
    result = size + (peak if keepdims else rnp.squeeze(peak, axes))
    return (result, sign) if return_sign else result


def softmax(x: Tensor, /, *, axis: Axis = None) -> Array:
    """The softmax over axes; None takes all axes."""
    (x,) = floats("softmax", x)
    return apply("softmax", x, axes=some_axes("softmax", axis, x.ndim))


def log_softmax(x: Tensor, /, *, axis: Axis = None) -> Array:
    """The logarithm of the softmax over axes, without underflow."""
    (x,) = floats("log_softmax", x)
    return apply("log_softmax", x, axes=some_axes("log_softmax", axis, x.ndim))


def ndtri(p: Tensor) -> Array:
    """The inverse of `ndtr`: the normal quantile of the probability `p`."""
    return pointwise("ndtri", p, name="ndtri", inexact=True)


def owens_t(h: Tensor, a: Tensor) -> Array:
    """Owen's T function: the probability of X > `h` and 0 < Y < a X, X and Y normal."""
    return pointwise("owens_t", h, a, name="owens_t", inexact=True)
