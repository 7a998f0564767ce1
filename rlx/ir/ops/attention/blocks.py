"""Attention in blocks of queries and keys: the pairs there are, their products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...builder import as_value, build
from ...graph import Value
from ...record import record, replace
from ...types import Size, Type, as_dtype
from ..arithmetic import abs, add, div, mul, sub
from ..compare import bit_and, le, lt, select
from ..constant import full, iota, like
from ..contract import dot_general
from ..convert import WIDE as FLOAT32, convert, is_half, narrowed, widened
from ..dynamic import dynamic_slice, dynamic_update_slice
from ..movement import broadcast, transpose
from ..pad_slice import pad, slice as cut
from ..scan import scan
from ..trigonometric import tanh

Window = tuple[int, int] | None
HIDDEN = -0.7 * float(np.finfo(np.float32).max)  # a negative number that leaves room for sums
INDEX = as_dtype("int32")
ROWS = 3  # the axis of the queries in theirs and in scores
BATCH = ((0, 1), (0, 1))
KEYS = 2  # that of the keys in theirs


@record
class Sights:
    """Which of `count` keys `length` queries see by their places; sizes of blocks."""

    is_causal: bool
    window: Window
    blocks: tuple[int, int]
    length: int
    count: int

    def seen(self, own: Any, other: Any, both: Callable[[Any, Any], Any]) -> list[Any]:
        """Conditions on the places of a query and a key; `both(low, high)` is low <= high."""
        conditions = [both(other, own)] if self.is_causal else []
        if self.window is not None:
            before, after = self.window
            conditions += [both(own, other + before), both(other, own + after)]
        return conditions

    def pairs(self, has_mask: bool) -> tuple[np.ndarray, np.ndarray]:
        """The first query and the first key of each pair of blocks that is not all hidden.

        First those of which nothing is hidden by its place, then the others. A query that sees no
        key gets the mean of all values; with a mask any query may be one.
        """
        (t, s), length, count = self.blocks, self.length, self.count
        before, after = (length + count,) * 2 if self.window is None else self.window
        after = min(after, 0) if self.is_causal else after
        whole, others = [], []
        for i in range(0, length, t):
            last = min(length, i + t) - 1
            sees_all = has_mask or last - before >= count or i + after < 0 or before + after < 0
            for j in range(0, count, s):
                end = j + s - 1
                if last - before <= j and end <= min(i + after, count - 1):
                    whole.append((i, j))
                elif sees_all or (j <= last + after and end >= i - before):
                    others.append((i, j))
        first, second = (np.array(found, INDEX).reshape(-1, 2) for found in (whole, others))
        return first, second


@record
class Scoring:
    """How products of queries and keys become scores, before a bias is added.

    They are multiplied by `scale`, and bounded by `soft_cap`, if there is one. Of `alibi`, the
    slopes of heads (k, g), each falls with the distance of query and key.
    """

    scale: float
    soft_cap: float | None = None
    alibi: tuple[float, ...] = ()

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Scoring:
        """That of a node's attributes."""
        return cls(attrs["scale"], attrs["soft_cap"], attrs["alibi"])

    def slopes(self, heads: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        """The slopes (1, k, g, 1, 1)."""
        return np.asarray(self.alibi, dtype).reshape(1, *heads, 1, 1)


@record
class Scores:
    """Those of a block, of which some are not `seen` (None: all are).

    `bend` is the derivative by the scaled products; None if that is 1.
    """

    scores: Any
    seen: Any
    bend: Any


@record
class Operands:
    """Queries (b, k, g, T, d), keys (b, k, S, d), values (b, k, S, e).

    `bias` is added, `mask` tells what is seen: (b, k, g, T, S), or 1 along some axes.
    """

    q: Any
    k: Any
    v: Any
    bias: Any
    mask: Any
    rest: tuple[Any, ...] = ()

    @classmethod
    def of(cls, operands: Sequence[Any], has_bias: bool, has_mask: bool) -> Operands:
        """The operands by their names."""
        q, k, v, *more = operands
        bias = more.pop(0) if has_bias else None
        mask = more.pop(0) if has_mask else None
        return cls(q, k, v, bias, mask, tuple(more))

    @property
    def moving(self) -> list[Any]:
        """Those that may have tangents."""
        return [x for x in (self.q, self.k, self.v, self.bias) if x is not None]

    def sights(self, is_causal: bool, window: Window, blocks: tuple[int, int] = (1, 1)) -> Sights:
        """Who sees whom, in blocks no larger than the arrays."""
        length, count = self.q.shape[ROWS], self.k.shape[KEYS]
        sizes = (min(blocks[0], length), min(blocks[1], count))
        return Sights(is_causal, window, (max(sizes[0], 1), max(sizes[1], 1)), length, count)


@record
class Pair:
    """A block of queries and one of keys by their first; whether no place hides any."""

    i: Value
    j: Value
    is_whole: bool


# -- blocks of arrays ---------------------------------------------------------------------------


def cut_block(x: Value, starts: dict[int, Value], sizes: Mapping[int, Size]) -> Value:
    """A block along some axes; all of those along which the array is the same for all."""
    shape = tuple(sizes.get(i, n) if n != 1 else 1 for i, n in enumerate(x.shape))
    return x if shape == x.shape else dynamic_slice(x, *_corner(x, starts), sizes=shape)


def put_block(x: Value, update: Value, starts: dict[int, Value]) -> Value:
    """The array with another block."""
    return dynamic_update_slice(x, update, *_corner(x, starts))


def _corner(x: Value, starts: dict[int, Value]) -> list[Value]:
    corner = [full(shape=(), value=0, dtype=INDEX) for _ in x.shape]
    for axis, start in starts.items():
        corner[axis] = corner[axis] if x.shape[axis] == 1 else start
    return corner


def filled_up(x: Value, sizes: dict[int, int], number: float = 0.0) -> Value:
    """The array with places added along axes, in whole blocks of these sizes."""
    high = tuple(-n % sizes.get(i, 1) if n != 1 else 0 for i, n in enumerate(x.shape))
    if not any(high):
        return x
    none, value = (0,) * x.rank, full(shape=(), value=number, dtype=x.dtype)
    return pad(x, value, low=none, high=high, interior=none)


def first(x: Value, counts: dict[int, int]) -> Value:
    """The first places along some axes, but not along those of size 1."""
    stop = tuple(counts.get(i, n) if n != 1 else 1 for i, n in enumerate(x.shape))
    return cut(x, start=(0,) * x.rank, stop=stop, step=(1,) * x.rank)


def all_filled_up(x: Operands, sights: Sights) -> Operands:
    """The operands in whole blocks; the keys that are added are not to be seen."""
    t, s = sights.blocks
    bias, mask = (None if y is None else filled_up(y, {3: t, 4: s}) for y in (x.bias, x.mask))
    k, v = filled_up(x.k, {KEYS: s}), filled_up(x.v, {KEYS: s})
    return replace(x, q=filled_up(x.q, {ROWS: t}), k=k, v=v, bias=bias, mask=mask)


def scores_of(
    x: Operands, pair: Pair, scoring: Scoring, sights: Sights, is_turned: bool = False
) -> Scores:
    """The scores of a block of queries and one of keys.

    All are (b, k, g, t, s), turned (b, k, s, g, t). `sights.count` keys are there, others were
    filled up.
    """
    i, j = pair.i, pair.j
    t, s = sights.blocks
    q, k = cut_block(x.q, {ROWS: i}, {ROWS: t}), cut_block(x.k, {KEYS: j}, {KEYS: s})
    starts, sizes = {3: i, 4: j}, {3: t, 4: s}
    shape = (*x.q.shape[:3], t, s)

    def spread(y: Value) -> Value:
        y = broadcast(y, shape=shape, axes=tuple(range(5 - y.rank, 5)))
        return turned(y) if is_turned else y

    scores, bend = mul(products(q, k, is_turned), scoring.scale), None
    if scoring.soft_cap is not None:
        part = tanh(div(scores, scoring.soft_cap))
        scores, bend = mul(part, scoring.soft_cap), sub(like(part, 1), mul(part, part))
    if x.bias is not None:
        added = narrowed(widened(cut_block(x.bias, starts, sizes)), scores.dtype)
        scores = add(scores, spread(added))
    own, other = _places(i, 0, (t, s)), _places(j, 1, (t, s))
    if scoring.alibi:
        distance = spread(convert(abs(sub(own, other)), dtype=scores.dtype))
        slopes = as_value(scoring.slopes(x.q.shape[1:3], scores.dtype))
        scores = sub(scores, mul(spread(slopes), distance))
    conditions = [] if pair.is_whole else [spread(c) for c in sights.seen(own, other, le)]
    if x.mask is not None:
        conditions.append(spread(cut_block(x.mask, starts, sizes)))
    seen = functools.reduce(bit_and, conditions) if conditions else None
    if seen is not None:
        scores = select(seen, scores, like(scores, HIDDEN))
    if sights.count % s and not pair.is_whole:
        is_there = spread(lt(other, like(other, sights.count)))
        scores = select(is_there, scores, like(scores, -np.inf))
    return Scores(scores, seen, bend)


def products(q: Value, k: Value, is_turned: bool = False) -> Value:
    """Products of queries (b, k, g, t, d) and keys (b, k, s, d), in float32 or wider."""
    x, y = (k, q) if is_turned else (q, k)
    wide = FLOAT32 if is_half(q.dtype) else q.dtype
    return dot_general(x, y, contract=((x.rank - 1,), (y.rank - 1,)), batch=BATCH, dtype=wide)


def _places(start: Value, axis: int, shape: tuple[int, int]) -> Value:
    """The places of queries or keys, at each pair of a block."""
    size = shape[axis]
    places = add(iota(shape=(size,), axis=0, dtype=INDEX), broadcast(start, shape=(size,), axes=()))
    return broadcast(places, shape=shape, axes=(axis,))


def turned(scores: Value) -> Value:
    """Scores (b, k, g, t, s) as (b, k, s, g, t)."""
    return transpose(scores, axes=(0, 1, 4, 2, 3))


def over_pairs(
    sights: Sights,
    constants: Sequence[Value | None],
    carry: Sequence[Value],
    step: Callable[[Sequence[Value | None], Sequence[Value], Pair], Sequence[Value]],
) -> list[Value]:
    """Run `step(constants, carry, pair)` for each pair, from one carry to the next.

    The constants begin with `Operands`.
    """
    given, carried = [x for x in constants if x is not None], list(carry)
    groups = sights.pairs(has_mask=constants[4] is not None)
    for pairs, is_whole in zip(groups, (True, False), strict=True):
        if not len(pairs):
            continue

        def body(*xs: Value, is_whole: bool = is_whole) -> Sequence[Value]:
            known = iter(xs)
            passed = [None if x is None else next(known) for x in constants]
            return step(passed, xs[len(given) : -2], Pair(xs[-2], xs[-1], is_whole))

        starts = [as_value(np.ascontiguousarray(pairs[:, n])) for n in (0, 1)]
        types = [*(x.type for x in (*given, *carry)), Type(INDEX), Type(INDEX)]
        carried = scan(
            *(*given, *carried, *starts),
            body=build(body, types, "attention_block"),
            n_constants=len(given),
            n_carry=len(carry),
            length=len(pairs),
        )
    return list(carried)
