"""Save trees of arrays and load them: safetensors, `.npz`, `.pt`, `.gguf`."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.errors import AttributeValueError, DtypeError
from ..ir.files import as_path, check_regular, naming, reaching
from ..ir.types import DTYPES, Type, as_dtype
from ..trace.arguments import choice, flag, shown, wrong
from ..trace.array import Array
from ..trace.host import to_numpy
from ..trace.tensor import TracedTensor
from .archive import read_npz, write_npz
from .contents import METADATA, NOTES, PYTHON, Contents
from .filling import LoadReport, Only, Rename, filled, misfit, value_of, values
from .gguf_files import MAGIC, read_gguf
from .names import named_leaves, nested, static_fields
from .safetensors_files import read_safetensors, safetensors_bytes, write_safetensors
from .sources import (
    FileBytes,
    Source,
    check_whole,
    map_file,
    release,
    with_own_memory,
)
from .torch_files import torch_contents

READERS: dict[str, Callable[[Source], Contents]] = {
    ".safetensors": read_safetensors,
    ".npz": read_npz,
    ".gguf": read_gguf,
    **dict.fromkeys((".pt", ".pth"), torch_contents),
}
Table = dict[str, np.ndarray]
Texts = Mapping[str, str] | None
MOST_NAME = 40  # letters of a file's name in that of the folder beside it, so that it fits


def save(path: str | PathLike[str], tree: Any, metadata: Texts = None) -> None:
    """Save a `tree` of arrays to a file, atomically.

    `path` ends with `.npz` for NumPy's format, else the format is safetensors (`rlx[io]`). Leaves
    are named by their paths with dots, `layers.0.weight`. An array that the tree has twice is
    written once. `metadata` are texts by name, for `rlx.io.open(path).metadata`. Static fields of
    modules are noted there, too, where they are plain; `load` compares them.

    Raises a `DtypeError` for a leaf that is no array or number, a `StructureError` for two leaves
    of one name.

    >>> import tempfile, rlx
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> save(path, {"w": rlx.numpy.ones(2), "step": 3}, metadata={"author": "me"})
    >>> load(path)
    {'step': 3, 'w': Array([1., 1.], dtype=float32)}
    """
    place = as_path(path)
    arrays, notes = collected(tree)
    write(place, arrays, notes, metadata)


def load(
    path: str | PathLike[str],
    like: Any = None,
    *,
    only: Only = None,
    rename: Rename = None,
    strict: bool = True,
) -> Any:
    """Load what `save` wrote at `path`, or safetensors, NumPy, PyTorch or llama.cpp.

    No code of a file is run. Without `like` it gives nested dicts, as `flax.serialization` does:
    `layers.0.weight` is in `tree["layers"]["0"]["weight"]`. With a tree `like` (a model, or specs
    of `rlx.eval_shape`) it gives the same tree with the arrays of the file, each on the device
    where the tree's array is.

    - `only`: names of the tree, beginnings of them (`"encoder"`), patterns (`"*.bias"`), or a
      function of a name. What is not chosen stays as it is in `like`.
    - `rename`: `{old: new}`, names of the file or beginnings of them, or a function of a name. None
      leaves an array out.
    - `strict`: names that are missing, unexpected or of another shape or dtype are an error, which
      lists them. `strict=False` keeps what `like` has there and gives `(tree, report)`.

    Raises a `FileFormatError` for a damaged file, a `StructureError` for one that does not fit.

    >>> import tempfile, rlx
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> layer = rlx.nn.Linear(3, 2, key=rlx.random.key(0))
    >>> save(path, layer)
    >>> same = load(path, like=rlx.nn.Linear(3, 2, key=rlx.random.key(1)))
    >>> bool((same.weight == layer.weight).all())
    True
    """
    with open(path) as file, naming(path):
        return _taken(file._contents, like, only, rename, strict)


def from_bytes(
    data: bytes,
    like: Any = None,
    *,
    only: Only = None,
    rename: Rename = None,
    strict: bool = True,
    format: str = "safetensors",
) -> Any:
    """Load a tree from `data`, the bytes of a file in a `format` of `to_bytes`.

    `like`, `only`, `rename` and `strict` are as for `load`, and so is what it returns.

    >>> from_bytes(to_bytes({"x": 1.5}))
    {'x': 1.5}
    """
    suffix = "." + choice("from_bytes: format", format, [s[1:] for s in READERS])
    if not isinstance(data, bytes | bytearray | memoryview):
        raise wrong("from_bytes: data", data, "bytes", "give the bytes of a file")
    contents = READERS[suffix](memoryview(data).toreadonly().cast("B"))
    return _taken(contents, like, only, rename, strict)


def to_bytes(tree: Any, metadata: Texts = None, *, format: str = "safetensors") -> bytes:
    """The bytes of the file that `save` writes of `tree` and `metadata`.

    `format` is "safetensors" or "npz".

    >>> to_bytes({"x": 1.5}, format="npz")[:4]
    b'PK\\x03\\x04'
    """
    arrays, notes = collected(tree)
    texts = _texts(notes, metadata)
    if choice("to_bytes: format", format, ("safetensors", "npz")) == "safetensors":
        return safetensors_bytes(arrays, texts)
    file = io.BytesIO()
    write_npz(file, *_for_npz(arrays, notes, metadata))
    return file.getvalue()


class ArrayFile(Mapping[str, Any]):
    """The arrays of a file by full name, read when they are asked for; from `open`.

    `path` and `mapped` are those of `open`. `metadata` are the texts that were saved with them,
    `types` say what the arrays are.
    """

    def __init__(self, path: str | PathLike[str], mapped: bool = False) -> None:
        self._is_mapped = flag("open: mapped", mapped)
        suffix = as_path(path).suffix.lower()
        with naming(path):
            self._source = map_file(path) if self._is_mapped else FileBytes(path)
            self._contents = _reader(suffix, self._source)(self._source)
        self._path = path
        self.metadata = self._contents.metadata

    @property
    def types(self) -> dict[str, Type]:
        """The dtypes and shapes by name; nothing is read for them."""
        return {name: entry.numbers for name, entry in self._contents.entries.items()}

    def __getitem__(self, name: str) -> Any:
        entry = self._contents.entries[name]
        with naming(self._path):
            found = entry.read()
        return value_of(entry, found if self._is_mapped else with_own_memory(found))

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents.entries)

    def __len__(self) -> int:
        return len(self._contents.entries)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the file to its arrays: the last of them closes it."""

    def release(self) -> None:
        """Let the system take back the memory of a mapped file.

        Its arrays stay as they are: what is used of them is read again.
        """
        release(self._source)

    def check_whole(self) -> None:
        """Raise a `FileFormatError` if the mapped file was cut off since it was opened.

        A look beyond its end would kill the process.
        """
        with naming(self._path):
            check_whole(self._source)

    def __repr__(self) -> str:
        return f"ArrayFile({str(self._path)!r}: {len(self)} arrays)"


