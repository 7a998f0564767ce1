"""Model files that say what cannot be: errors that name it, soon and in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tokenizers
from gguf_writer import gguf, info, row
from test_model_files import write_folder

import rlx
from rlx.ir.errors import FileFormatError

SIZE, TOKENS = 32, 8
SETTINGS: dict[str, tuple[str, Any]] = {
    "general.architecture": ("text", "llama"),
    "llama.block_count": ("u32", 1),
    "llama.context_length": ("u32", 64),
    "llama.embedding_length": ("u32", SIZE),
    "llama.feed_forward_length": ("u32", SIZE),
    "llama.attention.head_count": ("u32", 2),
    "llama.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
    "tokenizer.ggml.model": ("text", "llama"),
    "tokenizer.ggml.tokens": ("text*", list("abcdefgh")),
    "tokenizer.ggml.scores": ("f32*", [-float(i) for i in range(TOKENS)]),
}
MATRICES = [f"attn_{x}" for x in ("q", "k", "v", "output")] + ["ffn_gate", "ffn_up", "ffn_down"]
TENSORS: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (TOKENS, SIZE),
    "output_norm.weight": (SIZE,),
    **{f"blk.0.{name}.weight": (SIZE, SIZE) for name in MATRICES},
    **{f"blk.0.{name}.weight": (SIZE,) for name in ("attn_norm", "ffn_norm")},
}
FACTORS = {"rope_freqs.weight": (SIZE // 4,)}


def write(
    path: Path,
    settings: dict[str, tuple[str, Any]] | None = None,
    tensors: dict[str, tuple[int, ...]] | None = None,
) -> Path:
    """A small model, all of whose numbers are 0, with other settings and tensors."""
    rows = [row(name, *given) for name, given in {**SETTINGS, **(settings or {})}.items()]
    infos, offset = [], 0
    for name, shape in {**TENSORS, **(tensors or {})}.items():
        infos.append(info(name, shape, 0, offset))
        offset += -(-4 * int(np.prod(shape)) // 32) * 32
    path.write_bytes(gguf(rows, infos, bytes(offset)))
    return path


ODD: dict[str, tuple[dict[str, tuple[str, Any]], dict[str, tuple[int, ...]]]] = {
    "head_count is 'array": ({"llama.attention.head_count": ("u32*", [2, 2])}, {}),
    "dimension_count is '[16 16]'": ({"llama.rope.dimension_count": ("u32*", [16, 16])}, {}),
    "scaling.type is '[1 2]'": ({"llama.rope.scaling.type": ("u32*", [1, 2])}, {}),
    "one of several parts": ({"split.count": ("u16*", [1, 1])}, {}),
    "'token_embd.weight' is a single number": ({}, {"token_embd.weight": ()}),
    "the settings say (4294967292, 32)": ({"llama.attention.key_length": ("u32", 2**31 - 2)}, {}),
    "no tensor 'blk.1.attn_norm.weight'": ({"llama.block_count": ("u32", 2**31 - 1)}, {}),
    "factors of rotary positions": ({}, FACTORS),
    "no scores of its 8 tokens": ({"tokenizer.ggml.scores": ("bool*", [True] * TOKENS)}, {}),
    "8 scores of 2 tokens": ({"tokenizer.ggml.tokens": ("text*", ["a", "b"])}, {}),
    "has 200000 letters": (
        {
            "tokenizer.ggml.tokens": ("text*", ["a" * 200_000, "b"]),
            "tokenizer.ggml.scores": ("f32*", [0, 0]),
        },
        {},
    ),
    "add_space_prefix is": ({"tokenizer.ggml.add_space_prefix": ("u8*", [1, 1])}, {}),
    "chat_template is '3', no text": ({"tokenizer.chat_template": ("u32", 3)}, {}),
}


def test_the_model_is_one(tmp_path):
    assert rlx.models.load(write(tmp_path / "x.gguf")).generate("ab", max_tokens=2).tokens == [0, 0]
    assert rlx.models.load(write(tmp_path / "without a suffix")).config.layers == 1


SCALED: dict[str, tuple[tuple[str, Any], ...]] = {
    "the format's default is linear": (("rope.scaling.factor", 4.0),),
    "its old name": (("rope.scale_linear", 4.0),),
    "linear": (("rope.scaling.type", "linear"), ("rope.scaling.factor", 4.0)),
}


@pytest.mark.parametrize("name", SCALED)
def test_rotary_positions_are_scaled_as_llama_cpp_does(tmp_path, name):
    given = {f"llama.{x}": ("text" if isinstance(y, str) else "f32", y) for x, y in SCALED[name]}
    given["llama.rope.scaling.attn_factor"] = "f32", 0.5
    config = rlx.models.load(write(tmp_path / "x.gguf", given)).config
    plain = rlx.models.load(write(tmp_path / "y.gguf")).config
    assert config.frequencies == tuple(x / 4 for x in plain.frequencies)
    assert config.magnitude == 0.5


def test_vectors_may_be_in_blocks(tmp_path):
    path = write(tmp_path / "x.gguf")
    data = path.read_bytes()
    start = data.index(b"output_norm.weight") + len(b"output_norm.weight") + 12
    assert data[start : start + 4] == bytes(4)
    path.write_bytes(data[:start] + bytes([8]) + data[start + 1 :])  # q8_0 takes fewer bytes
    model = rlx.models.load(path)
    assert model.weights["norm"].dtype == "float32" and model([[1, 2]]).shape == (1, 2, TOKENS)


@pytest.mark.parametrize("says", ODD)
def test_odd_files_are_named(tmp_path, says):
    settings, tensors = ODD[says]
    with pytest.raises(FileFormatError) as raised:
        rlx.models.load(write(tmp_path / "x.gguf", settings, tensors))
    assert says in raised.value.what and raised.value.fix


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_hidden_layers": 2_000_000_000}, "no tensor 'model.layers.2"),
        ({"head_dim": 2**31 - 2}, "the settings say (8589934584, 32)"),
        ({"rope_scaling": ["linear"]}, "rope_scaling is \"['linear']\", no JSON object"),
        ({"rope_parameters": 3}, "rope_parameters is '3', no JSON object"),
        ({"eos_token_id": "x"}, "eos_token_id is 'x', not numbers of tokens"),
    ],
)
def test_odd_configurations_are_named(tmp_path, changes, says):
    write_folder(tmp_path, "llama", **changes)
    with pytest.raises(FileFormatError) as raised:
        rlx.models.load(tmp_path)
    assert says in raised.value.what and raised.value.fix


def test_configurations_say_where_positions_begin_and_windows_end(tmp_path):
    """As the classes of transformers read them."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    write_folder(tmp_path, "llama", rope_parameters={**yarn, "rope_theta": 10000.0})
    whole = np.array(rlx.models.load(tmp_path).config.frequencies)
    write_folder(tmp_path, "llama", rope_scaling={**yarn, "truncate": False}, rope_theta=10000.0)
    exact = np.array(rlx.models.load(tmp_path).config.frequencies)
    half, plain = len(exact), 10000.0 ** (-np.arange(len(exact)) / len(exact))
    ends = [np.log(512 / (turns * 2 * np.pi)) * half / np.log(10000.0) for turns in (32, 1)]
    for found, (first, last) in ((exact, ends), (whole, (np.floor(ends[0]), np.ceil(ends[1])))):
        share = np.clip((np.arange(half) - first) / (last - first), 0, 1)
        np.testing.assert_allclose(found, plain * (1 - share * 3 / 4), rtol=1e-12)
    for kind, window in ("qwen2", None), ("llama", None), ("mistral", 4):
        write_folder(tmp_path, kind, sliding_window=4)
        assert rlx.models.load(tmp_path).config.window == window


