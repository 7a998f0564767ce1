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
from ..trace.array import Array
from ..trace.axes import integer
from ..trace.promotion import broadcast_to, convert, fit_operands
from .operands import Tensor, elementwise, integers, strict, strict_dtype

WITH_ACCURACY = "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split()


def _unary(name: str, op: str, doc: str) -> Callable[..., Array]:
    """A function of one number.

    `accuracy` is accepted, results are as exact as they are.
    """

    def function(x: Tensor, *, accuracy: Any = None) -> Array:
        return apply(op, as_tensor(x))

    def plain(x: Tensor) -> Array:
        return apply(op, as_tensor(x))

    return named(function if name in WITH_ACCURACY else plain, name, doc)


def _binary(name: str, op: str, doc: str) -> Callable[[Tensor, Tensor], Array]:
    return named(lambda x, y: elementwise(op, name, x, y), name, doc)


# -- one number ---------------------------------------------------------------------------------

abs = _unary("abs", "abs", "Elementwise absolute value.")
acos = _unary("acos", "acos", "Elementwise inverse cosine.")
acosh = _unary("acosh", "acosh", "Elementwise inverse hyperbolic cosine.")
asin = _unary("asin", "asin", "Elementwise inverse sine.")
asinh = _unary("asinh", "asinh", "Elementwise inverse hyperbolic sine.")
atan = _unary("atan", "atan", "Elementwise inverse tangent.")
atanh = _unary("atanh", "atanh", "Elementwise inverse hyperbolic tangent.")
bitwise_not = _unary("bitwise_not", "bit_not", "Elementwise bitwise NOT; logical NOT for bools.")
cbrt = _unary("cbrt", "cbrt", "Elementwise cube root.")
ceil = _unary("ceil", "ceil", "Elementwise least integer >= x.")
clz = _unary("clz", "clz", "Elementwise number of leading zero bits.")
cos = _unary("cos", "cos", "Elementwise cosine.")
cosh = _unary("cosh", "cosh", "Elementwise hyperbolic cosine.")
erf = _unary("erf", "erf", "Elementwise error function.")
erf_inv = _unary("erf_inv", "erf_inv", "Elementwise inverse error function.")
erfc = _unary("erfc", "erfc", "Elementwise complementary error function 1 - erf(x).")
exp = _unary("exp", "exp", "Elementwise exponential e ** x.")
exp2 = _unary("exp2", "exp2", "Elementwise 2 ** x.")
expm1 = _unary("expm1", "expm1", "Elementwise exp(x) - 1, accurate near zero.")
floor = _unary("floor", "floor", "Elementwise greatest integer <= x.")
imag = _unary("imag", "imag", "The imaginary part.")
is_finite = _unary(
    "is_finite", "is_finite", "Elementwise test for finiteness: neither infinite nor NaN."
)
log = _unary("log", "log", "Elementwise natural logarithm.")
log1p = _unary("log1p", "log1p", "Elementwise log(1 + x), accurate near zero.")
logistic = _unary("logistic", "logistic", "Elementwise logistic sigmoid 1 / (1 + exp(-x)).")
neg = _unary("neg", "neg", "Elementwise -x.")
population_count = _unary("population_count", "population_count", "Elementwise number of one bits.")
real = _unary("real", "real", "The real part.")
rsqrt = _unary("rsqrt", "rsqrt", "Elementwise reciprocal square root 1 / sqrt(x).")
sign = _unary("sign", "sign", "Elementwise sign: -1, 0 or 1, and x / |x| for complex x.")
sin = _unary("sin", "sin", "Elementwise sine.")
sinh = _unary("sinh", "sinh", "Elementwise hyperbolic sine.")
sqrt = _unary("sqrt", "sqrt", "Elementwise square root.")
square = _unary("square", "square", "Elementwise x * x.")
tan = _unary("tan", "tan", "Elementwise tangent.")
tanh = _unary("tanh", "tanh", "Elementwise hyperbolic tangent.")

# -- two numbers --------------------------------------------------------------------------------

add = _binary("add", "add", "Elementwise x + y.")
sub = _binary("sub", "sub", "Elementwise x - y.")
mul = _binary("mul", "mul", "Elementwise x * y.")
div = _binary("div", "div", "Elementwise x / y; integers are rounded toward zero.")
rem = _binary("rem", "rem", "Elementwise remainder of `div`, with the sign of x.")


