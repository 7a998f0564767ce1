"""Texts of a given form: whatever a model would rather write, they parse and fit."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st
from llama_writer import write_llama

import rlx
from rlx.models import LanguageModel
from rlx.models.formats import Formats
from rlx.serve import Engine

jsonschema = pytest.importorskip("jsonschema", reason="needs the package jsonschema")
pytest.importorskip("llguidance", reason="needs the package llguidance")
SIZES = {"layers": 1, "size": 32, "hidden": 32, "kv_heads": 1, "heads": 1, "head_size": 32}
MANY = 500  # tokens, less than the context


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    kind = {"architecture": "llama", "scaling": "none", "window": None, "tied": True}
    write_llama(path, np.random.default_rng(0), ["f32"], **SIZES, **kind)
    return rlx.models.load(path)


@pytest.fixture(scope="module")
def engine(model: LanguageModel) -> Engine:
    return Engine(model, cache="1M", step_tokens=32)


SMALL = st.integers(-20, 20)
LEAVES = st.one_of(
    st.just({"type": "boolean"}), st.just({"type": "null"}),
    st.tuples(SMALL, st.integers(0, 9)).map(
        lambda x: {"type": "integer", "minimum": x[0], "maximum": x[0] + x[1]}
    ),
    st.integers(0, 4).map(lambda n: {"type": "string", "maxLength": n}),
    st.lists(st.one_of(SMALL, st.text(max_size=3), st.none()), min_size=1, max_size=3).map(
        lambda xs: {"enum": xs}
    ),
    st.text(max_size=3).map(lambda x: {"const": x}),
    st.just({"type": "string", "pattern": "^[a-c]{2}$"}),
)  # fmt: skip


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.dictionaries(st.text('abé"\\ ', min_size=1, max_size=3), inner, max_size=3)
    return st.one_of(
        st.tuples(inner, st.integers(0, 2)).map(
            lambda x: {"type": "array", "items": x[0], "minItems": x[1], "maxItems": x[1] + 1}
        ),
        st.tuples(names, st.booleans()).map(
            lambda x: {
                "type": "object",
                "properties": x[0],
                "required": sorted(x[0]) if x[1] else [],
                "additionalProperties": False,
            }
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda xs: {"anyOf": xs}),
    )


SCHEMAS = st.recursive(LEAVES, wider, max_leaves=4)


@settings(max_examples=int(os.environ.get("SCHEMAS", "15")), deadline=None, phases=[Phase.generate])
@given(schema=SCHEMAS, seed=st.integers(0, 2**32 - 1))
def test_texts_of_a_schema_parse_and_validate(engine, schema, seed):
    found = engine.generate("ab", schema=schema, max_tokens=MANY, temperature=1.0, seed=seed)
    assert found.reason == "stop"
    jsonschema.validate(json.loads(found.text), schema)


def test_a_text_that_is_cut_says_so(engine):
    found = engine.generate("ab", schema={"type": "array", "minItems": 50}, max_tokens=9)
    assert found.reason == "length" and found.text.startswith("[")


@pytest.mark.parametrize("regex", ["[a-c]{5}", "(ab|de)+!", r"\d{4}-\d\d", "é{2}|x", "a"])
def test_texts_match_a_regex(model, engine, regex):
    for seed in range(3):
        options = {"regex": regex, "max_tokens": MANY, "temperature": 1.0, "seed": seed}
        found = engine.generate("ab", **options)
        assert found.reason == "stop" and re.fullmatch(regex, found.text)
        assert model.generate(["x", "ab"], **options)[1] == found


def test_others_in_the_batch_are_as_without(engine):
    alone = engine.generate("de", max_tokens=12, temperature=1.0, logprobs=1)
    tickets = [engine.submit("de", max_tokens=12, temperature=1.0, logprobs=1)]
    tickets += [engine.submit("ab", regex="[ab]{12}", max_tokens=30) for _ in range(2)]
    while engine.step():
        pass
    assert tickets[0].completion() == alone
    assert all(re.fullmatch("[ab]{12}", t.completion().text) for t in tickets[1:])


# whether a text can match all of them takes the library hours to find
ENDLESS = {"type": "string", "allOf": [{"pattern": f".*{i}.*"} for i in range(40)]}


def test_what_no_text_can_be_is_named(model, monkeypatch):
    for given_, message in (
        ({"schema": {"type": "foo"}}, "generate: schema: Invalid type: foo"),
        ({"schema": {"not": {}}}, "schema: Unimplemented keys"),
        ({"schema": False}, "schema: Unsatisfiable schema"),
        ({"schema": ENDLESS}, "schema: it takes too long"),
        ({"schema": {"$ref": "#"}}, "generate: schema: no text has this form\n"),
        ({"schema": {"x": {1}}}, "schema is no JSON: Object of type set"),
        ({"regex": "(("}, "generate: regex: "),
    ):
        with pytest.raises(rlx.AttributeValueError, match=message):
            model.generate("ab", **given_)
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"items": deep}
    with pytest.raises(rlx.AttributeValueError, match="generate: schema"):
        model.generate("ab", schema=deep)
    with pytest.raises(rlx.ArgumentError, match="schema is 3, not a JSON schema"):
        model.generate("ab", schema=3)
    with pytest.raises(rlx.ArgumentError, match="both schema and regex are given"):
        model.generate("ab", schema={}, regex="a")
    with pytest.raises(rlx.ArgumentError, match="the model has no tokenizer"):
        Formats(None, 5, [1]).guide(regex="a")
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(rlx.ArgumentError, match="the library llguidance is not installed"):
        model.generate("ab", regex="b")


def test_forms_that_were_tried_are_read_at_once(model, monkeypatch):
    monkeypatch.setattr("rlx.models.formats.subprocess", None)  # no process is started
    formats = model.without_tokenizer().formats
    first, again = formats.guide({"type": "integer"}), formats.guide({"type": "integer"})
    assert first is not None and again is not None
    assert first.mask() is again.mask()  # found once
    assert (first.mask() == formats.guide(regex="(0|-?[1-9][0-9]*)").mask()).any()
