"""Open a model: a GGUF file, or a folder as Hugging Face has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ..io.contents import ROOM, parse_json, refuse, shown
from ..io.files import open as open_file
from ..io.template import ChatTemplate
from ..io.tokenizer import Tokenizer
from ..ir.errors import FileMissingError
from ..ir.files import as_path, naming, reaching
from ..ir.record import replace
from ..runtime import no_collection
from ..trace.arguments import choice, flag
from .bert import Bert
from .bert_files import SETTINGS as OF_BERT, read_bert
from .encoder import Encoder
from .language import LanguageModel
from .llama_files import SETTINGS as OF_LLAMA, read_llama
from .settings import Settings, flattened
from .tensors import Tensors

GGUF, HUGGING_FACE = 0, 1
COMPUTE = ("exact", "int16", "int8")
Reader = tuple[Callable[..., Any], Mapping[str, tuple[str, ...]]]
ARCHITECTURES: dict[str, Reader] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), (read_llama, OF_LLAMA)),
    "bert": (read_bert, OF_BERT),
}
ARCHITECTURE, TEMPLATE = "general.architecture", "tokenizer.chat_template"
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"

# of sentence transformers: modules, and what makes a vector of states, older and newer names
MODULES, FLAG = ("Transformer", "Pooling", "Normalize"), "pooling_mode_"
POOLINGS = {
    **{"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last"},
    **{"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max"},
}


def load(path: str | PathLike[str], *, compute: str = "exact", shared: bool = False) -> Any:
    """Open the model at `path`: a GGUF file, or a folder of Hugging Face.

    A folder has `config.json`, `model.safetensors` or several files and their index, and
    `tokenizer.json`. Files are mapped: weights are read when they are first used, and stay in their
    blocks of few bits; the files must stay as they are meanwhile. `compute` is "exact", the numbers
    that the weights stand for, or "int16" or "int8", faster: activations are rounded to so many
    bits where weights are in blocks ("int8": to 16 where 8 cost most). With `shared`, processes
    that load the same language model have one copy of its weights in memory, in the disk cache.
    Returns a `LanguageModel` or an `Encoder`. Raises a `FileFormatError` for damaged files and for
    models that rlx has not, which it names.

    >>> import rlx, tempfile
    >>> rlx.models.load(tempfile.mkdtemp())
    Traceback (most recent call last):
    rlx...FileMissingError: cannot read ...config.json': there is no such file or directory
    ...
    """
    choice("load: compute", compute, COMPUTE)
    place = as_path(path)
    with naming(path), no_collection:  # of vocabularies
        with reaching(path, "read"):
            read = _from_folder if place.is_dir() else _from_gguf
        return read(place, compute, flag("load: shared", shared))


def is_model(place: Path, metadata: Mapping[str, Any]) -> bool:
    """Whether a file with such metadata, or a folder, says what model it is of."""
    return ARCHITECTURE in metadata or (place / CONFIG).is_file()


def _from_gguf(place: Path, compute: str, shared: bool) -> Any:
    if place.suffix.lower() == ".safetensors":
        refuse("weights alone say nothing of the model", f"give its folder, with {CONFIG}")
    file = open_file(place, mapped=True)
    name = file.metadata.get(ARCHITECTURE)
    read, names = _known(name)
    first = {ours: [f"{name}.{theirs[GGUF]}"] for ours, theirs in names.items()}
    tensors = Tensors([file])
    model, weights = read(name, Settings(file.metadata, first, "the metadata"), tensors, GGUF)
    tensors.check_all_taken()
    tokenizer, model = Tokenizer.from_gguf(file.metadata), replace(model, compute=compute)
    if isinstance(model, Bert):
        return Encoder(model, weights, tokenizer, check=tensors.check_whole)
    ids = {"bos_token": tokenizer.bos, "eos_token": tokenizer.eos}
    texts = {n: tokenizer.decode([i], special=True) for n, i in ids.items() if i is not None}
    source = file.metadata.get(TEMPLATE)
    if not isinstance(source, str | None):
        refuse(f"{TEMPLATE} is {shown(str(source))}, no text")
    template = None if source is None else ChatTemplate(source, texts)
    file.metadata.clear()  # of 10^5 texts, which the tokenizer has; the arrays keep the file
    given = model, weights, tokenizer, template
    return _language_model(tensors, given, shared)


def _from_folder(place: Path, compute: str, shared: bool) -> Any:
    config = _json(place / CONFIG)
    for key in ("rope_scaling", "rope_parameters"):
        if not isinstance(config.get(key), dict | None):
            refuse(f"{CONFIG}: {key} is {shown(str(config[key]))}, no JSON object")
    name = config.get("model_type")
    read, names = _known(name)
    other = {ours: theirs[HUGGING_FACE:] for ours, theirs in names.items()}
    tensors = Tensors(open_file(x, mapped=True) for x in _weight_files(place))
    model, weights = read(name, Settings(flattened(config), other, CONFIG), tensors, HUGGING_FACE)
    tensors.check_all_taken()
    given = place / "tokenizer.json"
    tokenizer = Tokenizer.from_json(given) if given.exists() else None
    model = replace(model, compute=compute)
    if isinstance(model, Bert):
        return Encoder(_pooled(place, model), weights, tokenizer, check=tensors.check_whole)
    given = tokenizer, _template(place), _ends(place, config)
    return _language_model(tensors, (model, weights, *given), shared)


def _language_model(tensors: Tensors, given: tuple[Any, ...], shared: bool) -> LanguageModel:
    release, check = tensors.release, tensors.check_whole
    return LanguageModel(*given, release=release, check=check, shared=shared)


def _known(name: Any) -> Reader:
    if isinstance(name, str) and name in ARCHITECTURES:
        return ARCHITECTURES[name]
    refuse(
        f"the model is of the architecture {shown(str(name))}, which rlx has not",
        f"rlx has {', '.join(ARCHITECTURES)}",
    )


# -- the files of a folder -------------------------------------------------------------------------


def _bytes(place: Path) -> bytes:
    with reaching(place, "read"):
        return place.read_bytes()


def _parsed(place: Path) -> Any:
    text = _bytes(place)
    return parse_json(text, place.name, len(text) + ROOM)


def _json(place: Path) -> dict[str, Any]:
    found = _parsed(place)
    if not isinstance(found, dict):
        refuse(f"{place.name} is no JSON object")
    return found


def _weight_files(place: Path) -> Iterable[Path]:
    if not (place / INDEX).exists():
        if not (place / WEIGHTS).exists():
            raise FileMissingError(
                f"the folder {str(place)!r} has no {WEIGHTS}",
                fix="save the model as safetensors: model.save_pretrained(folder)",
            )
        return [place / WEIGHTS]
    files = _json(place / INDEX).get("weight_map")
    names = set(files.values()) if isinstance(files, dict) else {None}
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            refuse(f"{INDEX} has {shown(str(name))} for the name of a file")
    return [place / str(name) for name in sorted(map(str, names))]


def _template(place: Path) -> ChatTemplate | None:
    """The chat template, in a file of its own or among the settings of the tokenizer."""
    own, settings = place / "chat_template.jinja", place / "tokenizer_config.json"
    given = _json(settings) if settings.exists() else {}
    found = given.get("chat_template")
    if isinstance(found, list):  # several by name
        named = [x for x in found if isinstance(x, dict) and x.get("name") == "default"]
        found = named[0].get("template") if named else None
    if own.exists():
        with reaching(own, "read"):
            found = own.read_text("utf-8", "replace")
    texts = {}
    for name in ("bos_token", "eos_token"):
        token = given.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        texts |= {name: token} if isinstance(token, str) else {}
    return ChatTemplate(found, texts) if isinstance(found, str) else None


def _ends(place: Path, config: Mapping[str, Any]) -> list[int]:
    """The tokens that end a text."""
    own = place / "generation_config.json"
    found = (_json(own) if own.exists() else {}).get("eos_token_id", config.get("eos_token_id"))
    listed = found if isinstance(found, list) else [] if found is None else [found]
    if not all(type(x) is int for x in listed):
        refuse(f"eos_token_id is {shown(str(found))}, not numbers of tokens")
    return listed


def _pooled(place: Path, model: Bert) -> Bert:
    """An encoder with what the files of a sentence transformer say of its vectors."""
    modules, limits = place / "modules.json", place / "sentence_bert_config.json"
    if limits.exists():
        most = _json(limits).get("max_seq_length")
        model = replace(model, context=min(model.context, most)) if type(most) is int else model
    if modules.exists():
        kinds = _modules(modules)
        model = replace(model, is_normalized="Normalize" in kinds)
    pooling = place / "1_Pooling" / CONFIG
    chosen = _json(pooling) if pooling.exists() else {}
    flags = [name for name in chosen if name.startswith(FLAG) and chosen[name] is True]
    found = chosen.get("pooling_mode", [name.removeprefix(FLAG) for name in flags] or "mean")
    kinds = list(map(str, found if isinstance(found, list) else [found]))
    if len(kinds) != 1 or kinds[0] not in POOLINGS:
        refuse(f"vectors are made by {shown(', '.join(kinds))}, which rlx has not")
    return replace(model, pooling=POOLINGS[kinds[0]])


def _modules(place: Path) -> list[str]:
    """The kinds of modules that make a vector of a text, each of which rlx must have."""
    found = _parsed(place)
    each = found if isinstance(found, list) else [found]
    kinds = [str(x.get("type") if isinstance(x, dict) else x).rpartition(".")[2] for x in each]
    for kind in kinds:
        if kind not in MODULES:
            refuse(f"{place.name} has the module {shown(kind)}, which rlx has not")
    return kinds
