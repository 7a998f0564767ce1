"""`rlx info`: what is in a file, and what running it takes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..interop import Exported, load_exported
from ..io.files import READERS, open as open_file
from ..io.gguf_files import MAGIC
from ..io.sources import FileBytes
from ..ir.errors import ArgumentError
from ..ir.files import as_path
from ..models import Encoder, LanguageModel, load
from ..models.loading import is_model

MOST_SHOWN = 70  # letters of a setting


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    about = "a .gguf, .safetensors, .npz or .pt file, an export of rlx, a folder of Hugging Face"
    parser.add_argument("file", help=about)
    parser.add_argument("--tensors", action="store_true", help="list the tensors, too")
    parser.add_argument("--settings", action="store_true", help="list the metadata, too")
    parser.add_argument("--template", action="store_true", help="print the chat template alone")


def run(asked: argparse.Namespace) -> None:
    """Print what is in the file."""
    place = as_path(asked.file)
    if asked.template:
        print(_template(place))
        return
    if place.is_dir() or place.suffix.lower() in READERS or is_gguf(place):
        lines = _of_tensors(place, asked)
    else:
        lines = _of_export(load_exported(place), asked.tensors)
    print("\n".join(lines))


def is_gguf(place: Path) -> bool:
    """Whether a file of any name begins as those of llama.cpp do."""
    return bytes(FileBytes(place)[: len(MAGIC)]) == MAGIC


def _of_tensors(place: Path, asked: argparse.Namespace) -> Iterator[str]:
    """Lines about a file of tensors, or a folder of some."""
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    if not files:
        raise ArgumentError(
            f"the folder {str(place)!r} has no file of tensors, NAME.safetensors",
            fix="name a file, or a folder of Hugging Face",
        )
    opened = [open_file(file, mapped=file.suffix.lower() != ".pt") for file in files]
    entries = {name: x for file in opened for name, x in file._contents.entries.items()}
    nbytes = sum(entry.type.nbytes for entry in entries.values())
    numbers = sum(entry.numbers.size for entry in entries.values())
    yield f"{place.name}: {len(entries)} tensors, {_count(numbers)} numbers in {size_text(nbytes)}"
    kinds: Counter[str] = Counter()
    for entry in entries.values():
        kinds[entry.blocks or entry.type.dtype.name] += entry.type.nbytes
    yield "stored as  " + ", ".join(f"{kind} {size_text(n)}" for kind, n in kinds.most_common())
    metadata = {name: x for file in opened for name, x in file.metadata.items()}
    if is_model(place, metadata):
        yield from _of_model(load(place), nbytes)
    if asked.settings:
        yield ""
        yield from (f"{name} = {_shown(value)}" for name, value in metadata.items())
    if asked.tensors:
        yield ""
        wide = max(map(len, entries), default=0)
        yield from (f"{name:{wide}}  {entry}" for name, entry in entries.items())


def _of_model(model: LanguageModel | Encoder, nbytes: int) -> Iterator[str]:
    """Lines about a model, and the memory that running it takes."""
    yield f"model      {model!r}"
    if model.tokenizer is not None:
        yield f"tokenizer  {model.tokenizer!r}"
    if isinstance(model, Encoder):
        yield f"memory     {size_text(2 * nbytes)} of weights, mapped and in the order of products"
        return
    config = model.config
    yield f"template   {'for chats: rlx chat' if model.template else 'none: rlx run --raw'}"
    token = 2 * 4 * config.layers * config.kv_heads * config.head_size
    whole = size_text(token * config.context)
    yield f"memory     {size_text(2 * nbytes)} of weights, mapped and in the order of products;"
    yield f"           {size_text(token)} a token of each text, {whole} for all {config.context}"


def _of_export(exported: Exported, has_tensors: bool) -> Iterator[str]:
    nbytes = sum(x.nbytes for x in exported.weights)
    yield f"export of {exported.graph.signature}"
    yield f"{len(exported.weights)} arrays of its own, {size_text(nbytes)}"
    if has_tensors:
        yield from (f"  {x.dtype.name}{list(x.shape)}" for x in exported.weights)


def _template(place: Path) -> str:
    model = load(place)
    if isinstance(model, Encoder) or model.template is None:
        raise ArgumentError(f"{str(place)!r} has no chat template", fix="rlx run --raw needs none")
    return model.template.source


def _shown(value: Any) -> str:
    if isinstance(value, list | np.ndarray):
        return f"{len(value)} of {type(value[0]).__name__}" if len(value) else "none"
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def size_text(nbytes: int) -> str:
    """Bytes in a unit that one can read."""
    amount = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if amount >= 100 or unit == "B" else f"{amount:.1f} {unit}"


def _count(number: int) -> str:
    return f"{number / 1e6:.1f} million" if number >= 1_000_000 else f"{number:,}"
