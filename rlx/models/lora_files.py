"""Adapters in files: safetensors with the names of PEFT, and GGUF."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..io.contents import ROOM, parse_json, refuse, shown
from ..io.files import ArrayFile, open as open_file
from ..ir.files import as_path, naming, reaching
from ..nn.blocks import BlockArray
from ..trace.array_arguments import known_real
from ..trace.host import to_numpy
from .language import LanguageModel, language_model
from .llama import Llama
from .llama_files import BEFORE_LAYER, INTERLEAVED, LAYER
from .lora import Adapter, check_adapter, product_sizes

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BEFORE = ("base_model.model.", "")  # of names of Hugging Face
# what changes the meaning of an adapter -> the values that rlx has
ONLY: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA", None),
    "bias": ("none", None),
    "use_dora": (False, None),
    "use_qalora": (False, None),
    "use_rslora": (True, False, None),
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal", "eva"),  # else W changed
    "alora_invocation_tokens": (None,),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "layer_replication": (None, []),
    "trainable_token_indices": (None, []),
}
PATTERN = set("^$*+?{}[]|()\\")  # letters with a meaning in patterns of names


def load_adapter(
    path: str | PathLike[str], model: LanguageModel, *, alpha: float | None = None
) -> Adapter:
    """Read the adapter at `path` that was trained for `model`; returns an `Adapter`.

    It is a folder of PEFT with `adapter_config.json` and `adapter_model.safetensors`, or one file,
    of safetensors or GGUF, with the names of PEFT or llama.cpp. What it adds is multiplied by
    `alpha` over its rank; `alpha` is read from the settings or the metadata of the file if it is
    not given, and is the rank itself if nobody says. Raises a `FileFormatError` for a damaged file,
    for kinds of adapters that rlx has not, and for one of another model.
    """
    language_model("load_adapter: model", model)
    given = None if alpha is None else known_real("load_adapter: alpha", alpha)
    return adapter_for(model.config, path, given)


def adapter_for(config: Llama, path: str | PathLike[str], alpha: float | None = None) -> Adapter:
    """The adapter at `path` for models of a `config`, as `load_adapter` reads it."""
    place = as_path(path)
    with naming(path):
        settings = _settings(place / CONFIG) if place.is_dir() else {}
        weights = place / WEIGHTS if place.is_dir() else place
        with open_file(weights, mapped=True) as file:
            reader = _Reader(file, settings, config, alpha)
            layers = [reader.layer(i) for i in range(config.layers)]
            reader.check_all_taken()
        adapter = Adapter(layers)
        if not adapter.rank:
            refuse("the file changes no product of the model's layers")
        check_adapter(config, adapter, adapter.rank)
    return adapter


def _settings(place: Path) -> dict[str, Any]:
    with reaching(place, "read"):
        text = place.read_bytes()
    found = parse_json(text, place.name, len(text) + ROOM)
    if not isinstance(found, dict):
        refuse(f"{place.name} is no JSON object")
    for name, known in ONLY.items():
        if found.get(name) not in known:
            what = json.dumps(found[name])
            refuse(f"{CONFIG}: {name} is {shown(what)}, which rlx has not", "train a plain LoRA")
    for name, value in _table(found, "alpha_pattern").items():
        if PATTERN & set(name):
            refuse(f"{CONFIG}: alpha_pattern has the pattern {shown(name)}, rlx takes plain names")
        _number(value, f"alpha_pattern.{name}")
    return found


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = settings.get(name) or {}
    if not isinstance(found, dict):
        refuse(f"{CONFIG}: {name} is {shown(str(found))}, no object")
    return found


def _number(found: Any, name: str) -> float:
    if type(found) not in (int, float) or not math.isfinite(found):
        refuse(f"{name} is {shown(str(found))}, not a finite number")
    return float(found)


class _Reader:
    """The pairs of a file, by layer."""

    def __init__(
        self, file: ArrayFile, settings: Mapping[str, Any], model: Llama, alpha: float | None
    ) -> None:
        self._file, self._settings, self._model, self._given = file, settings, model, alpha
        self._left = set(file)
        self._is_gguf = any(name.endswith(".lora_a") for name in file)
        architecture = file.metadata.get("general.architecture")
        self._is_turned = self._is_gguf and architecture in INTERLEAVED
        self._before = next((x for x in BEFORE if any(n.startswith(x) for n in file)), "")

    def layer(self, number: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The pairs of a layer."""
        found = {}
        for target in product_sizes(self._model):
            names = self._names(number, target)
            if any(name in self._left for name in names):
                found[target] = self._pair(target, *names)
        return found

    def check_all_taken(self) -> None:
        """Refuse arrays that change something else."""
        if self._left:
            refuse(
                f"the adapter has {len(self._left)} arrays that are for no product of the model's "
                f"{self._model.layers} layers: {shown(min(self._left))}",
                "give one that was trained for this model, and changes no embeddings",
            )

    def _names(self, number: int, target: str) -> tuple[str, str]:
        theirs = LAYER[target][0 if self._is_gguf else 1]
        start = BEFORE_LAYER[0 if self._is_gguf else 1].format(number)
        if self._is_gguf:
            return f"{start}{theirs}.lora_a", f"{start}{theirs}.lora_b"
        module = self._before + start + theirs.removesuffix("weight")
        return f"{module}lora_A.weight", f"{module}lora_B.weight"

    def _pair(self, target: str, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
        down, up = self._matrix(first), self._matrix(second)
        if down.shape[0] != up.shape[1] or not down.shape[0]:
            refuse(f"{shown(first)} has the shape {down.shape}, {shown(second)} {up.shape}")
        rank = down.shape[0]
        up = up * np.float32(self._alpha(first, rank) / self._divisor(rank))
        if target in "qk" and self._is_turned != self._model.is_interleaved:
            up = self._turned(up)
        return np.ascontiguousarray(down.T), np.ascontiguousarray(up.T)

    def _matrix(self, name: str) -> np.ndarray:
        if name not in self._left:
            refuse(f"the adapter has no {shown(name)}")
        self._left.discard(name)
        found = self._file[name]
        found = found.dequantize() if isinstance(found, BlockArray) else found
        array = to_numpy(found)
        if array.ndim != 2 or array.dtype.kind not in "fV":
            refuse(f"{shown(name)} is {self._file.types[name]}, no matrix of floats")
        return array.astype(np.float32)

    def _alpha(self, name: str, rank: int) -> float:
        if self._given is not None:
            return self._given
        module = name.removesuffix(".lora_A.weight")
        for key, value in _table(self._settings, "alpha_pattern").items():
            if module == key or module.endswith(f".{key}"):
                return float(value)
        if "lora_alpha" in self._settings:
            return _number(self._settings["lora_alpha"], f"{CONFIG}: lora_alpha")
        for key in ("adapter.lora.alpha", "lora_alpha", "alpha"):
            if key in self._file.metadata:
                return self._metadata(key)
        return float(rank)

    def _metadata(self, key: str) -> float:
        found = self._file.metadata[key]
        try:
            return _number(float(found), f"the metadata {key}")
        except (TypeError, ValueError):
            refuse(f"the metadata {key} is {shown(str(found))}, not a number")

    def _divisor(self, rank: int) -> float:
        return math.sqrt(rank) if self._settings.get("use_rslora") else float(rank)

    def _turned(self, up: np.ndarray) -> np.ndarray:
        """Rows of queries or keys, whose pairs of features are neighbors in GGUF files."""
        half = self._model.head_size // 2
        if up.shape[0] % (2 * half):
            refuse(f"the adapter has {up.shape[0]} features for heads of {2 * half}")
        split = (-1, 2, half) if self._model.is_interleaved else (-1, half, 2)
        return up.reshape(*split, up.shape[1]).swapaxes(1, 2).reshape(up.shape)
