"""Put the arrays of a file in the places of a tree, and say what does not fit."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, StructureError
from ..ir.record import record
from ..ir.types import Type, type_of
from ..nn.blocks import BlockArray
from ..trace import pytree
from ..trace.arguments import names_of, wrong
from ..trace.array import Array, new_array
from .contents import PYTHON, Contents, Entry
from .names import named_leaves, static_fields
from .sources import with_own_memory

Only = Iterable[str] | str | Callable[[str], bool] | None
Rename = Mapping[str, str] | Callable[[str], str | None] | None
MOST_LINES = 20  # of an error
MOST_RENAMED = 3  # names in its advice
MOST_COMPARED = 2000  # names, in search of one that is meant


@record
class LoadReport:
    """What did not fit when a file was loaded into a tree, by name.

    `missing` are in the tree alone, `unexpected` in the file alone; `mismatched` have another shape
    or dtype, `static` another static value. The texts say what each is.
    """

    missing: dict[str, str]
    unexpected: dict[str, str]
    mismatched: dict[str, str]
    static: dict[str, str]

    @property
    def is_complete(self) -> bool:
        """Whether all names fit."""
        return not (self.missing or self.unexpected or self.mismatched or self.static)

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "all names fit"

    def lines(self) -> list[str]:
        """A line for each name."""
        near = self.renamed()
        rows = [
            f"missing in the file: {name}, {text}"
            + (f"; did you mean its {near[name]!r}?" if name in near else "")
            for name, text in self.missing.items()
        ]
        rows += [f"unexpected in the file: {name}, {x}" for name, x in self.unexpected.items()]
        rows += [f"{name} is {text}" for name, text in (self.mismatched | self.static).items()]
        return rows

    def renamed(self) -> dict[str, str]:
        """For missing names the unexpected ones that may be meant."""
        choices = list(self.unexpected)[:MOST_COMPARED]
        found = {}
        for name in list(self.missing)[:MOST_LINES]:
            close = difflib.get_close_matches(name, choices, 1, 0.7)
            found |= {name: close[0]} if close else {}
        return found


def values(contents: Contents, only: Only, rename: Rename) -> dict[str, Any]:
    """The arrays and numbers of a file by their new names."""
    entries = _chosen(contents.entries, only, rename)
    read: dict[int, Any] = {}
    return {name: _value(entry, read) for name, entry in entries.items()}


def filled(contents: Contents, like: Any, only: Only, rename: Rename) -> tuple[Any, LoadReport]:
    """The tree `like` with the arrays of a file, and what of them does not fit."""
    wanted, structure = named_leaves(like)
    entries = _chosen(contents.entries, None, rename)
    is_chosen = _selector(only, {**wanted, **entries})
    missing, mismatched, leaves = {}, {}, []
    read: dict[int, Any] = {}
    for name, leaf in wanted.items():
        entry = entries.get(name)
        value = leaf
        if not is_chosen(name):
            pass
        elif entry is None:
            missing[name] = _described(leaf)
        elif _fits(entry, leaf):
            value = _placed(_value(entry, read), leaf)
        else:
            mismatched[name] = f"{entry} in the file, {_described(leaf)} in the tree"
        leaves.append(value)
    unexpected = {n: str(e) for n, e in entries.items() if n not in wanted and is_chosen(n)}
    theirs = static_fields(like) if contents.static and not rename else {}
    static = _other_static(contents.static, theirs, is_chosen)
    report = LoadReport(missing, unexpected, mismatched, static)
    return pytree.unflatten(structure, leaves), report


def misfit(report: LoadReport, deed: str = "load", fix: str | None = None) -> StructureError:
    """The error for a tree that a file does not fit."""
    lines = report.lines()
    more = [f"... and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    renamed = {old: new for new, old in list(report.renamed().items())[:MOST_RENAMED]}
    return StructureError(
        f"{deed}: {len(lines)} names of the file and of the tree do not fit",
        notes=[*lines[:MOST_LINES], *more],
        fix=fix
        or (f"rename={renamed},\n" if renamed else "")
        + "only=[...] to load a part, or strict=False to keep what the tree has\n"
        "there and get a report",
    )


# -- which names ----------------------------------------------------------------------------------


def _chosen(entries: Mapping[str, Entry], only: Only, rename: Rename) -> dict[str, Entry]:
    """The entries by new names, as far as they are wanted."""
    if only is None and rename is None:
        return dict(entries)
    found: dict[str, Entry] = {}
    new_name = _renamer(rename, entries)
    for old, entry in entries.items():
        name = new_name(old)
        if name is None:
            continue
        if name in found:
            raise ArgumentError(
                f"load: rename makes {name!r} of two names of the file, {old!r} is one",
                fix="give each array a name of its own, or None to leave it out",
            )
        found[name] = entry
    is_chosen = _selector(only, found)
    return {name: entry for name, entry in found.items() if is_chosen(name)}


def _renamer(rename: Rename, names: Iterable[str]) -> Callable[[str], str | None]:
    if rename is None:
        return lambda name: name
    if callable(rename):
        return lambda name: _checked_name(rename(name))
    if not isinstance(rename, Mapping):
        fix = 'write rename={"old": "new"}, or give a function of a name'
        raise wrong("load: rename", rename, "a dict or a function", fix)
    table = {old: _checked_name(new) for old, new in rename.items()}
    used = set()

    def new_name(name: str) -> str | None:
        parts = name.split(".")
        for i in range(len(parts), 0, -1):
            old = ".".join(parts[:i])
            if old in table:
                used.add(old)
                new = table[old]
                return None if new is None else ".".join([new, *parts[i:]])
        return name

    for name in names:
        new_name(name)
    for old in table:
        if old not in used:
            raise _unknown("rename", str(old), names)
    return new_name


def _checked_name(name: Any) -> str | None:
    if name is None or isinstance(name, str):
        return name
    raise wrong(
        "load: a new name in rename", name, "a text", "give a name, or None to leave it out"
    )


def _selector(only: Only, names: Iterable[str]) -> Callable[[str], bool]:
    """What tells whether a name is one of `only`: it, what it begins with, or a pattern."""
    if only is None:
        return lambda _: True
    if callable(only):
        return lambda name: bool(only(name))
    patterns = names_of("load: only", only)

    def fits(name: str, pattern: str) -> bool:
        return name == pattern or name.startswith(f"{pattern}.") or fnmatchcase(name, pattern)

    for pattern in patterns:
        if not any(fits(name, pattern) for name in names):
            raise _unknown("only", pattern, names)
    return lambda name: any(fits(name, pattern) for pattern in patterns)


def _unknown(option: str, given: str, names: Iterable[str]) -> ArgumentError:
    known = sorted(names)[:MOST_COMPARED]
    prefixes = {".".join(n.split(".")[:i]) for n in known for i in range(1, 5)}
    close = difflib.get_close_matches(given, sorted(prefixes), 1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return ArgumentError(
        f"load: {option} names {given!r}, which is not in the file",
        fix=f"{guess}sorted(rlx.io.open(path)) lists its names",
    )


# -- what a leaf takes ----------------------------------------------------------------------------


def _described(leaf: Any) -> str:
    """What a leaf of the tree wants, as a type."""
    python = PYTHON.get(type(leaf).__name__)
    if python is not None:
        return f"a Python {python.__name__}"
    return str(_type(leaf))


def _fits(entry: Entry, leaf: Any) -> bool:
    """Whether an array of the file has the type of a leaf; of numbers it is enough to be such."""
    kind = entry.type.dtype.kind
    if type(leaf) in PYTHON.values():
        return not entry.type.shape and kind in {int: "iu", bool: "b", complex: "c"}.get(
            type(leaf), "fV"
        )
    wanted = _type(leaf)
    if entry.python is not None and wanted.shape == ():
        return kind == wanted.dtype.kind or {kind, wanted.dtype.kind} <= {"i", "u"}
    return entry.numbers == wanted


def _type(leaf: Any) -> Type:
    if isinstance(leaf, np.ndarray | np.generic):
        return type_of(leaf)
    found = leaf if isinstance(leaf, Type) else getattr(leaf, "type", None)
    if isinstance(found, Type):
        return found
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return Type(type_of(np.empty(0, leaf.dtype)).dtype, tuple(leaf.shape))
    raise wrong(
        "load: a leaf of the tree",
        leaf,
        "an array, a number or a spec",
        "give a tree like the one that was saved; what is no array belongs in static fields",
    )


def _value(entry: Entry, read: dict[int, Any]) -> Any:
    """The array of an entry in memory of its own, once for tied names; a Python number as such."""
    found = read.get(id(entry))
    if found is None:
        found = read[id(entry)] = value_of(entry, with_own_memory(entry.read()))
    return found


def value_of(entry: Entry, found: np.ndarray) -> Any:
    """What a user gets for an entry: a Python number, blocks, or the array."""
    if entry.python is not None:
        return found.item()
    array = new_array(found)
    return array if entry.blocks is None else BlockArray(array, entry.blocks)


def _placed(value: Any, leaf: Any) -> Any:
    """The value in the form and on the device of the leaf."""
    if isinstance(value, BlockArray):
        value = value.dequantize()
    if type(leaf) in PYTHON.values():
        return type(leaf)(value.item() if isinstance(value, Array) else value)
    if isinstance(leaf, np.ndarray | np.generic):
        found = np.array(value, leaf.dtype)
        return found if isinstance(leaf, np.ndarray) else found[()]
    if not isinstance(value, Array):  # a Python number
        value = new_array(np.array(value, _type(leaf).dtype))
    if not isinstance(leaf, Array) or leaf._device is value._device:
        return value
    return value.to(leaf.device)


def _other_static(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], is_chosen: Callable[[str], bool]
) -> dict[str, str]:
    """The static fields that have one value in the file, another in the tree.

    Whether a layer is in inference mode is the tree's alone.
    """
    both = [
        name
        for name in ours
        if name in theirs and is_chosen(name) and name.rpartition(".")[2] != "inference"
    ]
    texts = {name: (json.dumps(ours[name]), json.dumps(theirs[name])) for name in both}
    return {
        name: f"{first} in the file, {second} in the tree (static)"
        for name, (first, second) in texts.items()
        if first != second
    }
