"""Pointwise arithmetic, from addition to integer powers.

The ops are add, sub, mul, div, rem, neg, abs, sign, square, integer_pow, floor, ceil, round,
trunc, is_finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..body import Pointwise
from ..errors import AttributeValueError
from ..graph import OPS, Value
from ..op import ALIGNED, Op, Parts, define, each_part
from ..types import Type, is_complex, is_integer
from .compare import bit_and, bit_or, eq, ge, max, min, select
from .constant import is_all, is_zero, like, maker, undone
from .convert import REAL_PART, conj, convert, real
from .families import NUMBERS, ORDERED, check_kind, linear_in_each, pointwise


def _rounding(name: str, reference: Callable[..., Any], doc: str, expect: list[float]) -> Op:
    made = pointwise(
        name,
        reference,
        name,
        doc=doc,
        kinds=("float",),
        nondifferentiable="the result is constant between integers",
        samples=[
            dict(args=((2, 3),)),
            dict(args=([-1.5, -0.5, 0.5, 1.25, 2.5],), expect=expect),
        ],
    )
    made.fold(_rounded_fold)
    return made


def _rounded_fold(x: Value) -> Value | None:
    """A whole number stays."""
    return x if x.node is not None and x.node.op in (floor, ceil, round, trunc) else None


floor = _rounding("floor", np.floor, "The greatest whole number at most x.", [-2, -1, 0, 1, 2])
ceil = _rounding("ceil", np.ceil, "The least whole number at least x.", [-1, 0, 1, 2, 3])
round = _rounding("round", np.rint, "The nearest whole number; halves to even.", [-2, 0, 0, 1, 2])
trunc = _rounding("trunc", np.trunc, "The whole part, rounded toward zero.", [-1, 0, 0, 1, 2])

is_finite = pointwise(
    "is_finite",
    np.isfinite,
    "is_finite",
    doc="Whether the number is neither infinite nor NaN.",
    kinds=("float",),
    result="bool",
    nondifferentiable="the result is bool",
    samples=[
        dict(args=((2, 3),)),
        dict(args=([1.0, np.inf, np.nan],), expect=[True, False, False]),
    ],
)


negated = undone("neg")  # what a value is the negation of, or None


add = pointwise(
    "add",
    np.add,
    "add",
    doc="Sum of two numbers; integers wrap around.",
    operands=("x", "y"),
    kinds=NUMBERS,
    jvp=[lambda t, out, x, y: t, lambda t, out, x, y: t],
    transpose=linear_in_each(lambda ct, x, y: ct, lambda ct, x, y: ct),
    samples=[dict(args=((2, 3), (2, 3))), dict(args=([1.0, 2.0], [3.0, 5.0]), expect=[4.0, 7.0])],
)


add.parts(each_part(add))


@add.fold
def add_fold(x: Value, y: Value) -> Value | None:
    if is_zero(x, negative=True):  # 0.0 + -0.0 is 0.0
        return y
    if is_zero(y, negative=True):
        return x
    if (minus_y := negated(y)) is not None:
        return sub(x, minus_y)
    if (minus_x := negated(x)) is not None:
        return sub(y, minus_x)
    return None


sub = pointwise(
    "sub",
    np.subtract,
    "sub",
    doc="Difference of two numbers; integers wrap around.",
    operands=("x", "y"),
    kinds=NUMBERS,
    jvp=[lambda t, out, x, y: t, lambda t, out, x, y: neg(t)],
    transpose=linear_in_each(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)),
    samples=[dict(args=((2, 3), (2, 3))), dict(args=([1.0, 2.0], [3.0, 5.0]), expect=[-2.0, -3.0])],
)


sub.parts(each_part(sub))


@sub.fold
def sub_fold(x: Value, y: Value) -> Value | None:
    if is_zero(y, negative=False):
        return x
    if is_zero(x, negative=True):
        return neg(y)
    if x is y and is_integer(x.dtype):  # inf - inf is NaN
        return like(x, 0)
    minus_y = negated(y)
    return None if minus_y is None else add(x, minus_y)


mul = pointwise(
    "mul",
    np.multiply,
    "mul",
    doc="Product of two numbers; integers wrap around.",
    operands=("x", "y"),
    kinds=NUMBERS,
    jvp=[lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t)],
    transpose=linear_in_each(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
    samples=[
        dict(args=((2, 3), (2, 3))),
        dict(args=([2.0, 3.0], [4.0, -5.0]), expect=[8.0, -15.0]),
    ],
)


@mul.parts
def mul_parts(x: Parts, y: Parts) -> Parts:
    return Parts(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


@mul.fold
def mul_fold(x: Value, y: Value) -> Value | None:
    for first, second in ((x, y), (y, x)):
        if is_all(first, 1):
            return second
        if is_all(first, -1):
            return neg(second)
        if is_all(first, 0) and is_integer(x.dtype):  # 0 * inf is NaN
            return first
    minus_x, minus_y = negated(x), negated(y)
    return None if minus_x is None or minus_y is None else mul(minus_x, minus_y)


def _integer_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quotient rounded toward zero; x / 0 has all bits set, min / -1 wraps to min."""
    safe = np.where(y == 0, y.dtype.type(1), y)
    rem = np.fmod(x, safe)
    return np.where(y == 0, np.array(-1).astype(x.dtype), (x - rem) // safe)


def _div_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _integer_div(x, y) if is_integer(x.dtype) else np.divide(x, y)


div = pointwise(
    "div",
    _div_reference,
    "div",
    doc="Quotient; of integers rounded toward zero, where x / 0 is -1 (all bits set).",
    operands=("x", "y"),
    kinds=NUMBERS,
    jvp=[lambda t, out, x, y: div(t, y), lambda t, out, x, y: neg(mul(t, div(out, y)))],
    transpose=linear_in_each(lambda ct, x, y: div(ct, y), lambda ct, x, y: None),
    samples=[
        dict(args=((2, 3), (2, 3)), low=0.5),
        dict(args=([1.0, -3.0], [4.0, 2.0]), expect=[0.25, -1.5]),
        dict(args=(np.array([7, -7, 5]), np.array([2, 2, 0])), expect=[3, -3, -1]),
    ],
)


div.ufuncs(float=np.divide, complex=np.divide)


@div.parts
def div_parts(x: Parts, y: Parts) -> Parts:
    # R. L. Smith, Algorithm 116: Complex division, 1962; squares would overflow
    is_flat = ge(abs(y.re), abs(y.im))  # not where one is NaN
    large, small = select(is_flat, y.re, y.im), select(is_flat, y.im, y.re)
    first, second = select(is_flat, x.re, x.im), select(is_flat, x.im, x.re)
    ratio = div(small, large)
    scale = div(like(large, 1), large + small * ratio)
    re = (first + second * ratio) * scale
    im = select(is_flat, second - first * ratio, first * ratio - second) * scale
    is_zero = bit_and(is_flat, eq(large, like(large, 0)))
    return Parts(
        select(is_zero, div(x.re, abs(large)), re), select(is_zero, div(x.im, abs(large)), im)
    )


div.fold(lambda x, y: x if is_all(y, 1) else None)


def _rem_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not is_integer(x.dtype):
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, y.dtype.type(1), y)))


