"""Language models: the numbers of an independent computation, tokens that no neighbor changes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import gguf
import numpy as np
import pytest
from llama_reference import Reference
from llama_writer import vocabulary, write_llama
from real_models import smollm, smollm_path

import rlx
from rlx.ir.ops.blocks import FORMATS
from rlx.models.llama import refined
from rlx.models.sampling import Sampling, Settled
from rlx.nn import BlockArray

PROMPT = "The capital of France is Paris, and that of Italy is"
EXACT, MARGIN = 1e-3, 2e-3  # of logits: the farthest off, and from where the greatest is sure


def check(found: np.ndarray, wanted: np.ndarray) -> None:
    """The logits are near, and the likeliest token is the same where the reference is sure."""
    assert np.abs(found - wanted).max() < EXACT
    second, first = np.sort(wanted, -1)[..., -2:].T
    is_sure = first - second > MARGIN
    np.testing.assert_array_equal(found.argmax(-1)[is_sure], wanted.argmax(-1)[is_sure])


def real_reference() -> Reference:
    """The real file, its numbers by the package `gguf`, its bytes by rlx.io, which is faster."""
    file, tensors = rlx.io.open(smollm_path()), {}
    for name in file:
        x, format = file[name], file._contents.entries[name].blocks
        kind = None if format is None else gguf.GGMLQuantizationType[format.upper()]
        numbers = x if kind is None else gguf.dequantize(np.asarray(x.data), kind)
        tensors[name] = np.asarray(numbers, np.float64)
    return Reference(file.metadata, tensors)


def test_logits_of_the_real_model_are_those_of_float64():
    model = smollm()
    ids = model.tokenizer.encode(PROMPT)
    check(model([ids]).host()[0], real_reference().logits(ids))


KINDS = [
    dict(architecture="llama", layers=2, scaling="factors", tied=True, window=None),
    dict(architecture="qwen2", layers=1, scaling="yarn", tied=False, window=None),
    dict(architecture="qwen3", layers=1, scaling="linear", tied=False, window=5),
]


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_logits_of_random_models_are_those_of_float64(tmp_path, seed):
    rng = np.random.default_rng(seed)
    formats = [*FORMATS, "f16", "bf16", "f32"]
    write_llama(tmp_path / "model.gguf", rng, formats[seed * 4 :] + formats, **KINDS[seed])
    model, reference = (
        rlx.models.load(tmp_path / "model.gguf"),
        Reference.of(tmp_path / "model.gguf"),
    )
    ids = rng.integers(0, len(vocabulary()), (2, 21))
    found = model(ids).host()
    for row, logits in zip(ids, found, strict=True):
        check(logits, reference.logits(row.tolist()))


def shuffled(layer: dict, heads: int, kv_heads: int, rng: np.random.Generator) -> dict:
    """The same layer: units of the feed-forward net, and heads in their groups, in other places.

    Columns of blocks cannot be moved, so the matrices whose columns move are dequantized.
    """
    units = rng.permutation(layer["gate"].shape[0])
    groups = rng.permutation(kv_heads)
    order = [
        g * (heads // kv_heads) + i for g in groups for i in rng.permutation(heads // kv_heads)
    ]
    size = layer["q"].shape[0] // heads
    queries = np.add.outer(np.array(order) * size, np.arange(size)).ravel()
    keys = np.add.outer(groups * size, np.arange(size)).ravel()
    rows = {"gate": units, "up": units, "q": queries, "k": keys, "v": keys}
    moved = {name: BlockArray(layer[name].data[x], layer[name].format) for name, x in rows.items()}
    moved["down"] = layer["down"].dequantize()[:, units]
    moved["o"] = layer["o"].dequantize()[:, queries]
    return {**layer, **moved}


def test_moved_units_and_heads_of_the_real_model_move_no_logit():
    model, rng = smollm(), np.random.default_rng(0)
    count = int(os.environ.get("MOVED_LAYERS", "3"))
    config = replace(model.config, layers=count)
    layers = model.weights["layers"][:count]
    moved = [shuffled(x, config.heads, config.kv_heads, rng) for x in layers]
    ids = [model.tokenizer.encode(PROMPT)]
    plain, other = (
        rlx.models.LanguageModel(config, {**model.weights, "layers": x})(ids).host()
        for x in (layers, moved)
    )
    assert np.abs(plain - other).max() < EXACT


PROMPTS = ["The capital of France is", "def fib(n):", "Once upon a time there was a dog, and it"]


@pytest.mark.parametrize("how", [{}, {"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.1}])
def test_a_prompt_gets_the_same_tokens_alone_and_among_others(how):
    model = smollm()
    together = model.generate(PROMPTS, max_tokens=6, logprobs=2, seed=3, **how)
    assert together[1] == model.generate(PROMPTS[1], max_tokens=6, logprobs=2, seed=3, **how)
    assert len(together[1].tokens) == 6
    assert together[1].reason == "length"


def test_greedy_tokens_are_the_likeliest():
    model = smollm()
    ids = model.tokenizer.encode(PROMPTS[0])
    found = model.generate(ids, max_tokens=4, logprobs=1)
    logits = model([ids + found.tokens]).host()[0]
    np.testing.assert_array_equal(logits.argmax(-1)[len(ids) - 1 : -1], found.tokens)
    chances = logits - np.log(np.exp(logits.astype("f8")).sum(-1, keepdims=True))
    wanted = [chances[len(ids) - 1 + i, token] for i, token in enumerate(found.tokens)]
    np.testing.assert_allclose(found.logprobs, wanted, atol=1e-4)
    assert [list(x) for x in found.likeliest] == [[token] for token in found.tokens]
    assert found.text.startswith(" Paris")
    assert "".join(model.stream(PROMPTS[0], max_tokens=4)) == found.text


def test_the_least_temperature_takes_the_likeliest():
    logits = np.random.default_rng(0).normal(size=(2, 50)).astype("float32") * 9
    none, zeros = np.zeros((2, 4), "int32"), np.zeros(2, "int32")
    for more in ({}, {"top_k": 5, "top_p": 0.9, "min_p": 0.1}):
        how = Settled([Sampling(temperature=1e-39, seed=i, **more) for i in range(2)])
        assert how.draw(logits, none, zeros, zeros, False).tokens == logits.argmax(-1).tolist()


def test_plain_rows_draw_the_same_beside_others():
    logits = rlx.array(np.random.default_rng(0).normal(size=(3, 4096)).astype("float32") * 3)
    count = np.full(3, 2, "int32")
    given: Any = logits, np.zeros((3, 4), "int32"), count, count, False
    alone = Settled([Sampling()] * 3).draw(*given)
    beside = Settled([Sampling(), Sampling(temperature=2.0), Sampling()]).draw(*given)
    for row in (0, 2):
        assert alone.tokens[row] == beside.tokens[row] == int(logits[row].host().argmax())
        assert alone.logprobs[row] == beside.logprobs[row]


def test_int8_rounds_the_outer_layers_and_the_head_to_16_bits():
    config = smollm().config
    computes = [refined(replace(config, compute="int8"), i).compute for i in range(31)]
    assert computes == ["int16", *["int8"] * 27, *["int16"] * 3]
    assert {refined(config, i).compute for i in range(31)} == {"exact"}


def test_stop_texts_end_a_text():
    model = smollm()
    whole = model.generate(PROMPTS[0], max_tokens=8)
    stopped = model.generate(PROMPTS[0], max_tokens=8, stop=["zzz", whole.text[5:9]])
    assert stopped.text == whole.text[: whole.text.index(whole.text[5:9])]
    assert stopped.reason == "stop"
    pieces = list(model.stream(PROMPTS[0], max_tokens=8, stop=whole.text[5:9]))
    assert "".join(pieces) == stopped.text
