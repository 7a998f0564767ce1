"""What models of the Llama family compute, in float64 and NumPy: an independent account.

Blocks are dequantized by the package `gguf`; nothing here is shared with rlx.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize

FLOAT = np.float64


class Reference:
    """A model of a GGUF file: its metadata, and its tensors in float64."""

    def __init__(self, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
        self.fields, self.tensors = fields, tensors
        self.architecture = fields["general.architecture"]

    @staticmethod
    def of(path: str | Path) -> Reference:
        """The model of a file."""
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        numbers = {t.name: dequantize(t.data, t.tensor_type) for t in reader.tensors}
        return Reference(fields, {name: x.astype(FLOAT) for name, x in numbers.items()})

    def __getitem__(self, key: str) -> Any:
        return self.fields[f"{self.architecture}.{key}"]

    def get(self, key: str, default: Any) -> Any:
        return self.fields.get(f"{self.architecture}.{key}", default)

    def logits(self, ids: list[int]) -> np.ndarray:
        """Logits after each token: f64[tokens, vocabulary]."""
        w, eps = self.tensors, self["attention.layer_norm_rms_epsilon"]
        x = w["token_embd.weight"][ids]
        for i in range(self["block_count"]):
            t = {n.removeprefix(f"blk.{i}."): a for n, a in w.items() if n.startswith(f"blk.{i}.")}
            x = (
                x
                + self.attended(norm(x, t["attn_norm.weight"], eps), t) @ t["attn_output.weight"].T
            )
            h = norm(x, t["ffn_norm.weight"], eps)
            gate = h @ t["ffn_gate.weight"].T
            up = h @ t["ffn_up.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ t["ffn_down.weight"].T
        x = norm(x, w["output_norm.weight"], eps)
        return x @ w.get("output.weight", w["token_embd.weight"]).T

    def attended(self, h: np.ndarray, t: Mapping[str, np.ndarray]) -> np.ndarray:
        """The means of values, of all heads."""
        heads, eps = self["attention.head_count"], self["attention.layer_norm_rms_epsilon"]
        groups, tokens = self.get("attention.head_count_kv", heads), len(h)
        q, k, v = (
            (h @ t[f"attn_{n}.weight"].T + t.get(f"attn_{n}.bias", 0.0)).reshape(tokens, count, -1)
            for n, count in (("q", heads), ("k", groups), ("v", groups))
        )
        if "attn_q_norm.weight" in t:
            q, k = norm(q, t["attn_q_norm.weight"], eps), norm(k, t["attn_k_norm.weight"], eps)
        q, k = self.turned(q), np.repeat(self.turned(k), heads // groups, 1)
        v = np.repeat(v, heads // groups, 1)
        scores = np.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1])
        own, other = np.arange(tokens)[:, None], np.arange(tokens)
        hidden = other > own
        window = self.get("attention.sliding_window", None)
        if window is not None:
            hidden |= own - other >= window
        scores[:, hidden] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return np.einsum("hts,shd->thd", p, v).reshape(tokens, -1)

    def turned(self, x: np.ndarray) -> np.ndarray:
        """Queries or keys f64[tokens, heads, size], turned by their places as complex numbers."""
        angles, factor = self.angles(x.shape[-1])
        turn = factor * np.exp(1j * np.arange(len(x))[:, None, None] * angles)
        if self.architecture == "llama":
            z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
            return np.stack([z.real, z.imag], -1).reshape(x.shape)
        half = x.shape[-1] // 2
        z = (x[..., :half] + 1j * x[..., half:]) * turn
        return np.concatenate([z.real, z.imag], -1)

    def angles(self, size: int) -> tuple[np.ndarray, float]:
        """Radians per token of each pair, and by how much they are stretched."""
        base = self.get("rope.freq_base", 10000.0)
        plain = np.array([base ** (-2 * i / size) for i in range(size // 2)])
        kind, factor = self.get("rope.scaling.type", "none"), self.get("rope.scaling.factor", 1.0)
        if "rope_freqs.weight" in self.tensors:
            return plain / self.tensors["rope_freqs.weight"], 1.0
        if kind == "linear":
            return plain / factor, 1.0
        if kind != "yarn":
            return plain, 1.0
        trained = self["rope.scaling.original_context_length"]
        ends = []
        for turns in (32.0, 1.0):  # ggml_rope_yarn_corr_dims of llama.cpp
            ends.append(size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)))
        low, high = max(0.0, math.floor(ends[0])), min(size - 1.0, math.ceil(ends[1]))
        found = []
        for i in range(size // 2):
            kept = 1 - min(1.0, max(0.0, (i - low) / max(0.001, high - low)))
            found.append(plain[i] / factor * (1 - kept) + plain[i] * kept)
        return np.array(found), 1 + 0.1 * math.log(factor)


def norm(x: np.ndarray, scale: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * scale
