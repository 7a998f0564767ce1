"""Arithmetic composed of ops.

Here are signs, rounding, powers, logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.errors import DtypeError
from ..ir.memory import Memory
from ..ir.types import (
    DTYPES,
    as_dtype,
    is_bool,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_signed,
)
from ..trace.apply import apply, as_operand, as_tensor, operand_type
from ..trace.arguments import count_of, flag
from ..trace.array import Array
from ..trace.by_numpy import converted, is_free, short
from ..trace.host import is_python_scalar
from ..trace.index.aliasing import is_part
from ..trace.promotion import (
    convert,
    convert_exactly,
    fit_operands,
    pointwise,
    pointwise_at,
    result_dtype,
    rounded_once,
)
from ..transforms.eager import eager
from .elementwise import (
    Tensor,
    add,
    arctan2,
    bitwise_and,
    divide,
    equal,
    exp,
    exp2,
    less,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    no_bools,
    not_equal,
    refuse_out,
    sin,
    sqrt,
    subtract,
)
from .logic import isfinite, isnan, isneginf, isposinf, logical_or, where


def dtype_of(x: Tensor) -> np.dtype:
    """The dtype of anything that can be an operand."""
    return operand_type(as_operand(x)).dtype


def astype(
    x: Tensor, dtype: Any, *, copy: bool = True, device: Memory | str | None = None
) -> Array:
    """A copy converted to a dtype.

    `copy=False` returns the array itself where it has the dtype. Converting complex to real drops
    the imaginary part.
    """
    wanted = as_dtype(dtype)
    if (
        copy is True
        and device is None
        and is_free(x)
        and (made := converted(x, wanted)) is not None
    ):
        return made
    given = x = as_tensor(x)
    if is_complex(x.dtype) and not is_complex(wanted) and not is_bool(wanted):
        x = apply("real", x)
    made = strong(convert(x, wanted))
    made = made.copy() if flag("astype: copy", copy) and made is given else made
    return made if device is None or not isinstance(made, Array) else made.to(device)


def strong(x: Any) -> Array:
    """The same tensor with a dtype that is no longer weak in promotions."""
    return x if isinstance(x, Array) or not x.weak else type(x)(x.value)


# -- signs and parts ----------------------------------------------------------------------------


@short("neg")
def negative(x: Tensor, /) -> Array:
    """Elementwise -x."""
    if is_bool(dtype_of(x)):
        raise no_bools("negative")
    return pointwise("neg", x, name="negative")


def positive(x: Tensor, /) -> Array:
    """Elementwise +x: a copy."""
    return as_tensor(x).copy()


@short("abs")
def abs(x: Tensor, /) -> Array:
    """Elementwise absolute value."""
    dtype = dtype_of(x)
    if is_bool(dtype) or (is_integer(dtype) and not is_signed(dtype)):
        return as_tensor(x).copy()
    return pointwise("abs", x, name="abs")


absolute = abs


@eager
def fabs(x: Tensor, /) -> Array:
    """Elementwise absolute value as a float."""
    return pointwise("abs", x, name="fabs", inexact=True)


@eager
def sign(x: Tensor, /) -> Array:
    """Elementwise sign: -1, 0 or 1, and x / |x| for complex x; NaN stays NaN."""
    if not is_complex(dtype_of(x)):
        return pointwise("sign", x, name="sign")
    size = abs(x)
    is_near = bitwise_and(isfinite(size), not_equal(size, 0))
    # the op knows infinities, and a quotient has a derivative
    return where(is_near, divide(x, where(is_near, size, 1)), pointwise("sign", x, name="sign"))


@short("square")
def square(x: Tensor, /) -> Any:
    """Elementwise x * x."""
    x = convert(x, DTYPES["int32"]) if is_bool(dtype_of(x)) else x
    return multiply(x, x)


@eager
def reciprocal(x: Tensor, /) -> Array:
    """Elementwise 1 / x."""
    return divide(1, x)


def real(x: Tensor, /) -> Array:
    """The real part."""
    x = as_tensor(x)
    return is_part(x, apply("real", x)) if is_complex(x.dtype) else x


def imag(x: Tensor, /) -> Array:
    """The imaginary part; zeros for real arrays."""
    x = as_tensor(x)
    return is_part(x, apply("imag", x)) if is_complex(x.dtype) else multiply(x, 0)


def conj(x: Tensor, /) -> Array:
    """The complex conjugate."""
    return apply("conj", x) if is_complex(dtype_of(x)) else as_tensor(x).copy()


conjugate = conj


def angle(z: Tensor, deg: bool = False) -> Array:
    """The argument of complex numbers `z`, in radians or, with `deg`, in degrees."""
    z = as_tensor(z)
    parts = real(z), imag(z) if is_complex(z.dtype) else 0
    result = arctan2(parts[1], parts[0])
    return rad2deg(result) if flag("angle: deg", deg) else result


@eager
def signbit(x: Tensor, /) -> Array:
    """Elementwise test for a set sign bit, as of -0.0."""
    x = as_tensor(x)
    if not is_float(x.dtype):
        return less(x, 0)
    bits = apply("bitcast", x, dtype=f"int{8 * x.dtype.itemsize}")
    return less(bits, 0)


@eager
def copysign(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise |x| with the sign of y."""
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x, y = fit_operands("copysign", dtype, x, y)
    size = abs(x)
    return where(signbit(y), negative(size), size)