def _reader(suffix: str, source: Source) -> Callable[[Any], Contents]:
    """What reads a file: by its suffix, or if that says nothing by its first bytes."""
    if suffix in READERS:
        return READERS[suffix]
    return read_gguf if bytes(source[: len(MAGIC)]) == MAGIC else read_safetensors


def open(path: str | PathLike[str], *, mapped: bool = False) -> ArrayFile:
    """Open the file at `path` without reading its arrays.

    Returns an `ArrayFile`, a mapping of names to arrays. Raises a `FileFormatError` for a damaged
    file, and for an array of one that was cut off since.

    With `mapped`, arrays that are stored as they are share the file's memory: they cost nothing
    until they are used, and processes share them. While they are used no one may overwrite the file
    in place, or the arrays change, or cut it off, or the system kills the process (SIGBUS);
    `rlx.save` puts a new file in its place instead. Without it each array is read into memory of
    its own when it is asked for.

    >>> import tempfile, rlx
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> save(path, {"w": rlx.numpy.ones((2, 3)), "b": rlx.numpy.zeros(3)})
    >>> with open(path) as file:
    ...     sorted(file), str(file.types["w"]), file["b"]
    (['b', 'w'], 'f32[2, 3]', Array([0., 0., 0.], dtype=float32))
    """
    return ArrayFile(path, mapped)


def _taken(contents: Contents, like: Any, only: Only, rename: Rename, strict: bool) -> Any:
    """The nested dicts or the tree that a call of `load` asks for."""
    strict = flag("load: strict", strict)
    if like is None:
        tree = nested(values(contents, only, rename), contents.budget)
        return tree if strict else (tree, LoadReport({}, {}, {}, {}))
    tree, report = filled(contents, like, only, rename)
    if not strict:
        return tree, report
    if not report.is_complete:
        raise misfit(report)
    return tree


# -- writing --------------------------------------------------------------------------------------


def collected(tree: Any) -> tuple[Table, dict[str, Any]]:
    """The arrays of a tree on the host by name, and notes of what they do not tell."""
    leaves, _ = named_leaves(tree)
    arrays: Table = {}
    kinds: dict[str, str] = {}
    tied: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, leaf in leaves.items():
        memory = id(leaf._data) if isinstance(leaf, Array) else id(leaf)
        is_array = isinstance(leaf, Array | np.ndarray)
        if is_array and first.setdefault(memory, name) != name:
            tied[name] = first[memory]
            continue
        arrays[name] = _on_host(name, leaf)
        if type(leaf) in PYTHON.values():
            kinds[name] = type(leaf).__name__
        elif arrays[name].dtype == DTYPES["complex128"]:
            kinds[name] = "complex128"
        if arrays[name].dtype == DTYPES["complex128"]:  # which safetensors has not
            flat = arrays[name].reshape(-1).view("float64")
            arrays[name] = flat.reshape(*arrays[name].shape, 2)
    notes = {"kinds": kinds, "tied": tied, "static": static_fields(tree)}
    return arrays, {key: table for key, table in notes.items() if table}


