"""The Llama family in files: settings and names of GGUF and of Hugging Face."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..io.contents import refuse
from ..ir.record import replace
from .llama import Llama, linear_scaling, llama3_scaling, yarn_scaling
from .settings import Settings
from .tensors import Tensors


def _scaling(ours: str, *others: str) -> tuple[str, ...]:
    """The places of a setting of rotary positions."""
    ends = others or (ours,)
    return tuple(f"{table}.{end}" for table in ("rope_scaling", "rope_parameters") for end in ends)


# ours: that of GGUF, after the architecture; those of Hugging Face
SETTINGS: dict[str, tuple[str, ...]] = {
    "layers": ("block_count", "num_hidden_layers"),
    "size": ("embedding_length", "hidden_size"),
    "hidden": ("feed_forward_length", "intermediate_size"),
    "heads": ("attention.head_count", "num_attention_heads"),
    "kv_heads": ("attention.head_count_kv", "num_key_value_heads"),
    "head_size": ("attention.key_length", "head_dim"),
    "value_size": ("attention.value_length", ""),
    "turned_size": ("rope.dimension_count", ""),
    "turned_share": ("", "partial_rotary_factor", "rope_parameters.partial_rotary_factor"),
    "epsilon": ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    "context": ("context_length", "max_position_embeddings"),
    "window": ("attention.sliding_window", "sliding_window"),
    "has_window": ("", "use_sliding_window"),
    "activation": ("", "hidden_act"),
    "base": ("rope.freq_base", "rope_parameters.rope_theta", "rope_theta"),
    "scaling": ("rope.scaling.type", *_scaling("rope_type", "rope_type", "type")),
    "factor": ("rope.scaling.factor", *_scaling("factor")),
    "old_factor": ("rope.scale_linear", ""),  # of GGUF files of 2023
    "trained": (
        "rope.scaling.original_context_length",
        *_scaling("original_max_position_embeddings"),
    ),
    "fast": ("rope.scaling.yarn_beta_fast", *_scaling("beta_fast")),
    "slow": ("rope.scaling.yarn_beta_slow", *_scaling("beta_slow")),
    "magnitude": ("", *_scaling("attention_factor")),
    "times": ("rope.scaling.attn_factor", ""),
    "mscale": ("", *_scaling("mscale")),
    "is_whole": ("", *_scaling("truncate")),
    "is_tied": ("", "tie_word_embeddings"),
    "low_turns": ("", *_scaling("low_freq_factor")),
    "high_turns": ("", *_scaling("high_freq_factor")),
}
TABLE = {
    "embedding": ("token_embd.weight", "model.embed_tokens.weight"),
    "norm": ("output_norm.weight", "model.norm.weight"),
    "head": ("output.weight", "lm_head.weight"),
}
LAYER = {
    "attention_norm": ("attn_norm.weight", "input_layernorm.weight"),
    "q": ("attn_q.weight", "self_attn.q_proj.weight"),
    "k": ("attn_k.weight", "self_attn.k_proj.weight"),
    "v": ("attn_v.weight", "self_attn.v_proj.weight"),
    "o": ("attn_output.weight", "self_attn.o_proj.weight"),
    "q_bias": ("attn_q.bias", "self_attn.q_proj.bias"),
    "k_bias": ("attn_k.bias", "self_attn.k_proj.bias"),
    "v_bias": ("attn_v.bias", "self_attn.v_proj.bias"),
    "q_norm": ("attn_q_norm.weight", "self_attn.q_norm.weight"),
    "k_norm": ("attn_k_norm.weight", "self_attn.k_norm.weight"),
    "ffn_norm": ("ffn_norm.weight", "post_attention_layernorm.weight"),
    "gate": ("ffn_gate.weight", "mlp.gate_proj.weight"),
    "up": ("ffn_up.weight", "mlp.up_proj.weight"),
    "down": ("ffn_down.weight", "mlp.down_proj.weight"),
}
OPTIONAL = ("head", "q_bias", "k_bias", "v_bias", "q_norm", "k_norm")
BEFORE_LAYER = ("blk.{}.", "model.layers.{}.")
INTERLEAVED = ("llama", "mistral")  # whose pairs GGUF files have side by side
FACTORS = "rope_freqs.weight"  # what frequencies are divided by, in GGUF files of Llama 3


def read_llama(
    architecture: str, given: Settings, tensors: Tensors, layout: int
) -> tuple[Llama, dict[str, Any]]:
    """The model and its weights; `layout` is 0 for GGUF and 1 for Hugging Face."""
    size, heads = given.count("size"), given.count("heads")
    head_size = given.count("head_size", max(size // heads, 1))
    for name in ("value_size", "turned_size"):
        given.only(name, head_size)
    given.only("turned_share", 1.0)
    given.only("activation", "silu")
    if head_size % 2:
        refuse(f"heads have {head_size} features, which part in no pairs to turn")
    if architecture.startswith("qwen"):
        given.only("has_window", False)
    # of Hugging Face's classes only those for Mistral have one if a file does not say so
    usual = layout == 0 or architecture == "mistral"
    has_window = given.has("window") and given.flag("has_window", usual)
    if not given.flag("is_tied", True):
        tensors.shape(TABLE["head"][layout])  # refuses a model without it
    model = Llama(
        vocabulary=tensors.rows(TABLE["embedding"][layout]),
        layers=given.count("layers"),
        size=size,
        hidden=given.count("hidden"),
        heads=heads,
        kv_heads=given.count("kv_heads", heads),
        head_size=head_size,
        epsilon=given.real("epsilon"),
        context=given.count("context"),
        is_interleaved=layout == 0 and architecture in INTERLEAVED,
        window=given.count("window") if has_window else None,
    )
    if heads % model.kv_heads:
        refuse(f"{heads} heads share {model.kv_heads} of keys, which is no divisor")
    weights = _weights(model, tensors, layout)  # sizes that do not fit are found first
    return _turning(model, given, tensors, layout), weights


def _turning(model: Llama, given: Settings, tensors: Tensors, layout: int) -> Llama:
    """The model with the frequencies of its rotary positions."""
    base, half = given.real("base", 10000.0), model.head_size // 2
    if base <= 1:
        refuse(f"the base of rotary positions is {base}, not above 1")
    plain, magnitude = base ** (-np.arange(half) / half), 1.0
    given.only("scaling", "none", "default", "linear", "llama3", "yarn")
    wanted = "old_factor" if given.has("old_factor") and not given.has("factor") else "factor"
    is_linear = layout == 0 and given.has(wanted)  # of GGUF files that say no more
    kind = given.text("scaling", "linear" if is_linear else "none")
    if FACTORS in tensors:
        factors = np.asarray(tensors.take(FACTORS, (half,)), np.float64)
        if not (np.isfinite(factors) & (factors > 0)).all():
            refuse(f"the tensor {FACTORS} has factors of rotary positions that are none")
        plain = plain / factors
    if kind in ("linear", "llama3", "yarn"):
        factor = given.real(wanted)
        if factor < 1:
            refuse(f"rotary positions are scaled by {factor}, which is less than 1")
    if kind == "linear":
        plain = linear_scaling(plain, factor)
    if kind == "llama3":
        low, high = given.real("low_turns"), given.real("high_turns")
        if high <= low:
            refuse(f"rotary positions are scaled from {low} to {high} turns, which do not rise")
        plain = llama3_scaling(plain, factor, low, high, given.count("trained"))
    if kind == "yarn":
        if given.has("mscale"):
            given.only("mscale", "none")
        fast, slow = given.real("fast", 32.0), given.real("slow", 1.0)
        if not 0 < slow < fast:
            refuse(
                f"rotary positions are scaled between {fast} and {slow} turns, which do not fall"
            )
        trained, is_whole = given.count("trained", model.context), given.flag("is_whole", True)
        plain = yarn_scaling(plain, base, factor, fast, slow, trained, is_whole)
        magnitude = given.real("magnitude", 0.1 * math.log(factor) + 1)
    magnitude *= given.real("times", 1.0)
    return replace(model, frequencies=tuple(plain.tolist()), magnitude=magnitude)


def _weights(model: Llama, tensors: Tensors, layout: int) -> dict[str, Any]:
    size, queries = model.size, model.heads * model.head_size
    keys = model.kv_heads * model.head_size
    shapes = {
        **{"embedding": (model.vocabulary, size), "head": (model.vocabulary, size)},
        **dict.fromkeys(("norm", "attention_norm", "ffn_norm"), (size,)),
        **{"q": (queries, size), "k": (keys, size), "v": (keys, size), "o": (size, queries)},
        **{"q_bias": (queries,), "k_bias": (keys,), "v_bias": (keys,)},
        **dict.fromkeys(("q_norm", "k_norm"), (model.head_size,)),
        **dict.fromkeys(("gate", "up"), (model.hidden, size)),
        "down": (size, model.hidden),
    }

    def taken(table: dict[str, tuple[str, str]], before: str = "") -> dict[str, Any]:
        names = {ours: before + theirs[layout] for ours, theirs in table.items()}
        there = (x for x in names if x not in OPTIONAL or names[x] in tensors)
        return {ours: tensors.take(names[ours], shapes[ours]) for ours in there}

    layers = [taken(LAYER, BEFORE_LAYER[layout].format(i)) for i in range(model.layers)]
    if layout == 1:
        tensors.ignore(
            f"{BEFORE_LAYER[1].format(i)}self_attn.rotary_emb.inv_freq" for i in range(model.layers)
        )
    return {**taken(TABLE), "layers": layers}
