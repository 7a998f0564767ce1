"""Scaled dot-product attention."""

from __future__ import annotations

import functools
import math
from typing import Any, NoReturn

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..ir.ops.attention.blocks import HIDDEN
from ..ir.types import is_float, promote
from ..scipy.special import logsumexp
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice, pair
from ..trace.array import Array
from ..trace.array_arguments import scalar
from ..trace.axes import integer
from ..transforms.eager import eager

IMPLEMENTATIONS = (None, "xla", "cudnn")
LONG = 1 << 22  # products of a head's queries and keys: so many are never all in memory
LARGE = 1 << 20  # products of queries and keys from which on they are computed in spans
# Queries at least, and blocks at most. Of smaller blocks the scores of a head stay in cache, and
# under a causal mask less is computed in vain; each block takes time to compile.
BLOCK, MOST_BLOCKS = 64, 16
Window = int | tuple[int, int] | None


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
    of shape (batch, heads, T, S), do not count. `is_causal` lets a query see the keys up to its own
    place alone, `local_window_size` so many before and after it. `query_seq_lengths` and
    `key_value_seq_lengths`, i32[batch], say how many queries and keys of each member are there.
    With `return_residual` the logarithm of the sum of the weights comes along. Half-size numbers
    are computed in float32. The `implementation` is the same always. From 2048 queries and as many
    keys on the products are never all in memory, those of the gradient neither: blocks of them are
    made one after another (`rlx/ir/ops/attention/attention.py`). Raises a `ShapeError` for shapes
    or dtypes that do not fit.

    >>> import numpy as np
    >>> x = np.eye(2, dtype="float32")[:, None]
    >>> dot_product_attention(x, x, x, is_causal=True)[0, 0].tolist()
    [1.0, 0.0]
    """
    choice("dot_product_attention: implementation", implementation, IMPLEMENTATIONS)
    shape = as_tensor(query).shape
    q, k, v = map(_with_batch, (query, key, value))
    _check(q, k, v)
    added = None if bias is None else _grouped("bias", bias, q, k)
    seen = [] if mask is None else [_grouped("mask", mask, q, k)]
    seen += _lengths_seen("key_value_seq_lengths", key_value_seq_lengths, q.shape[0], k.shape[1], 4)
    there = _lengths_seen("query_seq_lengths", query_seq_lengths, q.shape[0], q.shape[1], 1)
    way = _in_blocks if _is_long(q, k) else _in_spans
    made, total = way(q, k, v, scale, added, seen, is_causal, local_window_size)
    if there:
        made = rnp.where(there[0][..., 0], made, 0.0)
        total = rnp.where(there[0][..., 0, 0], total, HIDDEN)
    made = rnp.reshape(rnp.astype(made, k.dtype), shape)
    if not return_residual:
        return made
    return made, apply("stop_gradient", rnp.reshape(rnp.astype(total, k.dtype), shape[:-1]))


def _is_long(q: Any, k: Any) -> bool:
    sizes = (q.shape[1], k.shape[1])
    return all(isinstance(n, int) for n in (*q.shape, *k.shape)) and math.prod(sizes) >= LONG


def _in_blocks(
    q: Any, k: Any, v: Any, scale: Any, bias: Any, seen: list[Any], is_causal: bool, window: Window
) -> tuple[Any, Any]:
    """`_weighted`, with never more than a block of the products in memory."""
    batch, length, heads, size = q.shape
    groups = k.shape[2]
    factor, wide = scale, promote(q.dtype, np.dtype("float32"))
    if scale is None:
        factor = 1.0 / math.sqrt(size)
    elif not isinstance(scale, int | float):
        q, k, v = (rnp.astype(x, wide) for x in (q, k, v))
        q, factor = rnp.astype(q * scale, wide), 1.0
    if bias is not None and not is_float(bias.dtype):
        bias = rnp.astype(bias, wide)
    q = rnp.reshape(q, (batch, length, groups, heads // groups, size))
    mask = functools.reduce(rnp.logical_and, seen) if seen else None
    made, total = apply(
        "attention",
        *(rnp.transpose(q, (0, 2, 3, 1, 4)), rnp.moveaxis(k, 2, 1), rnp.moveaxis(v, 2, 1)),
        *(x for x in (bias, mask) if x is not None),
        scale=float(factor),
        is_causal=is_causal,
        window=None if window is None else _sides(window),
        has_bias=bias is not None,
        has_mask=mask is not None,
    )
    made = rnp.reshape(rnp.transpose(made, (0, 3, 1, 2, 4)), (batch, length, heads, size))
    return made, rnp.reshape(rnp.moveaxis(total, 3, 1), (batch, length, heads))


def _in_spans(
    q: Any, k: Any, v: Any, scale: Any, bias: Any, seen: list[Any], is_causal: bool, window: Window
) -> tuple[Array, Array]:
    """`_weighted`, some queries with the keys they may see at a time."""
    is_cut = not seen  # every query sees a key
    spans = _spans(q, k, is_causal and is_cut, window if is_cut else None)
    seen = [*seen, *_places_seen(q.shape[1], k.shape[1], is_causal, window)]
    parts = [_part(q, k, v, scale, bias, seen, span) for span in spans]
    made, total = (
        xs[0] if len(xs) == 1 else rnp.concatenate(xs, 1) for xs in zip(*parts, strict=True)
    )
    return made, total


def _spans(q: Any, k: Any, is_causal: bool, window: Window) -> list[tuple[int, int, int, int]]:
    """First and last queries, then the keys they may see, of each span to compute.

    The products of a long sequence do not fit into the caches at once; and most that a causal mask
    or a window would hide need not be computed.
    """
    (batch, length, heads, _), count = q.shape, k.shape[1]
    sizes = (batch, length, heads, count)
    if not all(isinstance(n, int) for n in sizes) or math.prod(sizes) < LARGE:
        return [(0, length, 0, count)]
    before, after = (length + count,) * 2 if window is None else _sides(window)
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
    scale: float | None,
    bias: Any,
    seen: list[Any],
    span: tuple[int, int, int, int],
) -> tuple[Array, Array]:
    """`_weighted` for some queries and keys."""
    first, last, low, high = span
    if (first, last, low, high) == (0, q.shape[1], 0, k.shape[1]):
        return _weighted(q, k, v, scale, bias, seen)

    def cut(x: Any) -> Any:
        rows = slice(None) if x.shape[-2] == 1 else slice(first, last)
        return x[..., rows, slice(None) if x.shape[-1] == 1 else slice(low, high)]

    bias = None if bias is None else cut(bias)
    k, v = k[:, low:high], v[:, low:high]
    return _weighted(q[:, first:last], k, v, scale, bias, [cut(each) for each in seen])


def _weighted(
    q: Any, k: Any, v: Any, scale: float | None, bias: Any, seen: list[Any]
) -> tuple[Array, Array]:
    """The means of values, and the logarithms of the weights' sums, in float32 or wider."""
    batch, length, heads, size = q.shape
    groups, wide = k.shape[2], promote(q.dtype, np.dtype("float32"))
    grouped = rnp.reshape(q, (batch, length, groups, heads // groups, size))
    grouped = rnp.transpose(grouped, (0, 2, 3, 1, 4))  # the scores of a head lie together
    scores = rnp.einsum("bkgth,bskh->bkgts", grouped, k, preferred_element_type=wide)
    scores = scores * (1.0 / math.sqrt(size) if scale is None else scalar("scale", scale))
    if bias is not None:
        scores = rnp.astype(scores + bias, wide)
    for each in seen:
        scores = rnp.where(each, scores, HIDDEN)
    weights = apply("softmax", scores, axes=(4,))
    made = rnp.einsum("bkgts,bskh->btkgh", weights, rnp.astype(v, wide))
    total = rnp.moveaxis(logsumexp(scores, axis=-1), -1, 1)
    return rnp.reshape(made, q.shape), rnp.reshape(total, q.shape[:-1])


def _with_batch(x: Any) -> Array:
    x = as_tensor(x)
    return rnp.reshape(x, (1,) * (4 - x.ndim) + tuple(x.shape)) if x.ndim < 4 else x


def _check(q: Any, k: Any, v: Any) -> None:
    is_fit = (
        k.shape == v.shape
        and q.ndim == 4
        and k.ndim == 4
        and (q.shape[0], q.shape[3]) == (k.shape[0], k.shape[3])
        and q.shape[2] % k.shape[2] == 0
    )
    if not is_fit or not (q.dtype == k.dtype == v.dtype):
        raise ShapeError(
            "dot_product_attention: query, key and value do not fit",
            notes=[f"query: {q.type}", f"key: {k.type}", f"value: {v.type}"],
            fix="give one dtype, and shapes (batch, T, heads, size), (batch, S, heads or a "
            "divisor, size), and that of the keys",
        )


def _grouped(name: str, x: Any, q: Any, k: Any) -> Array:
    """A bias or mask with the axis of heads in two: groups, and the heads of each."""
    x, groups, heads = _with_batch(x), k.shape[2], q.shape[2]
    whole = (q.shape[0], heads, q.shape[1], k.shape[1])
    fits = x.ndim == 4 and all(n in (1, m) for n, m in zip(x.shape, whole, strict=True))
    if not fits or (name == "mask" and x.dtype.kind != "b"):
        raise ShapeError(
            f"dot_product_attention: the {name} is {x.type}",
            fix=f"give {'bools' if name == 'mask' else 'numbers'} of a shape that broadcasts to "
            f"{whole}",
        )
    split = (1, 1) if x.shape[1] == 1 else (groups, heads // groups)
    return rnp.reshape(x, (x.shape[0], *split, *x.shape[2:]))


def _places_seen(length: Any, count: Any, is_causal: bool, window: Window) -> list[Any]:
    """Which keys a query sees by their places."""
    if not is_causal and window is None:
        return []
    own, other = (rnp.arange(n, dtype="int32") for n in (length, count))
    own = own[:, None]
    seen = [own >= other] if is_causal else []
    if window is not None:
        before, after = _sides(window)
        seen += [(own <= other + before) & (own >= other - after)]
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
    if limits.shape != (batch,):
        _wrong(f"{name} is {limits.type}", f"give {batch} integers, one for each member")
    shape = [-1 if i == axis else 1 for i in range(5)]
    places = rnp.reshape(rnp.arange(size, dtype="int32"), shape)
    return [places < rnp.reshape(limits, (-1, 1, 1, 1, 1))]


def _wrong(what: str, fix: str) -> NoReturn:
    raise ArgumentError(f"dot_product_attention: {what}", fix=fix)
