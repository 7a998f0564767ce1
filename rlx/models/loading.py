"""Open a model: a GGUF file, or a folder as Hugging Face has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..io.contents import ROOM, parse_json, refuse, shown
from ..io.files import ArrayFile, open as open_file
from ..io.tokenizer import Tokenizer
from ..ir.errors import FileFormatError, FileMissingError
from ..ir.record import replace
from ..ir.files import as_path, naming, reaching
from ..trace.arguments import choice
from .language import LanguageModel
from .llama_files import SETTINGS as OF_LLAMA, read_llama
from .settings import Settings, flattened
from .tensors import Tensors

GGUF, HUGGING_FACE = 0, 1
COMPUTE = ("exact", "int8")
ARCHITECTURES: dict[str, tuple[Callable[..., Any], Mapping[str, tuple[str, ...]]]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), (read_llama, OF_LLAMA)),
}
ARCHITECTURE, TEMPLATE = "general.architecture", "tokenizer.chat_template"
CONFIG, INDEX = "config.json", "model.safetensors.index.json"


def load(path: str | PathLike[str], *, compute: str = "exact") -> Any:
    """Open a model of text at `path`: a GGUF file, or a folder of Hugging Face.

    A folder has `config.json`, safetensors and `tokenizer.json`. Returns a `LanguageModel`. The
    file is mapped: weights are read when they are first used, and stay in their blocks of few bits.
    `compute` is "exact", the numbers of dequantized weights, or "int8", which rounds activations to
    eight bits, faster. Raises a `FileFormatError` for damaged files and for architectures that rlx
    has not.
    """
    choice("load: compute", compute, COMPUTE)
    place = as_path(path)
    with naming(path):
        made = _from_folder(place) if place.is_dir() else _from_gguf(place)
    return made(compute)


def _from_gguf(place: Path) -> Callable[[str], Any]:
    file = open_file(place, mapped=True)
    metadata = file.metadata
    name = metadata.get(ARCHITECTURE)
    if name is None:
        refuse("the file does not say of which architecture the model is", "give a GGUF file")
    read, names = _known(name)
    first = {ours: [f"{name}.{theirs[GGUF]}"] for ours, theirs in names.items()}
    tensors = Tensors([file])
    model, weights = read(name, Settings(metadata, first, "the metadata"), tensors, GGUF)
    tensors.check_all_taken()
    tokenizer = Tokenizer.from_gguf(metadata)
    template = metadata.get(TEMPLATE)
    return lambda compute: LanguageModel(
        replace(model, compute=compute), weights, tokenizer, template
    )


def _known(name: Any) -> tuple[Callable[..., Any], Mapping[str, tuple[str, ...]]]:
    if isinstance(name, str) and name in ARCHITECTURES:
        return ARCHITECTURES[name]
    known = ", ".join(ARCHITECTURES)
    refuse(
        f"the architecture {shown(str(name))} is none that rlx has", f"rlx has {known}"
    )
