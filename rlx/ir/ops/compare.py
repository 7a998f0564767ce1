"""Comparison, logic, bits and choice.

Among the ops are eq, lt, max, bit_and, shift_left, select, clamp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..body import Pointwise
from ..errors import DtypeError, ShapeError
from ..graph import Value
from ..op import ALIGNED, Op, define, each_part, is_linear
from ..types import Type, as_dtype, is_bool
from .constant import is_all, like, maker, uniform
from .families import NUMBERS, ORDERED, check_kind, check_same, pointwise

BITS = ("bool", "integer")
FLAGS = Type(as_dtype("bool"), (2, 3))
COUNTS = Type(as_dtype("int32"), (2, 3))


def _comparison(
    name: str,
    reference: Callable[..., Any],
    doc: str,
    expect: list[bool],
    of_bools: list[bool],
    kinds: Sequence[str] = ("bool", *ORDERED),
) -> Op:
    return pointwise(
        name,
        reference,
        name,
        doc=doc,
        operands=("x", "y"),
        kinds=kinds,
        result="bool",
        nondifferentiable="the result is bool",
        samples=[
            dict(args=((2, 3), (2, 3))),
            dict(args=([1.0, 2.0, 3.0, np.nan], [2.0, 2.0, 2.0, np.nan]), expect=expect),
            dict(args=([_F, _F, _T, _T], [_F, _T, _F, _T]), expect=of_bools),
        ],
    )


_ANY = ("bool", *NUMBERS)
_T, _F = True, False
eq = _comparison(
    "eq", np.equal, "Whether two numbers are equal.", [_F, _T, _F, _F], [_T, _F, _F, _T], _ANY
)
ne = _comparison(
    "ne", np.not_equal, "Whether two numbers differ.", [_T, _F, _T, _T], [_F, _T, _T, _F], _ANY
)
lt = _comparison("lt", np.less, "Whether x is less than y.", [_T, _F, _F, _F], [_F, _T, _F, _F])
le = _comparison("le", np.less_equal, "Whether x is at most y.", [_T, _T, _F, _F], [_T, _T, _F, _T])
gt = _comparison(
    "gt", np.greater, "Whether x is greater than y.", [_F, _F, _T, _F], [_F, _F, _T, _F]
)
ge = _comparison(
    "ge", np.greater_equal, "Whether x is at least y.", [_F, _T, _T, _F], [_T, _F, _T, _T]
)


eq.parts(lambda x, y: bit_and(eq(x.re, y.re), eq(x.im, y.im)))
ne.parts(lambda x, y: bit_or(ne(x.re, y.re), ne(x.im, y.im)))


# -- choice -------------------------------------------------------------------------------------


@define
def select(which: Type, on_true: Type, on_false: Type) -> Type:
    """`on_true` where `which` holds, else `on_false`."""
    if not is_bool(which.dtype):
        raise DtypeError(f"`which` is {which}, not bool", fix="compare it: x != 0")
    if which.shape != on_true.shape:
        raise ShapeError(
            f"the shapes differ, {which} and {on_true}",
            fix="broadcast them to one shape first, as rlx.numpy does by itself",
        )
    return check_same(on_true, on_false)


select.reference(np.where)
select.parts(each_part(select))
select.body(Pointwise("select"))


@select.jvp
def select_jvp(primals: Sequence[Value], tangents: Sequence[Value | None]) -> tuple:
    which, on_true, on_false = primals
    out = select(which, on_true, on_false)
    zero = like(on_true, 0)
    return out, select(which, *(zero if t is None else t for t in tangents[1:]))


@select.transpose
def select_transpose(ct: Value, which: Value, on_true: Any, on_false: Any) -> list[Any]:
    zero = like(ct, 0)
    return [
        None,
        select(which, ct, zero) if is_linear(on_true) else None,
        select(which, zero, ct) if is_linear(on_false) else None,
    ]


# where the cotangent of each argument may differ from zero
select.rules.choice = [None, lambda which: which, lambda which: bit_not(which)]
select.batch(ALIGNED)


@select.fold
def select_fold(which: Value, on_true: Value, on_false: Value) -> Value | None:
    choice = uniform(which)
    if choice is not None:
        return on_true if choice else on_false
    if on_true is on_false:
        return on_true
    number = uniform(on_true)
    if number is not None and number == uniform(on_false) and number != 0:  # 0 may hide a -0.0
        return on_true
    if inverted := maker(which, "bit_not"):
        return select(inverted.args[0], on_false, on_true)
    return None


select.samples(FLAGS, (2, 3), (2, 3))
select.samples([True, False], [1.0, 2.0], [3.0, 4.0], expect=[1.0, 4.0])


def _shared(t: Value, x: Value, y: Value) -> Value:
    """What of a tangent of x passes to the greater of x and y: all, nothing, or half in a tie."""
    share = select(eq(x, y), like(t, 0.5), like(t, 1))
    return select(ge(x, y), t * share, like(t, 0))


def _extreme(name: str, reference: np.ufunc, doc: str, jvp: list[Any], expect: list[float]) -> Op:
    made = pointwise(
        name,
        reference,
        name,
        doc=f"{doc}; NaN if one is. A tie shares its tangent equally.",
        operands=("x", "y"),
        kinds=ORDERED,
        jvp=jvp,
        samples=[
            dict(args=((2, 3), (2, 3))),
            dict(args=([1.0, 2.0, np.nan], [3.0, -5.0, 1.0]), expect=expect),
        ],
    )
    made.fold(lambda x, y: x if x is y else None)
    return made


_GREATER = [lambda t, out, x, y: _shared(t, x, y), lambda t, out, x, y: _shared(t, y, x)]
_LESS = [lambda t, out, x, y: _shared(t, y, x), lambda t, out, x, y: _shared(t, x, y)]
max = _extreme("max", np.maximum, "The greater of two numbers", _GREATER, [3.0, 2.0, np.nan])
min = _extreme("min", np.minimum, "The less of two numbers", _LESS, [1.0, -5.0, np.nan])


@define
def clamp(low: Type, x: Type, high: Type) -> Type:
    """The number of `low..high` nearest to `x`; NaN stays.

    The tangent of `x` passes where x lies strictly between the bounds.
    """
    check_kind(x, ORDERED)
    return check_same(x, low, high)


clamp.reference(lambda low, x, high: np.minimum(np.maximum(low, x), high))
clamp.expand(lambda low, x, high: min(max(low, x), high))
clamp.jvp(
    [
        lambda t, out, low, x, high: _where(t, bit_and(gt(low, x), lt(low, high))),
        lambda t, out, low, x, high: _where(t, bit_and(gt(x, low), lt(x, high))),
        lambda t, out, low, x, high: _where(t, lt(high, max(low, x))),
    ]
)


def _where(t: Value, which: Value) -> Value:
    return select(which, t, like(t, 0))


clamp.batch(ALIGNED)
clamp.samples([-1.0, -1.0, -1.0], [-2.0, 0.5, 7.0], [2.0, 2.0, 2.0], expect=[-1.0, 0.5, 2.0])
clamp.samples((2, 3), (2, 3), (2, 3))


# -- bits ---------------------------------------------------------------------------------------


def _bitwise(name: str, reference: Callable[..., Any], doc: str, expect: list[bool]) -> Op:
    return pointwise(
        name,
        reference,
        name.removeprefix("bit_"),
        doc=doc,
        operands=("x", "y"),
        kinds=BITS,
        nondifferentiable="integers and bools have no derivative",
        samples=[
            dict(args=(COUNTS, COUNTS)),
            dict(args=([_T, _T, _F, _F], [_T, _F, _T, _F]), expect=expect),
        ],
    )


bit_and = _bitwise("bit_and", np.bitwise_and, "Bits set in both.", [_T, _F, _F, _F])
bit_or = _bitwise("bit_or", np.bitwise_or, "Bits set in one or both.", [_T, _T, _T, _F])
bit_xor = _bitwise("bit_xor", np.bitwise_xor, "Bits set in just one.", [_F, _T, _T, _F])


bit_and.fold(lambda x, y: _bits_fold(x, y, neutral=-1, absorbing=0))
bit_or.fold(lambda x, y: _bits_fold(x, y, neutral=0, absorbing=-1))


def _bits_fold(x: Value, y: Value, neutral: int, absorbing: int) -> Value | None:
    if x is y:
        return x
    for first, second in ((x, y), (y, x)):
        if _has_bits(first, neutral):
            return second
        if _has_bits(first, absorbing):
            return first
    return None


def _has_bits(x: Value, number: int) -> bool:
    """Whether x is known to be 0, or with all bits set for -1."""
    if number == 0:
        return is_all(x, 0)
    return is_all(x, True if is_bool(x.dtype) else np.array(-1).astype(x.dtype).item())


@bit_xor.fold
def bit_xor_fold(x: Value, y: Value) -> Value | None:
    if is_all(y, 0):
        return x
    return y if is_all(x, 0) else None


bit_not = pointwise(
    "bit_not",
    np.invert,
    "not",
    doc="Every bit flipped; on bools the logical not.",
    kinds=BITS,
    nondifferentiable="integers and bools have no derivative",
    samples=[
        dict(args=(FLAGS,)),
        dict(args=(np.array([0, 5, -1], np.int32),), expect=[-1, -6, 0]),
    ],
)


@bit_not.fold
def bit_not_fold(x: Value) -> Value | None:
    if before := maker(x, "bit_not"):
        return before.args[0]
    number = uniform(x)
    if isinstance(number, bool):
        return like(x, not number)
    return like(x, ~number) if isinstance(number, int) else None


def _shift(name: str, instruction: str, reference: Any, doc: str, expect: list[int]) -> Op:
    return pointwise(
        name,
        reference,
        instruction,
        doc=f"{doc} A count outside of 0..bits-1 shifts everything out.",
        operands=("x", "count"),
        kinds=("integer",),
        nondifferentiable="integers have no derivative",
        samples=[
            dict(args=(COUNTS, np.arange(6, dtype=np.int32).reshape(2, 3))),
            dict(
                args=(np.array([5, -8, 1, -8], np.int32), np.array([1, 2, 32, 40], np.int32)),
                expect=expect,
            ),
        ],
    )


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def _shifted_out(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    return _unsigned(count) >= 8 * x.dtype.itemsize


def _shift_left_reference(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    out = _shifted_out(x, count)
    return np.where(out, x.dtype.type(0), np.left_shift(x, np.where(out, x.dtype.type(0), count)))


def _shift_right_logical_reference(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    out = _shifted_out(x, count)
    bits, zero = _unsigned(x), _unsigned(x).dtype.type(0)
    return np.where(out, zero, bits >> np.where(out, zero, _unsigned(count))).view(x.dtype)


def _shift_right_arithmetic_reference(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    signed, width = x.view(f"i{x.dtype.itemsize}"), 8 * x.dtype.itemsize
    safe = np.where(_shifted_out(x, count), count.dtype.type(width - 1), count)
    return (signed >> safe.astype(signed.dtype)).view(x.dtype)


shift_left = _shift("shift_left", "shl", _shift_left_reference, "Bits moved up.", [10, -32, 0, 0])
shift_right_logical = _shift(
    "shift_right_logical",
    "shr_logical",
    _shift_right_logical_reference,
    "Bits moved down, zeros put in above.",
    [2, 1073741822, 0, 0],
)
shift_right_arithmetic = _shift(
    "shift_right_arithmetic",
    "shr_arithmetic",
    _shift_right_arithmetic_reference,
    "Bits moved down, the highest put in above.",
    [2, -2, 0, -1],
)
shift_left.fold(lambda x, count: x if is_all(count, 0) else None)
shift_right_logical.fold(lambda x, count: x if is_all(count, 0) else None)
shift_right_arithmetic.fold(lambda x, count: x if is_all(count, 0) else None)


def _population_count_reference(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(_unsigned(x))


def _clz_reference(x: np.ndarray) -> np.ndarray:
    bits, width = _unsigned(x), 8 * x.dtype.itemsize
    return np.sum([(bits >> bits.dtype.type(i)) == 0 for i in range(width)], axis=0)


def _count(name: str, instruction: str, reference: Any, doc: str, expect: list[int]) -> Op:
    return pointwise(
        name,
        reference,
        instruction,
        doc=doc,
        kinds=("integer",),
        nondifferentiable="integers have no derivative",
        samples=[
            dict(args=(COUNTS,)),
            dict(args=(np.array([0, 5, -1], np.int32),), expect=expect),
        ],
    )


population_count = _count(
    "population_count",
    "popcount",
    _population_count_reference,
    "The number of set bits.",
    [0, 2, 32],
)
clz = _count(
    "clz", "clz", _clz_reference, "The number of zero bits above the highest set bit.", [32, 29, 0]
)
