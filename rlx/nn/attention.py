"""Scaled dot-product attention."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.ops.attention.blocks import HIDDEN
from ..ir.record import record, replace
from ..ir.types import is_float, promote
from ..scipy.special import logsumexp
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice, flag, pair, wrong
from ..trace.array import Array
from ..trace.array_arguments import scalar
from ..trace.axes import integer
from ..transforms.eager import eager
from .conditions import FAR, Near, Slopes, places
from .masks import Mask

IMPLEMENTATIONS = (None, "xla", "cudnn")
LONG = 1 << 22  # products of a head's queries and keys: so many are never all in memory
LARGE = 1 << 20  # products of queries and keys from which on they are computed in spans
# Queries at least, and blocks at most. Of smaller blocks the scores of a head stay in cache, and
# under a causal mask less is computed in vain; each block takes time to compile.
BLOCK, MOST_BLOCKS = 64, 16
Window = int | tuple[int, int] | None


@record
class Terms:
    """How products of queries and keys become scores, and which of them count."""

    scale: Any = None  # 1 / sqrt(size) if None
    cap: float | None = None
    bias: Any = None  # (batch, groups, heads of a group, T, S), or 1 along some axes, as all here
    slopes: tuple[Slopes, ...] = ()
    seen: tuple[Any, ...] = ()
    is_causal: bool = False
    window: tuple[int, int] | None = None


def softmax(scores: Any) -> Any:
    """The weights of the values: powers of scores, over their sum."""
    return apply("softmax", scores, axes=(4,))


@eager
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Window = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Scaled dot-product attention: means of values, weighted by a softmax of scores.

    `query` has shape (batch, T, heads, size), `key` and `value` (batch, S, heads, size), with as
    many heads or a divisor of them, each for a group of queries; the batch may be missing. Returns
    the shape and dtype of `query`. Its products with the keys are multiplied by `scale`, 1 /
    sqrt(size) if not given; `bias` is added to them, and those where the bool `mask` is false, both
    of shape (batch, heads, T, S), do not count. A mask of `nn.masks` says the same by rules: causal
    masks, windows, segments, soft caps, linear biases, and what they are joined to. `is_causal`
    lets a query see the keys up to its own place alone, `local_window_size` so many before and
    after it. `query_seq_lengths` and `key_value_seq_lengths`, i32[batch], say how many queries and
    keys of each member are there. A query that sees no key gets the mean of all values, one that is
    not there zeros. With `return_residual` the logarithm of the sum of the weights comes along.
    Half-size numbers are computed in float32. The `implementation` is the same always. From 2048
    queries and as many keys on the products are never all in memory, those of the gradient neither:
    blocks of them are made one after another (`rlx/ir/ops/attention/attention.py`). Raises a
    `ShapeError` for shapes that do not fit, a `DtypeError` for such dtypes.

    >>> import numpy as np
    >>> from rlx.nn import masks
    >>> x = np.eye(2, dtype="float32")[:, None]
    >>> dot_product_attention(x, x, x, is_causal=True)[0, 0].tolist()
    [1.0, 0.0]
    >>> dot_product_attention(x, x, x, mask=masks.causal() & masks.alibi(1))[0, 0].tolist()
    [1.0, 0.0]
    """
    choice("dot_product_attention: implementation", implementation, IMPLEMENTATIONS)
    flag("dot_product_attention: is_causal", is_causal)
    shape = as_tensor(query).shape
    q, k, v = (_with_batch(n, x) for n, x in (("query", query), ("key", key), ("value", value)))
    _check(q, k, v)
    sizes = {"query": (q.shape[0], q.shape[1], 1), "key_value": (q.shape[0], k.shape[1], 4)}
    there = _lengths_seen("query", query_seq_lengths, *sizes["query"])
    seen = _lengths_seen("key_value", key_value_seq_lengths, *sizes["key_value"])
    window = None if local_window_size is None else _sides(local_window_size)
    added = None if bias is None else _grouped("bias", bias, q, k)
    terms = Terms(scale, None, added, (), tuple(seen), is_causal, window)
    made, total = attend(q, k, v, terms_with(terms, mask, q, k))
    if there:
        made = rnp.where(there[0][..., 0], made, 0.0)
        total = rnp.where(there[0][..., 0, 0], total, HIDDEN)
    made = rnp.reshape(rnp.astype(made, k.dtype), shape)
    if not return_residual:
        return made
    return made, apply("stop_gradient", rnp.reshape(rnp.astype(total, k.dtype), shape[:-1]))


