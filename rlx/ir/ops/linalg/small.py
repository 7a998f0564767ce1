"""Small matrices written out in scalars: factors and solutions without a loop.

Matrices are NumPy arrays of opaque scalars here (see `ir.body.Pass`), the arithmetic is NumPy's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...body import Blocks, Pass
from ...types import Type, is_complex

LARGEST = 4  # rows and columns of a matrix that is written out
LONGEST = 8  # a list of pivots that is written out
MOST_COLUMNS = 4  # right-hand sides written out: more of them are blocks of their own


def matrices(compute: Callable[..., Sequence[Any]]) -> Blocks:
    """A block for each matrix of the first operand.

    `compute(*matrices, **attrs)` gives an array of scalars for each result.
    """

    def passes(types: Sequence[Type], **attrs: Any) -> list[Pass] | None:
        def block(place: tuple, load: Any) -> list[list[tuple]]:
            operands = [_loaded(load, i, place, t.shape[-2:]) for i, t in enumerate(types)]
            return [_placed(place, np.asarray(x, object)) for x in compute(*operands, **attrs)]

        return [Pass(types[0].shape[:-2], block)] if _is_small(types[0]) else None

    return Blocks(passes)


def systems(solve: Callable[..., np.ndarray], on_the_left: Callable[..., bool]) -> Blocks:
    """Blocks of right-hand sides with their matrix: `solve(a, b, **attrs)` gives x.

    `on_the_left(**attrs)` tells whether the right-hand sides are columns of b, else they are rows.
    """

    def passes(types: Sequence[Type], **attrs: Any) -> list[Pass] | None:
        a, b = types
        is_left = on_the_left(**attrs)
        count = b.shape[-1 if is_left else -2]

        def together(place: tuple, load: Any) -> list[list[tuple]]:
            matrix, right = (_loaded(load, i, place, t.shape[-2:]) for i, t in enumerate(types))
            return [_placed(place, solve(matrix, right, **attrs))]

        def one(place: tuple, load: Any) -> list[list[tuple]]:
            *batch, number = place
            size: Any = a.shape[-1]  # a small number, or nothing is written out
            steps = range(size)
            places = [(*batch, i, number) if is_left else (*batch, number, i) for i in steps]
            line = _array([load(1, where) for where in places])
            matrix = _loaded(load, 0, tuple(batch), a.shape[-2:])
            x = solve(matrix, line[:, None] if is_left else line[None], **attrs)
            return [list(zip(places, x.reshape(-1), strict=True))]

        if not _is_small(a):
            return None
        if isinstance(count, int) and count <= MOST_COLUMNS:
            return [Pass(a.shape[:-2], together)]
        return [Pass((*a.shape[:-2], count), one)]

    return Blocks(passes)


def orders(types: Sequence[Type], *, size: Any) -> list[Pass] | None:
    """A block for each list of pivots: the order of rows they make, if they are few."""
    (pivots,) = types
    count = pivots.shape[-1]
    if not (isinstance(size, int) and isinstance(count, int) and 0 < count <= size <= LONGEST):
        return None

    def block(place: tuple, load: Any) -> list[list[tuple]]:
        order = _array(range(size))
        for j in range(count):
            pivot = load(0, (*place, j))
            pivot = (pivot > 0).select(pivot, 0)
            pivot = (pivot > size - 1).select(size - 1, pivot)
            _exchange(order[:, None], j, pivot, 0)
        return [_placed(place, order)]

    return [Pass(pivots.shape[:-1], block)]


def _is_small(x: Type) -> bool:
    is_real = not is_complex(x.dtype)
    return is_real and all(isinstance(n, int) and 0 < n <= LARGEST for n in x.shape[-2:])


def _array(scalars: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(scalars), object)
    array[:] = scalars
    return array


def _loaded(load: Any, operand: int, place: tuple, shape: Sequence[Any]) -> np.ndarray:
    places = itertools.product(*map(range, shape))
    return _array([load(operand, (*place, *there)) for there in places]).reshape(shape)


def _placed(place: tuple, x: np.ndarray) -> list[tuple]:
    return [((*place, *there), x[there]) for there in np.ndindex(x.shape)]


def _select(flag: Any, on_true: np.ndarray, on_false: np.ndarray) -> np.ndarray:
    return _array([flag.select(x, y) for x, y in zip(on_true, on_false, strict=True)])


def eliminated(x: np.ndarray, count: int, zero: float) -> tuple[np.ndarray, list, np.ndarray]:
    """The first columns of x eliminated: L and U in one, pivots, order of rows.

    Rows are exchanged for the largest pivot, the first of equal ones. `zero` is what a pivot of 0
    is divided by instead.
    """
    x = x.copy()
    order, pivots = _array(range(len(x))), []
    for j in range(count):
        most, pivot = abs(x[j, j]), j
        for i in range(j + 1, len(x)):
            size = abs(x[i, j])
            is_larger = size > most
            most, pivot = is_larger.select(size, most), is_larger.select(i, pivot)
        pivots.append(pivot)
        for lines in (x, order[:, None]):
            _exchange(lines, j, pivot)
        divisor = x[j, j].equals(0).select(zero, x[j, j])
        for i in range(j + 1, len(x)):
            x[i, j] = x[i, j] / divisor
            x[i, j + 1 :] = x[i, j + 1 :] - x[j, j + 1 :] * x[i, j]
    return x, pivots, order


def _exchange(lines: np.ndarray, j: int, pivot: Any, least: int | None = None) -> None:
    """Exchange the row j and the one of the number `pivot`, a scalar not below `least` or j."""
    first = chosen = lines[j].copy()
    for i in range(j + 1 if least is None else least, len(lines)):
        if i == j:
            continue
        is_it = pivot.equals(i)
        chosen = _select(is_it, lines[i], chosen)
        lines[i] = _select(is_it, first, lines[i])
    lines[j] = chosen


def substituted(upper: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x of u x = b, for u whose upper part is read."""
    x = b.copy()
    for i in reversed(range(len(upper))):
        for k in range(i + 1, len(upper)):
            x[i] = x[i] - x[k] * upper[i, k]
        x[i] = x[i] / upper[i, i]
    return x


def solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x of a x = b; NaN where a is singular."""
    n = len(a)
    both, _, _ = eliminated(np.concatenate([a, b], 1), n, math.nan)
    last = both[n - 1, n - 1]
    both[n - 1, n - 1] = last.equals(0).select(math.nan, last)
    return substituted(both[:, :n], both[:, n:])


def lu_factors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L and U in one, the pivots, and the order of the rows."""
    both, pivots, order = eliminated(x, min(x.shape), 1)
    return both, _array(pivots), order


def cholesky_factor(x: np.ndarray) -> np.ndarray:
    """The lower factor; its lower part is NaN if there is none."""
    n = len(x)
    lower = np.zeros((n, n), object)
    is_positive: Any = None
    for j in range(n):
        rest = x[j:, j]
        for k in range(j):
            rest = rest - lower[j:, k] * lower[j, k]
        here = rest[0] > 0
        is_positive = here if is_positive is None else is_positive & here
        root = rest[0].sqrt()
        lower[j, j] = root
        lower[j + 1 :, j] = rest[1:] / root
    for i, j in zip(*np.tril_indices(n), strict=True):
        lower[i, j] = is_positive.select(lower[i, j], math.nan)
    return lower


def determinant(x: np.ndarray) -> Any:
    """The product of the pivots, with the sign of the exchange of rows."""
    first, *others = _signed_pivots(x)
    return math.prod(others, start=first)


def log_determinant(x: np.ndarray) -> tuple[Any, Any]:
    """The sign of the determinant, and the logarithm of its absolute value."""
    pivots = _signed_pivots(x)
    sign, size = pivots[0].sign(), abs(pivots[0]).log()
    for pivot in pivots[1:]:
        sign, size = sign * pivot.sign(), size + abs(pivot).log()
    return sign, size


def _signed_pivots(x: np.ndarray) -> list[Any]:
    both, pivots, _ = eliminated(x, len(x), 1)
    first, *others = both.diagonal()
    for j, pivot in enumerate(pivots[:-1]):  # the last row has none to be exchanged with
        first = pivot.equals(j).select(first, -first)
    return [first, *others]
