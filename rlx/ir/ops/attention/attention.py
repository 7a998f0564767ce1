"""Attention over long sequences, a block of scores at a time, and its derivative.

The scores of all queries and keys are never in memory at once. Each block of queries meets the
blocks of keys one after another, with the greatest score so far, the sum of the powers and the
weighted sum of the values (M. Milakov and N. Gimelshein, "Online normalizer calculation for
softmax", 2018); the derivative computes the scores again (T. Dao et al., "FlashAttention", 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph import Value
from ..arithmetic import add, div, mul, sub
from ..compare import gt, max, select
from ..constant import full, like
from ..contract import dot_general
from ..control import filled
from ..convert import widened
from ..exponential import exp, log
from ..reduce import reduce_max, reduce_sum
from .blocks import (
    BATCH,
    KEYS,
    ROWS,
    Operands,
    Pair,
    all_filled_up,
    cut_block,
    first,
    over_pairs,
    put_block,
    scores_of,
)
from .derivative import attention_push
from .family import CASES, SHAPES, along, family, operands_of, reference_scores, state_types, wide

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
    scores, _ = reference_scores(x, attrs)
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
        scores, _ = scores_of(inner, pair, attrs["scale"], sights)
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
    result is the logarithm of the sum of the exponentials. The products are multiplied by `scale`;
    a bias is added, then those that a mask hides count as the least number (both
    (b, k, g, T, S), or 1 along axes), and so do the keys after the query (`is_causal`), and those
    more than so many places before or after it (`window`). Half-size floats give float32.
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
