"""Attention to keys and values in pages: paged_attention, paged_write.

Many sequences grow at the same time, and none knows how long it will be: their keys and values lie
in pages of one pool, and each sequence has a table of its own. Queries of all sequences stand in
one line, each with the number of its sequence and its position there (W. Kwon et al., "Efficient
Memory Management for Large Language Model Serving with PagedAttention", 2023).

A query's result depends on its own sequence alone, also by its last bit: the keys are met in the
order of their positions, and sums begin and end at positions that are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...builder import build
from ...dims import likely
from ...errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from ...graph import Value
from ...op import define
from ...types import Size, Type, promote
from ..arithmetic import add, div, mul, sub
from ..compare import bit_and, eq, ge, gt, le, max, select
from ..constant import full, iota, like
from ..contract import dot_general
from ..convert import WIDE, convert
from ..custom import stop_gradient
from ..exponential import exp
from ..families import NUMBERS, check_kind
from ..index import gather
from ..movement import broadcast, reshape, transpose
from ..pad_slice import concat
from ..reduce import reduce_max, reduce_sum, spread_back
from ..scan import scan
from ..scatter import scatter
from ..trigonometric import tanh
from .blocks import INDEX

# -- what both ops take ----------------------------------------------------------------------------


def _check_places(tables: Type, sequence: Type, positions: Type, count: Any) -> None:
    """Raise an error unless each of `count` rows has a sequence with a table, and a position."""
    for what, x, rank in (
        ("tables", tables, 2),
        ("sequence", sequence, 1),
        ("positions", positions, 1),
    ):
        if x.dtype != INDEX:
            raise DtypeError(f"{what} is {x}", fix="give int32 numbers")
        if x.rank != rank:
            axes = "(sequences, pages)" if rank == 2 else "(tokens,)"
            raise ShapeError(f"{what} is {x}", fix=f"give an array of shape {axes}")
    if tables.shape[0] == 0 and count != 0:
        raise ShapeError(f"tables {tables} have no sequence", fix="give one for each token's")
    if not sequence.shape == positions.shape == (count,):
        raise ShapeError(
            f"there are {count} tokens, sequence is {sequence} and positions {positions}",
            fix="give each token the number of its sequence and its position",
        )


def _places(
    tables: np.ndarray, sequence: int, positions: np.ndarray, shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The pages and the places in them of positions of a sequence; pages that are none move in."""
    table = tables[np.clip(sequence, 0, len(tables) - 1)]
    return np.clip(table[positions // shape[1]], 0, shape[0] - 1), positions % shape[1]


# -- paged_attention -------------------------------------------------------------------------------


def wide_dtype(q: Any, k_pages: Any) -> np.dtype:
    """The dtype in which the attention of these queries and pages is computed."""
    given = (q, k_pages) if k_pages.dtype.kind != "i" else (q,)
    wide = WIDE
    for x in given:
        wide = promote(wide, x.dtype)
    return wide


@define
def paged_attention(
    q: Type,
    k_pages: Type,
    v_pages: Type,
    tables: Type,
    sequence: Type,
    positions: Type,
    *scales: Type,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Type:
    """Causal attention of queries to the pages of their sequences.

    `q (tokens, heads, d), k_pages (pages, size, k, d), v_pages (pages, size, k, e), tables
    i32(sequences, pages of each), sequence i32(tokens,), positions i32(tokens,)
    → (tokens, heads, e)`, in q's dtype; `heads` is a multiple of k, whose keys are shared by groups
    of them. The key at position j of sequence s lies in page `tables[s, j // size]`, at its place
    `j % size`. A query at position p sees the keys at 0 to p, of which the last `window` besides
    its own if that is not None; at a negative position none, and its result is 0. Pages of int8
    have `scales (pages, size, k)` of the keys and of the values, which they are
    multiplied by. Products are multiplied by `scale`, then bounded by `soft_cap` (x becomes
    cap * tanh(x / cap)). A sequence or page that does not exist is the nearest one; of keys beyond
    the table there are none.
    """
    check_kind(q, ["float"])
    if q.dtype.itemsize == 1:
        raise DtypeError(f"q is {q}", fix="convert it: q.astype('bfloat16')")
    _check_pages(q, k_pages, v_pages, scales)
    if scale != scale:
        raise AttributeValueError("`scale` is not a number", fix="use 1 / sqrt(d), say")
    if window is not None and window < 0:
        raise AttributeValueError(f"`window` is {window}", fix="use 0 or more, or None")
    if soft_cap is not None and not soft_cap > 0:
        raise AttributeValueError(f"`soft_cap` is {soft_cap}", fix="use a number above 0, or None")
    _check_places(tables, sequence, positions, q.shape[0])
    return q.with_shape((*q.shape[:2], v_pages.shape[3]))


def _check_pages(q: Type, k_pages: Type, v_pages: Type, scales: Sequence[Type]) -> None:
    shapes = (q.rank, k_pages.rank, v_pages.rank) == (3, 4, 4)
    if not shapes or k_pages.shape[:3] != v_pages.shape[:3] or q.shape[2] != k_pages.shape[3]:
        raise ShapeError(
            f"q {q}, k_pages {k_pages} and v_pages {v_pages} do not fit",
            fix="give q (tokens, heads, d), and pages (pages, size, k, d) and (pages, size, k, e)",
        )
    known = (*q.shape[1:], *k_pages.shape[1:], *v_pages.shape[1:])
    if not all(isinstance(n, int) for n in known):
        raise ShapeError(
            f"q {q} and k_pages {k_pages} have heads, or pages a size, that are not known",
            fix="leave only the numbers of tokens, pages and sequences open",
        )
    heads, groups = q.shape[1], k_pages.shape[2]
    if heads % groups if groups else heads:
        raise ShapeError(
            f"{heads} heads of q cannot share {groups} of k_pages equally",
            fix=f"give k_pages {heads} heads, or a divisor of it",
        )
    if not k_pages.shape[1]:
        raise ShapeError(f"k_pages {k_pages} have no places", fix="give pages of size 1 or more")
    if k_pages.dtype != v_pages.dtype or k_pages.dtype.name not in PAGES:
        raise DtypeError(
            f"k_pages are {k_pages}, v_pages {v_pages}", fix=f"give one of {', '.join(PAGES)}"
        )
    needed = 2 if k_pages.dtype.name == "int8" else 0
    if len(scales) != needed:
        raise ArgumentError(
            f"there are {len(scales)} scales for pages of {k_pages.dtype.name}",
            fix="give those of keys and of values with int8, and else none",
        )
    for x in scales:
        check_kind(x, ["float"])
        if x.shape != k_pages.shape[:3] or x.dtype != scales[0].dtype:
            raise ShapeError(f"scales are {x}", fix=f"make them {Type(WIDE, k_pages.shape[:3])}")


PAGES = ("float32", "bfloat16", "float16", "float64", "int8")
paged_attention.work("exact")  # a policy shall not convert whole pools of pages


def _operations(q: Type, k: Type, v: Type, tables: Type, *rest: Type, **attrs: Any) -> float:
    """Those of sequences that fill half of their tables."""
    seen = likely(tables.shape[1] * k.shape[1]) / 2
    return 2.0 * likely(q.shape[0] * q.shape[1]) * seen * likely(k.shape[3] + v.shape[3])


paged_attention.library_work("direct", _operations)


@paged_attention.reference
def paged_attention_reference(
    q: np.ndarray,
    k_pages: np.ndarray,
    v_pages: np.ndarray,
    tables: np.ndarray,
    sequence: np.ndarray,
    positions: np.ndarray,
    *scales: np.ndarray,
    scale: float,
    window: int | None,
    soft_cap: float | None,
) -> np.ndarray:
    wide, (_, size, groups, _) = wide_dtype(q, k_pages), k_pages.shape
    out = np.zeros((*q.shape[:2], v_pages.shape[3]), wide)
    last = tables.shape[1] * size - 1
    if 0 in (*tables.shape, *k_pages.shape[:3]):
        return out
    for t in range(len(q)):
        own = int(positions[t])
        first = 0 if window is None else np.maximum(own - window, 0)
        seen = np.arange(first, np.minimum(own, last) + 1)
        if not seen.size:
            continue
        places = _places(tables, sequence[t], seen, k_pages.shape)
        k, v = k_pages[places].astype(wide), v_pages[places].astype(wide)
        if scales:
            k, v = (
                x * s[places].astype(wide)[..., None] for x, s in zip((k, v), scales, strict=True)
            )
        grouped = q[t].astype(wide).reshape(groups, -1, q.shape[2])
        scores = np.einsum("kgd,nkd->kgn", grouped, k) * wide.type(scale)
        if soft_cap is not None:
            scores = wide.type(soft_cap) * np.tanh(scores / wide.type(soft_cap))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        out[t] = np.einsum("kgn,nke->kge", weights, v).reshape(out.shape[1:])
    return out


def _rows_of(x: Value, numbers: Value) -> Value:
    """The rows of an array along axis 0 with these numbers; of those that are none the nearest."""
    inner = tuple(range(1, x.rank))
    return gather(
        x,
        reshape(numbers, shape=(*numbers.shape, 1)),
        offset_axes=inner,
        collapsed_axes=(0,),
        start_axes=(0,),
        sizes=(1, *x.shape[1:]),
    )


def _wide_rows(x: Value, numbers: Value, wide: np.dtype) -> Value:
    return convert(_rows_of(x, numbers), dtype=wide)


def _seen(own: Value, page: Value, size: Size, window: int | None) -> Value:
    """Which places of the page with this number tokens see."""
    shape = (own.shape[0], size)
    first = broadcast(mul(page, size), shape=shape, axes=())
    places = add(iota(shape=shape, axis=1, dtype=INDEX), first)
    own = broadcast(own, shape=shape, axes=(0,))
    seen = le(places, own)
    return seen if window is None else bit_and(seen, ge(places, sub(own, window)))


def _scores(q: Value, k: Value, scale: float, soft_cap: float | None) -> Value:
    """Products of queries (tokens, k, g, d) and keys (tokens, size, k, d), scaled and bounded."""
    scores = dot_general(q, k, contract=((3,), (3,)), batch=((0, 1), (0, 2)))
    scores = mul(scores, scale)
    return scores if soft_cap is None else mul(tanh(div(scores, soft_cap)), soft_cap)


@paged_attention.expand
def paged_attention_expand(
    q: Value,
    k_pages: Value,
    v_pages: Value,
    tables: Value,
    sequence: Value,
    positions: Value,
    *scales: Value,
    scale: float,
    window: int | None,
    soft_cap: float | None,
) -> Value:
    """A page of each sequence after another, with the sums so far carried along."""
    (tokens, heads, width), (_, size, groups, _) = q.shape, k_pages.shape
    wide, count = wide_dtype(q, k_pages), tables.shape[1]
    shape = (tokens, groups, heads // groups if groups else 0)
    zeros = full(shape=(*shape, v_pages.shape[3]), value=0.0, dtype=wide)
    if 0 in (*k_pages.shape[:3], *tables.shape, *shape):
        return convert(reshape(zeros, shape=(tokens, heads, v_pages.shape[3])), dtype=q.dtype)
    grouped = reshape(convert(q, dtype=wide), shape=(*shape, width))

    def step(*xs: Value) -> list[Value]:
        grouped, own, sequence, k_pages, v_pages, *rest = xs
        *scales, top, total, out, number, pages = rest
        page = _rows_of(pages, sequence)
        k, v = (_wide_rows(x, page, wide) for x in (k_pages, v_pages))
        if scales:
            k_scale, v_scale = (_wide_rows(x, page, wide) for x in scales)
            k, v = mul(k, spread_back(k_scale, k, (3,))), mul(v, spread_back(v_scale, v, (3,)))
        scores = _scores(grouped, k, scale, soft_cap)
        seen = _seen(own, number, size, window)
        shown = broadcast(seen, shape=scores.shape, axes=(0, 3))
        scores = select(shown, scores, like(scores, -np.inf))
        new = stop_gradient(max(top, reduce_max(scores, axes=(3,))))
        base = select(gt(new, like(new, -np.inf)), new, like(new, 0))
        powers, fade = exp(sub(scores, spread_back(base, scores, (3,)))), exp(sub(top, base))
        v = select(broadcast(seen, shape=v.shape, axes=(0, 1)), v, like(v, 0))
        more = dot_general(powers, v, contract=((3,), (1,)), batch=((0, 1), (0, 2)))
        total = add(mul(total, fade), reduce_sum(powers, axes=(3,)))
        return [new, total, add(mul(out, spread_back(fade, out, (3,))), more)]

    starts = [full(shape=shape, value=n, dtype=wide) for n in (-np.inf, 0.0)]
    constants = [grouped, positions, sequence, k_pages, v_pages, *scales]
    rows = [iota(shape=(count,), axis=0, dtype=INDEX), transpose(tables, axes=(1, 0))]
    carry = [*starts, zeros]
    types = [x.type for x in (*constants, *carry)]
    types += [x.type.with_shape(x.shape[1:]) for x in rows]
    _, total, out = scan(
        *(*constants, *carry, *rows),
        body=build(step, types, "paged_attention"),
        n_constants=len(constants),
        n_carry=3,
        length=count,
    )
    total = select(eq(total, like(total, 0)), like(total, 1), total)
    out = reshape(div(out, spread_back(total, out, (3,))), shape=(tokens, heads, out.shape[3]))
    return convert(out, dtype=q.dtype)


_RANDOM = np.random.default_rng(0)
_TABLES = np.array([[4, 1, 0], [2, 3, -1]], "int32")  # the second has two pages
_SEQUENCE = np.array([0, 1, 1, 0, 1], "int32")
_POSITIONS = np.array([7, 0, 4, 2, -1], "int32")
_WHERE = (_TABLES, _SEQUENCE, _POSITIONS)
_PAGES_OF_3 = ((5, 4, 3), (5, 3, 2, 3), (5, 3, 2, 2), *_WHERE)  # q, k_pages, v_pages
paged_attention.samples(*_PAGES_OF_3, scale=0.5)
paged_attention.samples(*_PAGES_OF_3, scale=2.0, window=2, soft_cap=1.5)
paged_attention.samples(
    *((5, 4, 3), *(_RANDOM.integers(-9, 9, (5, 3, 2, 3)).astype("int8") for _ in range(2))),
    *(*_WHERE, *(_RANDOM.random((5, 3, 2)).astype("float32") for _ in range(2))),
    scale=0.5,
)
paged_attention.samples(  # the mean of two values, then the second one
    [[[0.0]], [[100.0]]],
    [[[[0.0]], [[1.0]]]],
    [[[[2.0]], [[4.0]]]],
    np.zeros((1, 1), "int32"),
    np.zeros(2, "int32"),
    np.ones(2, "int32"),
    scale=1.0,
    expect=[[[3.0]], [[4.0]]],
)


# -- paged_write -----------------------------------------------------------------------------------


@define
def paged_write(pages: Type, rows: Type, tables: Type, sequence: Type, positions: Type) -> Type:
    """Put the rows of tokens into the pages of their sequences, at their positions.

    `pages (pages, size, ...), rows (tokens, ...), tables i32(sequences, pages of each), sequence
    i32(tokens,), positions i32(tokens,) → (pages, size, ...)`. Position j of sequence s lies in
    page `tables[s, j // size]`, at its place `j % size`. Rows at negative positions, or of a
    sequence, position or page that does not exist, are left out; of several at one place the last
    one stays.
    """
    check_kind(pages, NUMBERS)
    if rows.dtype != pages.dtype:
        raise DtypeError(f"pages are {pages}, rows {rows}", fix="convert rows to that dtype")
    if pages.rank < 2 or not rows.rank or pages.shape[2:] != rows.shape[1:]:
        raise ShapeError(
            f"rows {rows} do not fit into pages {pages}",
            fix="give pages (pages, size, ...) and rows (tokens, ...) of the same axes",
        )
    if not isinstance(pages.shape[1], int) or not pages.shape[1]:
        raise ShapeError(f"the size of pages {pages} is no number", fix="give a size of 1 or more")
    _check_places(tables, sequence, positions, rows.shape[0])
    return pages


@paged_write.reference
def paged_write_reference(
    pages: np.ndarray,
    rows: np.ndarray,
    tables: np.ndarray,
    sequence: np.ndarray,
    positions: np.ndarray,
) -> np.ndarray:
    pages, (count, size) = pages.copy(), pages.shape[:2]
    for row, s, own in zip(rows, sequence, positions, strict=True):
        is_there = 0 <= s < len(tables) and 0 <= own < tables.shape[1] * size
        if is_there and 0 <= tables[s, own // size] < count:
            pages[tables[s, own // size], own % size] = row
    return pages


@paged_write.expand
def paged_write_expand(
    pages: Value, rows: Value, tables: Value, sequence: Value, positions: Value
) -> Value:
    tokens, size = rows.shape[0], pages.shape[1]
    if 0 in (tokens, pages.type.size, *tables.shape):
        return pages
    none = like(positions, -1)
    # integers are divided towards 0: a negative position is in no page
    number = select(ge(positions, like(positions, 0)), div(positions, size), none)
    place = sub(positions, mul(number, size))
    entry = concat(*(reshape(x, shape=(tokens, 1)) for x in (sequence, number)), axis=1)
    page = gather(
        tables,
        entry,
        offset_axes=(),
        collapsed_axes=(0, 1),
        start_axes=(0, 1),
        sizes=(1, 1),
        mode="fill",
        fill=-1,
    )
    at = concat(*(reshape(x, shape=(tokens, 1)) for x in (page, place)), axis=1)
    window = tuple(range(1, rows.rank))
    return scatter(
        *(pages, at, rows),
        window_axes=window,
        inserted_axes=(0, 1),
        scatter_axes=(0, 1),
        mode="drop",
    )


paged_write.samples((5, 3, 2), (5, 2), *_WHERE)
paged_write.samples((5, 3), (5,), *_WHERE)
paged_write.samples(
    [[1.0, 2.0], [3.0, 4.0]],
    [5.0, 6.0, 7.0, 8.0],
    np.array([[1, 0, 9]], "int32"),
    np.array([0, 0, 0, 1], "int32"),
    np.array([3, 0, 4, 0], "int32"),
    expect=[[1.0, 5.0], [6.0, 4.0]],
)