rem = pointwise(
    "rem",
    _rem_reference,
    "rem",
    doc="Remainder of division rounded toward zero (sign of x); x for integer y = 0.",
    operands=("x", "y"),
    kinds=ORDERED,
    jvp=[lambda t, out, x, y: t, lambda t, out, x, y: neg(mul(t, trunc(div(x, y))))],
    samples=[
        dict(args=((2, 3), (2, 3)), low=0.5),
        dict(args=([-7.5, 7.5], [2.0, -2.0]), expect=[-1.5, 1.5]),
        dict(args=(np.array([7, -7, 5]), np.array([2, 2, 0])), expect=[1, -1, 5]),
    ],
)
rem.ufuncs(float=np.fmod)

neg = pointwise(
    "neg",
    np.negative,
    "neg",
    doc="Negation; integers wrap around.",
    kinds=NUMBERS,
    transpose=lambda ct, x: [neg(ct)],
    samples=[dict(args=((2, 3),)), dict(args=([1.0, -2.0],), expect=[-1.0, 2.0])],
)
neg.parts(each_part(neg))
neg.fold(negated)

sign = pointwise(
    "sign",
    np.sign,
    "sign",
    doc="-1, 0 or 1 by the sign; NaN stays, a complex number becomes x / |x|.",
    kinds=NUMBERS,
    nondifferentiable="the result is constant on each side of zero",
    samples=[
        dict(args=((2, 3),)),
        dict(args=([-3.5, 0.0, 2.0, np.nan],), expect=[-1.0, 0.0, 1.0, np.nan]),
    ],
)


