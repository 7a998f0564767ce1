"""What the ops of attention share: their operands, and examples in batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from ...graph import Value
from ...op import Op
from ...rules import batch_size, spread
from ...types import Type
from ..convert import WIDE, is_half, widened
from ..families import check_kind
from ..movement import broadcast, reshape
from ..reduce import reduce_sum, spread_back
from .blocks import HIDDEN, KEYS, Operands, Scores, Scoring, Window

# Queries and keys. Of float32 half a megabyte, so that two blocks fit into a core's cache.
BLOCKS = (256, 512)


def operands_of(args: Sequence[Any], attrs: dict[str, Any]) -> Operands:
    """The operands of a node by their names."""
    return Operands.of(args, attrs["has_bias"], attrs["has_mask"])


def reference_scores(x: Operands, attrs: dict[str, Any]) -> Scores:
    """The scores, where they count, and their derivative by the scaled products."""
    q, k = widened(x.q), widened(x.k)
    scoring, bend = Scoring.of(attrs), None
    scores = np.einsum("bkgtd,bksd->bkgts", q, k) * q.dtype.type(scoring.scale)
    if scoring.soft_cap is not None:
        part = np.tanh(scores / q.dtype.type(scoring.soft_cap))
        scores, bend = part * q.dtype.type(scoring.soft_cap), 1 - part * part
    if x.bias is not None:
        scores = scores + widened(x.bias)
    sights = x.sights(attrs["is_causal"], attrs["window"])
    own, other = np.ogrid[: sights.length, : sights.count]
    if scoring.alibi:
        scores = scores - scoring.slopes(x.q.shape[1:3], q.dtype) * abs(own - other)
    seen = np.ones((1, 1, 1, sights.length, sights.count), bool) if x.mask is None else x.mask
    for condition in sights.seen(own, other, np.less_equal):
        seen = seen & condition
    scores = np.where(seen, scores, q.dtype.type(HIDDEN))
    return Scores(scores, np.broadcast_to(seen, scores.shape), bend)


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums are made."""
    return WIDE if is_half(dtype) else dtype


def family(
    name: str,
    doc: str,
    results: Callable[[Operands], Sequence[Type]],
    rest: Callable[[Operands], Sequence[Type]] | None = None,
    n_sums: int = 0,
) -> Op:
    """An op on q, k, v, perhaps a bias and a mask, and the `rest`.

    The first `n_sums` of the rest are sums, which policies of precision leave alone.
    """

    def type_rule(
        *operands: Type,
        scale: float,
        is_causal: bool = False,
        window: Window = None,
        soft_cap: float | None = None,
        alibi: tuple[float, ...] = (),
        has_bias: bool = False,
        has_mask: bool = False,
        blocks: tuple[int, int] = BLOCKS,
    ) -> Any:
        if window is not None and len(window) != 2:
            raise AttributeValueError(f"`window` is {window}", fix="give two numbers, or None")
        if len(blocks) != 2 or min(blocks) < 1:
            raise AttributeValueError(f"`blocks` is {blocks}", fix="give two numbers, 1 or greater")
        _check_count(operands, 3 + has_bias + has_mask)
        x = Operands.of(operands, has_bias, has_mask)
        _check(x)
        if soft_cap is not None and not soft_cap > 0:
            raise AttributeValueError(f"`soft_cap` is {soft_cap}", fix="give a number above 0")
        if alibi and len(alibi) != math.prod(x.q.shape[1:3]):
            raise AttributeValueError(
                f"there are {len(alibi)} slopes for the heads of q {x.q}",
                fix="give one for each head",
            )
        wanted = rest(x) if rest else ()
        if len(x.rest) != len(wanted):
            raise ArgumentError(
                f"there are {len(x.rest)} operands after the first ones, not {len(wanted)}",
                fix=f"give arrays of the types {', '.join(map(str, wanted))}",
            )
        for given, type in zip(x.rest, wanted, strict=True):
            if given != type:
                raise ShapeError(f"an operand is {given}, not {type}", fix=f"make it {type}")
        return tuple(results(x))

    op = Op(name, type_rule, doc)
    op.batch(_batch_rule(op, is_derivative=rest is not None))

    def kept(*, has_bias: bool, has_mask: bool, **attrs: Any) -> range:
        first = 3 + has_bias + has_mask
        return range(first, first + n_sums)

    op.work("contractions", kept)
    return op