def test_ends_that_no_token_has_are_none(tmp_path):
    write_folder(tmp_path, "llama", eos_token_id=[-1, 5, 10**30])
    assert rlx.models.load(tmp_path).ends == {5}


def test_a_model_without_a_head_must_be_tied(tmp_path):
    write_folder(tmp_path, "llama", tie_word_embeddings=False)
    path = tmp_path / "model.safetensors"
    rlx.models.load(tmp_path)
    rlx.save(path, {n: np.asarray(x) for n, x in rlx.io.open(path).items() if "lm_head" not in n})
    with pytest.raises(FileFormatError, match=r"no tensor 'lm_head\.weight'"):
        rlx.models.load(tmp_path)


def test_tokens_that_only_the_model_has_are_no_text(tmp_path):
    """Embeddings may have more rows than there are tokens."""
    write_folder(tmp_path, "llama")
    vocabulary = {f"{chr(97 + i)}": i for i in range(4)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    model = rlx.models.load(tmp_path)
    found = model.generate("ab", max_tokens=9, temperature=9.0, seed=1)
    assert max(found.tokens) > 3 and len(found.text.replace(" ", "")) < 9
    with pytest.raises(rlx.BoundsError, match="no token 4"):
        model.tokenizer.decode([4])


def test_forms_need_a_tokenizer_that_their_library_knows(tmp_path):
    pytest.importorskip("llguidance", reason="needs the package llguidance")
    write_folder(tmp_path, "llama")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, []))
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    with pytest.raises(rlx.ArgumentError, match="this tokenizer can have no form"):
        rlx.models.load(tmp_path).generate("ab", max_tokens=3, regex="a+")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8", "bool", "complex64"])
