"""A step of a language model: logits, and a cache of keys and values.

One program serves prompts of any length and batches of any size: the number of rows, of tokens
and of places in the cache stay open. A row's bits depend neither on them nor on the other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..runtime.session import default_session
from ..trace import pytree
from ..trace.make_graph import typeof
from ..transforms.jit.compiled import Compiled
from ..transforms.jit.jit import jit
from .llama import Llama, block, embed, head

HIDDEN = -1e30
CHUNK = 256  # tokens of a prompt at a time
ROUND = 64  # places of a cache come in multiples


class Steps:
    """A model's compiled parts, with its weights bound.

    Layers whose weights are of the same kind share their code.
    """

    def __init__(self, model: Llama, weights: Mapping[str, Any]) -> None:
        self.model = model
        table = {name: x for name, x in weights.items() if name != "layers"}
        ids, start = rnp.zeros((2, 3), "int32"), rnp.zeros((2,), "int32")
        x = rnp.zeros((2, 3, model.size))
        tokens, rows = {0: "rows", 1: "tokens"}, {0: "rows"}
        once = {"embedding": table["embedding"]}
        self._embed = bound(embed, {"ids": tokens}, once, ids)
        self._head = bound(self._after, {"x": rows}, table, x[0])
        kept = {0: "rows", 1: "places"}
        sizes = {"x": tokens, "start": rows, "cache[0]": kept, "cache[1]": kept}
        self._layers: list[Compiled] = []
        known: dict[Any, Compiled] = {}
        for layer in weights["layers"]:
            kind = pytree.structure(layer), *map(typeof, pytree.leaves(layer))
            if kind in known:
                self._layers.append(known[kind].with_bound(weights=layer))
                continue
            given = x, start, self._empty(2, 4)
            known[kind] = bound(self._block, sizes, layer, *given, donate_argnames="cache")
            self._layers.append(known[kind])

    def cache(self, rows: int, places: int) -> list[tuple[Any, Any]]:
        """An empty cache: keys and values of each layer."""
        return [self._empty(rows, places) for _ in range(self.model.layers)]

    def __call__(self, ids: Any, start: Any, cache: Any) -> tuple[Any, Any]:
        """Logits after each row's last token, f32[rows, vocabulary], and the cache.

        `ids`, i32[rows, tokens], follow those in the cache, which is used up; `start`, i32[rows],
        says how many these are.
        """
        x, cache = self._states(ids, start, cache)
        return self._head(x[:, -1]), cache

    def logits(self, ids: Any) -> Any:
        """Logits after each token: i32[rows, tokens] gives f32[rows, tokens, vocabulary]."""
        rows, tokens = ids.shape
        cache, parts = self.cache(rows, -(-tokens // ROUND) * ROUND), []
        for first in range(0, tokens, CHUNK):
            start = np.full(rows, first, "int32")
            x, cache = self._states(ids[:, first : first + CHUNK], start, cache)
            parts.append(x)
        x = rnp.concatenate(parts, 1) if len(parts) > 1 else parts[0]
        flat = self._head(rnp.reshape(x, (rows * tokens, self.model.size)))
        return rnp.reshape(flat, (rows, tokens, self.model.vocabulary))

    def _states(self, ids: Any, start: Any, cache: Any) -> tuple[Any, Any]:
        """What comes out of the last layer."""
        x, after = self._embed(ids), []
        for layer, kept in zip(self._layers, cache, strict=True):
            x, kept = layer(x, start, kept)
            after.append(kept)
        return x, after

    def _empty(self, rows: int, places: int) -> tuple[Any, Any]:
        shape = (rows, places, self.model.kv_heads, self.model.head_size)
        return rnp.zeros(shape), rnp.zeros(shape)

    def _after(self, weights: Any, x: Any) -> Any:
        return head(self.model, weights, x)

    def _block(self, weights: Any, x: Any, start: Any, cache: Any) -> tuple[Any, Any]:
        positions = start[:, None] + rnp.arange(x.shape[1], dtype="int32")
        row = rnp.arange(x.shape[0], dtype="int32")[:, None]
        kept = cache

        def attend(q: Any, k: Any, v: Any) -> Any:
            nonlocal kept
            kept = tuple(x.at[row, positions].set(y) for x, y in zip(cache, (k, v), strict=True))
            return attention(self.model, q, *kept, positions)

        return block(self.model, weights, x, positions, attend), kept


def bound(
    fn: Callable[..., Any],
    dynamic: Mapping[str, Any],
    weights: Mapping[str, Any],
    *given: Any,
    **options: Any,
) -> Compiled:
    """Compile a function for open sizes, with its first argument, `weights`, bound.

    `dynamic` are the open sizes, `given` examples of its other arguments, `options` those of `jit`.
    """
    jitted = jit(fn, dynamic=dynamic, **device_options(), **options)
    compiled = jitted.lower(weights, *given).compile()
    compiled.bind(weights=weights)
    return compiled


def device_options() -> dict[str, Any]:
    """Options of `jit`, for the device: open sizes and equal bits where it has them."""
    backend = default_session().backend
    found: dict[str, Any] = {} if backend.target.has_symbolic_sizes else {"specialize": True}
    return found if backend.invariant_target is None else {**found, "deterministic": "batch"}


def attention(model: Llama, q: Any, keys: Any, values: Any, positions: Any) -> Any:
    """Causal attention over a cache, the same bits for any number of places in it."""
    rows, tokens = positions.shape
    groups = model.heads // model.kv_heads
    q = rnp.reshape(q, (rows, tokens, model.kv_heads, groups, model.head_size))
    q = rnp.transpose(q, (0, 2, 3, 1, 4))
    scores = rnp.einsum("bkgtd,bskd->bkgts", q, keys) / math.sqrt(model.head_size)
    place, own = rnp.arange(keys.shape[1], dtype="int32"), positions[:, :, None]
    seen = place <= own
    if model.window is not None:
        seen = seen & (place > own - model.window)
    scores = rnp.where(seen[:, None, None], scores, HIDDEN)
    weights = rnp.exp(scores - rnp.max(scores, -1, keepdims=True))
    # a product adds from the first place to the last, so places that are hidden change no bit
    total = rnp.einsum("bkgts,s->bkgt", weights, rnp.ones((keys.shape[1],)))
    means = rnp.einsum("bkgts,bskd->bkgtd", weights, values) / total[..., None]
    return rnp.transpose(means, (0, 3, 1, 2, 4))
