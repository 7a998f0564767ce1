"""Guesses of next tokens: texts are those without them, bit for bit, in fewer steps."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from small_served import Watch, small_model

import rlx
from rlx.models import LanguageModel
from rlx.serve import Engine

PROMPTS = ([5, 6, 7, 5, 6, 7, 5, 6], [9] * 20, [1, 2])
HOW = (
    {"max_tokens": 24, "logprobs": 2},
    {"max_tokens": 24, "temperature": 0.7, "seed": 3, "logprobs": 0},
    {"max_tokens": 12, "temperature": 1.0, "frequency_penalty": 0.5, "logit_bias": {7: 4.0}},
    {"max_tokens": 24, "stop": "never"},
)


@functools.cache
def other_model() -> LanguageModel:
    """Nearly the small model: its guesses are right now and then."""
    model = small_model()
    weights = {
        **model.weights,
        "norm": model.weights["norm"] * np.linspace(0.5, 1.5, 32, dtype="f4"),
    }
    return LanguageModel(model.config, weights, ends=[0])


def engine(**options: object) -> Engine:
    how = {"cache": "64K", "page_size": 4, "step_tokens": 24, "max_sequences": 3, "poison": True}
    return Engine(small_model(), **how, **options)


@pytest.mark.parametrize("name", ["repeats", "itself", "another"])
def test_texts_are_those_without_guesses(monkeypatch, name):
    drafts = {"repeats": None, "itself": small_model(), "another": other_model()}
    plain, guessing = engine(), engine(guesses=3, draft=drafts[name])
    watch, other = Watch(plain, monkeypatch), Watch(guessing, monkeypatch)
    for how in HOW:
        wanted = [plain.submit(prompt, **how) for prompt in PROMPTS]
        found = [guessing.submit(prompt, **how) for prompt in PROMPTS]
        for one in (plain, guessing):
            while one.step():
                pass
        for a, b in zip(wanted, found, strict=True):
            assert b.completion() == a.completion()
            assert other.of(b) == watch.of(a)
    assert guessing.steps < plain.steps and guessing.written == plain.written
    told = guessing.numbers()
    assert told["tokens_guessed"] >= told["tokens_guessed_right"] > 0
    assert (told["tokens_guessed"] == told["tokens_guessed_right"]) == (name == "itself")
    pool = guessing.scheduler.pages
    assert pool.available == pool.count


def test_drafts_that_do_not_fit_are_refused():
    small = small_model()
    weights = {**small.weights, "embedding": small.weights["embedding"][:40]}
    config = rlx.ir.record.replace(small.config, vocabulary=40)
    with pytest.raises(rlx.AttributeValueError, match="the draft has 40 tokens, the model 48"):
        engine(guesses=2, draft=LanguageModel(config, weights))
    with pytest.raises(rlx.AttributeValueError, match="a draft makes no guesses"):
        engine(draft=small)
    with pytest.raises(rlx.AttributeValueError, match="guesses is -1"):
        engine(guesses=-1)