def max(x: Tensor, y: Tensor) -> Array:
    """Elementwise maximum; NaN if either is NaN.

    Complex numbers are ordered by real, then by imaginary part.
    """
    return rnp.maximum(*strict("max", x, y))


def min(x: Tensor, y: Tensor) -> Array:
    """Elementwise minimum; NaN if either is NaN.

    Complex numbers are ordered by real, then by imaginary part.
    """
    return rnp.minimum(*strict("min", x, y))


atan2 = _binary(
    "atan2", "atan2", "The angle of the point (x, y), in radians; y is the first argument."
)
complex = _binary("complex", "complex", "Complex numbers of their real and imaginary parts.")
bitwise_and = _binary("bitwise_and", "bit_and", "Elementwise bitwise AND.")
bitwise_or = _binary("bitwise_or", "bit_or", "Elementwise bitwise OR.")
bitwise_xor = _binary("bitwise_xor", "bit_xor", "Elementwise bitwise XOR.")
shift_left = _binary("shift_left", "shift_left", "Elementwise x << y: bits shifted left.")
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    "shift_right_arithmetic",
    "Elementwise x >> y: bits shifted right, keeping the sign.",
)
shift_right_logical = _binary(
    "shift_right_logical",
    "shift_right_logical",
    "Elementwise x >> y: bits shifted right, shifting in zeros.",
)
mulhi = _binary("mulhi", "mulhi", "The high half of the bits of the product of integers.")
eq = _binary("eq", "eq", "Elementwise x == y.")
ne = _binary("ne", "ne", "Elementwise x != y.")
lt = _binary("lt", "lt", "Elementwise x < y.")
le = _binary("le", "le", "Elementwise x <= y.")
gt = _binary("gt", "gt", "Elementwise x > y.")
ge = _binary("ge", "ge", "Elementwise x >= y.")


# -- with a meaning of their own ----------------------------------------------------------------


class RoundingMethod(enum.IntEnum):
    """How `round` rounds numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Tensor, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Elementwise nearest integer; ties round away from zero, or to even.

    `rounding_method` is one of `RoundingMethod`.

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


def integer_pow(x: Tensor, y: int) -> Array:
    """Elementwise x ** y for a static integer y."""
    return apply("integer_pow", as_tensor(x), exponent=integer("integer_pow: y", y))


def pow(x: Tensor, y: Tensor) -> Array:
    """Elementwise x ** y; x is inexact, y has the same dtype or is an integer."""
    x, y = as_operand(x), as_operand(y)
    dtype = operand_type(x).dtype
    if is_inexact(dtype) and operand_type(y).dtype.kind in "iu":
        y = convert(y, dtype)
    return elementwise("pow", "pow", x, y)


def reciprocal(x: Tensor) -> Array:
    """Elementwise 1 / x."""
    x = as_tensor(x)
    return elementwise("div", "reciprocal", convert(1, x.dtype), x)


def conj(x: Tensor) -> Array:
    """Elementwise complex conjugate; real numbers become complex."""
    x = as_tensor(x)
    if x.dtype.kind == "c":
        return apply("conj", x)
    return apply("complex", x, apply("full", shape=x.shape, value=0, dtype=x.dtype))


def select(pred: Tensor, on_true: Tensor, on_false: Tensor) -> Array:
    """Elements of `on_true` where `pred` (array or scalar) holds, else of `on_false`."""
    on_true, on_false = strict("select", on_true, on_false)
    pred = broadcast_to(as_operand(pred), operand_type(on_true).shape)
    return apply("select", pred, on_true, on_false)


def select_n(which: Tensor, *cases: Tensor) -> Array:
    """Elements of the case whose index is in `which`: bools for two cases, else int32.

    `cases` are arrays of one type; an array of another dtype or shape is an error, no case an
    `ArgumentError`.
    """
    if not cases:
        raise ArgumentError("select_n: there are no cases", fix="give one or more")
    fitted = strict("select_n", *cases)
    which = broadcast_to(as_tensor(which), operand_type(fitted[0]).shape)
    if which.dtype.kind == "b":
        return apply("select", which, *reversed(fitted)) if len(fitted) == 2 else fitted[0]
    chosen = fitted[-1]
    for i in reversed(range(len(fitted) - 1)):
        chosen = apply("select", apply("le", which, i), fitted[i], chosen)
    return chosen


def clamp(min: Tensor, x: Tensor, max: Tensor) -> Array:
    """Limit x to the interval from `min` to `max`, arrays or scalars."""
    given = [as_operand(a) for a in (min, x, max)]
    dtype = strict_dtype("clamp", given)
    return apply("clamp", *fit_operands("clamp", dtype, *given))


def convert_element_type(operand: Tensor, new_dtype: Any) -> Array:
    """Convert the elements to another dtype, `new_dtype`."""
    return convert(as_tensor(operand), as_dtype(new_dtype))


def reduce_precision(operand: Tensor, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to `exponent_bits` and `mantissa_bits`, in the same dtype.

    >>> reduce_precision(1.3, exponent_bits=5, mantissa_bits=2)
    Array(1.25, dtype=float32)
    """
    exponent_bits = integer("reduce_precision: exponent_bits", exponent_bits)
    mantissa_bits = integer("reduce_precision: mantissa_bits", mantissa_bits)
    bits = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    return apply("reduce_precision", as_tensor(operand), **bits)