@sign.parts
def sign_parts(x: Parts) -> Parts:
    length = abs_parts(x)
    zero, infinite = like(length, 0), like(length, np.inf)
    is_far, is_wide = eq(length, infinite), eq(abs(x.re), infinite)
    both = bit_and(is_wide, eq(abs(x.im), infinite))
    # of an infinite part the sign is left, and nothing of the other
    far = select(is_wide, sign(x.re), zero), select(is_wide, zero, sign(x.im))
    near = (select(eq(length, zero), zero, div(part, length)) for part in x[:2])
    re, im = (select(is_far, *each) for each in zip(far, near, strict=True))
    return Parts(select(both, like(re, np.nan), re), select(both, like(im, np.nan), im))


@define
def abs(x: Type) -> Type:
    """Absolute value; of a complex number its real length. The derivative at 0 is 0."""
    check_kind(x, NUMBERS)
    return x.with_dtype(REAL_PART.get(x.dtype.name, x.dtype))


abs.reference(np.abs)
abs.body(Pointwise("abs"))


def _abs_jvp(t: Value, out: Value, x: Value) -> Value:
    if not is_complex(x.dtype):
        return mul(t, sign(x))
    length = select(eq(out, like(out, 0)), like(out, 1), out)
    return real(mul(t, div(conj(x), convert(length, dtype=x.dtype))))


abs.jvp([_abs_jvp])


@abs.parts
def abs_parts(x: Parts) -> Value:
    a, b = abs(x.re), abs(x.im)
    large, small = max(a, b), min(a, b)
    ratio = div(small, large)
    length = large * OPS["sqrt"](1 + ratio * ratio)
    is_infinite = bit_or(eq(a, like(a, np.inf)), eq(b, like(b, np.inf)))  # even beside NaN
    length = select(eq(large, like(large, 0)), large, length)
    return select(is_infinite, like(a, np.inf), length)


abs.batch(ALIGNED)


@abs.fold
def abs_fold(x: Value) -> Value | None:
    if maker(x, "abs"):
        return x
    minus_x = negated(x)
    return None if minus_x is None else abs(minus_x)


abs.samples((2, 3))
abs.samples([-3.5, 0.0, 2.0], expect=[3.5, 0.0, 2.0])


@define
def square(x: Type) -> Type:
    """The number times itself."""
    check_kind(x, NUMBERS)
    return x


square.reference(np.square)
square.expand(lambda x: mul(x, x))
square.jvp([lambda t, out, x: mul(t, mul(x, 2))])
square.batch(ALIGNED)
square.samples((2, 3))
square.samples([3.0, -4.0], expect=[9.0, 16.0])


@define
def integer_pow(x: Type, *, exponent: int) -> Type:
    """The number to a constant integer power; x ** 0 is 1, also for 0 and NaN."""
    check_kind(x, NUMBERS)
    if exponent < 0 and is_integer(x.dtype):
        raise AttributeValueError(
            f"an integer to the power {exponent} is a fraction",
            fix="convert the operand to a float first",
        )
    return x


@integer_pow.reference
def integer_pow_reference(x: np.ndarray, *, exponent: int) -> np.ndarray:
    if exponent < 0:
        return 1 / integer_pow_reference(x, exponent=-exponent)
    result = np.ones_like(x)
    while exponent:
        result = result * x if exponent % 2 else result
        x, exponent = x * x, exponent // 2
    return result


@integer_pow.expand
def integer_pow_expand(x: Value, *, exponent: int) -> Value:
    if exponent < 0:
        return div(like(x, 1), integer_pow(x, exponent=-exponent))
    if exponent == 0:
        return like(x, 1)
    half = x if exponent < 4 else integer_pow(x, exponent=exponent // 2)
    if exponent < 4:
        return x if exponent == 1 else mul(mul(x, x), x) if exponent == 3 else mul(x, x)
    return mul(mul(half, half), x) if exponent % 2 else mul(half, half)


def _integer_pow_jvp(t: Value, out: Value, x: Value, *, exponent: int) -> Value | None:
    if exponent == 0:
        return None
    return mul(t, mul(integer_pow(x, exponent=exponent - 1), exponent))


integer_pow.jvp([_integer_pow_jvp])
integer_pow.batch(ALIGNED)


@integer_pow.fold
def integer_pow_fold(x: Value, *, exponent: int) -> Value | None:
    if exponent == 0:
        return like(x, 1)
    return x if exponent == 1 else None


integer_pow.samples((2, 3), exponent=3)
integer_pow.samples((2, 3), exponent=-2, low=0.5)
integer_pow.samples([2.0, -3.0], exponent=5, expect=[32.0, -243.0])
integer_pow.samples([2.0, 0.0], exponent=0, expect=[1.0, 1.0])
