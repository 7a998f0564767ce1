"""Attention with its projections, and the blocks of transformers.

Sequences are `f32[batch, time, features]`. Read `MultiHeadAttention`, then a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from .. import lax, numpy as rnp, random
from ..ir.errors import ArgumentError, BoundsError, DtypeError, ShapeError
from ..ir.ops.custom import Rule
from ..ir.source import user_source
from ..trace.apply import as_tensor
from ..trace.arguments import callable_of, choice, count_of, flag, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.index.items import check_ends
from ..trace.promotion import convert
from . import initializers, masks
from .arguments import check_features
from .attention import Terms, attend, dot_product_attention, terms_with
from .functional import relu, softmax
from .layers import Dropout, LayerNorm, Linear
from .masks import Mask
from .module import Module, field

POSITIONS = (None, "rope", "alibi")


class KVCache(NamedTuple):
    """A KV cache: the keys and values of earlier tokens, for causal attention."""

    key: Any  # f32[batch, longest, kv_heads, size]
    value: Any  # likewise
    count: Any  # i32[], how many times are there


def rotary_embedding(x: Any, places: Any = None, *, base: float = 10000.0) -> Array:
    """Rotary position embedding: pairs of features, turned as their place says.

    `f32[..., time, heads, size], i32[..., time] → f32[..., time, heads, size]`. The pair is feature
    i and i + size / 2, turned by place / `base`^(2 i / size). The `places` count from 0 if not
    given. An odd size is a `ShapeError`. From "RoFormer", Su et al., 2021.

    >>> x = rnp.ones((1, 2, 1, 2))
    >>> rotary_embedding(x)[0, 0, 0].tolist()
    [1.0, 1.0]
    """
    x, base = as_tensor(x), known_real("rotary_embedding: base", base)
    if x.ndim < 3 or x.shape[-1] % 2:
        raise ShapeError(
            f"rotary_embedding: {x.type} has no times, heads and an even number of features",
            fix="give an array of shape (..., time, heads, size), where size is even",
        )
    half = x.shape[-1] // 2
    places = rnp.arange(x.shape[-3], dtype="int32") if places is None else as_tensor(places)
    wide = rnp.promote_types(x.dtype, "float32")
    speeds = base ** (-rnp.arange(half, dtype=wide) / half)
    angles = places[..., None, None] * speeds
    first, second = convert(x[..., :half], wide), convert(x[..., half:], wide)
    cos, sin = rnp.cos(angles), rnp.sin(angles)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return convert(rnp.concatenate(turned, -1), x.dtype)


@final
class MultiHeadAttention(Module):
    """Multi-head attention: `f32[batch, time, size] → f32[batch, time, size]`.

    Called with `x`, and `memory` of shape (batch, other time, size) for cross-attention. `mask` is
    one of `nn.masks`, or bools that broadcast to (batch, heads, time, other time), true where a
    query sees a key; `is_causal` hides later keys. `kv_heads` keys and values are shared by groups
    of `heads` ("GQA", Ainslie et al., 2023); sizes that do not divide are an `ArgumentError`.
    `position` is None, "rope" or "alibi". In training `dropout` zeroes weights of attention, and
    needs a key. With a `cache`, of `initial_cache`, the times of `x` follow those in it, they see
    those before them, and the result is a pair with the new cache; it keeps its shape, so it may be
    carried by `scan`.

    Of PyTorch's layer `query`, `key`, `value` are the thirds of `in_proj_weight.T`, `out` is
    `out_proj`. From "Attention Is All You Need", Vaswani et al., 2017.

    >>> layer = MultiHeadAttention(8, 2, key=random.key(0))
    >>> x = rnp.ones((3, 5, 8))
    >>> layer(x, is_causal=True).shape
    (3, 5, 8)
    >>> y, cache = layer(x[:, :1], cache=layer.initial_cache(3, 5))
    >>> y.shape, cache.count.item()
    ((3, 1, 8), 1)
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    dropout: Dropout
    heads: int = field(static=True)
    kv_heads: int = field(static=True)
    position: str | None = field(static=True)

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        key: Any,
        kv_heads: int | None = None,
        position: str | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        inference: bool = False,
        dtype: Any = "float32",
    ) -> None:
        name = "MultiHeadAttention"
        size, heads = count_of(f"{name}: size", size, 1), count_of(f"{name}: heads", heads, 1)
        groups = heads if kv_heads is None else count_of(f"{name}: kv_heads", kv_heads, 1)
        if size % heads or heads % groups:
            raise ArgumentError(
                f"{name}: {size} features, {heads} heads and {groups} of keys do not part equally",
                fix="make size a multiple of heads, and heads one of kv_heads",
            )
        self.position = choice(f"{name}: position", position, POSITIONS)
        if position == "rope" and size // heads % 2:
            raise ArgumentError(
                f"{name}: rope turns pairs, and a head has {size // heads} features",
                fix="make size / heads even",
            )
        self.heads, self.kv_heads = heads, groups
        narrow = size // heads * groups
        keys = random.split(key, 4)

        def linear(i: int, n: int, m: int) -> Linear:
            draw = initializers.glorot_uniform()
            return Linear(n, m, key=keys[i], use_bias=use_bias, initializer=draw, dtype=dtype)

        self.query, self.out = linear(0, size, size), linear(3, size, size)
        self.key, self.value = linear(1, size, narrow), linear(2, size, narrow)
        self.dropout = Dropout(dropout, inference=inference)

    def __call__(
        self,
        x: Any,
        memory: Any = None,
        *,
        mask: Any = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
        key: Any = None,
    ) -> Any:
        x = self._checked(x)
        if memory is not None and (cache is not None or self.position is not None):
            raise ArgumentError(
                "MultiHeadAttention: memory has neither a cache nor positions",
                fix="leave out cache=, and make the layer of cross-attention without position",
            )
        if cache is not None and not isinstance(cache, KVCache):
            fix = "pass layer.initial_cache(batch, longest), or what the last call gave"
            raise wrong("MultiHeadAttention: the cache", cache, "a KVCache", fix)
        other = x if memory is None else self._checked(memory)
        q, k = self._parted(self.query(x), self.heads), self._parted(self.key(other), self.kv_heads)
        v = self._parted(self.value(other), self.kv_heads)
        start = rnp.zeros((), "int32") if cache is None else cache.count
        places = start + rnp.arange(x.shape[1], dtype="int32")
        if self.position == "rope":
            q, k = rotary_embedding(q, places), rotary_embedding(k, places)
        if cache is not None:
            _check_room(start + x.shape[1], cache.key.shape[1])
            k, v = (
                lax.dynamic_update_slice_in_dim(old, convert(new, old.dtype), start, axis=1)
                for old, new in ((cache.key, k), (cache.value, v))
            )
            cache, is_causal = KVCache(k, v, start + x.shape[1]), True
        mask = self._mask(mask, is_causal)
        mask = mask if cache is None else mask.shifted(start)
        y = self._attend(q, convert(k, q.dtype), convert(v, q.dtype), mask, key)
        y = self.out(rnp.reshape(y, x.shape))
        return y if cache is None else (y, cache)

    def initial_cache(self, batch: int, longest: int) -> KVCache:
        """An empty cache for so many sequences and times.

        More times than `longest` are a `BoundsError` outside of `jit`, and in it with `RLX_CHECKS`;
        without it the last ones are overwritten.
        """
        size = self.query.weight.shape[1] // self.heads
        zeros = rnp.zeros((batch, longest, self.kv_heads, size), self.key.weight.dtype)
        return KVCache(zeros, zeros, rnp.zeros((), "int32"))

    def _checked(self, x: Any) -> Any:
        x, size = as_tensor(x), self.query.weight.shape[0]
        check_features("MultiHeadAttention", x, size, 0)
        if x.ndim != 3:
            raise ShapeError(
                f"MultiHeadAttention: the input is {x.type}",
                fix=f"give an array of shape (batch, time, {size})",
            )
        return x

    def _parted(self, x: Any, heads: int) -> Any:
        return rnp.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))

    def _mask(self, mask: Any, is_causal: bool) -> Mask:
        if mask is None:
            mask = Mask()
        elif not isinstance(mask, Mask):
            mask = as_tensor(mask)
            if mask.dtype.kind != "b" or mask.ndim > 4:
                raise DtypeError(
                    f"MultiHeadAttention: the mask is {mask.type}",
                    fix="give bools that broadcast to (batch, heads, time, other time), "
                    "true where a query sees a key",
                )
            mask = masks.array(mask)
        if flag("MultiHeadAttention: is_causal", is_causal):
            mask = mask & masks.causal()
        return mask & masks.alibi(self.heads) if self.position == "alibi" else mask

    def _attend(self, q: Any, k: Any, v: Any, mask: Mask, key: Any) -> Any:
        if self.dropout.inference or self.dropout.rate == 0:
            return dot_product_attention(q, k, v, mask=mask)

        def weigh(scores: Any) -> Any:
            return self.dropout(softmax(scores), key=key)

        made, _ = attend(q, k, v, terms_with(Terms(), mask, q, k), weigh)
        return convert(made, q.dtype)