def test_weights_are_floats(tmp_path, dtype):
    """Longer ones compute as float32 does; numbers of codes alone are not the weights."""
    write_folder(tmp_path, "llama")
    path = tmp_path / "model.safetensors"
    ids = np.arange(8)[None]
    wanted = rlx.models.load(tmp_path)(ids)
    table = {name: np.asarray(x) for name, x in rlx.io.open(path).items()}
    rlx.save(path, {name: x.astype(getattr(ml_dtypes, dtype, dtype)) for name, x in table.items()})
    if dtype in ("int8", "bool", "complex64"):
        with pytest.raises(FileFormatError, match=f"holds {dtype}, no floats"):
            rlx.models.load(tmp_path)
        return
    near = 1e-6 if dtype == "float64" else 0.1
    np.testing.assert_allclose(rlx.models.load(tmp_path)(ids), wanted, atol=near)


CUT = """
import os, sys, rlx
model = rlx.models.load(sys.argv[1])
if sys.argv[2] == "later":
    model.generate([1, 2], max_tokens=2)
os.truncate(sys.argv[1], 64)
try:
    model.generate([1, 2], max_tokens=2)
except rlx.FileFormatError as error:
    print(error.what)
"""


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_file_that_is_cut_off_while_it_is_mapped(tmp_path, when):
    path = write(tmp_path / "x.gguf")
    command = [sys.executable, "-c", CUT, str(path), when]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{str(path)!r}: the file was cut off after it was opened\n"


def test_paths_that_no_file_has():
    for load in (rlx.models.load, rlx.io.open, rlx.load, rlx.load_exported):
        with pytest.raises(rlx.FileAccessError, match="a name of 5005 bytes, more than 255"):
            load("x" * 5000 + ".gguf")
        with pytest.raises(rlx.FileAccessError, match="half of a letter"):
            load("\ud800.gguf")
    if os.path.exists("/dev/zero"):
        for load in (rlx.models.load, rlx.load, rlx.load_exported):
            with pytest.raises(rlx.FileAccessError, match=r"^cannot read .* it is no"):
                load("/dev/zero")


def test_a_list_of_files_is_checked(tmp_path):
    write_folder(tmp_path, "llama")
    index = tmp_path / "model.safetensors.index.json"
    for name, says in (
        ("x" * 300, "a name of 300 bytes"),
        ("..", "is a directory"),
        ("a\0", "NUL"),
    ):
        index.write_text(json.dumps({"weight_map": {"w": name}}))
        with pytest.raises(rlx.FileAccessError, match=says):
            rlx.models.load(tmp_path)