def _check_count(operands: Sequence[Type], count: int) -> None:
    if len(operands) < count:
        raise ArgumentError(
            f"takes {count} operands, not {len(operands)}",
            fix="give q, k, v, then the bias and the mask that `has_bias` and `has_mask` promise",
        )


def _check(x: Operands) -> None:
    for each in (x.q, x.k, x.v):
        check_kind(each, ["float"])
        if each.dtype != x.q.dtype:
            raise DtypeError(f"q is {x.q}, another operand {each}", fix="give all one dtype")
    is_fit = (x.q.rank, x.k.rank, x.v.rank) == (5, 4, 4) and x.k.shape[:3] == x.v.shape[:3]
    if not is_fit or x.q.shape[:2] != x.k.shape[:2] or x.q.shape[4] != x.k.shape[3]:
        raise ShapeError(
            f"q {x.q}, k {x.k} and v {x.v} do not fit",
            fix="give q (b, k, g, T, d), k (b, k, S, d) and v (b, k, S, e)",
        )
    whole = (*x.q.shape[:4], x.k.shape[KEYS])
    for name, each in (("bias", x.bias), ("mask", x.mask)):
        if each is None:
            continue
        if each.rank != 5 or not all(n in (1, m) for n, m in zip(each.shape, whole, strict=True)):
            raise ShapeError(f"the {name} is {each}", fix=f"make it of a shape like {whole}")
        check_kind(each, ["float"] if name == "bias" else ["bool"])


def state_types(x: Operands) -> tuple[Type, Type, Type]:
    """The types of `attention_state`'s results."""
    rows = Type(wide(x.q.dtype), x.q.shape[:4])
    return rows.with_shape((*rows.shape, x.v.shape[3])), rows, rows


def along(rows: Value, like_this: Value) -> Value:
    """A number for each row, repeated along it."""
    return spread_back(rows, like_this, (like_this.rank - 1,))


def _batch_rule(op: Op, is_derivative: bool) -> Callable[..., list[Value]]:
    """The batch rule: examples become members of axis 0, which a bias or mask may lack."""

    def rule(args: Sequence[Value], batched: Sequence[bool], **attrs: Any) -> list[Value]:
        size = batch_size(args, batched)
        members = args[0].shape[1 if batched[0] else 0]
        has_bias = attrs["has_bias"]  # whose tangents and cotangents have its own shape
        may_lack = range(3 + (has_bias and is_derivative), 3 + has_bias + attrs["has_mask"])
        given, types = [], []
        for number, (a, is_there) in enumerate(zip(args, batched, strict=True)):
            types.append(Type(a.dtype, a.shape[1:] if is_there else a.shape))
            inner = types[-1].shape
            if not is_there and number in may_lack and inner[0] == 1:
                given.append(a)
                continue
            a = a if is_there else spread(a, size)
            whole = (size, members, *inner[1:])
            a = broadcast(a, shape=whole, axes=tuple(range(a.rank)))
            given.append(reshape(a, shape=(size * members, *inner[1:])))
        results = op.apply(given, attrs)
        made = [reshape(r, shape=(size, members, *r.shape[1:])) for r in results]
        wanted = [(size, *t.shape) for t in op.infer(types, attrs)]
        return [
            r if r.shape == shape else reshape(reduce_sum(r, axes=(1,)), shape=shape)
            for r, shape in zip(made, wanted, strict=True)
        ]

    return rule


SHAPES = ((2, 1, 2, 5, 3), (2, 1, 7, 3), (2, 1, 7, 4))
BIAS, MASK = (1, 1, 2, 5, 7), np.arange(14).reshape(2, 1, 1, 1, 7) % 3 > 0
CASES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"is_causal": True}),
    ((), {"window": (1, 1)}),  # the last queries see a key, or none
    ((BIAS, MASK), {"has_bias": True, "has_mask": True, "is_causal": True}),
    (((2, 1, 1, 1, 7),), {"has_bias": True, "window": (3, 0)}),
    ((BIAS,), {"has_bias": True, "soft_cap": 0.5, "alibi": (0.5, 0.25), "is_causal": True}),
]
