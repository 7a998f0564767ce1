"""Writes models of the Llama family with random sizes and weights, through the package `gguf`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from rlx import nn
from rlx.ir.ops.blocks import FORMATS

DENSE = ("f32", "f16", "bf16")
SCALINGS = ("none", "linear", "yarn", "factors")
LETTERS = sorted({*map(chr, [*range(33, 127), *range(161, 173), *range(174, 256)])})
SPECIAL = ["<|end|>", "<|system|>"]


def vocabulary() -> list[str]:
    """The bytes as GPT-2 writes them, and special tokens."""
    letters = LETTERS + [chr(256 + i) for i in range(256 - len(LETTERS))]
    return [*letters, *SPECIAL, "ab", "abc", "de"]


def drawn(rng: np.random.Generator) -> dict[str, Any]:
    """The sizes and kinds of a random model."""
    kv_heads = int(rng.choice([1, 2, 3]))
    return {
        "architecture": str(rng.choice(["llama", "qwen2", "qwen3"])),
        "layers": int(rng.integers(1, 4)),
        "size": int(rng.choice([256, 512])),
        "hidden": int(rng.choice([256, 768])),
        "kv_heads": kv_heads,
        "heads": kv_heads * int(rng.choice([1, 2, 4])),
        "head_size": int(rng.choice([32, 64])),
        "base": float(rng.choice([10000.0, 500000.0])),
        "scaling": str(rng.choice(SCALINGS)),
        "window": int(rng.integers(3, 9)) if rng.random() < 0.3 else None,
        "tied": bool(rng.random() < 0.5),
    }


def write_llama(path: Path, rng: np.random.Generator, formats: list[str], **kind: Any) -> None:
    """Write a model; each matrix takes the next of the formats."""
    kind = {**drawn(rng), **kind}
    name, size = kind["architecture"], kind["size"]
    queries, keys = (kind[n] * kind["head_size"] for n in ("heads", "kv_heads"))
    writer = gguf.GGUFWriter(path, name)
    writer.add_block_count(kind["layers"])
    writer.add_context_length(512)
    writer.add_embedding_length(size)
    writer.add_feed_forward_length(kind["hidden"])
    writer.add_head_count(kind["heads"])
    writer.add_head_count_kv(kind["kv_heads"])
    writer.add_key_length(kind["head_size"])
    writer.add_value_length(kind["head_size"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(kind["base"])
    if kind["window"]:
        writer.add_sliding_window(kind["window"])
    _add_scaling(writer, kind, rng)
    _add_vocabulary(writer)
    taken = iter(formats * 20)

    def matrix(label: str, rows: int, columns: int) -> None:
        numbers = (rng.normal(size=(rows, columns)) / np.sqrt(columns)).astype(np.float32)
        _add(writer, label, numbers, next(taken))

    def vector(label: str, count: int, mean: float) -> None:
        writer.add_tensor(label, (mean + 0.2 * rng.normal(size=count)).astype(np.float32))

    count = len(vocabulary())
    matrix("token_embd.weight", count, size)
    vector("output_norm.weight", size, 1)
    if not kind["tied"]:
        matrix("output.weight", count, size)
    for i in range(kind["layers"]):
        for label, rows, columns in (
            ("attn_q", queries, size), ("attn_k", keys, size), ("attn_v", keys, size),
            ("attn_output", size, queries), ("ffn_gate", kind["hidden"], size),
            ("ffn_up", kind["hidden"], size), ("ffn_down", size, kind["hidden"]),
        ):  # fmt: skip
            matrix(f"blk.{i}.{label}.weight", rows, columns)
        for label in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{label}.weight", size, 1)
        if name == "qwen2":
            for label, rows in (("q", queries), ("k", keys), ("v", keys)):
                vector(f"blk.{i}.attn_{label}.bias", rows, 0)
        if name == "qwen3":
            for label in "qk":
                vector(f"blk.{i}.attn_{label}_norm.weight", kind["head_size"], 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: gguf.GGUFWriter, label: str, numbers: np.ndarray, format: str) -> None:
    """Add a matrix in a format; one whose rows are no whole blocks as float32."""
    if format in FORMATS and numbers.shape[1] % FORMATS[format].size == 0:
        data = np.asarray(nn.quantize_blocks(numbers, format).data)
        writer.add_tensor(label, data, raw_dtype=gguf.GGMLQuantizationType[format.upper()])
    elif format == "f16":
        writer.add_tensor(label, numbers.astype(np.float16))
    elif format == "bf16":
        half = gguf.quantize(numbers, gguf.GGMLQuantizationType.BF16)
        writer.add_tensor(label, half, raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        writer.add_tensor(label, numbers)


def _add_scaling(writer: gguf.GGUFWriter, kind: dict[str, Any], rng: np.random.Generator) -> None:
    if kind["scaling"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(2.5)
    if kind["scaling"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(128)
    if kind["scaling"] == "factors":
        factors = rng.uniform(1, 8, kind["head_size"] // 2).astype(np.float32)
        writer.add_tensor("rope_freqs.weight", factors)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if x in SPECIAL else normal for x in tokens])
    writer.add_token_merges(["a b", "ab c", "d e"])
    writer.add_eos_token_id(tokens.index("<|end|>"))