def _on_host(name: str, leaf: Any) -> np.ndarray:
    if name == METADATA:
        raise AttributeValueError(
            f"save: the name {name!r} is the format's own", fix="use another key"
        )
    if isinstance(leaf, Array):
        return leaf.host()
    if isinstance(leaf, TracedTensor):
        fix = "save outside of jit what the compiled function returns"
        raise leaf.no_value("save", fix)
    if isinstance(leaf, bool | float | complex):
        return np.array(leaf)
    if isinstance(leaf, int):
        if -(1 << 63) <= leaf < 1 << 64:
            return np.array(leaf)
        raise DtypeError(
            f"save: {name} is {shown(leaf)}, too large for 64 bits",
            fix="save it in metadata, as a text",
        )
    if isinstance(leaf, np.ndarray | np.generic) or hasattr(leaf, "__array__"):
        return to_numpy(leaf)
    raise DtypeError(
        f"save: {name or 'the tree'} is {shown(leaf)}, no array or number",
        fix="make it a static field, rlx.nn.field(static=True), or put it in metadata",
    )


def _texts(notes: Mapping[str, Any], metadata: Texts) -> dict[str, str]:
    """The metadata of the file: the user's, and the notes of rlx."""
    if not isinstance(metadata, Mapping | None):
        raise wrong("save: metadata", metadata, "a dict of texts", 'write {"author": "me"}')
    texts = dict(metadata or {})
    for name, text in texts.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise wrong(
                f"save: the metadata {name!r}", text, "a text", "convert it: json.dumps(value)"
            )
    if NOTES in texts:
        raise AttributeValueError(
            f"save: the name {NOTES!r} in metadata is rlx's own", fix="use another name"
        )
    return texts | ({NOTES: json.dumps(notes)} if notes else {})


def _for_npz(
    arrays: Table, notes: Mapping[str, Any], metadata: Texts
) -> tuple[Table, dict[str, str]]:
    """The same with arrays of the dtypes that NumPy's files know."""
    small = {n: x.dtype.name for n, x in arrays.items() if x.dtype.name.startswith("float8")}
    notes = {**notes, "kinds": {**notes.get("kinds", {}), **small}} if small else notes
    bytes_ = {name: arrays[name].view(as_dtype("uint8")) for name in small}
    return {**arrays, **bytes_}, _texts(notes, metadata)


def checksum(arrays: Mapping[str, np.ndarray]) -> int:
    """A number that tells arrays apart which differ in a name, a type or a bit."""
    found = 0
    for name in sorted(arrays):
        found = zlib.crc32(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode(), found)
        if arrays[name].size:
            bytes_ = np.ascontiguousarray(arrays[name]).reshape(-1).view("u1")
            found = zlib.crc32(bytes_.data, found)
    return found


def write(place: Path, arrays: Table, notes: Mapping[str, Any], metadata: Texts) -> None:
    """Write a file whole or not at all: beside its place, then moved there.

    A symbolic link stays, and the file that it names is written.
    """
    is_npz = place.suffix.lower() == ".npz"
    if place.suffix.lower() in (".pt", ".pth", ".gguf"):
        raise AttributeValueError(
            f"save: rlx writes no files of PyTorch or llama.cpp, as {place.name!r} would be",
            fix="save a .safetensors file, which PyTorch reads with safetensors.torch.load_file",
        )
    table = _for_npz(arrays, notes, metadata) if is_npz else (arrays, _texts(notes, metadata))
    with reaching(place, "write"):
        place = Path(os.path.realpath(place))
        if place.is_symlink():  # which leads back to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if place.is_dir():
            raise IsADirectoryError(21, "Is a directory")
        check_regular(place, "write")
        name = place.name[:MOST_NAME]
        folder = Path(tempfile.mkdtemp(".partial", f".{name}.", place.parent))
        try:
            made = folder / place.name
            made.touch()  # with the rights of new files
            rights = (place if place.exists() else made).stat().st_mode & 0o777
            (write_npz if is_npz else write_safetensors)(made, *table)
            made.chmod(rights)
            _sync(made)
            os.replace(made, place)
            _sync(place.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sync(place: Path) -> None:
    """Have a file, or what a folder lists, on the disk before anything else happens."""
    if place.is_dir() and os.name == "nt":  # which opens no folders
        return
    handle = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
