"""Rows of what works number by number, in MIL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from coremltools.converters.mil.mil import Builder, Var, types

from ..graph_table import Row

mb: Any = Builder  # of Core ML programs; its methods come into being when it is loaded
FLOATS = frozenset({"float16", "float32"})
NUMBERS = FLOATS | {"int32"}
EVERY = NUMBERS | {"bool"}
MIL = {
    np.dtype("float16"): "fp16",
    np.dtype("float32"): "fp32",
    np.dtype("int32"): "int32",
    np.dtype("bool"): "bool",
}
OF_MIL = {
    types.fp16: np.dtype("float16"),
    types.fp32: np.dtype("float32"),
    types.int32: np.dtype("int32"),
    types.bool: np.dtype("bool"),
}


def dtype_of(x: Var) -> np.dtype:
    """The NumPy dtype of a value of MIL."""
    return OF_MIL[x.dtype]


def number(value: float, like: Var) -> Any:
    """A scalar in the dtype of a value."""
    return np.asarray(value).astype(dtype_of(like))[()]


def unary(name: str, **attrs: Any) -> Callable[..., Var]:
    """The function of MIL of one operand, with more of its inputs."""
    return lambda x, **_: getattr(mb, name)(x=x, **attrs)


def binary(name: str) -> Callable[[Var, Var], Var]:
    """The function of MIL of two operands."""
    return lambda x, y: getattr(mb, name)(x=x, y=y)


def choice(of_bools: Callable[..., Var], of_numbers: Callable[..., Var]) -> Callable[..., Var]:
    """A function for bools, and one for numbers."""
    return lambda *xs: (of_bools if xs[0].dtype == types.bool else of_numbers)(*xs)


def is_nan(x: Var) -> Var:
    """Whether floats are none."""
    return mb.not_equal(x=x, y=x)


def negative(x: Var) -> Var:
    """The number times -1."""
    return mb.mul(x=x, y=number(-1, x))


def quotient(x: Var, y: Var) -> Var:
    """The quotient; of integers rounded toward zero, -1 where y is 0."""
    if dtype_of(x) != np.int32:
        return mb.real_div(x=x, y=y)
    return mb.select(cond=mb.equal(x=y, y=np.int32(0)), a=np.int32(-1), b=_toward_zero(x, y))


def _toward_zero(x: Var, y: Var) -> Var:
    """The quotient of integers rounded toward zero; x where y is 0."""
    # the least integer has no absolute value, and divided by -1 it is itself
    is_opposite = mb.equal(x=y, y=np.int32(-1))
    is_special = mb.logical_or(x=is_opposite, y=mb.equal(x=y, y=np.int32(0)))
    below = mb.select(cond=is_special, a=np.int32(1), b=y)
    down = mb.floor_div(x=x, y=below)
    is_exact = mb.equal(x=mb.mul(x=down, y=below), y=x)
    is_negative = mb.logical_xor(x=mb.less(x=x, y=np.int32(0)), y=mb.less(x=below, y=np.int32(0)))
    is_below = mb.logical_and(x=is_negative, y=mb.logical_not(x=is_exact))
    whole = mb.add(x=down, y=mb.cast(x=is_below, dtype="int32"))
    return mb.select(cond=is_opposite, a=negative(whole), b=whole)


def remainder(x: Var, y: Var) -> Var:
    """The rest of a division of integers rounded toward zero, x where y is 0."""
    return mb.sub(x=x, y=mb.mul(x=_toward_zero(x, y), y=y))


def sign(x: Var) -> Var:
    """The sign; NaN stays."""
    made = mb.sign(x=x)
    return made if dtype_of(x) == np.int32 else mb.select(cond=is_nan(x), a=x, b=made)


def _extreme(name: str) -> Callable[[Var, Var], Var]:
    """The greater or lesser; NaN if one is."""

    def extreme(x: Var, y: Var) -> Var:
        made = getattr(mb, name)(x=x, y=y)
        if dtype_of(x) == np.int32:
            return made
        made = mb.select(cond=is_nan(y), a=y, b=made)
        return mb.select(cond=is_nan(x), a=x, b=made)

    return extreme


def log(x: Var) -> Var:
    """The natural logarithm; MIL's own is finite at 0."""
    made = mb.log(x=x)
    return mb.select(cond=mb.equal(x=x, y=number(0, x)), a=number(-math.inf, x), b=made)


