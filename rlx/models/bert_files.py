"""Encoders after BERT in files: settings and names of GGUF and of Hugging Face."""

from __future__ import annotations

from typing import Any

from ..io.contents import refuse
from .bert import Bert
from .settings import Settings
from .tensors import Tensors

# ours: that of GGUF, after the architecture; those of Hugging Face
SETTINGS: dict[str, tuple[str, ...]] = {
    "layers": ("block_count", "num_hidden_layers"),
    "size": ("embedding_length", "hidden_size"),
    "hidden": ("feed_forward_length", "intermediate_size"),
    "heads": ("attention.head_count", "num_attention_heads"),
    "epsilon": ("attention.layer_norm_epsilon", "layer_norm_eps"),
    "context": ("context_length", "max_position_embeddings"),
    "activation": ("", "hidden_act"),
    "position_kind": ("", "position_embedding_type"),
    "pooling": ("pooling_type", ""),
}
TABLE = {
    "embedding": ("token_embd.weight", "embeddings.word_embeddings.weight"),
    "positions": ("position_embd.weight", "embeddings.position_embeddings.weight"),
    "kinds": ("token_types.weight", "embeddings.token_type_embeddings.weight"),
    "norm": ("token_embd_norm.weight", "embeddings.LayerNorm.weight"),
    "norm_bias": ("token_embd_norm.bias", "embeddings.LayerNorm.bias"),
}
PARTS = {
    "q": ("attn_q", "attention.self.query"),
    "k": ("attn_k", "attention.self.key"),
    "v": ("attn_v", "attention.self.value"),
    "o": ("attn_output", "attention.output.dense"),
    "attention_norm": ("attn_output_norm", "attention.output.LayerNorm"),
    "up": ("ffn_up", "intermediate.dense"),
    "down": ("ffn_down", "output.dense"),
    "ffn_norm": ("layer_output_norm", "output.LayerNorm"),
}
BEFORE_LAYER = ("blk.{}.", "encoder.layer.{}.")
UNUSED = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
POOLINGS = {1: "mean", 2: "cls", 3: "last"}  # of GGUF


def read_bert(
    architecture: str, given: Settings, tensors: Tensors, layout: int
) -> tuple[Bert, dict[str, Any]]:
    """The model and its weights; `layout` is 0 for GGUF and 1 for Hugging Face."""
    given.only("activation", "gelu", "gelu_new", "gelu_pytorch_tanh")
    given.only("position_kind", "absolute")
    given.only("pooling", *POOLINGS)
    before = "bert." if layout and f"bert.{TABLE['embedding'][1]}" in tensors else ""
    model = Bert(
        vocabulary=tensors.rows(before + TABLE["embedding"][layout]),
        layers=given.count("layers"),
        size=given.count("size"),
        hidden=given.count("hidden"),
        heads=given.count("heads"),
        epsilon=given.real("epsilon"),
        context=given.count("context"),
        pooling=POOLINGS[given.count("pooling", 1)],
        is_tanh=given.text("activation", "gelu") != "gelu",
    )
    if model.size % model.heads:
        refuse(f"{model.size} features part not equally among {model.heads} heads")
    tensors.ignore(before + name for name in UNUSED)
    return model, _weights(model, tensors, layout, before)


def _weights(model: Bert, tensors: Tensors, layout: int, before: str) -> dict[str, Any]:
    size, hidden = model.size, model.hidden
    kinds = tensors.rows(before + TABLE["kinds"][layout])
    shapes = {"embedding": (model.vocabulary, size), "positions": (model.context, size)}
    shapes |= {"kinds": (kinds, size), "up": (hidden, size), "down": (size, hidden)}
    shapes |= dict.fromkeys("qkvo", (size, size))

    def taken(ours: str, theirs: str) -> Any:
        return tensors.take(before + theirs, shapes.get(ours, (size,)))

    layers = []
    for i in range(model.layers):
        layer = {}
        for ours, names in PARTS.items():
            theirs = BEFORE_LAYER[layout].format(i) + names[layout]
            layer[ours] = taken(ours, f"{theirs}.weight")
            count = hidden if ours == "up" else size
            layer[f"{ours}_bias"] = tensors.take(f"{before}{theirs}.bias", (count,))
        layers.append(layer)
    return {**{ours: taken(ours, names[layout]) for ours, names in TABLE.items()}, "layers": layers}
