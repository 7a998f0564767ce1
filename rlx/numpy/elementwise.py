"""Functions that work element by element, with promotion and broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..ir.errors import DtypeError, ImmutableError
from ..ir.types import DTYPES, is_bool, is_complex, is_inexact, is_signed
from ..trace.apply import apply, as_operand, described, operand_type
from ..trace.array import Array, ArrayLike
from ..trace.by_numpy import OfOne, OfTwo, of_one, of_two, op_named, short
from ..trace.promotion import fit_operands, pointwise, pointwise_at, result_dtype
from ..transforms.eager import eager

Tensor = ArrayLike
Function = TypeVar("Function", bound=Callable[..., Any])


def named(function: Function, name: str, doc: str) -> Function:
    """Give a function made by a factory its name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, op: str, doc: str) -> OfOne:
    """A function of one number; integers become float32."""
    function = named(lambda x, /: pointwise(op, x, name=name, inexact=True), name, doc)
    return of_one(eager(function), op_named(op, inexact=True))


def _binary(name: str, op: str, doc: str, *, inexact: bool = False) -> OfTwo:
    function = named(lambda x, y, /: pointwise(op, x, y, name=name, inexact=inexact), name, doc)
    return of_two(eager(function), op_named(op, inexact=inexact))


def refuse_out(name: str, out: Any) -> None:
    """Refuse to write a result into an array that exists."""
    if out is not None:
        raise ImmutableError(
            f"{name}: arrays are immutable, so `out` cannot be written",
            fix=f"use the result: y = {name}(x)",
        )


# -- functions of one op ------------------------------------------------------------------------

exp = _unary("exp", "exp", "Elementwise exponential e ** x.")
exp2 = _unary("exp2", "exp2", "Elementwise 2 ** x.")
expm1 = _unary("expm1", "expm1", "Elementwise exp(x) - 1, accurate near zero.")
log = _unary("log", "log", "Elementwise natural logarithm.")
log1p = _unary("log1p", "log1p", "Elementwise log(1 + x), accurate near zero.")
sqrt = _unary("sqrt", "sqrt", "Elementwise square root.")
cbrt = _unary("cbrt", "cbrt", "Elementwise cube root.")
sin = _unary("sin", "sin", "Elementwise sine.")
cos = _unary("cos", "cos", "Elementwise cosine.")
tan = _unary("tan", "tan", "Elementwise tangent.")
arcsin = asin = _unary("arcsin", "asin", "Elementwise inverse sine.")
arccos = acos = _unary("arccos", "acos", "Elementwise inverse cosine.")
arctan = atan = _unary("arctan", "atan", "Elementwise inverse tangent.")
sinh = _unary("sinh", "sinh", "Elementwise hyperbolic sine.")
cosh = _unary("cosh", "cosh", "Elementwise hyperbolic cosine.")
tanh = _unary("tanh", "tanh", "Elementwise hyperbolic tangent.")
arcsinh = asinh = _unary("arcsinh", "asinh", "Elementwise inverse hyperbolic sine.")
arccosh = acosh = _unary("arccosh", "acosh", "Elementwise inverse hyperbolic cosine.")
arctanh = atanh = _unary("arctanh", "atanh", "Elementwise inverse hyperbolic tangent.")
arctan2 = atan2 = _binary(
    "arctan2",
    "atan2",
    "The angle of the point (x, y), in radians; y is the first argument.",
    inexact=True,
)
true_divide = divide = _binary(
    "true_divide", "div", "Elementwise x / y; integers become float32.", inexact=True
)
equal = _binary("equal", "eq", "Elementwise x == y.")
not_equal = _binary("not_equal", "ne", "Elementwise x != y.")


def _comparison(name: str, op: str, doc: str) -> OfTwo:
    """A comparison; complex numbers go by their real, then their imaginary parts."""
    of_real_numbers = _binary(name, op, doc)

    def function(x: Tensor, y: Tensor, /) -> Array:
        dtype = result_dtype(as_operand(x), as_operand(y))
        if not is_complex(dtype):
            return of_real_numbers(x, y)
        x, y = fit_operands(name, dtype, x, y)
        (a, b), (c, d) = ((apply("real", z), apply("imag", z)) for z in (x, y))
        return apply("select", apply("eq", a, c), apply(op, b, d), apply(op, a, c))

    return of_two(named(function, name, doc), op_named(op))


less = _comparison("less", "lt", "Elementwise x < y.")
less_equal = _comparison("less_equal", "le", "Elementwise x <= y.")
greater = _comparison("greater", "gt", "Elementwise x > y.")
greater_equal = _comparison("greater_equal", "ge", "Elementwise x >= y.")