def log1p(x: Var) -> Var:
    """log(1 + x); for small x by the inverse hyperbolic tangent."""
    short = mb.real_div(x=x, y=mb.add(x=x, y=number(2, x)))
    near = mb.mul(x=mb.atanh(x=short), y=number(2, x))
    far = log(mb.add(x=x, y=number(1, x)))
    return mb.select(cond=mb.less(x=mb.abs(x=x), y=number(0.5, x)), a=near, b=far)


def expm1(x: Var) -> Var:
    """exp(x) - 1, by the hyperbolic sine for small x."""
    half = mb.mul(x=x, y=number(0.5, x))
    near = mb.mul(x=mb.mul(x=mb.sinh(x=half), y=mb.exp(x=half)), y=number(2, x))
    far = mb.sub(x=mb.exp(x=x), y=number(1, x))
    return mb.select(cond=mb.less(x=mb.abs(x=x), y=number(1, x)), a=near, b=far)


def cbrt(x: Var) -> Var:
    """The cube root."""
    return mb.mul(x=mb.sign(x=x), y=mb.pow(x=mb.abs(x=x), y=number(1 / 3, x)))


def trunc(x: Var) -> Var:
    """The whole part, rounded toward zero."""
    return mb.select(cond=mb.less(x=x, y=number(0, x)), a=mb.ceil(x=x), b=mb.floor(x=x))


def asinh(x: Var) -> Var:
    """The inverse hyperbolic sine, by log1p of a size that keeps the digits."""
    size = mb.abs(x=x)
    root = mb.sqrt(x=mb.add(x=mb.square(x=x), y=number(1, x)))
    more = mb.real_div(x=mb.square(x=x), y=mb.add(x=root, y=number(1, x)))
    return mb.mul(x=mb.sign(x=x), y=log1p(mb.add(x=size, y=more)))


def acosh(x: Var) -> Var:
    """The inverse hyperbolic cosine."""
    above = mb.sub(x=x, y=number(1, x))
    root = mb.sqrt(x=mb.mul(x=above, y=mb.add(x=x, y=number(1, x))))
    return log1p(mb.add(x=above, y=root))


def atan2(y: Var, x: Var) -> Var:
    """The angle of a point: twice that of its half, whose tangent is y / (size + x)."""
    size = mb.sqrt(x=mb.add(x=mb.square(x=x), y=mb.square(x=y)))
    half = mb.atan(x=mb.real_div(x=y, y=mb.add(x=size, y=x)))
    straight = mb.mul(x=mb.sign(x=y), y=number(math.pi / 2, x))
    is_left = mb.less_equal(x=x, y=number(0, x))
    # on the left the other angle, which does not divide by what cancels
    other = mb.sub(x=straight, y=mb.atan(x=mb.real_div(x=x, y=y)))
    is_behind = mb.cast(x=mb.less(x=x, y=number(0, x)), dtype=MIL[dtype_of(x)])
    flat = mb.mul(x=is_behind, y=number(math.pi, x))
    left = mb.select(cond=mb.equal(x=y, y=number(0, x)), a=flat, b=other)
    return mb.select(cond=is_left, a=left, b=mb.mul(x=half, y=number(2, x)))


def rsqrt(x: Var) -> Var:
    """One divided by the square root."""
    return mb.real_div(x=number(1, x), y=mb.sqrt(x=x))


def is_finite(x: Var) -> Var:
    """Whether the number is neither infinite nor NaN."""
    return mb.less(x=mb.abs(x=x), y=number(math.inf, x))


def convert(x: Var, *, dtype: np.dtype) -> Var:
    """The same numbers in another dtype; too great ones become the greatest integer."""
    if dtype == np.bool_:
        return x if x.dtype == types.bool else mb.not_equal(x=x, y=number(0, x))
    if dtype != np.int32 or x.dtype in (types.bool, types.int32):
        return mb.cast(x=x, dtype=MIL[dtype])
    x = mb.cast(x=x, dtype="fp32")
    x = mb.select(cond=is_nan(x), a=np.float32(0), b=x)
    inside = mb.maximum(x=x, y=np.float32(-(2.0**31)))
    inside = mb.minimum(x=inside, y=np.nextafter(np.float32(2.0**31), np.float32(0)))
    is_over = mb.greater_equal(x=x, y=np.float32(2.0**31))
    return mb.select(cond=is_over, a=np.int32(2**31 - 1), b=mb.cast(x=inside, dtype="int32"))


