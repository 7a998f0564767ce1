"""Encoders of text: the vectors of a float64 computation, and the same bits in any company."""

from __future__ import annotations

import json
import math

import gguf
import numpy as np
import pytest
from real_models import minilm_path
from safetensors.numpy import load_file, save_file
from scipy.special import erf

import rlx
from rlx.ir.errors import BoundsError, FileFormatError

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby, and the baby laughs: " + "ha " * 30,
]


@pytest.fixture(scope="module")
def encoder():
    return rlx.models.load(minilm_path())


def reference(folder, ids: list[int], pooling: str = "mean") -> np.ndarray:
    """The vector of a text in float64 and NumPy."""
    w = {n: x.astype(np.float64) for n, x in load_file(folder / "model.safetensors").items()
         if x.dtype.kind == "f"}  # fmt: skip
    config = json.loads((folder / "config.json").read_text())

    def norm(x, name):
        y = x - x.mean(-1, keepdims=True)
        y /= np.sqrt((y * y).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return y * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    heads = config["num_attention_heads"]
    for i in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{i}"
        q, k, v = (
            linear(x, f"{name}.attention.self.{part}").reshape(len(ids), heads, -1)
            for part in ("query", "key", "value")
        )
        p = np.exp(np.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1]))
        p /= p.sum(-1, keepdims=True)
        means = np.einsum("hts,shd->thd", p, v).reshape(len(ids), -1)
        y = linear(means, f"{name}.attention.output.dense")
        x = norm(x + y, f"{name}.attention.output.LayerNorm")
        y = linear(x, f"{name}.intermediate.dense")
        y = y * (1 + erf(y / math.sqrt(2))) / 2
        x = norm(x + linear(y, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    x = {"mean": x.mean(0), "cls": x[0], "max": x.max(0), "last": x[-1]}[pooling]
    return x / np.sqrt((x * x).sum())


def test_vectors_of_the_real_model_are_those_of_float64(encoder):
    found = encoder.encode(TEXTS).host()
    for text, vector in zip(TEXTS, found, strict=True):
        ids = encoder.tokenizer.encode(text, add_special=True)
        np.testing.assert_allclose(vector, reference(minilm_path(), ids), atol=2e-6)
    assert found[0] @ found[1] > 0.7 > 0.2 > found[0] @ found[2]


def test_a_text_has_the_same_bits_alone_and_among_others(encoder):
    together = encoder.encode(TEXTS).host()
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(encoder.encode(text).host(), vector)


def test_long_texts_are_cut_only_when_asked_for(encoder):
    with pytest.raises(BoundsError, match=r"a text has \d+ tokens, the model's context 256"):
        encoder.encode("word " * 300)
    assert encoder.encode("word " * 300, truncate=True).shape == (384,)


def small_folder(folder, **changes) -> None:
    """A tiny encoder with random weights, in the files of Hugging Face."""
    rng, size, hidden = np.random.default_rng(0), 12, 20
    config = {"model_type": "bert", "num_hidden_layers": 1, "hidden_size": size}
    config |= {"intermediate_size": hidden, "num_attention_heads": 3, "layer_norm_eps": 1e-12}
    config |= {"max_position_embeddings": 16, "hidden_act": "gelu", **changes}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {f"embeddings.{n}_embeddings.weight": (count, size)
              for n, count in (("word", 30), ("position", 16), ("token_type", 2))}  # fmt: skip
    parts = ["attention.self.query", "attention.self.key", "attention.self.value"]
    parts += ["attention.output.dense", "intermediate.dense", "output.dense"]
    for part in parts:
        inner = (hidden, size) if "inter" in part else (size, hidden)
        shape = inner if part in ("intermediate.dense", "output.dense") else (size, size)
        shapes[f"encoder.layer.0.{part}.weight"] = shape
        shapes[f"encoder.layer.0.{part}.bias"] = shape[:1]
    for norm in ("attention.output", "output"):
        for name in ("weight", "bias"):
            shapes[f"encoder.layer.0.{norm}.LayerNorm.{name}"] = (size,)
    shapes |= {f"embeddings.LayerNorm.{name}": (size,) for name in ("weight", "bias")}
    weights = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("said", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "cls", "include_prompt": True}, "cls"),  # since version 6
        ({"pooling_mode": "max"}, "max"),
        ({"pooling_mode": ["lasttoken"]}, "last"),
        ({"pooling_mode": "mean"}, "mean"),
    ],
)
def test_vectors_are_made_as_a_folder_says(tmp_path, said, pooling):
    small_folder(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(said))
    model = rlx.models.load(tmp_path)
    ids, counts = np.array([[5, 6, 7, 8], [9, 3, 0, 0]], "int32"), np.array([4, 2], "int32")
    found = rlx.models.bert.encode(model.config, model.weights, ids, counts)
    for row, each, count in zip(found, ids, counts, strict=True):
        wanted = reference(tmp_path, each[:count].tolist(), pooling)
        np.testing.assert_allclose(row, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("said", "kinds", "what"),
    [
        ({"pooling_mode": "weightedmean"}, [], "made by 'weightedmean', which rlx has not"),
        ({"pooling_mode": ["cls", "max"]}, [], "made by 'cls, max', which rlx has not"),
        ({"pooling_mode": None}, [], "made by 'None', which rlx has not"),
        ({}, ["models.Dense"], r"modules\.json has the module 'Dense', which rlx has not"),
    ],
)
def test_vectors_that_are_made_in_other_ways_are_refused(tmp_path, said, kinds, what):
    small_folder(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(said))
    modules = [{"type": f"sentence_transformers.{kind}"} for kind in ("models.Pooling", *kinds)]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(FileFormatError, match=what):
        rlx.models.load(tmp_path)


GGUF_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}  # fmt: skip


def test_a_gguf_file_is_the_same_encoder(tmp_path):
    small_folder(tmp_path)
    writer = gguf.GGUFWriter(tmp_path / "small.gguf", "bert")
    writer.add_block_count(1)
    writer.add_context_length(16)
    writer.add_embedding_length(12)
    writer.add_feed_forward_length(20)
    writer.add_head_count(3)
    writer.add_layer_norm_eps(1e-12)
    writer.add_pooling_type(gguf.PoolingType.CLS)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"\u2581{x}" for x in "abcdefghijklm")]
    tokens += list("abcdefghijklm")
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    for name, x in load_file(tmp_path / "model.safetensors").items():
        label, _, last = name.removeprefix("encoder.layer.0.").rpartition(".")
        before = "blk.0." if name.startswith("encoder.") else ""
        writer.add_tensor(f"{before}{GGUF_NAMES[label]}.{last}", x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = rlx.models.load(tmp_path / "small.gguf")
    ids = model.tokenizer.encode("Abc d", add_special=True)
    assert [tokens[i] for i in ids] == ["[CLS]", "\u2581a", "b", "c", "\u2581d", "[SEP]"]
    found = model.encode("Abc d").host()
    np.testing.assert_allclose(found, reference(tmp_path, ids, "cls"), atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"hidden_act": "relu"}, "hidden_act is 'relu', which rlx has not"),
        ({"num_hidden_layers": 2}, "no tensor 'encoder.layer.1"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is '0', not a positive whole number"),
        ({"hidden_size": 15}, "the settings say"),
        ({"layer_norm_eps": "x"}, "not a finite number"),
        ({"model_type": "t5"}, "of the architecture 't5', which rlx has not"),
        ({"num_attention_heads": 5}, "12 features part not equally among 5 heads"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, changes, what):
    small_folder(tmp_path, **changes)
    with pytest.raises(FileFormatError, match=what):
        rlx.models.load(tmp_path)
