"""What every format gives: arrays by name, read when they are asked for.

A file may be hostile. Readers check what it claims before they make anything of it, and refuse
what would take more memory than the file's size and `ROOM`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..ir.errors import FileFormatError
from ..ir.ops.blocks import FORMATS
from ..ir.types import DTYPES, MOST_STEPS, Type

FIX = "copy the file again, or write it anew with rlx.save"
METADATA = "__metadata__"  # the name of what is said of a file, which no array has
ROOM = 48 << 20  # bytes beside the file's size
PER_MARK, PER_LETTER = 96, 8  # bytes that parsed JSON takes at most, as measured
MOST_AXES = 64  # of NumPy
NOTES = "rlx"  # the entry of the metadata that is rlx's own
PYTHON = {"bool": bool, "int": int, "float": float, "complex": complex}
NUMBERS = {bool: ("bool",), int: ("int64", "uint64"), float: ("float64",)}  # how they are stored


class Entry(NamedTuple):
    """An array in a file."""

    type: Type
    read: Callable[[], np.ndarray]
    python: type | None = None  # the class of a number that is stored as an array
    blocks: str | None = None  # the format of blocks of few bits, whose bytes the array has

    @property
    def numbers(self) -> Type:
        """The type of the numbers, which blocks stand for."""
        if self.blocks is None:
            return self.type
        layout = FORMATS[self.blocks]
        *others, nbytes = self.type.shape
        return Type(DTYPES["float32"], (*others, nbytes // layout.nbytes * layout.size))

    def __str__(self) -> str:
        if self.blocks is not None:
            return f"{self.blocks}{list(self.numbers.shape)}"
        return str(self.type) if self.python is None else f"a Python {self.python.__name__}"


class Contents(NamedTuple):
    """The arrays of a file by name, the user's metadata and rlx's own notes.

    `tied` has for each further name of an array its first. `static` are fields of modules,
    `checksum` is that of all arrays. `budget` is how many bytes a reader may use.
    """

    entries: dict[str, Entry]
    metadata: dict[str, Any]
    budget: int
    tied: Mapping[str, str] = MappingProxyType({})
    static: Mapping[str, Any] = MappingProxyType({})
    checksum: int | None = None


def refuse(what: str, fix: str = FIX) -> NoReturn:
    """Raise the error for a file that is not what it claims to be."""
    raise FileFormatError(what, fix=fix) from None


def shown(name: str) -> str:
    """A name from a file, which may be long, for an error."""
    return repr(name if len(name) <= 80 else f"{name[:77]}...")


def parse_json(text: bytes, what: str, budget: int) -> Any:
    """Parse JSON without twin keys, if the result takes no more than the budget."""
    marks = sum(map(text.count, (b",", b":", b"[", b"{")))
    if marks * PER_MARK + len(text) * PER_LETTER > budget:
        refuse(f"{what} has {marks} items, too many for a file of this size")
    try:
        return json.loads(text, object_pairs_hook=partial(_without_twins, what))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        refuse(f"{what} is no JSON: {str(error)[:100]}")


def _without_twins(what: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twin = next(name for name, _ in pairs if name in seen or seen.add(name))
        refuse(f"{what} has {shown(twin)} twice")
    return found


def checked_type(name: str, dtype: np.dtype, shape: Any) -> Type:
    """The type of an array whose sizes a file claims."""
    if not isinstance(shape, list | tuple) or len(shape) > MOST_AXES:
        refuse(f"{shown(name)} has no shape")
    nbytes = dtype.itemsize
    for n in shape:  # of which a file may have very many
        if type(n) is not int or not 0 <= n <= MOST_STEPS:
            refuse(f"{shown(name)} has sizes that are none")
        nbytes *= n or 1
    if nbytes > MOST_STEPS:
        refuse(f"{shown(name)} has a shape that no memory holds")
    return Type(dtype, tuple(shape))


# -- rlx's notes in the metadata ------------------------------------------------------------------


def with_notes(entries: dict[str, Entry], metadata: dict[str, str], budget: int) -> Contents:
    """The contents of a file, with what rlx noted about them when it wrote them."""
    text = metadata.pop(NOTES, None)
    if text is None:
        return Contents(entries, metadata, budget)
    what = "what rlx noted in the metadata"
    notes = parse_json(text.encode("utf-8", "surrogatepass"), what, budget)
    if not isinstance(notes, dict):
        refuse(f"{what} is no JSON object")
    kinds, tied, static = (_table(notes, key, what) for key in ("kinds", "tied", "static"))
    for name, kind in kinds.items():
        if name not in entries:
            refuse(f"{what} has the kind of {shown(name)}, which the file has not")
        entries[name] = _as_kind(name, entries[name], kind)
    for name, first in tied.items():
        if name in entries or not isinstance(first, str) or first not in entries:
            refuse(f"{what} ties {shown(name)} to what the file has not")
    for name, first in list(tied.items()):
        entries[name] = entries[first]
    checksum = notes.get("checksum")
    if checksum is not None and type(checksum) is not int:
        refuse(f"{what} has no number for a checksum")
    return Contents(entries, metadata, budget, tied, static, checksum)


def _table(notes: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    found = notes.get(key, {})
    if not isinstance(found, dict):
        refuse(f"{what} has no names under {key!r}")
    return found


def _as_kind(name: str, entry: Entry, kind: Any) -> Entry:
    """What the array stands for: a Python number, or another dtype of the same bytes."""
    stored, read = entry.type, entry.read
    python = PYTHON.get(kind) if isinstance(kind, str) else None
    if kind in ("complex", "complex128"):
        wide = DTYPES["complex128"]
        meant = Type(wide, stored.shape[:-1])
        is_fit = stored.dtype == DTYPES["float64"] and stored.shape[-1:] == (2,)
        found = Entry(meant, lambda: read().view(wide).reshape(meant.shape), python)
    elif python is not None:
        is_fit = stored.dtype.name in NUMBERS[python]
        found = Entry(stored, read, python)
    else:
        meant = Type(DTYPES.get(str(kind), stored.dtype), stored.shape)
        is_fit = stored.dtype.name == "uint8" and meant.dtype.name.startswith("float8_")
        found = Entry(meant, lambda: read().view(meant.dtype))
    if not is_fit or (python is not None and found.type.shape):
        refuse(f"{shown(name)} is {stored}, which holds no {shown(str(kind))}")
    return found