def nextafter(x1: Tensor, x2: Tensor) -> Array:
    """The next floating-point number after `x1` toward `x2`."""
    x1, x2 = strict("nextafter", x1, x2)
    return rnp.nextafter(x1, x2)


# -- numbers read as the bits of others: bitcast_convert_type --------------------------------------


def bitcast_convert_type(operand: Tensor, new_dtype: Any) -> Array:
    """Reinterpret the bits as another dtype, `new_dtype`.

    A narrower dtype adds a last axis for the parts, lowest bits first; a wider one joins the
    elements of the last axis.

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


lgamma = _unary("lgamma", "lgamma", "The log of the absolute value of the gamma function.")
digamma = _unary("digamma", "digamma", "The digamma function, the derivative of `lgamma`.")


def polygamma(m: Tensor, x: Tensor) -> Array:
    """The polygamma function: the `m`-th derivative of `digamma` at `x`."""
    m, x = strict("polygamma", m, x)
    return apply("polygamma", convert(m, as_dtype("int32")), x)


def zeta(x: Tensor, q: Tensor) -> Array:
    """The Hurwitz zeta function: the sum of (q + k) ** -x over k >= 0.

    `x` and `q` are real.
    """
    return elementwise("zeta", "zeta", x, q)


def igamma(a: Tensor, x: Tensor) -> Array:
    """The regularized lower incomplete gamma function."""
    return elementwise("igamma", "igamma", a, x)


def igammac(a: Tensor, x: Tensor) -> Array:
    """The regularized upper incomplete gamma function."""
    return elementwise("igammac", "igammac", a, x)


def igamma_grad_a(a: Tensor, x: Tensor) -> Array:
    """The derivative of `igamma` with respect to a."""
    return elementwise("igamma_grad_a", "igamma_grad_a", a, x)


def random_gamma_grad(a: Tensor, x: Tensor) -> Array:
    """The derivative of a gamma sample x with respect to its shape parameter a."""
    return elementwise("random_gamma_grad", "random_gamma_grad", a, x)


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Array:
    """The regularized incomplete beta function."""
    return elementwise("betainc", "betainc", a, b, x)


bessel_i0e = _unary(
    "bessel_i0e", "bessel_i0e", "The modified Bessel function of order 0 times exp(-|x|)."
)
bessel_i1e = _unary(
    "bessel_i1e", "bessel_i1e", "The modified Bessel function of order 1 times exp(-|x|)."
)


class FftType(enum.Enum):
    """The kinds of transforms of `fft`."""

    FFT = "fft"
    IFFT = "ifft"
    RFFT = "rfft"
    IRFFT = "irfft"


def fft(x: Tensor, fft_type: Any, fft_lengths: Sequence[int]) -> Array:
    """The Fourier transform over the last one to three axes, of the given lengths.

    `fft_type` is "FFT", "IFFT", "RFFT" or "IRFFT"; `fft_lengths` of "IRFFT" are those of the
    result.
    """
    kind = str(getattr(fft_type, "name", fft_type)).lower()
    if kind not in {each.value for each in FftType}:
        raise AttributeValueError(
            f"fft: there is no transform {fft_type!r}",
            fix="use one of FFT, IFFT, RFFT, IRFFT",
        )
    lengths = integers("fft: the lengths", fft_lengths)
    return apply("fft", as_tensor(x), kind=kind, lengths=lengths)
