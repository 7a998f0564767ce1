"""Functions that work element by element, and special ones, without promotion."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from .. import numpy as rnp
from ..ir.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from ..ir.types import as_dtype, is_bool, is_complex, is_inexact
from ..numpy.bits import joined_bits, split_bits
from ..numpy.elementwise import named
from ..trace.apply import apply, as_operand, as_tensor, operand_type
from ..trace.arguments import choice
from ..trace.axes import integer
from ..trace.promotion import broadcast_to, convert, fit_operands
from .operands import Tensor, elementwise, integers, strict, strict_dtype

WITH_ACCURACY = "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split()


def _unary(name: str, op: str, doc: str) -> Callable[..., Any]:
    """A function of one number.

    `accuracy` is accepted, results are as exact as they are.
    """

    def function(x: Tensor, *, accuracy: Any = None) -> Any:
        return apply(op, as_tensor(x))

    def plain(x: Tensor) -> Any:
        return apply(op, as_tensor(x))

    return named(function if name in WITH_ACCURACY else plain, name, doc)


def _binary(name: str, op: str, doc: str) -> Callable[[Tensor, Tensor], Any]:
    return named(lambda x, y: elementwise(op, name, x, y), name, doc)


# -- one number ---------------------------------------------------------------------------------

abs = _unary("abs", "abs", "The absolute value.")
acos = _unary("acos", "acos", "The angle with a cosine.")
acosh = _unary("acosh", "acosh", "The inverse of cosh.")
asin = _unary("asin", "asin", "The angle with a sine.")
asinh = _unary("asinh", "asinh", "The inverse of sinh.")
atan = _unary("atan", "atan", "The angle with a tangent.")
atanh = _unary("atanh", "atanh", "The inverse of tanh.")
bitwise_not = _unary("bitwise_not", "bit_not", "Every bit turned over; for bools: not.")
cbrt = _unary("cbrt", "cbrt", "The cube root.")
ceil = _unary("ceil", "ceil", "The least whole number at least x.")
clz = _unary("clz", "clz", "How many leading bits are zero.")
cos = _unary("cos", "cos", "The cosine of an angle in radians.")
cosh = _unary("cosh", "cosh", "The hyperbolic cosine.")
erf = _unary("erf", "erf", "The error function.")
erf_inv = _unary("erf_inv", "erf_inv", "The inverse of the error function.")
erfc = _unary("erfc", "erfc", "1 - erf(x), exact where erf(x) is near 1.")
exp = _unary("exp", "exp", "e to the power of x.")
exp2 = _unary("exp2", "exp2", "2 to the power of x.")
expm1 = _unary("expm1", "expm1", "exp(x) - 1, exact near zero.")
floor = _unary("floor", "floor", "The greatest whole number at most x.")
imag = _unary("imag", "imag", "The imaginary part.")
is_finite = _unary("is_finite", "is_finite", "Whether x is neither infinite nor NaN.")
log = _unary("log", "log", "The natural logarithm.")
log1p = _unary("log1p", "log1p", "log(1 + x), exact near zero.")
logistic = _unary("logistic", "logistic", "1 / (1 + exp(-x)).")
neg = _unary("neg", "neg", "The number with the other sign.")
population_count = _unary("population_count", "population_count", "How many bits are one.")
real = _unary("real", "real", "The real part.")
rsqrt = _unary("rsqrt", "rsqrt", "1 / sqrt(x).")
sign = _unary("sign", "sign", "-1, 0 or 1; of a complex number the one of length 1.")
sin = _unary("sin", "sin", "The sine of an angle in radians.")
sinh = _unary("sinh", "sinh", "The hyperbolic sine.")
sqrt = _unary("sqrt", "sqrt", "The square root.")
square = _unary("square", "square", "The number times itself.")
tan = _unary("tan", "tan", "The tangent of an angle in radians.")
tanh = _unary("tanh", "tanh", "The hyperbolic tangent.")

# -- two numbers --------------------------------------------------------------------------------

add = _binary("add", "add", "The sum.")
sub = _binary("sub", "sub", "The difference.")
mul = _binary("mul", "mul", "The product.")
div = _binary("div", "div", "The quotient; that of integers is rounded toward zero.")
rem = _binary("rem", "rem", "The remainder of `div`; it has the sign of x.")


def max(x: Tensor, y: Tensor) -> Any:
    """The greater one; NaN if one is.

    Complex numbers go by their real, then by their imaginary parts.
    """
    return rnp.maximum(*strict("max", x, y))


def min(x: Tensor, y: Tensor) -> Any:
    """The lesser one; NaN if one is.

    Complex numbers go by their real, then by their imaginary parts.
    """
    return rnp.minimum(*strict("min", x, y))


atan2 = _binary("atan2", "atan2", "The angle of the point (y, x), argument y first.")
complex = _binary("complex", "complex", "A complex number of its real and imaginary part.")
bitwise_and = _binary("bitwise_and", "bit_and", "The bits that both have.")
bitwise_or = _binary("bitwise_or", "bit_or", "The bits that one or both have.")
bitwise_xor = _binary("bitwise_xor", "bit_xor", "The bits that one has alone.")
shift_left = _binary("shift_left", "shift_left", "Bits moved y places up, zeros behind.")
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", "shift_right_arithmetic", "Bits moved y places down; signs stay."
)
shift_right_logical = _binary(
    "shift_right_logical", "shift_right_logical", "Bits moved y places down, zeros before."
)
mulhi = _binary("mulhi", "mulhi", "The upper half of the bits of a product of integers.")
eq = _binary("eq", "eq", "Whether x equals y.")
ne = _binary("ne", "ne", "Whether x differs from y.")
lt = _binary("lt", "lt", "Whether x is less than y.")
le = _binary("le", "le", "Whether x is at most y.")
gt = _binary("gt", "gt", "Whether x is greater than y.")
ge = _binary("ge", "ge", "Whether x is at least y.")


# -- with a meaning of their own ----------------------------------------------------------------


class RoundingMethod(enum.IntEnum):
    """Where `round` takes a number halfway between two whole ones."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Tensor, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest whole number.

    What is halfway goes away from zero, or to the even one.

    >>> round([0.5, 1.5, -2.5])
    Array([ 1.,  2., -3.], dtype=float32)
    """
    x = as_tensor(x)
    choice("round: rounding_method", rounding_method, (0, 1, *RoundingMethod))
    if RoundingMethod(rounding_method) is RoundingMethod.TO_NEAREST_EVEN:
        return apply("round", x)
    whole = apply("trunc", x)
    is_far = apply("ge", apply("abs", apply("sub", x, whole)), 0.5)
    return apply("select", is_far, apply("add", whole, apply("sign", x)), whole)


def integer_pow(x: Tensor, y: int) -> Any:
    """The number to a constant integer power."""
    return apply("integer_pow", as_tensor(x), exponent=integer("integer_pow: y", y))


def pow(x: Tensor, y: Tensor) -> Any:
    """x to the power y; x is inexact, y of the same dtype or an integer."""
    x, y = as_operand(x), as_operand(y)
    dtype = operand_type(x).dtype
    if is_inexact(dtype) and operand_type(y).dtype.kind in "iu":
        y = convert(y, dtype)
    return elementwise("pow", "pow", x, y)


def reciprocal(x: Tensor) -> Any:
    """1 / x."""
    x = as_tensor(x)
    return elementwise("div", "reciprocal", convert(1, x.dtype), x)


def conj(x: Tensor) -> Any:
    """The number with the other imaginary part; a real one becomes complex."""
    x = as_tensor(x)
    if x.dtype.kind == "c":
        return apply("conj", x)
    return apply("complex", x, apply("full", shape=x.shape, value=0, dtype=x.dtype))


def select(pred: Tensor, on_true: Tensor, on_false: Tensor) -> Any:
    """Elements of `on_true` where `pred` holds, else of `on_false`.

    `pred` may be a scalar.
    """
    on_true, on_false = strict("select", on_true, on_false)
    pred = broadcast_to(as_operand(pred), operand_type(on_true).shape)
    return apply("select", pred, on_true, on_false)


def select_n(which: Tensor, *cases: Tensor) -> Any:
    """Elements of the case whose number stands in `which`.

    These are bools for two cases, else int32.
    """
    if not cases:
        raise ArgumentError("select_n: there are no cases", fix="give one or more")
    cases = tuple(strict("select_n", *cases))
    which = broadcast_to(as_tensor(which), operand_type(cases[0]).shape)
    if which.dtype.kind == "b":
        return apply("select", which, *reversed(cases)) if len(cases) == 2 else cases[0]
    chosen = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        chosen = apply("select", apply("le", which, i), cases[i], chosen)
    return chosen


def clamp(min: Tensor, x: Tensor, max: Tensor) -> Any:
    """The number, at least `min` and at most `max`, which may be scalars."""
    given = [as_operand(a) for a in (min, x, max)]
    dtype = strict_dtype("clamp", given)
    return apply("clamp", *fit_operands("clamp", dtype, *given))


def convert_element_type(operand: Tensor, new_dtype: Any) -> Any:
    """The numbers in another dtype."""
    return convert(as_tensor(operand), as_dtype(new_dtype))


def reduce_precision(operand: Tensor, exponent_bits: int, mantissa_bits: int) -> Any:
    """The nearest numbers with so many bits, in the same dtype.

    >>> reduce_precision(1.3, exponent_bits=5, mantissa_bits=2)
    Array(1.25, dtype=float32)
    """
    exponent_bits = integer("reduce_precision: exponent_bits", exponent_bits)
    mantissa_bits = integer("reduce_precision: mantissa_bits", mantissa_bits)
    bits = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    return apply("reduce_precision", as_tensor(operand), **bits)


def nextafter(x1: Tensor, x2: Tensor) -> Any:
    """The number next to `x1` on the side of `x2`."""
    x1, x2 = strict("nextafter", x1, x2)
    return rnp.nextafter(x1, x2)


# -- numbers read as the bits of others: bitcast_convert_type --------------------------------------


def bitcast_convert_type(operand: Tensor, new_dtype: Any) -> Any:
    """The bits read as another dtype.

    A number of more bits becomes several along a new last axis, the lowest bits first; numbers of
    fewer bits along the last axis become one.

    >>> import numpy as np
    >>> bitcast_convert_type(np.uint32(0x01020304), "uint8").tolist()
    [4, 3, 2, 1]
    """
    x, dtype = as_tensor(operand), as_dtype(new_dtype)
    if x.dtype == dtype:
        return x
    for one, other in ((x.dtype, dtype), (dtype, x.dtype)):
        if is_bool(one) or is_complex(one):
            raise DtypeError(
                f"bitcast_convert_type: {one.name} cannot be read as {other.name}",
                fix="convert it to integers, or to its real and imaginary part",
            )
    if dtype.itemsize == x.dtype.itemsize:
        return apply("bitcast", x, dtype=dtype)
    if dtype.itemsize < x.dtype.itemsize:
        return split_bits(x, dtype)
    count = dtype.itemsize // x.dtype.itemsize
    if x.ndim == 0 or x.shape[-1] != count:
        raise ShapeError(
            f"bitcast_convert_type: {x.type} cannot be read as {dtype.name}",
            fix=f"make the last axis {count} long",
        )
    return joined_bits(x, dtype)


# -- special functions and Fourier transforms, without promotion -----------------------------------


lgamma = _unary("lgamma", "lgamma", "The logarithm of the absolute value of the gamma function.")
digamma = _unary("digamma", "digamma", "The derivative of `lgamma`.")


def polygamma(m: Tensor, x: Tensor) -> Any:
    """The derivative of `digamma` of order m, a whole number, at x."""
    m, x = strict("polygamma", m, x)
    return apply("polygamma", convert(m, as_dtype("int32")), x)


def zeta(x: Tensor, q: Tensor) -> Any:
    """The sum of (q + k) to the power -x over all k from 0 on."""
    return elementwise("zeta", "zeta", x, q)


def igamma(a: Tensor, x: Tensor) -> Any:
    """The incomplete gamma function from 0 to x, divided by the whole."""
    return elementwise("igamma", "igamma", a, x)


def igammac(a: Tensor, x: Tensor) -> Any:
    """The incomplete gamma function from x on, divided by the whole."""
    return elementwise("igammac", "igammac", a, x)


def igamma_grad_a(a: Tensor, x: Tensor) -> Any:
    """The derivative of `igamma` by its first argument."""
    return elementwise("igamma_grad_a", "igamma_grad_a", a, x)


def random_gamma_grad(a: Tensor, x: Tensor) -> Any:
    """The derivative of a sample x of the gamma distribution by its shape a."""
    return elementwise("random_gamma_grad", "random_gamma_grad", a, x)


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """The incomplete beta function from 0 to x, divided by the whole."""
    return elementwise("betainc", "betainc", a, b, x)


bessel_i0e = _unary(
    "bessel_i0e", "bessel_i0e", "The modified Bessel function of order 0, times exp(-|x|)."
)
bessel_i1e = _unary(
    "bessel_i1e", "bessel_i1e", "The modified Bessel function of order 1, times exp(-|x|)."
)


class FftType(enum.Enum):
    """Which Fourier transform `fft` does."""

    FFT = "fft"
    IFFT = "ifft"
    RFFT = "rfft"
    IRFFT = "irfft"


def fft(x: Tensor, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """The Fourier transform over the last one to three axes, of these sizes.

    `fft_type` is "FFT", "IFFT", "RFFT" or "IRFFT", whose sizes are those of the result.
    """
    kind = str(getattr(fft_type, "name", fft_type)).lower()
    if kind not in {each.value for each in FftType}:
        raise AttributeValueError(
            f"fft: there is no transform {fft_type!r}",
            fix="use one of FFT, IFFT, RFFT, IRFFT",
        )
    lengths = integers("fft: the lengths", fft_lengths)
    return apply("fft", as_tensor(x), kind=kind, lengths=lengths)