def terms_with(terms: Terms, mask: Any, q: Any, k: Any) -> Terms:
    """The terms, and those of a mask: an array, a `Mask` or None."""
    if mask is None:
        return terms
    if not isinstance(mask, Mask):
        seen = _grouped("mask", _bools(mask, q, k), q, k)
        return replace(terms, seen=(*terms.seen, seen))
    nears = [c for c in mask.conditions if isinstance(c, Near) and c.offset is None]
    sides = [(c.before, c.after) for c in nears]
    sides += [] if terms.window is None else [terms.window]
    before, after = (min(ns, default=FAR) for ns in ([b for b, _ in sides], [a for _, a in sides]))
    window = (before, after)
    is_causal = terms.is_causal or window == (FAR, 0)
    own, other = places(q.shape[1], k.shape[1])
    rest = [c for c in mask.conditions if not isinstance(c, Near) or c.offset is not None]
    seen = [_grouped("mask", c.at(own, other), q, k) for c in rest]
    biases = [] if terms.bias is None else [terms.bias]
    biases += [_grouped("bias", x, q, k) for x in mask.biases]
    for slopes in mask.slopes:
        _check_slopes(slopes, q)
    return replace(
        terms,
        cap=mask.cap,
        bias=functools.reduce(rnp.add, biases) if biases else None,
        slopes=mask.slopes,
        seen=(*terms.seen, *seen),
        is_causal=is_causal,
        window=None if window in ((FAR, FAR), (FAR, 0)) else window,
    )


def attend(
    q: Any, k: Any, v: Any, terms: Terms, weigh: Callable[[Any], Any] | None = None
) -> tuple[Any, Any]:
    """The means of values, and the logarithms of sums of weights, in float32 or wider.

    Other weights than the softmax of scores are made by `weigh`, of scores (batch, groups, heads of
    a group, T, S).
    """
    if weigh is None and _is_long(q, k):
        return _in_blocks(q, k, v, terms)
    return _in_spans(q, k, v, terms, weigh or softmax)


def _is_long(q: Any, k: Any) -> bool:
    sizes = (q.shape[1], k.shape[1])
    return all(isinstance(n, int) for n in (*q.shape, *k.shape)) and math.prod(sizes) >= LONG