@eager
def heaviside(x: Tensor, y: Tensor, /) -> Array:
    """The Heaviside step function: 0 for x < 0, y for x = 0, 1 for x > 0."""
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x = convert_exactly(x, dtype)
    step = where(less(x, 0), 0.0, where(equal(x, 0), y, where(isnan(x), x, 1.0)))
    return convert(step, dtype)


# -- rounding -----------------------------------------------------------------------------------


def _rounding(name: str, x: Tensor) -> Array:
    if not is_inexact(dtype_of(x)):
        return as_tensor(x).copy()
    return pointwise(name, x)


@short("floor")
def floor(x: Tensor, /) -> Array:
    """Elementwise greatest integer <= x."""
    return _rounding("floor", x)


@short("ceil")
def ceil(x: Tensor, /) -> Array:
    """Elementwise least integer >= x."""
    return _rounding("ceil", x)


@short("trunc")
def trunc(x: Tensor) -> Array:
    """Elementwise integer part, rounded toward zero."""
    return _rounding("trunc", x)


fix = trunc


@short("round")
def rint(x: Tensor, /) -> Array:
    """Elementwise nearest integer as a float; ties round to even."""
    return pointwise("round", x, name="rint", inexact=True)


def round(a: Tensor, decimals: int = 0, out: None = None) -> Array:
    """Round to `decimals` decimal places; ties round to even."""
    refuse_out("round", out)
    decimals = count_of("round: decimals", decimals, least=-300, most=300)
    dtype = dtype_of(a)
    if not is_inexact(dtype):
        if decimals >= 0:
            return as_tensor(a).copy()
        step = 10**-decimals
        return astype(multiply(pointwise("round", divide(a, step)), step), dtype)
    if is_complex(dtype):
        return apply("complex", round(real(a), decimals), round(imag(a), decimals))
    if not decimals:
        return pointwise("round", a)
    scale = 10.0**decimals
    return divide(pointwise("round", multiply(a, scale)), scale)


around = round