def _check_room(count: Any, longest: Any) -> None:
    """Raise a `BoundsError` for times that a cache has no place for, where they are known."""
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, longest: Any = longest) -> None:
        if high > longest:
            raise BoundsError(
                f"MultiHeadAttention: the cache has room for {int(longest)} times, not {int(high)}",
                where=where,
                fix="make a longer one: layer.initial_cache(batch, longest)",
            )

    check_ends(count, longest, Rule(look, ("MultiHeadAttention: cache", where, longest)))


@final
class TransformerEncoderLayer(Module):
    """A block of self-attention and two linear layers, each added to its input.

    `f32[batch, time, size] → f32[batch, time, size]`. `hidden` features, with `activation`, are
    between the linear layers; `heads`, `kv_heads`, `position` and `cache` are as for
    `MultiHeadAttention`; `dropout` is that of the attention and of each part. With `norm_first`
    each part is of the normalized input, as in GPT; else sums are normalized, as in PyTorch's
    layer, whose `linear1` and `linear2` are `first` and `second`. A causal one is the block of a
    GPT. From "Attention Is All You Need", Vaswani et al., 2017.

    >>> layer = TransformerEncoderLayer(8, 2, 16, key=random.key(0), dropout=0.0)
    >>> layer(rnp.ones((3, 5, 8)), is_causal=True).shape
    (3, 5, 8)
    """

    attention: MultiHeadAttention
    first: Linear
    second: Linear
    attention_norm: LayerNorm
    feedforward_norm: LayerNorm
    dropout: Dropout
    activation: Callable[[Any], Any] = field(static=True)
    norm_first: bool = field(static=True)

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        *,
        key: Any,
        kv_heads: int | None = None,
        position: str | None = None,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = False,
        dropout: float = 0.1,
        inference: bool = False,
        dtype: Any = "float32",
    ) -> None:
        keys = random.split(key, 3)
        self.attention = MultiHeadAttention(
            size,
            heads,
            key=keys[0],
            kv_heads=kv_heads,
            position=position,
            dropout=dropout,
            inference=inference,
            dtype=dtype,
        )
        self.first = Linear(size, hidden, key=keys[1], dtype=dtype)
        self.second = Linear(hidden, size, key=keys[2], dtype=dtype)
        self.attention_norm = LayerNorm(size, dtype=dtype)
        self.feedforward_norm = LayerNorm(size, dtype=dtype)
        self.dropout = Dropout(dropout, inference=inference)
        self.activation = callable_of("TransformerEncoderLayer: activation", activation)
        self.norm_first = flag("TransformerEncoderLayer: norm_first", norm_first)

    def __call__(
        self,
        x: Any,
        *,
        mask: Any = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
        key: Any = None,
    ) -> Any:
        keys = (None,) * 4 if key is None else tuple(random.split(key, 4))

        def attend(x: Any) -> Any:
            nonlocal cache
            y = self.attention(x, mask=mask, is_causal=is_causal, cache=cache, key=keys[0])
            y, cache = y if cache is not None else (y, None)
            return self.dropout(y, key=keys[1])

        x = _added(x, attend, self.attention_norm, self.norm_first)
        x = _added(x, lambda x: _fed(self, x, keys[2:]), self.feedforward_norm, self.norm_first)
        return x if cache is None else (x, cache)


