"""Running sums, products and extremes along an axis.

The ops are cumsum, cumprod, cummax, cummin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..body import Scan
from ..dims import Dim
from ..errors import GradientError
from ..graph import Value
from ..op import ALIGNED, Op
from ..types import Type
from .arithmetic import add, div, mul
from .compare import eq, gt, lt, select
from .constant import like, scalar_like
from .convert import widened
from .families import NUMBERS, ORDERED, check_axis, check_kind
from .pad_slice import pad

Pair = tuple[Value, ...]


def _cumulative(name: str, doc: str, kinds: Sequence[str], ufunc: np.ufunc, combine: str) -> Op:
    def type_rule(x: Type, *, axis: int, reverse: bool = False) -> Type:
        check_kind(x, kinds)
        check_axis(x, axis)
        return x

    def reference(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        x = widened(np.flip(x, axis) if reverse else x)
        result = ufunc.accumulate(x, axis, dtype=x.dtype)
        return np.flip(result, axis) if reverse else result

    def cumulative_fold(x: Value, *, axis: int, reverse: bool) -> Value | None:
        return x if x.shape[axis] == 1 else None

    made = Op(name, type_rule, doc)
    made.reference(reference)
    made.body(Scan(combine))
    made.batch(ALIGNED, "axis")
    made.fold(cumulative_fold)
    made.samples((4,), axis=0)
    made.samples((2, 3), axis=1, reverse=True)
    return made


def scan_by_doubling(
    pair: Pair,
    start: Sequence[float],
    combine: Callable[[Pair, Pair], Pair],
    axis: int,
    reverse: bool,
) -> Pair:
    """Combine each element with all before it, in log2(n) steps of shifted arrays.

    `combine(before, after)` is associative; `start` is its neutral element.
    """
    size = pair[0].shape[axis]
    bound = size.high if isinstance(size, Dim) else size
    if bound is None:
        raise GradientError(
            f"the derivative along an axis of the unbounded size {size} is not known",
            fix=f"give the size an upper bound: dim({str(size)!r}, max=...)",
        )
    distance = 1
    while distance < bound:
        before = tuple(
            shifted(x, number, distance, axis, reverse)
            for x, number in zip(pair, start, strict=True)
        )
        pair = combine(before, pair)
        distance *= 2
    return pair


def shifted(x: Value, number: float, by: int, axis: int, reverse: bool = False) -> Value:
    """Move elements along an axis, or back; `number` comes in where none is left."""
    low, high, none = [0] * x.rank, [0] * x.rank, (0,) * x.rank
    low[axis], high[axis] = (-by, by) if reverse else (by, -by)
    return pad(x, scalar_like(x, number), low=low, high=high, interior=none)


cumsum = _cumulative("cumsum", "Running sum along an axis.", NUMBERS, np.add, "add")


cumsum.transpose(lambda ct, x, *, axis, reverse: [cumsum(ct, axis=axis, reverse=not reverse)])
cumsum.samples([1.0, 2.0, 3.0], axis=0, expect=[1.0, 3.0, 6.0])
cumsum.samples([1.0, 2.0, 3.0], axis=0, reverse=True, expect=[6.0, 5.0, 3.0])


cumprod = _cumulative("cumprod", "Running product along an axis.", NUMBERS, np.multiply, "mul")


def _cumprod_jvp(t: Value, out: Value, x: Value, *, axis: int, reverse: bool) -> Value:
    """The product rule as a scan of (product, tangent).

    Nothing is divided, so zeros do no harm.
    """

    def combine(before: Pair, after: Pair) -> Pair:
        (p, dp), (q, dq) = before, after
        return mul(p, q), add(mul(dp, q), mul(p, dq))

    return scan_by_doubling((x, t), (1, 0), combine, axis, reverse)[1]


cumprod.jvp([_cumprod_jvp])
cumprod.samples([1.0, 0.0, 3.0, 0.0, 2.0], axis=0)
cumprod.samples([2.0, 3.0, 4.0], axis=0, expect=[2.0, 6.0, 24.0])


def _extreme_jvp(wins: Op, start: float) -> Callable[..., Value]:
    def extreme_jvp(t: Value, out: Value, x: Value, *, axis: int, reverse: bool) -> Value:
        """The mean of the tangents of all elements so far that equal the extreme."""

        def combine(before: Pair, after: Pair) -> Pair:
            (m, dm, count), (n, dn, more) = before, after
            first, tie = wins(m, n), eq(m, n)
            tie_or = [select(tie, add(a, b), b) for a, b in ((dm, dn), (count, more))]
            return (
                select(first, m, n),
                select(first, dm, tie_or[0]),
                select(first, count, tie_or[1]),
            )

        many = scan_by_doubling((x, t, like(x, 1)), (start, 0, 0), combine, axis, reverse)
        return div(many[1], many[2])

    return extreme_jvp


cummax = _cumulative(
    "cummax",
    "Running maximum along an axis; NaN from the first NaN on. Ties share their tangent equally.",
    ORDERED,
    np.maximum,
    "max",
)
cummax.jvp([_extreme_jvp(gt, -np.inf)])
cummax.samples([1.0, 3.0, 2.0, 5.0], axis=0, expect=[1.0, 3.0, 3.0, 5.0])

cummin = _cumulative(
    "cummin",
    "Running minimum along an axis; NaN from the first NaN on. Ties share their tangent equally.",
    ORDERED,
    np.minimum,
    "min",
)
cummin.jvp([_extreme_jvp(lt, np.inf)])
cummin.samples([4.0, 3.0, 5.0, 1.0], axis=0, expect=[4.0, 3.0, 3.0, 1.0])
