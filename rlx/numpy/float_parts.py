"""The parts of floating-point numbers, and functions on these parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.types import as_dtype, is_bool, is_integer
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.arguments import members
from ..trace.array_arguments import scalar
from ..trace.promotion import convert, convert_exactly, fit_operands, pointwise, result_dtype
from .arithmetic import copysign
from .division import remainder
from .elementwise import Tensor, add, equal, greater, less, maximum, minimum, multiply, subtract
from .logic import isfinite, isnan, logical_and, logical_or, where
from .reductions import cumsum, diff


def fmax(x1: Tensor, x2: Tensor) -> Any:
    """The greater of two numbers; a NaN gives way to a number."""
    return where(isnan(x1), x2, where(isnan(x2), x1, maximum(x1, x2)))


def fmin(x1: Tensor, x2: Tensor) -> Any:
    """The lesser of two numbers; a NaN gives way to a number."""
    return where(isnan(x1), x2, where(isnan(x2), x1, minimum(x1, x2)))


def nextafter(x: Tensor, y: Tensor, /) -> Any:
    """The next number after x in the direction of y."""
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x, y = fit_operands("nextafter", dtype, x, y)
    bits = as_dtype(f"int{8 * dtype.itemsize}")
    place = apply("bitcast", x, dtype=bits)
    # away from zero the pattern of bits grows by one; at zero it starts with the sign of y
    is_away = equal(less(x, y), greater(x, 0))
    moved = where(is_away, add(place, 1), subtract(place, 1))
    least = where(less(y, 0), np.asarray(np.iinfo(bits).min + 1, bits), np.asarray(1, bits))
    moved = where(equal(x, 0), least, moved)
    result = apply(
        "bitcast", where(equal(x, y), apply("bitcast", y, dtype=bits), moved), dtype=dtype
    )
    return where(logical_or(isnan(x), isnan(y)), convert(np.nan, dtype), result)


def spacing(x: Tensor, /) -> Any:
    """The distance to the next number away from zero.

    For float16 it is that to the next greater number.
    """
    x = convert_exactly(x, result_dtype(as_operand(x), inexact=True))
    far = convert(math.inf, x.dtype)
    if x.dtype.name == "float16":
        return subtract(nextafter(x, far), x)
    return subtract(nextafter(x, copysign(far, x)), x)


def frexp(x: Tensor, /) -> tuple[Any, Any]:
    """A fraction and the power of two to multiply it with.

    The fraction is from 0.5 below 1, with the sign.
    """
    x = convert_exactly(x, result_dtype(as_operand(x), inexact=True))
    is_plain = logical_and(isfinite(x), apply("ne", x, 0))
    size = where(is_plain, apply("abs", x), 1)
    power = add(apply("floor", multiply(apply("log", size), 1 / math.log(2))), 1)
    # the logarithm may be off by one at powers of two
    share = multiply(size, apply("exp2", apply("neg", power)))
    power = where(
        greater(share, 1 - 1e-7), add(power, 1), where(less(share, 0.5), power - 1, power)
    )
    share = multiply(x, apply("exp2", apply("neg", power)))
    return where(is_plain, share, x), where(is_plain, convert(power, as_dtype("int32")), 0)


def unwrap(
    p: Tensor, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Any:
    """Angles along an axis without the jumps of whole turns."""
    period = scalar("unwrap: period", period)
    p = convert_exactly(p, result_dtype(as_operand(p), as_operand(period)))
    steps = diff(p, axis=axis)
    half = period // 2 if is_integer(p.dtype) else period / 2
    short = subtract(remainder(add(steps, half), period), half)
    short = where(logical_and(equal(short, -half), greater(steps, 0)), half, short)
    limit = period / 2 if discont is None else discont
    change = where(less(apply("abs", steps), limit), 0, subtract(short, steps))
    before = (slice(None),) * (axis % p.ndim)
    return p.at[(*before, slice(1, None))].add(cumsum(change, axis))


def piecewise(
    x: Tensor, condlist: Sequence[Tensor], funclist: Sequence[Any], *args: Any, **kw: Any
) -> Any:
    """For each element what the function (or number) of the last true condition gives.

    One function more than conditions is for elements where none holds.
    """
    x = as_tensor(x)
    condlist = members("piecewise: condlist", condlist)
    funclist = members("piecewise: funclist", funclist)
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise ArgumentError(
            f"piecewise: {len(funclist)} functions for {len(condlist)} conditions",
            fix="give one for each condition, and one more for the rest",
        )
    choices = [f(x, *args, **kw) if isinstance(f, Callable) else f for f in funclist]
    default = choices.pop() if len(choices) > len(condlist) else 0
    result = convert_exactly(default, x.dtype)
    for condition, choice in zip(condlist, choices, strict=True):
        result = convert(where(condition, choice, result), x.dtype)
    return result


def bitwise_count(x: Tensor, /) -> Any:
    """The number of bits set in the absolute value."""
    x = as_tensor(x)
    x = convert(x, as_dtype("uint8")) if is_bool(x.dtype) else x
    size = apply("abs", x) if x.dtype.kind == "i" else x
    return convert(pointwise("population_count", size), as_dtype("uint8"))
