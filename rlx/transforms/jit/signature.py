"""Signatures of calls, their cache, and reasons for recompiles.

The signature is the structure of the arguments and the kind of each leaf: compiled code serves
calls of an equal one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ...ir.config import config
from ...ir.errors import DtypeError, RecompileError
from ...ir.record import record
from ...ir.types import Type
from ...trace import pytree
from ...trace.apply import as_operand, is_weak, operand_type
from ...trace.array import Array
from ...trace.make_graph import advice_for, function_name
from .paths import Call

Kinds = tuple[tuple[Any, ...], ...]  # of leaves: dtype and shape, or type and weakness


def kinds_of(fn: Callable[..., Any], call: Call) -> Kinds:
    """The kinds of all leaves of a function's arguments; an error names the leaf."""
    kinds: list[Any] = []
    try:
        for leaf in call.leaves:
            kinds.append(_kind(leaf))
    except DtypeError as error:
        i = len(kinds)
        origin = call.origins(fn)[i]
        error.notes = (origin, *error.notes)
        if not isinstance(call.leaves[i], np.ndarray):
            error.fix = advice_for(call.leaves[i], origin)
        raise
    return tuple(kinds)


def _kind(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, Array):
        data = leaf._data
        return data.dtype, data.shape
    if type(leaf) is np.ndarray:
        return leaf.dtype, leaf.shape
    operand = as_operand(leaf)
    return operand_type(operand), is_weak(operand)


class Key(NamedTuple):
    """What a compiled function is found by."""

    structure: pytree.Structure  # of the arguments
    kinds: Kinds  # of each leaf
    device: Any  # the default one while it was traced; each device it runs on has its own cache
    settings: tuple[Any, ...]  # under which it was compiled

    @classmethod
    def now(cls, structure: pytree.Structure, kinds: Kinds) -> Key:
        """The key under the settings there are."""
        settings = config.settings
        return cls(structure, kinds, settings.device, settings.compiled_in)

    @property
    def is_current(self) -> bool:
        """Whether the device and the settings are those there are."""
        return self[2:] == (config.settings.device, config.settings.compiled_in)


SIDES = ("the compiled ones", "this call")
MOST_NAMED = 4  # differences in one explanation

_is_forbidden: ContextVar[bool] = ContextVar("no_recompile", default=False)


@contextmanager
def no_recompile() -> Iterator[None]:
    """Raise an error in the block if a jitted function would have to compile.

    >>> import rlx
    >>> f = rlx.jit(lambda x: x + 1)
    >>> with no_recompile():
    ...     f(1.0)
    Traceback (most recent call last):
    ...
    rlx.RecompileError: <lambda> would be compiled: it is called for the first time
      where  ...
      fix    call it once with such arguments before, or leave out rlx.no_recompile()
    """
    token = _is_forbidden.set(True)
    try:
        yield
    finally:
        _is_forbidden.reset(token)


def check_recompile(fn: Callable[..., Any], reason: str) -> None:
    """Raise an error within `no_recompile`."""
    if _is_forbidden.get():
        raise RecompileError(
            f"{function_name(fn)} would be compiled: {reason or 'it is called for the first time'}",
            fix="call it once with such arguments before, or leave out rlx.no_recompile()",
        )


