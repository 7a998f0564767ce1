"""A step of a language model for many sequences, with a cache in pages.

Tokens of all sequences stand in one line: chunks of prompts, and single ones. One program serves
any number of them; a token's bits depend on its own sequence alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import nn, numpy as rnp
from ..models.llama import Llama, block, embed, head
from ..models.steps import bound
from ..trace import pytree
from ..trace.make_graph import typeof
from ..transforms.jit.compiled import Compiled
from ..transforms.jit.jit import jit


class Batch(NamedTuple):
    """The tokens of a step: i32 arrays."""

    ids: Any  # [tokens]
    positions: Any  # [tokens]
    sequence: Any  # [tokens]: the row of `tables`
    tables: Any  # [sequences, pages of each]
    last: Any  # [rows]: the tokens whose next ones are asked for


class PagedSteps:
    """A model's compiled parts with its weights bound, and the pages of each layer.

    `count` pages of `size` tokens each hold keys and values as `dtype`. Layers whose weights are of
    the same kind share their code.
    """

    def __init__(
        self, model: Llama, weights: Mapping[str, Any], count: int, size: int, dtype: str
    ) -> None:
        self.model, self._count = model, count
        self._pages = [
            nn.empty_pages(count, size, model.kv_heads, model.head_size, dtype)
            for _ in range(model.layers)
        ]
        table = {name: x for name, x in weights.items() if name != "layers"}
        line, tables = rnp.zeros((3,), "int32"), rnp.zeros((2, 4), "int32")
        x = rnp.zeros((3, model.size))
        tokens, rows = {0: "tokens"}, {0: "rows"}
        once = {"embedding": table["embedding"]}
        self._embed = bound(embed, {"ids": tokens}, once, line)
        self._head = bound(self._after, {"x": tokens, "last": rows}, table, x, line[:2])
        sizes = dict.fromkeys(("x", "positions", "sequence"), tokens)
        sizes["tables"] = {0: "sequences", 1: "most"}
        given = x, line, line, tables, self._pages[0]
        self._layers: list[Compiled] = []
        known: dict[Any, Compiled] = {}
        for layer in weights["layers"]:
            kind = pytree.structure(layer), *map(typeof, pytree.leaves(layer))
            if kind in known:
                self._layers.append(known[kind].with_bound(weights=layer))
                continue
            known[kind] = bound(self._block, sizes, layer, *given, donate_argnames="pages")
            self._layers.append(known[kind])
        self._poison = jit(_poisoned, donate_argnames="pages")

    def __call__(self, batch: Batch) -> Any:
        """Compute the tokens of a batch, into the pages.

        Returns logits of the next tokens, f32[rows, vocabulary].
        """
        x = self._embed(batch.ids)
        where = batch.positions, batch.sequence, batch.tables
        for number, layer in enumerate(self._layers):
            x, self._pages[number] = layer(x, *where, self._pages[number])
        return self._head(x, batch.last) if len(batch.last) else None

    def poison(self, pages: Sequence[int]) -> None:
        """Write NaN into some pages, so that whoever reads them is found out."""
        where = np.zeros(self._count, bool)
        where[list(pages)] = True
        self._pages = [self._poison(x, where) for x in self._pages]

    def _after(self, weights: Any, x: Any, last: Any) -> Any:
        return head(self.model, weights, x[last])

    def _block(
        self, weights: Any, x: Any, positions: Any, sequence: Any, tables: Any, pages: Any
    ) -> tuple[Any, Any]:
        kept, where = pages, (tables, sequence, positions)
        window = None if self.model.window is None else self.model.window - 1

        def attend(q: Any, k: Any, v: Any) -> Any:
            nonlocal kept
            kept = nn.paged_write(pages, k, v, *where)
            return nn.paged_attention(q, kept, *where, window=window)

        return block(self.model, weights, x, positions, attend), kept


def _poisoned(pages: Any, where: Any) -> Any:
    def written(x: Any) -> Any:
        here = rnp.reshape(where, (-1,) + (1,) * (x.ndim - 1))
        return rnp.where(here, rnp.asarray(0 if x.dtype.kind == "i" else rnp.nan, x.dtype), x)

    return pytree.map(written, pages)
