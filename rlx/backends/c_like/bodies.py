"""Instructions made of simpler ones, for languages that lack them.

`BODIES[name](result, x, y)` gives the formula for a result dtype; it becomes a function of the
text. What is left in the end are the plain instructions listed in the package's docstring.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from ...ir.types import as_dtype, is_float
from .arithmetic import Number, number
from .dialect import FLOAT32, UNSIGNED

Body = Callable[..., Number]
UINT16, UINT32, FLOAT64 = as_dtype("uint16"), as_dtype("uint32"), as_dtype("float64")

# -- functions of floats made of simpler ones, for languages that lack them ------------------------


def _erf_inv(result: np.dtype, x: Number) -> Number:
    """After M. Giles, "Approximating the erfinv function" (2010): seven digits.

    In float64 a step of Halley's method triples them.
    """
    depth = -((1.0 - x) * (1.0 + x)).do("log")
    near = (depth - 2.5).polynomial(
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
    )  # fmt: skip
    if result.itemsize == 4:
        far = (depth.do("sqrt") - 3.0).polynomial(
            [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
             -0.0076224613, 0.00943887047, 1.00167406, 2.83297682]
        )  # fmt: skip
    else:
        far = (depth.do("sqrt") - 4.0).polynomial(
            [-1.63404469e-06, -5.32518375e-07, 3.46814691e-05, -7.3327834e-05, 3.07845678e-05,
             -4.7661e-05, 3.40753161e-04, -9.15787921e-04, 1.25254588e-03, 1.00950178, 3.83978435]
        )  # fmt: skip
    y = (depth < 5.0).where(near, far) * x
    if result.itemsize == 8:
        y = _halley(y, x)
    return abs(x).equals(1.0).where(x * math.inf, y)


def _halley(y: Number, x: Number) -> Number:
    """Improve y towards erf(y) = x; near the ends the complement keeps the digits."""
    size_x, size_y = abs(x), abs(y)
    by_erf = size_y.do("erf") - size_x
    by_erfc = (1.0 - size_x) - size_y.do("erfc")
    error = (size_x < 0.5).where(by_erf, by_erfc)
    step = error / ((-(size_y * size_y)).do("exp") * (2 / math.sqrt(math.pi)))
    better = size_y - step / (1.0 + size_y * step)
    return (x < 0.0).where(-better, better)


def _unsigned(x: Number) -> Number:
    return x.bits(UNSIGNED[x.dtype.itemsize])


def _width(x: Number) -> int:
    return 8 * x.dtype.itemsize


# -- choices and comparisons ---------------------------------------------------------------------


def _extreme(comes_first: Callable[..., Number], of_bools: Callable[..., Number]) -> Body:
    """The greater or the lesser of two; NaN if one of them is."""

    def body(result: np.dtype, x: Number, y: Number) -> Number:
        if x.dtype.kind == "b":
            return of_bools(x, y)
        is_first = comes_first(x, y)
        return (is_first | x.is_nan if is_float(x.dtype) else is_first).where(x, y)

    return body


def _abs(result: np.dtype, x: Number) -> Number:
    return x if x.dtype.kind in "bu" else (x < 0).where(-x, x)


def _sign(result: np.dtype, x: Number) -> Number:
    if x.dtype.kind == "b":
        return x
    below = x.like(0) if x.dtype.kind == "u" else (x < 0).where(x.like(-1), x.like(0))
    whole = (x > 0).where(x.like(1), below)
    return x.is_nan.where(x, whole) if is_float(x.dtype) else whole


def _is_finite(result: np.dtype, x: Number) -> Number:
    return abs(x) < math.inf if is_float(x.dtype) else x.equals(x)


# -- integers ------------------------------------------------------------------------------------


def _div(result: np.dtype, x: Number, y: Number) -> Number:
    """Towards zero; by zero all bits are set."""
    if x.dtype.kind == "u":
        quotient = x.do("plain_div", y.equals(0).where(y.like(1), y))
        return y.equals(0).where(~x.like(0), quotient)
    is_odd = y.equals(0) | y.equals(-1)  # the least number over -1 is out of range
    quotient = x.do("plain_div", is_odd.where(y.like(1), y))
    return y.equals(0).where(y.like(-1), y.equals(-1).where(-x, quotient))


def _rem(result: np.dtype, x: Number, y: Number) -> Number:
    """With the sign of x; by zero it is x."""
    is_odd = y.equals(0) if x.dtype.kind == "u" else y.equals(0) | y.equals(-1)
    divisor = is_odd.where(y.like(1), y)
    rest = x - x.do("plain_div", divisor) * divisor  # Vulkan's own one is for x >= 0 alone
    return y.equals(0).where(x, is_odd.where(x.like(0), rest))


def _floor_div(result: np.dtype, x: Number, y: Number) -> Number:
    """Of an index by a positive size, downwards."""
    whole = x.do("plain_div", y)
    return (x - whole * y < 0).where(whole - 1, whole)


def _floor_rem(result: np.dtype, x: Number, y: Number) -> Number:
    rest = x - x.do("plain_div", y) * y
    return (rest < 0).where(rest + y, rest)


def _shifted(shift: Callable[..., Number]) -> Body:
    """A shift of bits without a sign; by the width or more it leaves 0."""

    def body(result: np.dtype, x: Number, y: Number) -> Number:
        count, width = _unsigned(y), _width(x)
        moved = shift(_unsigned(x), count & (width - 1)).bits(x.dtype)
        return (count < width).where(moved, x.like(0))

    return body


def _shr_arithmetic(result: np.dtype, x: Number, y: Number) -> Number:
    """By the width or more it is the sign everywhere."""
    signed = as_dtype(f"int{_width(x)}")
    count, last = _unsigned(y), _width(x) - 1
    clamped = (count < last).where(count, count.like(last))
    return (x.bits(signed) >> clamped.bits(signed)).bits(x.dtype)


def _pow(result: np.dtype, x: Number, y: Number) -> Number:
    """Of integers, by squaring; what is less than one is cut to 0."""
    total, square = x.like(1), x
    left = _unsigned(abs(y) if x.dtype.kind == "i" else y)
    for bit in range(_width(x)):
        is_odd = (left & left.like(1 << bit)).differs(0)
        total = is_odd.where(total * square, total)
        square = square * square
    if x.dtype.kind == "u":
        return total
    is_one = x.equals(1) | x.equals(-1)
    return (y < 0).where(is_one.where(total, x.like(0)), total)


# -- conversions ---------------------------------------------------------------------------------


def _saturate(result: np.dtype, x: Number) -> Number:
    """A float as an integer: cut, what is out of range to its end, NaN to 0."""
    info = np.iinfo(result)
    most, least = number(result, info.max), number(result, info.min)
    is_high = x >= 2.0 ** (info.bits - (result.kind == "i"))
    inside = is_high.where(most, (x <= float(info.min)).where(least, x.to(result)))
    return x.is_nan.where(number(result, 0), inside)


def _to_odd(result: np.dtype, x: Number) -> Number:
    """float64 in float32, rounded so that rounding again is as good as once.

    What is not exact gets an odd last bit. From S. Boldo and G. Melquiond, "When double rounding is
    odd" (2005).
    """
    near = x.to(FLOAT32)
    back = near.to(FLOAT64)
    whole, one = near.bits(UINT32), number(UINT32, 1)
    below = (abs(back) > abs(x)).where(whole - one, whole)
    return back.differs(x).where(below | one, below).bits(FLOAT32)


def _narrow_float16(result: np.dtype, x: Number) -> Number:
    """The bits of a float16, rounded to even."""
    bits = x.bits(UINT32)
    size = bits & 0x7FFFFFFF
    normal = (size + 0xFFF + ((size >> 13) & 1) - 0x38000000) >> 13
    small = (size.bits(FLOAT32) * 2.0**24).do("round").to(UINT32)
    finite = (size < 0x38800000).where(small, normal)
    special = (size > 0x7F800000).where(bits.like(0x7E00), bits.like(0x7C00))
    found = (size < 0x477FF000).where(finite, special)
    return (found | ((bits >> 16) & 0x8000)).to(UINT16)


def _widen_float16(result: np.dtype, x: Number) -> Number:
    """The number of a float16's bits."""
    bits = x.to(UINT32)
    size = bits & 0x7FFF
    small = (size.to(FLOAT32) * 2.0**-24).bits(UINT32)
    start = (size < 0x7C00).where(bits.like(0x38000000), bits.like(0x70000000))
    found = (size < 0x400).where(small, (size << 13) + start)
    return (found | ((bits & 0x8000) << 16)).bits(FLOAT32)