@eager
def clip(arr: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Array:
    """Limit elements to the interval from `min` to `max`; None sets no limit."""
    bounded = arr if min is None else maximum(min, arr)
    return as_tensor(bounded).copy() if max is None else minimum(max, bounded)


# -- powers and logarithms ----------------------------------------------------------------------


def power(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise x ** y.

    A Python integer y gives repeated multiplication. Negative Python integers raise `DtypeError`
    where x has an integer dtype.
    """
    return square(x) if type(y) is int and y == 2 and type(x) is Array else _power(x, y)


@eager
def _power(x: Tensor, y: Tensor) -> Array:
    if isinstance(y, int) and not isinstance(y, bool) and is_python_scalar(y):
        dtype = dtype_of(x)
        if is_integer(dtype) and y < 0:
            raise DtypeError(
                f"power: an integer to the power of {y} is not an integer",
                fix=f"convert first: x.astype('float32') ** {y}",
            )
        if not is_bool(dtype):
            return pointwise_power(x, y)
    dtype = result_dtype(as_operand(x), as_operand(y))
    if is_inexact(dtype):
        return pointwise_at("pow", dtype, x, y, name="power")
    return _integer_power(
        *fit_operands("power", DTYPES["int32"] if is_bool(dtype) else dtype, x, y)
    )


pow = power


def pointwise_power(x: Tensor, exponent: int) -> Array:
    """The power with a static integer exponent."""
    x = as_tensor(x)
    if exponent == 2:
        return pointwise("square", x)
    return apply("integer_pow", x, exponent=exponent)


def _integer_power(x: Any, y: Any) -> Array:
    """Square and multiply, one step for each bit of the greatest exponent."""
    from ..trace.control import while_loop  # which few programs need

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        result, x, y = state
        result = where(equal(bitwise_and(y, 1), 1), multiply(result, x), result)
        return result, multiply(x, x), apply("shift_right_logical", y, 1)

    ones = pointwise_at("add", x.dtype, multiply(x, 0), 1)
    start = (ones, as_tensor(x), as_tensor(y))
    return while_loop(lambda state: _any(not_equal(state[2], 0)), step, start)[0]


def _any(x: Any) -> Array:
    return apply("reduce_or", x, axes=tuple(range(x.ndim)))


@eager
def float_power(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise x ** y in floating point."""
    return pointwise("pow", x, y, name="float_power", inexact=True)


@eager
def log2(x: Tensor, /) -> Array:
    """Elementwise base-2 logarithm."""
    return _scaled_log(x, math.log(2))


@eager
def log10(x: Tensor, /) -> Array:
    """Elementwise base-10 logarithm."""
    return _scaled_log(x, math.log(10))


def _scaled_log(x: Tensor, scale: float) -> Array:
    result = log(x)
    if not is_complex(result.dtype):
        return divide(result, scale)
    # part by part: division by a complex number makes NaN of an infinite part
    return apply("complex", divide(real(result), scale), divide(imag(result), scale))


@eager
def logaddexp(x: Tensor, y: Tensor, /) -> Array:
    """log(exp(x) + exp(y)), without overflow."""
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x, y = fit_operands("logaddexp", dtype, x, y)
    if not is_complex(dtype):
        return apply("logaddexp", x, y)
    is_first = less(real(y), real(x))
    high, low = where(is_first, x, y), where(is_first, y, x)
    total = add(high, log1p(exp(subtract(low, high))))
    total = where(isfinite(real(high)), total, high)
    turns = apply("stop_gradient", pointwise("round", divide(imag(total), 2 * math.pi)))
    return subtract(total, multiply(turns, 2j * math.pi))


@eager
def logaddexp2(x: Tensor, y: Tensor, /) -> Array:
    """log2(2 ** x + 2 ** y), without overflow."""
    scale = math.log(2)
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x, y = fit_operands("logaddexp2", dtype, x, y)
    return divide(logaddexp(multiply(x, scale), multiply(y, scale)), scale)


@eager
def hypot(x: Tensor, y: Tensor, /) -> Array:
    """The hypotenuse sqrt(x ** 2 + y ** 2), without overflow."""
    return rounded_once(_hypot, x, y)


def _hypot(x: Tensor, y: Tensor) -> Array:
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x, y = map(abs, fit_operands("hypot", dtype, x, y))
    high, low = maximum(x, y), minimum(x, y)
    safe = where(equal(high, 0), 1, high)
    size = where(isfinite(high), multiply(safe, sqrt(add(1, square(divide(low, safe))))), high)
    is_infinite = logical_or(equal(x, math.inf), equal(y, math.inf))  # whatever the other is
    return where(is_infinite, math.inf, where(equal(high, 0), high, size))


@eager
def sinc(x: Tensor, /) -> Array:
    """The normalized sinc function sin(pi * x) / (pi * x), 1 at x = 0."""
    angle = multiply(math.pi, x)
    is_zero = equal(angle, 0)
    safe = where(is_zero, 1, angle)
    near = subtract(1, divide(square(angle), 6))
    return where(is_zero, near, divide(sin(safe), safe))


@eager
def deg2rad(x: Tensor, /) -> Array:
    """Convert angles from degrees to radians."""
    return multiply(x, math.pi / 180)


@eager
def rad2deg(x: Tensor, /) -> Array:
    """Convert angles from radians to degrees."""
    return multiply(x, 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def ldexp(x: Tensor, y: Tensor, /) -> Array:
    """Elementwise x * 2 ** y for integers y."""
    return rounded_once(lambda x: _ldexp(x, y), x)


def _ldexp(x: Tensor, y: Tensor) -> Array:
    info = np.finfo(result_dtype(as_operand(x), inexact=True))
    most = 3 * (int(info.maxexp) - 2)
    power = clip(convert_exactly(y, info.dtype), -most, most)
    # in three steps: a result may be finite where the power is not
    third = pointwise("trunc", divide(power, 3))
    step = exp2(third)
    last = exp2(subtract(power, multiply(third, 2)))
    return multiply(multiply(multiply(x, step), step), last)


def nan_to_num(
    x: Tensor,
    copy: bool = True,
    nan: Tensor = 0.0,
    posinf: Tensor | None = None,
    neginf: Tensor | None = None,
) -> Array:
    """Replace NaN and infinities by finite numbers.

    They are `nan`, and for the infinities `posinf` and `neginf`, by default the largest finite
    numbers of the dtype. The result is always a new array.
    """
    x = as_tensor(x)
    if is_complex(x.dtype):
        parts = (nan_to_num(part, copy, nan, posinf, neginf) for part in (real(x), imag(x)))
        return apply("complex", *parts)
    if not is_float(x.dtype):
        return x.copy()
    limits = ml_dtypes.finfo(x.dtype)
    high = float(limits.max) if posinf is None else as_tensor(posinf)
    low = float(limits.min) if neginf is None else as_tensor(neginf)
    x = where(isnan(x), convert(as_tensor(nan), x.dtype), x)
    x = where(isposinf(x), convert(high, x.dtype), x)
    return where(isneginf(x), convert(low, x.dtype), x)