def reason_to_compile(fn: Callable[..., Any], call: Call, key: Key, known: Sequence[Key]) -> str:
    """Why to compile: how a call differs from the nearest one compiled before.

    Empty for the first.
    """
    known = [other for other in known if other[2:] == key[2:]]
    if not known:
        return ""
    tree, kinds = key.structure, key.kinds
    # of equally near ones the most recent
    alike = [other.kinds for other in reversed(known) if other.structure == tree]
    if not alike:
        return difference(known[-1].structure, tree)
    pairs = [[(a, b) for a, b in zip(kinds, other, strict=True) if a != b] for other in alike]
    nearest = alike[min(range(len(alike)), key=lambda i: len(pairs[i]))]
    rows = zip(call.origins(fn), kinds, nearest, strict=True)
    parts = [f"{name} is {_text(now)}, was {_text(was)}" for name, now, was in rows if now != was]
    more = len(parts) - MOST_NAMED
    return "; ".join(parts[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def difference(compiled: pytree.Structure, called: pytree.Structure) -> str:
    """Describe the first difference between the arguments of two calls."""
    (args, kwargs), (others, other_kwargs) = compiled.children(), called.children()
    if args.num_children != others.num_children:
        return f"{args.num_children} positional in {SIDES[0]}, {others.num_children} in {SIDES[1]}"
    pairs = zip(args.children(), others.children(), strict=True)
    places = [pytree.difference(a, b, f"argument {i}", SIDES) for i, (a, b) in enumerate(pairs)]
    places.append(pytree.difference(kwargs, other_kwargs, "the named arguments", SIDES))
    return next(filter(None, places), "the arguments differ")


def _text(kind: tuple[Any, ...]) -> str:
    is_number = isinstance(kind[0], Type) and kind[1]
    return f"{_type(kind)}" + (" (a Python number)" if is_number else "")


# -- what is compiled for each signature ----------------------------------------------------------

REMEMBERED = 1024  # hashes of kinds that were forgotten, to say so if they come again

_uses = itertools.count()


class CacheInfo(NamedTuple):
    """Statistics of a jitted function's compile cache.

    There are `limit` at most, of `bytes_limit` bytes together (`rlx.config.cache_bytes`);
    `bytes` estimates what the programs take up. `compiles` counts all compiles so far; `reason`
    says what was new in the last one. Where arrays came in several sizes, `advice` is the option
    of `jit` with which one program serves them all.
    """

    entries: int
    limit: int
    compiles: int
    reason: str
    bytes: int = 0
    bytes_limit: int = 0
    advice: str = ""


NAMES = ("n", "m", "k", "p", "q", "r", "s", "t")  # of sizes, in advice


def dynamic_advice(known: Sequence[tuple[Key, Sequence[str]]]) -> str:
    """The option `dynamic` for arguments that differ in sizes alone; or nothing.

    `known` are the kinds that a function is compiled for, each with the names of its leaves.
    """
    alike: dict[Any, list[tuple[Key, Sequence[str]]]] = {}
    for key, names in known:
        types = [_type(kind) for kind in key.kinds]
        form = key.structure, key[2:], tuple((t.dtype, t.rank) for t in types), tuple(names)
        alike.setdefault(form, []).append((key, names))
    rows = max(alike.values(), key=len, default=[])
    if len(rows) < 2:
        return ""
    shapes = [[_type(kind).shape for kind in key.kinds] for key, _ in rows]
    called: dict[tuple[Any, ...], str] = {}  # sizes in all calls -> their name
    found: dict[str, dict[int, str]] = {}
    for place, name in enumerate(rows[0][1]):
        for axis in range(len(shapes[0][place])):
            sizes = tuple(shape[place][axis] for shape in shapes)
            if len(set(sizes)) > 1 and len(called) < len(NAMES):
                called.setdefault(sizes, NAMES[len(called)])
                found.setdefault(name, {})[axis] = called[sizes]
    return f"rlx.jit(f, dynamic={found})" if found else ""


def _type(kind: tuple[Any, ...]) -> Type:
    return kind[0] if isinstance(kind[0], Type) else Type(*kind)


@record(frozen=False)
class _Used:
    """An entry, and when it was used last."""

    entry: Any
    at: int


class LruCache:
    """A cache of compiled functions by kind of arguments, least recently used out.

    Threads use it at once: every step is one operation on a dict, and no lock is there that a
    forked child could find taken.
    """

    def __init__(self) -> None:
        self._entries: dict[Any, _Used] = {}
        self._forgotten: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._by_use())

    def items(self) -> list[tuple[Any, Any]]:
        """Kinds with their entries, the least recently used first."""
        return [(key, used.entry) for key, used in self._by_use()]

    def get(self, key: Any) -> Any:
        """The entry of a kind, which becomes the most recently used; None if absent."""
        used = self._entries.get(key)
        if used is None:
            return None
        used.at = next(_uses)
        return used.entry

    def put(self, key: Any, entry: Any, limit: int) -> None:
        """Add an entry, and evict others beyond `limit` and `cache_bytes`."""
        self._entries[key] = _Used(entry, next(_uses))
        for old, _ in self._by_use()[:-1]:
            if len(self) <= limit and self.bytes <= config.cache_bytes:
                break
            self._entries.pop(old, None)  # another thread may have forgotten it meanwhile
            self._forgotten[hash(old)] = None
        for old in list(self._forgotten)[:-REMEMBERED]:
            self._forgotten.pop(old, None)

    def reason(self, key: Any, limit: int) -> str:
        """Why a kind is compiled again after it was evicted; empty if it was not."""
        if hash(key) not in self._forgotten:
            return ""
        size = f"{config.cache_bytes / 1e6:.4g} MB"
        return (
            f"it was compiled for such arguments and forgotten since: {limit} kinds or {size} are "
            "kept (rlx.config.cache_bytes)"
        )

    @property
    def last(self) -> Any:
        """The most recently used entry."""
        return self._by_use()[-1][1].entry

    @property
    def bytes(self) -> int:
        """The size of the programs, roughly."""
        return sum(u.entry.executable.held_bytes for u in self._entries.copy().values())

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._forgotten.clear()

    def _by_use(self) -> list[tuple[Any, _Used]]:
        """Kinds and entries, the most recently used last."""
        return sorted(self._entries.copy().items(), key=lambda pair: pair[1].at)