def _narrow_bfloat16(result: np.dtype, x: Number) -> Number:
    """The bits of a bfloat16, rounded to even."""
    bits = x.bits(UINT32)
    near = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return x.is_nan.where(((bits >> 16) & 0x8000) | 0x7FC0, near).to(UINT16)


def _rounded(name: str) -> Body:
    """A float32 rounded to the numbers that a half float has."""
    return lambda result, x: x.do(f"narrow_{name}", dtype=UINT16).do(f"widen_{name}", dtype=FLOAT32)


BODIES: dict[str, Body] = {
    # of bools, false is less than true; numbers have an instruction of their own
    "lt": lambda result, x, y: ~x & y,
    "le": lambda result, x, y: ~x | y,
    "gt": lambda result, x, y: x & ~y,
    "ge": lambda result, x, y: x | ~y,
    "logistic": lambda result, x: 1.0 / (1.0 + (-x).do("exp")),
    "rsqrt": lambda result, x: 1.0 / x.do("sqrt"),
    "erf_inv": _erf_inv,
    "max": _extreme(operator.gt, operator.or_),
    "min": _extreme(operator.lt, operator.and_),
    "abs": _abs,
    "sign": _sign,
    "is_finite": _is_finite,
    "div": _div,
    "rem": _rem,
    "floor_div": _floor_div,
    "floor_rem": _floor_rem,
    "shl": _shifted(operator.lshift),
    "shr_logical": _shifted(operator.rshift),
    "shr_arithmetic": _shr_arithmetic,
    "pow": _pow,
    "saturate": _saturate,
    "to_odd": _to_odd,
    "narrow_float16": _narrow_float16,
    "widen_float16": _widen_float16,
    "narrow_bfloat16": _narrow_bfloat16,
    "widen_bfloat16": lambda result, x: (x.to(UINT32) << 16).bits(FLOAT32),
    "round_float16": _rounded("float16"),
    "round_bfloat16": _rounded("bfloat16"),
}
