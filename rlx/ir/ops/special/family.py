"""What special functions share: composites, loops, polynomials, Taylor series."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...builder import build
from ...errors import DtypeError, ShapeError
from ...graph import Graph, Value
from ...interpret import interpret
from ...op import ALIGNED, Op
from ...types import Type, is_float, is_integer
from ..arithmetic import add, div, mul, neg, sub
from ..compare import bit_and, lt, select
from ..constant import full, like
from ..convert import in_float32
from ..families import attach_samples, check_kind, check_same
from ..loops import while_loop
from ..reduce import reduce_or

Expansion = Callable[..., Value]


def composite(
    name: str,
    expansion: Expansion,
    *,
    doc: str,
    operands: Sequence[str] = ("x",),
    jvp: Any = None,
    reference: Callable[..., Any] | None = None,
    samples: Sequence[dict[str, Any]],
) -> Op:
    """Make an op on floats, element by element, from its meaning in simpler ops.

    `expansion` gets float32 or float64. Without a `reference` the expansion itself, evaluated in
    float64, is the reference, so samples must hold numbers from a table.
    """

    def type_rule(*types: Type) -> Type:
        x = check_same(*types)
        check_kind(x, ["float"])
        return x

    made = Op(name, type_rule, doc, operands)
    attach(made, expansion, jvp, reference)
    attach_samples(made, samples)
    return made


def attach(
    made: Op,
    expansion: Expansion,
    jvp: Any = None,
    reference: Callable[..., Any] | None = None,
) -> None:
    """Attach to an op the rules that follow from an expansion element by element."""

    def by_expansion(*arrays: np.ndarray, **attrs: Any) -> np.ndarray:
        wide = [a.astype(np.float64) if is_float(a.dtype) else a for a in arrays]
        types = tuple(Type(a.dtype, a.shape) for a in wide)
        (result,) = interpret(_expanded(made, types, tuple(attrs.items())), wide)
        return result.astype(arrays[-1].dtype)

    made.reference(reference or by_expansion)
    made.expand(in_float32(expansion))
    made.work("transcendental")
    if jvp is not None:
        made.jvp(jvp)
    made.batch(ALIGNED)


@functools.lru_cache(maxsize=256)
def _expanded(op: Op, types: tuple[Type, ...], attrs: tuple[tuple[str, Any], ...]) -> Graph:
    expand = op.rules.expand
    assert expand is not None, f"{op.name} is no composite"
    return build(lambda *xs: expand(*xs, **dict(attrs)), types, op.name)


# -- loops ----------------------------------------------------------------------------------------


def repeat_while(
    step: Callable[[Sequence[Value], Sequence[Value]], tuple[Value, list[Value]]],
    constants: Sequence[Value],
    carry: Sequence[Value],
    limit: int,
) -> list[Value]:
    """Run `step(constants, carry)` until no element moves, or `limit` times.

    A step gives a bool for each element, whether it moves still, and the next carried values.
    """
    count = full(shape=(), value=0, dtype="int32")
    moves = full(shape=(), value=True, dtype="bool")
    state = [moves, count, *carry]

    def body(*xs: Value) -> list[Value]:
        ours, (_, steps, *rest) = xs[: len(constants)], xs[len(constants) :]
        moving, following = step(ours, rest)
        moves = reduce_or(moving, axes=tuple(range(moving.rank)))
        following_count = add(steps, 1)
        return [bit_and(moves, lt(following_count, limit)), following_count, *following]

    results = while_loop(
        *constants,
        *state,
        condition=build(lambda moves, *_: [moves], [x.type for x in state], "moves"),
        body=build(body, [x.type for x in (*constants, *state)], "step"),
        n_body=len(constants),
    )
    return list(results[2:])


def epsilon_of(x: Value) -> float:
    """The distance from 1 to the next number of the dtype."""
    return float(ml_dtypes.finfo(x.dtype).eps)


def is_double(x: Value) -> bool:
    """Whether the dtype is float64, which takes more terms than float32."""
    return x.dtype.itemsize == 8


# -- polynomials ----------------------------------------------------------------------------------


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of coefficients[k] * x ** k, by Horner's rule."""
    result = like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        result = add(mul(result, x), c)
    return result