@final
class TransformerDecoderLayer(Module):
    """A block of causal self-attention, attention to a memory, and two linear layers.

    `f32[batch, time, size], f32[batch, other time, size] → f32[batch, time, size]`. `heads`,
    `hidden`, `activation`, `norm_first` and `dropout` are as for `TransformerEncoderLayer`; `mask`
    is of the queries and their own keys, `memory_mask` of the queries and the memory. From
    "Attention Is All You Need", Vaswani et al., 2017.

    >>> layer = TransformerDecoderLayer(8, 2, 16, key=random.key(0), dropout=0.0)
    >>> layer(rnp.ones((3, 5, 8)), rnp.ones((3, 7, 8))).shape
    (3, 5, 8)
    """

    attention: MultiHeadAttention
    cross_attention: MultiHeadAttention
    first: Linear
    second: Linear
    attention_norm: LayerNorm
    cross_norm: LayerNorm
    feedforward_norm: LayerNorm
    dropout: Dropout
    activation: Callable[[Any], Any] = field(static=True)
    norm_first: bool = field(static=True)

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        *,
        key: Any,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = False,
        dropout: float = 0.1,
        inference: bool = False,
        dtype: Any = "float32",
    ) -> None:
        keys = random.split(key, 4)
        self.attention, self.cross_attention = (
            MultiHeadAttention(
                size, heads, key=k, dropout=dropout, inference=inference, dtype=dtype
            )
            for k in (keys[0], keys[1])
        )
        self.first = Linear(size, hidden, key=keys[2], dtype=dtype)
        self.second = Linear(hidden, size, key=keys[3], dtype=dtype)
        self.attention_norm = LayerNorm(size, dtype=dtype)
        self.cross_norm = LayerNorm(size, dtype=dtype)
        self.feedforward_norm = LayerNorm(size, dtype=dtype)
        self.dropout = Dropout(dropout, inference=inference)
        self.activation = callable_of("TransformerDecoderLayer: activation", activation)
        self.norm_first = flag("TransformerDecoderLayer: norm_first", norm_first)

    def __call__(
        self,
        x: Any,
        memory: Any,
        *,
        mask: Any = None,
        memory_mask: Any = None,
        is_causal: bool = True,
        key: Any = None,
    ) -> Array:
        keys = (None,) * 6 if key is None else tuple(random.split(key, 6))

        def attend(x: Any) -> Any:
            y = self.attention(x, mask=mask, is_causal=is_causal, key=keys[0])
            return self.dropout(y, key=keys[1])

        def look(x: Any) -> Any:
            y = self.cross_attention(x, memory, mask=memory_mask, key=keys[2])
            return self.dropout(y, key=keys[3])

        x = _added(x, attend, self.attention_norm, self.norm_first)
        x = _added(x, look, self.cross_norm, self.norm_first)
        return _added(x, lambda x: _fed(self, x, keys[4:]), self.feedforward_norm, self.norm_first)


def _added(x: Any, change: Callable[[Any], Any], norm: LayerNorm, norm_first: bool) -> Array:
    """The input with what a part of a block adds, normalized before or after."""
    return x + change(norm(x)) if norm_first else norm(x + change(x))


def _fed(layer: Any, x: Any, keys: tuple[Any, ...]) -> Array:
    """Two linear layers with an activation between, of a block."""
    inner = layer.dropout(layer.activation(layer.first(x)), key=keys[0])
    return layer.dropout(layer.second(inner), key=keys[1])
