"""Models in folders of Hugging Face, and files that are no models or not those that rlx has."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from llama_reference import Reference
from llama_writer import SPECIAL, vocabulary, write_llama
from safetensors.numpy import save_file

import rlx
from rlx import nn
from rlx.ir.errors import (
    ArgumentError,
    AttributeValueError,
    BoundsError,
    FileFormatError,
    FileMissingError,
)

SIZE, HIDDEN, HEADS, KV_HEADS, HEAD = 32, 48, 4, 2, 8
NAMES = {  # of GGUF, which the reference reads; of Hugging Face
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def tensors(kind: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random weights by the names of GGUF."""
    count = len(vocabulary())
    shapes = {
        "token_embd.weight": (count, SIZE),
        "output.weight": (count, SIZE),
        "output_norm.weight": (SIZE,),
    }
    queries, keys = HEADS * HEAD, KV_HEADS * HEAD
    for i in range(2):
        of_layer = {
            "attn_q.weight": (queries, SIZE), "attn_k.weight": (keys, SIZE),
            "attn_v.weight": (keys, SIZE), "attn_output.weight": (SIZE, queries),
            "ffn_gate.weight": (HIDDEN, SIZE), "ffn_up.weight": (HIDDEN, SIZE),
            "ffn_down.weight": (SIZE, HIDDEN), "attn_norm.weight": (SIZE,),
            "ffn_norm.weight": (SIZE,),
        }  # fmt: skip
        if kind == "qwen2":
            of_layer |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
        if kind == "qwen3":
            of_layer |= {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in of_layer.items()}
    return {n: (rng.normal(size=s) / 4 + (len(s) == 1)).astype("f4") for n, s in shapes.items()}


def write_folder(folder: Path, kind: str, parts: int = 1, **changes: Any) -> Reference:
    """Write a model as Hugging Face does; its reference, without scaled positions."""
    weights = tensors(kind, np.random.default_rng(0))
    config = {"model_type": kind, "num_hidden_layers": 2, "hidden_size": SIZE, "head_dim": HEAD}
    config |= {"intermediate_size": HIDDEN, "num_attention_heads": HEADS, "rms_norm_eps": 1e-5}
    config |= {"num_key_value_heads": KV_HEADS, "max_position_embeddings": 64, "hidden_act": "silu"}
    config |= {"rope_theta": 5000.0, "eos_token_id": [vocabulary().index(SPECIAL[0])], **changes}
    (folder / "config.json").write_text(json.dumps(config))
    named = {}
    for name, x in weights.items():
        theirs = {
            "token_embd.weight": "model.embed_tokens.weight",
            "output.weight": "lm_head.weight",
        }
        theirs["output_norm.weight"] = "model.norm.weight"
        if name.startswith("blk."):
            _, layer, part, last = name.split(".")
            theirs[name] = f"model.layers.{layer}.{NAMES[part]}.{last}"
        named[theirs[name]] = x
    keys = sorted(named)
    if parts == 1:
        save_file(named, folder / "model.safetensors")
    else:
        files = {key: f"model-{i % parts}.safetensors" for i, key in enumerate(keys)}
        for file in set(files.values()):
            save_file({k: named[k] for k in keys if files[k] == file}, folder / file)
        index = json.dumps({"weight_map": files})
        (folder / "model.safetensors.index.json").write_text(index)
    fields = {"general.architecture": "halves", "halves.block_count": 2}
    fields |= {"halves.attention.head_count": HEADS, "halves.attention.head_count_kv": KV_HEADS}
    fields |= {"halves.attention.layer_norm_rms_epsilon": 1e-5, "halves.rope.freq_base": 5000.0}
    if "sliding_window" in changes:
        fields["halves.attention.sliding_window"] = changes["sliding_window"]
    return Reference(fields, {n: x.astype(np.float64) for n, x in weights.items()})


def check(folder: Path, reference: Reference) -> None:
    ids = np.random.default_rng(1).integers(0, len(vocabulary()), 23)
    found = rlx.models.load(folder)(ids[None]).host()[0]
    np.testing.assert_allclose(found, reference.logits(ids.tolist()), atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("llama", {}), ("mistral", {"sliding_window": 6}), ("qwen2", {}), ("qwen3", {})],
)
def test_a_folder_of_hugging_face_is_a_model(tmp_path, kind, changes):
    parts = 3 if kind == "qwen2" else 1
    check(tmp_path, write_folder(tmp_path, kind, parts, **changes))


SCALED = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 512},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
}  # fmt: skip


