"""A step of a language model for many texts, with a cache in pages.

Tokens of all texts stand in one line: parts of prompts, and single ones. One program serves any
number of them; a token's bits depend on its own text alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import nn, numpy as rnp
from ..runtime.session import default_session
from ..trace import pytree
from ..trace.make_graph import typeof
from ..transforms.jit.compiled import Compiled
from ..transforms.jit.jit import jit
from ..transforms.jit.sequence import sequence
from .llama import Llama, block, embed, head, refined
from .lora import Stack, adapted, stacked

CHUNK = 256  # tokens of a prompt at a time
PAGE = 16  # tokens in a page
Pages = Sequence[Any]  # of each layer: `nn.KVPages`
Call = Callable[..., Any]


class Batch(NamedTuple):
    """The tokens of a step: i32 arrays."""

    ids: Any  # [tokens]
    positions: Any  # [tokens]
    sequence: Any  # [tokens]: the row of `tables`
    tables: Any  # [sequences, pages of each]
    last: Any  # [rows]: the tokens whose next ones are asked for
    chosen: Any = None  # [tokens]: the adapter of each, negative for none


class Steps:
    """A model's compiled parts with its weights bound, for pages of a dtype.

    Layers whose weights are of the same kind share their code. `release` is called as weights are
    bound: products have copies of them in an order of their own. With `adapters`, their number and
    greatest rank, a step takes the stacks of so many. Processes that are `shared` have the weights
    in one copy. `check` is called before weights are read, and raises if a mapped file was cut off.
    """

    def __init__(
        self,
        model: Llama,
        weights: Mapping[str, Any],
        size: int = PAGE,
        dtype: Any = "float32",
        release: Callable[[], None] = lambda: None,
        adapters: tuple[int, int] | None = None,
        shared: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        check()
        self._check, self.device = check, default_session().device
        self.adapters, self._stacks = adapters, ()
        self.model, self._page = model, (size, model.kv_heads, model.head_size, dtype)
        table = {name: x for name, x in weights.items() if name != "layers"}
        line, tables = rnp.zeros((3,), "int32"), rnp.zeros((2, 4), "int32")
        x = rnp.zeros((3, model.size))
        tokens, rows = {0: "tokens"}, {0: "rows"}
        once = {"embedding": table["embedding"]}
        self._embed = bound(embed, {"ids": tokens}, once, line, is_shared=shared)
        how = {"is_shared": shared}
        self._head = bound(_after(model), {"x": tokens, "last": rows}, table, x, line[:2], **how)
        sizes: dict[str, Any] = dict.fromkeys(("x", "positions", "sequence"), tokens)
        sizes["tables"] = {0: "sequences", 1: "most"}
        (pages,) = self.pages(3)[:1]
        there = (name for name, x in pages._asdict().items() if x is not None)
        sizes |= {f"pages.{name}": {0: "pages"} for name in there}
        given = x, line, line, tables, pages
        if adapters is not None:
            sizes["chosen"] = tokens
            stacks = stacked(model, [None] * adapters[0], adapters[1])
            given = *given, line, stacks[0]
            self._stacks = pytree.map(lambda x: 0, stacks)  # as examples; they may be large
        self._layers: list[Compiled] = []
        known: dict[Any, Compiled] = {}
        for i, layer in enumerate(weights["layers"]):
            release()
            own = refined(model, i)
            kind = own, pytree.structure(layer), *map(typeof, pytree.leaves(layer))
            if kind in known:
                self._layers.append(known[kind].with_bound(weights=layer))
                continue
            known[kind] = bound(_layer(own), sizes, layer, *given, donate_argnames="pages", **how)
            self._layers.append(known[kind])
        release()
        self._record()

    def with_weights(self, weights: Mapping[str, Any]) -> Steps:
        """The same code with other weights of the same structure and types."""
        other = copy.copy(self)
        table = {name: x for name, x in weights.items() if name != "layers"}
        other._embed = self._embed.with_bound(weights={"embedding": table["embedding"]})
        other._head = self._head.with_bound(weights=table)
        layers = zip(self._layers, weights["layers"], strict=True)
        other._layers = [code.with_bound(weights=layer) for code, layer in layers]
        other._record()
        return other

    def pages(self, count: int) -> list[nn.KVPages]:
        """So many empty pages for each layer."""
        one = nn.empty_pages(1, *self._page)
        return [pytree.map(lambda x: _zeros(count, x), one) for _ in range(self.model.layers)]

    def __call__(
        self, batch: Batch, pages: Pages, stacks: Sequence[Stack] = ()
    ) -> tuple[Any, list[Any]]:
        """Compute the tokens of a batch: logits f32[rows, vocabulary], and the new pages.

        Those given are used up. Without a row whose next token is asked for, logits are None.
        `stacks` are the adapters of each layer, for steps that take some.
        """
        self._check()
        run = self._read_on if len(batch.last) else self._read
        x, after = run(batch, list(pages), tuple(stacks))
        return (x if len(batch.last) else None), after

    def states(
        self, batch: Batch, pages: Pages, stacks: Sequence[Stack] = ()
    ) -> tuple[Any, list[Any]]:
        """The states after the last layer, f32[tokens, size], and the new pages."""
        self._check()
        return self._read(batch, list(pages), tuple(stacks))

    def _record(self) -> None:
        """Record the calls of all parts as one, with the head and without it."""
        line = np.zeros(1, "int32")
        chosen = None if self.adapters is None else line
        given = Batch(line, line, line, line, line, chosen), self.pages(1), tuple(self._stacks)
        self._read, self._read_on = (sequence(f, *given) for f in (self._states, self._logits))

    def _logits(self, call: Call, batch: Batch, *given: Any) -> tuple[Any, Any]:
        x, after = self._states(call, batch, *given)
        return call(self._head, x, batch.last), after

    def _states(self, call: Call, batch: Batch, pages: Any, stacks: Any) -> tuple[Any, Any]:
        x, after = call(self._embed, batch.ids), []
        where = batch.positions, batch.sequence, batch.tables
        for i, (layer, kept) in enumerate(zip(self._layers, pages, strict=True)):
            how = () if self.adapters is None else (batch.chosen, stacks[i])
            x, kept = call(layer, x, *where, kept, *how)
            after.append(kept)
        return x, after

    def logits(self, ids: np.ndarray) -> Any:
        """Logits after each token: i32[rows, tokens] gives f32[rows, tokens, vocabulary]."""
        rows, tokens = ids.shape
        size = self._page[0]
        most = -(-tokens // size)
        pages, parts = self.pages(rows * most), []
        tables = np.arange(rows * most, dtype="int32").reshape(rows, most)
        for row in range(rows):
            for first in range(0, tokens, CHUNK):
                batch = chunk(ids[row, first : first + CHUNK], first, row, tables)
                every = np.arange(len(batch.ids), dtype="int32")
                logits, pages = self(batch._replace(last=every), pages)
                parts.append(logits)
        return rnp.reshape(rnp.concatenate(parts), (rows, tokens, self.model.vocabulary))


def _after(model: Llama) -> Call:
    """The head of a model: what follows the last layer."""

    def after(weights: Any, x: Any, last: Any) -> Any:
        return head(model, weights, x[last])

    return after


def _layer(model: Llama) -> Call:
    """A layer of a model, whose weights are an argument."""
    window = None if model.window is None else model.window - 1

    def layer(
        weights: Any,
        x: Any,
        positions: Any,
        sequence: Any,
        tables: Any,
        pages: Any,
        chosen: Any = None,
        stack: Any = None,
    ) -> tuple[Any, Any]:
        kept, where = pages, (tables, sequence, positions)

        def attend(q: Any, k: Any, v: Any) -> Any:
            nonlocal kept
            kept = nn.paged_write(pages, k, v, *where)
            return nn.paged_attention(q, kept, *where, window=window)

        return block(model, adapted(weights, stack, chosen), x, positions, attend), kept

    return layer


def _zeros(count: int, like: Any) -> Any:
    """So many times the first part of an array of zeros.

    A copy lies in the memory of results, which the first step can take over.
    """
    zero = np.zeros((), like.dtype)
    return rnp.array(np.broadcast_to(zero, (count, *like.shape[1:])))


def chunk(ids: Any, first: int, row: int, tables: np.ndarray) -> Batch:
    """A part of a prompt, from its token `first` on; the last one's next is asked for."""
    count = len(ids)
    positions = np.arange(first, first + count, dtype="int32")
    last = np.array([count - 1], "int32")
    return Batch(np.array(ids, "int32"), positions, np.full(count, row, "int32"), tables, last)


def bound(
    fn: Callable[..., Any],
    dynamic: Mapping[str, Any],
    weights: Mapping[str, Any],
    *given: Any,
    is_shared: bool = False,
    **options: Any,
) -> Compiled:
    """Compile a function for open sizes, with its first argument, `weights`, bound.

    `dynamic` are the open sizes, `given` examples of its other arguments, `options` those of `jit`.
    What becomes of the weights is one copy for all processes if it `is_shared`.
    """
    jitted = jit(fn, dynamic=dynamic, **device_options(), **options)
    compiled = jitted.lower(weights, *given).compile()
    (compiled.bind_shared if is_shared else compiled.bind)(weights=weights)
    return compiled


def device_options(device: str | None = None) -> dict[str, Any]:
    """Options of `jit`, for a device: open sizes and equal bits where it has them."""
    backend = default_session(device).backend
    found: dict[str, Any] = {} if backend.target.has_symbolic_sizes else {"specialize": True}
    return found if backend.invariant_target is None else {**found, "deterministic": "batch"}