def quotient(x: Value, tables: tuple[Sequence[float], Sequence[float]]) -> Value:
    """A quotient of two polynomials."""
    above, below = tables
    return div(polynomial(x, above), polynomial(x, below))


def odd(size: Value, x: Value) -> Value:
    """What an odd function is at x, from its value at the size of x."""
    return select(lt(x, like(x, 0)), neg(size), size)


def chebyshev(x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of coefficients[k] * T_k(x), by Clenshaw's rule."""
    twice = add(x, x)
    last, before = like(x, coefficients[-1]), like(x, 0)
    for c in coefficients[-2:0:-1]:
        last, before = add(sub(mul(twice, last), before), c), last
    return add(sub(mul(x, last), before), coefficients[0])


# -- Taylor series --------------------------------------------------------------------------------

# A function of e near 0 to some order: [f, f', f''/2, ...], so that a derivative of any order in a
# parameter comes from the formula of the value, with the parameter a replaced by a + e.
Taylor = list[Value]


def taylor_times(p: Taylor, q: Taylor) -> Taylor:
    """The product of two series of one order."""
    return [_total([mul(p[i], q[k - i]) for i in range(k + 1)]) for k in range(len(p))]


def taylor_times_line(p: Taylor, start: Value) -> Taylor:
    """The series times (start + e)."""
    first, *others = (mul(x, start) for x in p)
    return [first, *(add(x, below) for x, below in zip(others, p, strict=False))]


def taylor_over_line(p: Taylor, start: Value) -> Taylor:
    """The series divided by (start + e)."""
    result = [p[0] / start]
    for x in p[1:]:
        result.append((x - result[-1]) / start)
    return result


def taylor_over(p: Taylor, q: Taylor) -> Taylor:
    """The quotient of two series of one order."""
    result: Taylor = []
    for k, x in enumerate(p):
        known = _total([mul(q[k - i], r) for i, r in enumerate(result)]) if result else None
        result.append((x if known is None else x - known) / q[0])
    return result


def taylor_exp(first: Value, slopes: Sequence[Value]) -> Taylor:
    """The exponential of a series whose value has the exponential `first`.

    slopes[k] is the coefficient of e ** (k + 1).
    """
    result = [first]
    for k in range(1, len(slopes) + 1):
        terms = [mul(mul(slopes[i - 1], result[k - i]), i / k) for i in range(1, k + 1)]
        result.append(_total(terms))
    return result


def _total(terms: Sequence[Value]) -> Value:
    return functools.reduce(add, terms)


def scaled(p: Taylor, by: Value) -> Taylor:
    """The series times a number that does not depend on e."""
    return [mul(x, by) for x in p]


def plus(p: Taylor, q: Taylor) -> Taylor:
    """The sum of two series of one order."""
    return [add(x, y) for x, y in zip(p, q, strict=True)]


def minus(p: Taylor, q: Taylor) -> Taylor:
    """The difference of two series of one order."""
    return [sub(x, y) for x, y in zip(p, q, strict=True)]


def constant_taylor(x: Value, order: int) -> Taylor:
    """The series of a number that does not depend on e."""
    return [x, *[like(x, 0)] * order]


def check_orders(n: Type, x: Type) -> None:
    """Raise unless there is an integer order for each of the numbers."""
    check_kind(x, ["float"])
    if not is_integer(n.dtype):
        raise DtypeError(f"the order is {n}, not an integer", fix="convert it: n.astype('int32')")
    if n.shape != x.shape:
        raise ShapeError(
            f"the shapes differ, {n} and {x}",
            fix="broadcast them to one shape first, as rlx.scipy.special does by itself",
        )
