"""A language model of two small layers, engines of it, and who watches their logits."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pytest

from rlx.models import Adapter, LanguageModel
from rlx.models.llama import Llama
from rlx.models.lora import product_sizes
from rlx.serve import Engine, Ticket

VOCABULARY = 48


@functools.cache
def small_model(window: int | None = None) -> LanguageModel:
    """Two layers of random weights."""
    frequencies = tuple(1 / 10 ** (i / 4) for i in range(4))
    config = Llama(VOCABULARY, 2, 32, 48, 4, 2, 8, 1e-5, 256, frequencies, window=window)
    draw = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) / np.sqrt(shape[-1])).astype("float32")

    layers = [
        {
            "attention_norm": 1 + numbers(32),
            **{"q": numbers(32, 32), "k": numbers(16, 32), "v": numbers(16, 32)},
            **{"o": numbers(32, 32), "ffn_norm": 1 + numbers(32)},
            **{"gate": numbers(48, 32), "up": numbers(48, 32), "down": numbers(32, 48)},
        }
        for _ in range(2)
    ]
    weights = {"embedding": 4 * numbers(VOCABULARY, 32), "norm": 1 + numbers(32), "layers": layers}
    return LanguageModel(config, weights, ends=[0])


@functools.cache
def engine(pages: int, size: int, tokens: int, sequences: int = 4, **options) -> Engine:
    is_plain = bool({"window", "dtype"} & set(options))  # one more program to compile is enough
    model = small_model(options.pop("window", None))
    width = 1 if options.get("dtype") == "int8" else 4
    page = 2 * 2 * size * 2 * (8 * width + (4 if width == 1 else 0))
    made = Engine(
        model,
        cache=pages * page,
        page_size=size,
        step_tokens=tokens,
        max_sequences=sequences,
        adapters=0 if is_plain else 3,
        adapter_rank=2,
        poison=True,
        **options,
    )
    names = {} if is_plain else {"one": 1, "two": 2}
    for name in sorted(names, reverse=pages > 20):  # they stand in any place
        made.adapters.attach(name, adapter(names[name]))
    return made


class Watch:
    """The logits that each request of an engine gets, as hashes."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: dict[object, list[str]] = {}
        draw = engine._draw

        def watched(rows, logits):
            drawn, is_right = draw(rows, logits), True
            for i, ((text, guesses), row) in enumerate(zip(rows, np.asarray(logits), strict=True)):
                is_right = not guesses or (is_right and guesses[-1] == drawn.tokens[i - 1])
                if is_right:
                    digest = hashlib.sha256(row.tobytes()).hexdigest()
                    self.seen.setdefault(text, []).append(digest)
            return drawn

        monkeypatch.setattr(engine, "_draw", watched)

    def of(self, ticket: Ticket) -> list[str]:
        return self.seen.get(ticket.text, [])


def adapter(seed: int, rank: int = 2, names: str = "q v o down") -> Adapter:
    """Random changes of some products of the small model."""
    draw, sizes = np.random.default_rng(seed), product_sizes(small_model().config)

    def numbers(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) / np.sqrt(shape[0])).astype("float32")

    layers = [
        {
            name: (numbers(sizes[name][0], rank), numbers(rank, sizes[name][1]))
            for name in names.split()
        }
        for _ in range(2)
    ]
    return Adapter(layers)