def same(x: Var, **attrs: Any) -> Var:
    """The value itself."""
    return mb.identity(x=x)


ROWS = {
    "add": Row(binary("add"), NUMBERS),
    "sub": Row(binary("sub"), NUMBERS),
    "mul": Row(binary("mul"), NUMBERS),
    "div": Row(quotient, NUMBERS),
    "rem": Row(remainder, frozenset({"int32"})),
    "neg": Row(negative, NUMBERS),
    "abs": Row(unary("abs"), NUMBERS),
    "sign": Row(sign, NUMBERS),
    "max": Row(_extreme("maximum"), NUMBERS),
    "min": Row(_extreme("minimum"), NUMBERS),
    "eq": Row(choice(lambda x, y: mb.logical_not(x=mb.logical_xor(x=x, y=y)), binary("equal"))),
    "ne": Row(choice(binary("logical_xor"), binary("not_equal"))),
    "lt": Row(
        choice(lambda x, y: mb.logical_and(x=mb.logical_not(x=x), y=y), binary("less")), EVERY
    ),
    "le": Row(
        choice(lambda x, y: mb.logical_or(x=mb.logical_not(x=x), y=y), binary("less_equal")), EVERY
    ),
    "gt": Row(
        choice(lambda x, y: mb.logical_and(x=x, y=mb.logical_not(x=y)), binary("greater")), EVERY
    ),
    "ge": Row(
        choice(lambda x, y: mb.logical_or(x=x, y=mb.logical_not(x=y)), binary("greater_equal")),
        EVERY,
    ),
    "select": Row(lambda which, x, y: mb.select(cond=which, a=x, b=y), EVERY),
    "bit_and": Row(binary("logical_and"), frozenset({"bool"})),
    "bit_or": Row(binary("logical_or"), frozenset({"bool"})),
    "bit_xor": Row(binary("logical_xor"), frozenset({"bool"})),
    "bit_not": Row(unary("logical_not"), frozenset({"bool"})),
    "is_finite": Row(is_finite, EVERY),
    "sqrt": Row(unary("sqrt"), FLOATS),
    "rsqrt": Row(rsqrt, FLOATS),
    "cbrt": Row(cbrt, FLOATS),
    "exp": Row(unary("exp"), FLOATS),
    "exp2": Row(unary("exp2"), FLOATS),
    "expm1": Row(expm1, FLOATS),
    "log": Row(log, FLOATS),
    "log1p": Row(log1p, FLOATS),
    "logistic": Row(unary("sigmoid"), FLOATS),
    "pow": Row(binary("pow"), FLOATS),
    "sin": Row(unary("sin"), FLOATS),
    "cos": Row(unary("cos"), FLOATS),
    "tan": Row(unary("tan"), FLOATS),
    "asin": Row(unary("asin"), FLOATS),
    "acos": Row(unary("acos"), FLOATS),
    "atan": Row(unary("atan"), FLOATS),
    "sinh": Row(unary("sinh"), FLOATS),
    "cosh": Row(unary("cosh"), FLOATS),
    "tanh": Row(unary("tanh"), FLOATS),
    "atanh": Row(unary("atanh"), FLOATS),
    "asinh": Row(asinh, FLOATS),
    "acosh": Row(acosh, FLOATS),
    "atan2": Row(atan2, FLOATS),
    "erf": Row(unary("erf"), FLOATS),
    "floor": Row(unary("floor"), FLOATS),
    "ceil": Row(unary("ceil"), FLOATS),
    "round": Row(unary("round"), FLOATS),
    "trunc": Row(trunc, FLOATS),
    "convert": Row(convert, EVERY),
    "stop_gradient": Row(same, EVERY),
    "checkpoint_name": Row(same, EVERY),
}