def _in_blocks(q: Any, k: Any, v: Any, terms: Terms) -> tuple[Any, Any]:
    """`attend`, with never more than a block of the products in memory."""
    batch, length, heads, size = q.shape
    groups, scale = k.shape[2], terms.scale
    factor, wide = scale, promote(q.dtype, np.dtype("float32"))
    if scale is None:
        factor = 1.0 / math.sqrt(size)
    elif not isinstance(scale, int | float):
        q, k, v = (rnp.astype(x, wide) for x in (q, k, v))
        q, factor = rnp.astype(q * scale, wide), 1.0
    alibi: tuple[float, ...] = ()
    if len(terms.slopes) == 1 and terms.slopes[0].is_fixed:
        alibi, terms = terms.slopes[0].known, replace(terms, slopes=())
    bias = _bias(terms, q, k, wide)
    if bias is not None and not is_float(bias.dtype):
        bias = rnp.astype(bias, wide)
    q = rnp.reshape(q, (batch, length, groups, heads // groups, size))
    mask = functools.reduce(rnp.logical_and, terms.seen) if terms.seen else None
    made, total = apply(
        "attention",
        *(rnp.transpose(q, (0, 2, 3, 1, 4)), rnp.moveaxis(k, 2, 1), rnp.moveaxis(v, 2, 1)),
        *(x for x in (bias, mask) if x is not None),
        scale=float(factor),
        is_causal=terms.is_causal,
        window=terms.window,
        soft_cap=terms.cap,
        alibi=alibi,
        has_bias=bias is not None,
        has_mask=mask is not None,
    )
    made = rnp.reshape(rnp.transpose(made, (0, 3, 1, 2, 4)), (batch, length, heads, size))
    return made, rnp.reshape(rnp.moveaxis(total, 3, 1), (batch, length, heads))


def _bias(terms: Terms, q: Any, k: Any, wide: Any) -> Any:
    """What is added to the scores; None if nothing is."""
    if not terms.slopes:
        return terms.bias
    own, other = places(q.shape[1], k.shape[1])
    biases = [] if terms.bias is None else [terms.bias]
    biases += [_grouped("bias", s.at(own, other, wide), q, k) for s in terms.slopes]
    return functools.reduce(rnp.add, biases) if biases else None


def _in_spans(
    q: Any, k: Any, v: Any, terms: Terms, weigh: Callable[[Any], Any]
) -> tuple[Array, Array]:
    """`attend`, some queries with the keys they may see at a time."""
    is_cut = not terms.seen  # every query sees a key
    spans = _spans(q, k, terms.is_causal and is_cut, terms.window if is_cut else None)
    placed = _places_seen(q.shape[1], k.shape[1], terms.is_causal, terms.window)
    bias = _bias(terms, q, k, promote(q.dtype, np.dtype("float32")))
    terms = replace(terms, bias=bias, slopes=(), seen=(*terms.seen, *placed))
    parts = [_part(q, k, v, terms, weigh, span) for span in spans]
    made, total = (
        xs[0] if len(xs) == 1 else rnp.concatenate(xs, 1) for xs in zip(*parts, strict=True)
    )
    return made, total


def _spans(
    q: Any, k: Any, is_causal: bool, window: tuple[int, int] | None
) -> list[tuple[int, int, int, int]]:
    """First and last queries, then the keys they may see, of each span to compute.

    The products of a long sequence do not fit into the caches at once; and most that a causal mask
    or a window would hide need not be computed.
    """
    (batch, length, heads, _), count = q.shape, k.shape[1]
    sizes = (batch, length, heads, count)
    if not all(isinstance(n, int) for n in sizes) or math.prod(sizes) < LARGE:
        return [(0, length, 0, count)]
    before, after = (length + count,) * 2 if window is None else window
    after = min(after, 0) if is_causal else after
    blocks = min(MOST_BLOCKS, max(1, length // BLOCK))
    spans = []
    for i in range(blocks):
        first, last = length * i // blocks, length * (i + 1) // blocks
        low, high = max(0, first - before), min(count, last + after)
        is_blind = last - 1 - before >= count or first + after < 0 or before + after < 0
        if is_blind:  # a query that sees no key gets the mean of all values
            low, high = 0, count
        spans.append((first, last, low, high))
    return spans


def _part(
    q: Any,
    k: Any,
    v: Any,
    terms: Terms,
    weigh: Callable[[Any], Any],
    span: tuple[int, int, int, int],
) -> tuple[Array, Array]:
    """`_weighted` for some queries and keys."""
    first, last, low, high = span
    if (first, last, low, high) == (0, q.shape[1], 0, k.shape[1]):
        return _weighted(q, k, v, terms, weigh)

    def cut(x: Any) -> Any:
        rows = slice(None) if x.shape[-2] == 1 else slice(first, last)
        return x[..., rows, slice(None) if x.shape[-1] == 1 else slice(low, high)]

    bias = None if terms.bias is None else cut(terms.bias)
    terms = replace(terms, bias=bias, seen=tuple(cut(each) for each in terms.seen))
    return _weighted(q[:, first:last], k[:, low:high], v[:, low:high], terms, weigh)


def _weighted(
    q: Any, k: Any, v: Any, terms: Terms, weigh: Callable[[Any], Any]
) -> tuple[Array, Array]:
    """`attend` with all products at once."""
    batch, length, heads, size = q.shape
    groups, wide = k.shape[2], promote(q.dtype, np.dtype("float32"))
    grouped = rnp.reshape(q, (batch, length, groups, heads // groups, size))
    grouped = rnp.transpose(grouped, (0, 2, 3, 1, 4))  # the scores of a head lie together
    scores = rnp.einsum("bkgth,bskh->bkgts", grouped, k, preferred_element_type=wide)
    scale = 1.0 / math.sqrt(size) if terms.scale is None else scalar("scale", terms.scale)
    scores = scores * scale
    if terms.cap is not None:
        scores = terms.cap * rnp.tanh(scores / terms.cap)
    if terms.bias is not None:
        scores = rnp.astype(scores + terms.bias, wide)
    for each in terms.seen:
        scores = rnp.where(each, scores, HIDDEN)
    made = rnp.einsum("bkgts,bskh->btkgh", weigh(scores), rnp.astype(v, wide))
    total = rnp.moveaxis(logsumexp(scores, axis=-1), -1, 1)
    return rnp.reshape(made, q.shape), rnp.reshape(total, q.shape[:-1])


# -- what is given ---------------------------------------------------------------------------------


def _with_batch(name: str, x: Any) -> Array:
    x = as_tensor(x)
    if x.ndim not in (3, 4):
        raise ShapeError(
            f"dot_product_attention: {name} is {x.type}",
            fix="give the axes (batch, length, heads, size), or the last three",
        )
    return rnp.reshape(x, (1, *x.shape)) if x.ndim == 3 else x


def _check(q: Any, k: Any, v: Any) -> None:
    """Raise an error for operands that do not fit, which says what of them."""
    notes = [f"query: {q.type}", f"key: {k.type}", f"value: {v.type}"]
    if not is_float(q.dtype) or not (q.dtype == k.dtype == v.dtype):
        raise DtypeError(
            "dot_product_attention: query, key and value are not of one floating dtype",
            notes=notes,
            fix=f"convert them, with .astype({(q if is_float(q.dtype) else k).dtype.name!r}) say",
        )
    (batch, _, heads, size), groups = q.shape, k.shape[2]
    wrong = None
    if k.shape != v.shape:
        wrong = "key and value have different shapes", "give as many keys as values, of one size"
    elif batch != k.shape[0]:
        wrong = (
            f"query has a batch of {batch}, key one of {k.shape[0]}",
            "give one batch, as axis 0 of all three",
        )
    elif size != k.shape[3]:
        wrong = (
            f"the heads of query have {size} features, those of key {k.shape[3]}",
            "make the last axis of all three the same",
        )
    elif heads % groups if groups != 0 else heads != 0:
        wrong = (
            f"the {heads} heads of query cannot share the {groups} of key equally",
            f"give key and value {heads} heads, or a divisor of it",
        )
    if wrong:
        raise ShapeError(f"dot_product_attention: {wrong[0]}", notes=notes, fix=wrong[1])


def _check_slopes(slopes: Slopes, q: Any) -> None:
    count = len(slopes.known) if slopes.is_known else as_tensor(slopes.slopes).shape[0]
    if count != q.shape[2]:
        raise ShapeError(
            f"masks.alibi: there are {q.shape[2]} heads, and slopes for {count}",
            fix=f"use masks.alibi({q.shape[2]}), or give a slope for each head",
        )


def _bools(mask: Any, q: Any, k: Any) -> Any:
    if isinstance(mask, str):
        fix = "make one with nn.masks: masks.causal() & masks.window(3), say"
        raise wrong("dot_product_attention: mask", mask, "a mask", fix)
    mask = as_tensor(mask)
    if mask.dtype.kind != "b":
        raise _no_fit("mask", mask, q, k)
    return mask


def _grouped(name: str, x: Any, q: Any, k: Any) -> Array:
    """A bias or mask with the axis of heads in two: groups, and the heads of each."""
    x, groups, heads = as_tensor(x), k.shape[2], q.shape[2]
    x = rnp.reshape(x, (1,) * (4 - x.ndim) + tuple(x.shape)) if x.ndim < 4 else x
    whole = (q.shape[0], heads, q.shape[1], k.shape[1])
    fits = x.ndim == 4 and all(n in (1, m) for n, m in zip(x.shape, whole, strict=True))
    if not fits or (name == "bias" and x.dtype.kind in "bc"):
        raise _no_fit(name, x, q, k)
    split = (1, 1) if x.shape[1] == 1 else (groups, heads // groups)
    return rnp.reshape(x, (x.shape[0], *split, *x.shape[2:]))


def _no_fit(name: str, x: Any, q: Any, k: Any) -> ShapeError:
    whole = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    return ShapeError(
        f"dot_product_attention: the {name} is {x.type}",
        fix=f"give {'bools' if name == 'mask' else 'numbers'} of a shape that broadcasts to "
        f"{whole}",
    )


def _places_seen(
    length: Any, count: Any, is_causal: bool, window: tuple[int, int] | None
) -> list[Any]:
    """Which keys a query sees by their places."""
    if not is_causal and window is None:
        return []
    own, other = places(length, count)
    seen = [own >= other] if is_causal else []
    if window is not None and window[0] < FAR:
        seen.append(own <= other + window[0])
    if window is not None and window[1] < FAR:
        seen.append(own >= other - window[1])
    return seen


def _sides(window: int | tuple[int, int]) -> tuple[int, int]:
    """How many keys before and after a query a window shows.

    One of the two may be negative: such a window lies beside the query.
    """
    what = "dot_product_attention: local_window_size"
    is_one = not isinstance(window, list | tuple)
    before, after = (integer(what, n) for n in ((window, window) if is_one else pair(what, window)))
    if before + after < 0:
        _wrong(f"local_window_size is {window}, which shows no key", "use 0 or more")
    return before, after


def _lengths_seen(name: str, lengths: Any, batch: Any, size: Any, axis: int) -> list[Any]:
    """Which places are there: of 5 axes, that of members of the batch and `axis` not 1."""
    if lengths is None:
        return []
    limits = as_tensor(lengths)
    if limits.shape != (batch,) or limits.dtype.kind not in "iu":
        fix = f"give {batch} integers, one for each member"
        _wrong(f"{name}_seq_lengths is {limits.type}", fix)
    shape = [-1 if i == axis else 1 for i in range(5)]
    places = rnp.reshape(rnp.arange(size, dtype="int32"), shape)
    return [places < rnp.reshape(limits, (-1, 1, 1, 1, 1))]


def _wrong(what: str, fix: str) -> NoReturn:
    raise ArgumentError(f"dot_product_attention: {what}", fix=fix)