def _arithmetic(name: str, op: str, for_bool: str | None, doc: str) -> OfTwo:
    """A function of two numbers that has a meaning of its own for bools, or none."""

    def function(x: Tensor, y: Tensor, /) -> Array:
        dtype = result_dtype(as_operand(x), as_operand(y))
        if is_bool(dtype):
            if for_bool is None:
                raise no_bools(name)
            return pointwise_at(for_bool, dtype, x, y, name=name)
        return pointwise_at(op, dtype, x, y, name=name)

    return of_two(named(function, name, doc), op_named(op, for_bool=for_bool))


def no_bools(name: str) -> DtypeError:
    """The error of a function that has no meaning for bools."""
    return DtypeError(
        f"{name}: there is no meaning for bool",
        fix='use rlx.numpy.logical_xor, or convert with x.astype("int32")',
    )


add = _arithmetic("add", "add", "bit_or", "Elementwise x + y; logical OR for bools.")
subtract = _arithmetic("subtract", "sub", None, "Elementwise x - y.")
multiply = _arithmetic("multiply", "mul", "bit_and", "Elementwise x * y; logical AND for bools.")


def _extreme(name: str, op: str, for_bool: str, doc: str) -> OfTwo:
    """The greater or lesser number; complex ones go by their real, then their imaginary parts."""
    of_real_numbers = _arithmetic(name, op, for_bool, doc)

    def function(x: Tensor, y: Tensor, /) -> Array:
        dtype = result_dtype(as_operand(x), as_operand(y))
        if not is_complex(dtype):
            return of_real_numbers(x, y)
        x, y = fit_operands(name, dtype, x, y)
        (a, b), (c, d) = ((apply("real", z), apply("imag", z)) for z in (x, y))
        beyond = "gt" if op == "max" else "lt"
        by_imaginary = apply("bit_and", apply("eq", a, c), apply(beyond, b, d))
        return apply("select", apply("bit_or", apply(beyond, a, c), by_imaginary), x, y)

    # of 0.0 and -0.0 machine code may take the other one
    return of_two(named(function, name, doc), op_named(op, for_bool=for_bool), has_code=False)


maximum = _extreme("maximum", "max", "bit_or", "Elementwise maximum; NaN if either is NaN.")
minimum = _extreme("minimum", "min", "bit_and", "Elementwise minimum; NaN if either is NaN.")


def _bitwise(name: str, op: str, doc: str) -> OfTwo:
    def function(x: Tensor, y: Tensor, /) -> Array:
        dtype = result_dtype(as_operand(x), as_operand(y))
        _check_bits(name, dtype, x, y)
        return pointwise_at(op, dtype, x, y, name=name)

    return of_two(named(function, name, doc), op_named(op, for_bool=op))


def _check_bits(name: str, dtype: np.dtype, *operands: Any) -> None:
    if is_inexact(dtype):
        raise DtypeError(
            f"{name}: {dtype.name} has no bits to combine",
            notes=described(*map(as_operand, operands)),
            fix="convert the operands to integers, or compare them first: (x > 0) & (y > 0)",
        )


bitwise_and = _bitwise("bitwise_and", "bit_and", "Elementwise bitwise AND.")
bitwise_or = _bitwise("bitwise_or", "bit_or", "Elementwise bitwise OR.")
bitwise_xor = _bitwise("bitwise_xor", "bit_xor", "Elementwise bitwise XOR.")


@short("bit_not", for_bool="bit_not")
def invert(x: Tensor, /) -> Array:
    """Elementwise bitwise NOT; logical NOT for bools."""
    _check_bits("invert", operand_type(as_operand(x)).dtype, x)
    return pointwise("bit_not", x, name="invert")


bitwise_not = bitwise_invert = invert


@eager
def left_shift(x: Tensor, y: Tensor, /) -> Array:
    """Shift the bits of x left by y."""
    return _shift("left_shift", "shift_left", x, y)


@eager
def right_shift(x: Tensor, y: Tensor, /) -> Array:
    """Shift the bits of x right by y; arithmetic for signed integers."""
    dtype = result_dtype(as_operand(x), as_operand(y))
    op = "shift_right_arithmetic" if is_signed(dtype) else "shift_right_logical"
    return _shift("right_shift", op, x, y)


def _shift(name: str, op: str, x: Tensor, y: Tensor) -> Array:
    dtype = result_dtype(as_operand(x), as_operand(y))
    _check_bits(name, dtype, x, y)
    return pointwise_at(op, DTYPES["int32"] if is_bool(dtype) else dtype, x, y, name=name)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
