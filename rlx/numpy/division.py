"""Division with a remainder, NumPy's signs, common divisors."""

from __future__ import annotations

from typing import Any

from ..ir.errors import DtypeError
from ..ir.types import DTYPES, is_bool, is_complex, is_float, is_inexact
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.array import Array
from ..trace.control import while_loop
from ..trace.host import is_python_scalar
from ..trace.promotion import fit_operands, pointwise, result_dtype
from ..transforms.eager import eager
from .arithmetic import abs, negative
from .elementwise import Tensor, add, divide, equal, less, multiply, not_equal, refuse_out, subtract
from .logic import isinf, logical_and, logical_or, where
from .reductions import any


def real_numbers(name: str, x: Tensor, y: Tensor) -> tuple[Array, Array]:
    """Promote and broadcast two real operands; bools become int32."""
    dtype = result_dtype(as_operand(x), as_operand(y))
    if is_complex(dtype):
        raise DtypeError(
            f"{name}: complex numbers have no remainder",
            fix="divide with `/`, or take the real parts",
        )
    first, second = fit_operands(name, DTYPES["int32"] if is_bool(dtype) else dtype, x, y)
    return first, second


@eager
def floor_divide(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise floor(x / y).

    Division of floats by zero gives an infinity or NaN; `divmod` follows Python instead. Complex
    operands raise `DtypeError`.
    """
    quotient = divmod(x, y)[0]
    if not is_float(quotient.dtype):
        return quotient
    x, y = real_numbers("floor_divide", x, y)
    has_zero, has_infinity = logical_or(equal(x, 0), equal(y, 0)), logical_or(isinf(x), isinf(y))
    # rounding a zero or an infinity changes nothing, and has no derivative; -0 + 0 is 0
    whole = apply("round", divide(x, y))
    return where(logical_or(has_zero, has_infinity), whole, add(quotient, 0))


@eager
def remainder(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise remainder of `floor_divide`, with the sign of y."""
    dividend, divisor = real_numbers("remainder", x, y)
    left, is_off = _left_over(dividend, _divisor(divisor, y))
    return _remainder(left, is_off, divisor)


mod = remainder


@eager
def fmod(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise remainder of division truncated toward zero, with the sign of x."""
    dividend, divisor = real_numbers("fmod", x, y)
    return apply("rem", dividend, _divisor(divisor, y))


def divmod(x: Tensor, y: Tensor, /) -> tuple[Array, Array]:
    """The quotient rounded down and the remainder, as of Python's `divmod`."""
    given = y
    x, y = real_numbers("divmod", x, y)
    left, is_off = _left_over(x, _divisor(y, given))
    if not is_float(x.dtype):
        quotient = apply("div", x, y)
        return where(is_off, subtract(quotient, 1), quotient), _remainder(left, is_off, y)
    # dividing after the remainder is taken away rounds correctly near whole quotients
    quotient = apply("round", divide(subtract(x, left), y))
    quotient = where(is_off, subtract(quotient, 1), quotient)
    return where(equal(y, 0), divide(x, y), quotient), _remainder(left, is_off, y)


def _left_over(x: Any, y: Any) -> tuple[Array, Array]:
    """What is left after a division rounded toward zero, and whether y has the other sign."""
    left = apply("rem", x, y)
    return left, logical_and(not_equal(left, 0), not_equal(less(left, 0), less(y, 0)))


def _divisor(y: Any, given: Tensor) -> Any:
    """The divisor of a remainder: nothing is left where integers are divided by zero."""
    is_known = is_python_scalar(given) and given != 0
    return y if is_known or is_float(y.dtype) else where(equal(y, 0), 1, y)


def _remainder(left: Any, is_off: Any, y: Any) -> Array:
    left = where(is_off, add(left, y), left)
    if not is_float(left.dtype):
        return left
    # zero takes the sign of y, and the derivative stays 1 there
    return where(less(y, 0), negative(subtract(0, left)), add(left, 0))


def modf(x: Tensor, /, out: None = None) -> tuple[Array, Array]:
    """The fractional and integral parts, both with the sign of x."""
    refuse_out("modf", out)
    whole = pointwise("trunc", x, name="modf", inexact=True)
    return subtract(x, whole), whole


# -- common divisors and multiples of integers -----------------------------------------------------


@eager
def gcd(x1: Tensor, x2: Tensor) -> Array:
    """The greatest common divisor of two integers."""
    a, b = map(abs, _integers("gcd", x1, x2))

    def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = pair
        is_done = equal(b, 0)
        rest = apply("rem", a, where(is_done, 1, b))
        return where(is_done, a, b), where(is_done, 0, rest)

    start = (as_tensor(a), as_tensor(b))
    return while_loop(lambda pair: any(not_equal(pair[1], 0)), step, start)[0]


@eager
def lcm(x1: Tensor, x2: Tensor) -> Array:
    """The least common multiple of two integers."""
    x, y = _integers("lcm", x1, x2)
    divisor = gcd(x, y)
    safe = where(equal(divisor, 0), 1, divisor)
    return abs(multiply(apply("div", x, safe), y))


def _integers(name: str, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    x, y = real_numbers(name, x, y)
    if is_inexact(x.dtype):
        raise DtypeError(
            f"{name}: {x.dtype.name} is no integer dtype",
            fix='convert the operands: x.astype("int32")',
        )
    return x, y
