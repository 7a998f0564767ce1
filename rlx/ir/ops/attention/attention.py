"""Attention over long sequences, a block of scores at a time, and its derivative.

The scores of all queries and keys are never in memory at once. Each block of queries meets the
blocks of keys one after another, with the greatest score so far, the sum of the powers and the
weighted sum of the values (M. Milakov and N. Gimelshein, "Online normalizer calculation for
softmax", 2018); the derivative computes the scores again (T. Dao et al., "FlashAttention", 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph import Value
from ...op import EXPANSION, is_linear
from ..arithmetic import add, div, mul, sub
from ..compare import gt, max, select
from ..constant import full, like
from ..contract import dot_general
from ..control import filled
from ..convert import narrowed, widened
from ..exponential import exp, log
from ..movement import broadcast, reshape, transpose
from ..reduce import reduce_max, reduce_sum, spread_back
from .blocks import (
    BATCH,
    KEYS,
    ROWS,
    Operands,
    Pair,
    Scores,
    Scoring,
    all_filled_up,
    cut_block,
    filled_up,
    first,
    over_pairs,
    products,
    put_block,
    scores_of,
)
from .family import CASES, SHAPES, along, family, operands_of, reference_scores, state_types, wide

# -- derivative: tangents and cotangents, from scores made again -----------------------------------


def _weights(scores: Value, top: Value, total: Value, is_turned: bool = False) -> Value:
    """The softmax of a block of scores."""
    axes = (2,) if is_turned else (4,)
    powers = exp(sub(scores, spread_back(top, scores, axes)))
    return div(powers, spread_back(total, scores, axes))


def _sums_filled_up(top: Value, total: Value, size: int) -> tuple[Value, Value]:
    """The greatest scores and the sums in whole blocks: all weights of added queries are 0.

    A bias that is the same for all queries may be large, and is added for these, too.
    """
    return filled_up(top, {ROWS: size}, np.inf), filled_up(total, {ROWS: size}, 1.0)


def _reference_weights(x: Operands, attrs: dict[str, Any]) -> tuple[np.ndarray, Scores]:
    """The weights, and the scores they are made of."""
    made = reference_scores(x, attrs)
    _, top, total, *_ = x.rest
    return np.exp(made.scores - top[..., None]) / total[..., None], made


def _bent(moved: Any, bend: Any, times: Callable[[Any, Any], Any]) -> Any:
    """A change of scaled products as one of scores, or the other way round."""
    return moved if bend is None else times(moved, bend)


attention_push = family(
    "attention_push",
    """The tangents of the results of `attention`.

    Operands: its own, the results of `attention_state`, tangents of q, k, v and of a bias, in which
    this is linear.
    """,
    lambda x: state_types(x)[:2],
    lambda x: [*state_types(x), *x.moving],
    n_sums=3,
)


@attention_push.reference
def attention_push_reference(*operands: np.ndarray, **attrs: Any) -> Any:
    x = operands_of(operands, attrs)
    weights, made = _reference_weights(x, attrs)
    q, k, v = map(widened, (x.q, x.k, x.v))
    out = x.rest[0]
    tq, tk, tv, *tbias = map(widened, x.rest[3:])
    t = np.einsum("bkgtd,bksd->bkgts", tq, k) + np.einsum("bkgtd,bksd->bkgts", q, tk)
    t = _bent(t * q.dtype.type(attrs["scale"]), made.bend, np.multiply)
    t = t + (tbias[0] if tbias else 0)
    moved = weights * np.where(made.seen, t, 0)
    total = np.sum(moved, axis=4)
    t_out = np.einsum("bkgts,bkse->bkgte", moved, v) - total[..., None] * out
    return t_out + np.einsum("bkgts,bkse->bkgte", weights, tv), total


@attention_push.expand
def attention_push_expand(*operands: Value, **attrs: Any) -> tuple[Value, Value]:
    given = operands_of(operands, attrs)
    out, top, total, *tangents = given.rest
    sights = given.sights(attrs["is_causal"], attrs["window"], attrs["blocks"])
    x, (t, s) = all_filled_up(given, sights), sights.blocks
    tq, tk, tv, tbias = [*tangents, None][:4]
    tx = all_filled_up(Operands(tq, tk, tv, tbias, None), sights)
    top, total = _sums_filled_up(top, total, t)

    def step(constants: Sequence[Any], carry: Sequence[Value], pair: Pair) -> Sequence[Value]:
        i, j = pair.i, pair.j
        inner, pushed, (top, total) = _wider(constants[:5]), constants[5:-2], constants[-2:]
        tq, tk, tv = map(widened, pushed[:3])
        own = ({ROWS: i}, {ROWS: t})
        keys = ({KEYS: j}, {KEYS: s})
        block = scores_of(inner, pair, Scoring.of(attrs), sights)
        weights = _weights(block.scores, cut_block(top, *own), cut_block(total, *own))
        moved = add(
            products(cut_block(tq, *own), cut_block(inner.k, *keys)),
            products(cut_block(inner.q, *own), cut_block(tk, *keys)),
        )
        moved = _bent(mul(moved, attrs["scale"]), block.bend, mul)
        if pushed[3] is not None:
            more = narrowed(cut_block(pushed[3], {3: i, 4: j}, {3: t, 4: s}), moved.dtype)
            moved = add(moved, broadcast(more, shape=moved.shape, axes=tuple(range(5))))
        moved = mul(weights, _where_seen(block, moved))
        values, t_values = cut_block(inner.v, *keys), cut_block(tv, *keys)
        more = add(
            dot_general(moved, values, contract=((4,), (2,)), batch=BATCH),
            dot_general(weights, t_values, contract=((4,), (2,)), batch=BATCH),
        )
        news = (more, reduce_sum(moved, axes=(4,)))
        return [
            put_block(y, add(cut_block(y, *own), new), {ROWS: i})
            for y, new in zip(carry, news, strict=True)
        ]

    rows, dtype = x.q.shape[:4], wide(x.q.dtype)
    carry = [full(shape=shape, value=0.0, dtype=dtype) for shape in ((*rows, x.v.shape[3]), rows)]
    constants = [x.q, x.k, x.v, x.bias, x.mask, tx.q, tx.k, tx.v, tx.bias, top, total]
    made = over_pairs(sights, constants, carry, step)
    t_out, t_total = (first(y, {ROWS: sights.length}) for y in made)
    return sub(t_out, mul(along(t_total, out), out)), t_total


def _where_seen(block: Scores, moved: Value) -> Value:
    """Changes of scores, of which those that do not count are 0."""
    return moved if block.seen is None else select(block.seen, moved, like(moved, 0))


def _wider(operands: Sequence[Any]) -> Operands:
    """The operands in float32 or wider."""
    q, k, v, bias, mask = operands
    bias = None if bias is None else widened(bias)
    return Operands(widened(q), widened(k), widened(v), bias, mask)


attention_push.jvp(EXPANSION)  # it is linear in the tangents alone


@attention_push.transpose
def attention_push_transpose(ct: Sequence[Any], *operands: Any, **attrs: Any) -> Any:
    count = 3 + attrs["has_bias"]
    known = operands[:-count]
    if any(map(is_linear, known)):
        return None
    out, rows, _ = state_types(operands_of(operands, attrs))
    cts = filled(ct, (out, rows))
    pulled = attention_pull(*known, *cts, **attrs)
    wanted = [y if is_linear(x) else None for x, y in zip(operands[-count:], pulled, strict=True)]
    return [None] * len(known) + wanted


attention_pull = family(
    "attention_pull",
    """The cotangents of the operands of `attention`: of q, k, v and of a bias.

    Operands: its own, the results of `attention_state`, the cotangents of the results of
    `attention`, in which this is linear.
    """,
    lambda x: x.moving,
    lambda x: [*state_types(x), *state_types(x)[:2]],
    n_sums=5,
)


@attention_pull.reference
def attention_pull_reference(*operands: np.ndarray, **attrs: Any) -> Any:
    x = operands_of(operands, attrs)
    weights, made = _reference_weights(x, attrs)
    q, k, v = map(widened, (x.q, x.k, x.v))
    out, _, _, ct, ct_total = x.rest
    moved = np.einsum("bkgte,bkse->bkgts", ct, v)
    moved = weights * (moved - (np.sum(ct * out, axis=4) - ct_total)[..., None])
    moved = np.where(made.seen, moved, 0)
    scale, inner = q.dtype.type(attrs["scale"]), _bent(moved, made.bend, np.multiply)
    ct_q = np.einsum("bkgts,bksd->bkgtd", inner, k) * scale
    ct_k = np.einsum("bkgts,bkgtd->bksd", inner, q) * scale
    ct_v = np.einsum("bkgts,bkgte->bkse", weights, ct)
    if x.bias is None:
        return ct_q, ct_k, ct_v
    axes = tuple(i for i in range(5) if x.bias.shape[i] == 1)
    return ct_q, ct_k, ct_v, np.sum(moved, axis=axes, keepdims=True)


@attention_pull.expand
def attention_pull_expand(*operands: Value, **attrs: Any) -> list[Value]:
    given = operands_of(operands, attrs)
    out, top, total, ct, ct_total = given.rest
    sights = given.sights(attrs["is_causal"], attrs["window"], attrs["blocks"])
    x, (t, s) = all_filled_up(given, sights), sights.blocks
    less = sub(reduce_sum(mul(ct, out), axes=(4,)), ct_total)
    less, ct = (filled_up(y, {ROWS: t}) for y in (less, ct))
    rows = [*_sums_filled_up(top, total, t), less, ct]

    def step(constants: Sequence[Any], carry: Sequence[Value], pair: Pair) -> Sequence[Value]:
        i, j = pair.i, pair.j
        inner = _wider(constants[:5])
        own, keys = {ROWS: i}, {KEYS: j}
        top, total, less, ct = (cut_block(y, own, {ROWS: t}) for y in constants[5:])
        q = cut_block(inner.q, own, {ROWS: t})
        k, v = (cut_block(y, keys, {KEYS: s}) for y in (inner.k, inner.v))
        block = scores_of(inner, pair, Scoring.of(attrs), sights, is_turned=True)
        weights = _weights(block.scores, top, total, is_turned=True)
        moved = products(ct, v, is_turned=True)
        moved = mul(weights, sub(moved, spread_back(less, moved, (2,))))
        moved = _where_seen(block, moved)
        bent = _bent(moved, block.bend, mul)
        more = [
            dot_general(bent, k, contract=((2,), (2,)), batch=BATCH),
            dot_general(bent, q, contract=((3, 4), (2, 3)), batch=BATCH),
            dot_general(weights, ct, contract=((3, 4), (2, 3)), batch=BATCH),
        ]
        places = [own, keys, keys]
        if inner.bias is not None:
            more.append(_summed(moved, inner.bias.shape))
            places.append({3: i, 4: j})
        return [
            put_block(y, add(_like_block(y, new, place), new), place)
            for y, new, place in zip(carry, more, places, strict=True)
        ]

    dtype = wide(x.q.dtype)
    carry = [full(shape=y.shape, value=0.0, dtype=dtype) for y in x.moving]
    constants = [x.q, x.k, x.v, x.bias, x.mask, *rows]
    made = over_pairs(sights, constants, carry, step)
    counts = [{ROWS: sights.length}, {KEYS: sights.count}, {KEYS: sights.count}]
    counts.append({3: sights.length, 4: sights.count})
    made = [first(y, c) for y, c in zip(made, counts, strict=False)]
    made[:2] = [mul(y, attrs["scale"]) for y in made[:2]]
    return [narrowed(y, z.dtype) for y, z in zip(made, given.moving, strict=True)]


def _like_block(x: Value, block: Value, starts: dict[int, Value]) -> Value:
    """What is where a block will be put."""
    return cut_block(x, starts, dict(enumerate(block.shape)))


def _summed(turned_block: Value, bias: tuple[int, ...]) -> Value:
    """A block (b, k, s, g, t), summed along the axes of (b, k, g, t, s) where a bias has size 1."""
    places = {0: 0, 1: 1, 2: 3, 3: 4, 4: 2}
    x = transpose(turned_block, axes=tuple(places.values()))
    axes = tuple(i for i in range(5) if bias[i] == 1)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return reshape(reduce_sum(x, axes=axes), shape=shape) if axes else x


ROW = (2, 1, 2, 5)
GIVEN = (*SHAPES, (*ROW, 4), ROW, np.full(ROW, 7.0).tolist())
SETTINGS = {"scale": 0.5, "blocks": (2, 3), "window": (1, 1), "low": -1.0, "high": 1.0}
attention_push.samples(*GIVEN, *SHAPES, **SETTINGS)
attention_pull.samples(*GIVEN, (*ROW, 4), ROW, **SETTINGS)


# -- attention_state ------------------------------------------------------------------------------


attention_state = family(
    "attention_state",
    """Attention, and what its derivative needs: the greatest scores and the sums of powers.

    The operands and the first result are those of `attention`; the others are (b, k, g, T). The
    greatest is 0 where all scores are -inf.
    """,
    state_types,
)


@attention_state.reference
def attention_state_reference(*operands: np.ndarray, **attrs: Any) -> Any:
    x = operands_of(operands, attrs)
    scores = reference_scores(x, attrs).scores
    top = np.max(scores, axis=4, initial=-np.inf)
    top = np.where(np.isneginf(top), top.dtype.type(0), top)
    powers = np.exp(scores - top[..., None])
    total = np.sum(powers, axis=4)
    out = np.einsum("bkgts,bkse->bkgte", powers, widened(x.v)) / total[..., None]
    return out, top, total


def _finite(top: Value) -> Value:
    """The greatest score, 0 where there is none yet but -inf."""
    return select(gt(top, like(top, -np.inf)), top, like(top, 0))


@attention_state.expand
def attention_state_expand(*operands: Value, **attrs: Any) -> tuple[Value, ...]:
    given = operands_of(operands, attrs)
    sights = given.sights(attrs["is_causal"], attrs["window"], attrs["blocks"])
    x, (t, s) = all_filled_up(given, sights), sights.blocks

    def step(constants: Sequence[Any], carry: Sequence[Value], pair: Pair) -> Sequence[Value]:
        i, j = pair.i, pair.j
        inner = Operands(*constants)
        top, total, out = (cut_block(y, {ROWS: i}, {ROWS: t}) for y in carry)
        scores = scores_of(inner, pair, Scoring.of(attrs), sights).scores
        new = max(top, reduce_max(scores, axes=(4,)))
        powers = exp(sub(scores, along(_finite(new), scores)))
        fade = exp(sub(top, _finite(new)))
        values = widened(cut_block(inner.v, {KEYS: j}, {KEYS: s}))
        more = dot_general(powers, values, contract=((4,), (2,)), batch=BATCH)
        total = add(mul(total, fade), reduce_sum(powers, axes=(4,)))
        out = add(mul(out, along(fade, out)), more)
        news = (new, total, out)
        return [put_block(y, n, {ROWS: i}) for y, n in zip(carry, news, strict=True)]

    rows, dtype = x.q.shape[:4], wide(x.q.dtype)
    carry = [full(shape=rows, value=n, dtype=dtype) for n in (-np.inf, 0.0)]
    carry.append(full(shape=(*rows, x.v.shape[3]), value=0.0, dtype=dtype))
    made = over_pairs(sights, [x.q, x.k, x.v, x.bias, x.mask], carry, step)
    top, total, out = (first(y, {ROWS: sights.length}) for y in made)
    return div(out, along(total, out)), _finite(top), total


for more, settings in CASES[2:3]:
    attention_state.samples(*SHAPES, *more, scale=0.5, blocks=(2, 3), **settings)


# -- attention ------------------------------------------------------------------------------------


attention = family(
    "attention",
    """The mean of values for each query, weighted by the softmax of its products with the keys.

    `q (b, k, g, T, d), k (b, k, S, d), v (b, k, S, e) → (b, k, g, T, e), (b, k, g, T)`; the other
    result is the logarithm of the sum of the exponentials. The products are multiplied by `scale`
    and bounded by `soft_cap` (x becomes cap * tanh(x / cap)). A bias is added, and the distance of
    query and key times the slope that `alibi` has for the head (k, g) subtracted; then those that a
    mask hides count as the least number (both (b, k, g, T, S), or 1 along axes), and so do the keys
    after the query (`is_causal`), and those more than so many places before or after it (`window`).
    Half-size floats give float32.
    """,
    lambda x: state_types(x)[:2],
)


@attention.reference
def attention_reference(*operands: np.ndarray, **attrs: Any) -> Any:
    out, top, total = attention_state_reference(*operands, **attrs)
    return out, top + np.log(total)


@attention.expand
def attention_expand(*operands: Value, **attrs: Any) -> tuple[Value, Value]:
    out, top, total = attention_state(*operands, **attrs)
    return out, add(top, log(total))


@attention.jvp
def attention_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], **attrs: Any
) -> tuple[tuple[Value, Value], Sequence[Value]]:
    out, top, total = attention_state(*primals, **attrs)
    count = 3 + attrs["has_bias"]
    moving = filled(tangents[:count], primals[:count])
    pushed = attention_push(*primals, out, top, total, *moving, **attrs)
    return (out, add(top, log(total))), pushed


for more, settings in CASES:
    attention.samples(*SHAPES, *more, scale=0.5, blocks=(2, 3), **settings)