@pytest.mark.parametrize("kind", SCALED)
def test_positions_are_scaled_as_the_configuration_says(tmp_path, kind):
    reference, given = write_folder(tmp_path, "llama", rope_scaling=SCALED[kind]), SCALED[kind]
    if kind != "llama3":
        scaling = {"type": kind, "factor": given["factor"], "original_context_length": 128}
        fields = {f"halves.rope.scaling.{name}": x for name, x in scaling.items()}
        check(tmp_path, Reference({**reference.fields, **fields}, reference.tensors))
        return
    divisors = []  # what rope_freqs.weight would say, as convert_hf_to_gguf.py computes it
    for i in range(HEAD // 2):
        length = 2 * math.pi * 5000.0 ** (2 * i / HEAD)
        smooth = (512 / length - 1.0) / (4.0 - 1.0)
        middle = 1 / ((1 - smooth) / 8.0 + smooth)
        divisors.append(1.0 if length < 512 / 4.0 else 8.0 if length > 512 / 1.0 else middle)
    factors = {"rope_freqs.weight": np.array(divisors)}
    check(tmp_path, Reference(reference.fields, {**reference.tensors, **factors}))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"model_type": "mamba"}, "of the architecture 'mamba', which rlx has not"),
        ({"num_hidden_layers": 3}, "no tensor 'model.layers.2"),
        ({"num_hidden_layers": 1}, "9 tensors that its architecture has no use for"),
        ({"num_hidden_layers": True}, "not a positive whole number"),
        ({"hidden_size": 33}, "the settings say"),
        ({"num_key_value_heads": 3}, "4 heads share 3 of keys"),
        ({"head_dim": 7}, "7 features, which part in no pairs"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', which rlx has not"),
        ({"rope_theta": 0.5}, "0.5, not above 1"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "'longrope', which rlx has not"),
        ({"rope_scaling": {"rope_type": "linear"}}, "has no rope_scaling.factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.1}}, "less than 1"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is '0.5'"),
        ({"rms_norm_eps": float("nan")}, "not a finite number"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, changes, what):
    write_folder(tmp_path, changes.pop("model_type", "llama"), **changes)
    with pytest.raises(FileFormatError, match=what) as raised:
        rlx.models.load(tmp_path)
    assert raised.value.fix


def test_files_that_are_missing_are_named(tmp_path):
    with pytest.raises(FileMissingError, match=r"config\.json"):
        rlx.models.load(tmp_path)
    write_folder(tmp_path, "llama")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileMissingError, match=r"has no model\.safetensors"):
        rlx.models.load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"x": "../x"}}')
    with pytest.raises(FileFormatError, match="for the name of a file"):
        rlx.models.load(tmp_path)


def test_a_gguf_file_of_another_architecture_is_named(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "rwkv7")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(FileFormatError, match="'rwkv7', which rlx has not") as raised:
        rlx.models.load(tmp_path / "x.gguf")
    assert "llama, mistral, qwen2, qwen3" in raised.value.fix


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    kind = dict(layers=1, architecture="llama", scaling="none", window=None)
    write_llama(path, np.random.default_rng(3), ["q4_0", "q8_0"], **kind)
    return rlx.models.load(path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_tokens": -1}, AttributeValueError),
        ({"max_tokens": 512}, BoundsError),
        ({"temperature": -1.0}, AttributeValueError),
        ({"temperature": float("nan")}, AttributeValueError),
        ({"top_p": 0.0}, AttributeValueError),
        ({"top_p": 1e-320}, AttributeValueError),
        ({"presence_penalty": 1e39}, AttributeValueError),
        ({"logit_bias": {1: 1e39}}, AttributeValueError),
        ({"min_p": 1.5}, AttributeValueError),
        ({"repetition_penalty": 0.0}, AttributeValueError),
        ({"seed": -1}, AttributeValueError),
        ({"logprobs": 21}, AttributeValueError),
        ({"stop": 3}, ArgumentError),
        ({"tempature": 1.0}, AttributeValueError),
    ],
)
def test_options_that_mean_nothing_are_named(tiny, options, error):
    with pytest.raises(error, match=next(iter(options)).replace("tempature", "option")):
        tiny.generate("ab", **options)


@pytest.mark.parametrize("prompt", ["", [], [999999], [-1], [1.5], [[1], [2, "a"]], None, {"a": 1}])
def test_prompts_that_are_none_are_named(tiny, prompt):
    with pytest.raises((ArgumentError, AttributeValueError, BoundsError)):
        tiny.generate(prompt, max_tokens=1)


def test_sampling_takes_only_tokens_that_are_allowed(tiny):
    prompt = [5, 6, 7]
    chances = nn.softmax(tiny([prompt])[0, -1]).host()
    order = np.argsort(-chances)
    drawn = {tiny.generate(prompt, max_tokens=1, temperature=1.0, top_k=3, seed=i, stop="zz")
             .tokens[0] for i in range(40)}  # fmt: skip
    assert drawn <= set(order[:3].tolist()) and len(drawn) > 1
    few = int(np.searchsorted(np.cumsum(chances[order]), 0.05)) + 1
    drawn = {tiny.generate(prompt, max_tokens=1, temperature=1.0, top_p=0.05, seed=i).tokens[0]
             for i in range(40)}  # fmt: skip
    assert drawn <= set(order[:few].tolist())
    likely = set(np.flatnonzero(chances >= 0.7 * chances.max() * (1 - 1e-5)).tolist())
    drawn = {tiny.generate(prompt, max_tokens=1, temperature=1.0, min_p=0.7, seed=i).tokens[0]
             for i in range(40)}  # fmt: skip
    assert drawn <= likely


def test_penalties_change_what_was_written(tiny):
    plain = tiny.generate([5, 6, 7], max_tokens=12, presence_penalty=100.0)
    assert len(set(plain.tokens)) == len(plain.tokens)
    first = tiny.generate([5, 6, 7], max_tokens=1).tokens[0]
    again = tiny.generate([5, 6, 7, first], max_tokens=1, repetition_penalty=1e6)
    assert again.tokens[0] not in {5, 6, 7, first}


def test_more_prompts_than_rows_are_continued(tiny):
    prompts = [[i, i + 1] for i in range(20)]
    found = tiny.generate(prompts, max_tokens=3)
    assert found[17] == tiny.generate(prompts[17], max_tokens=3)
