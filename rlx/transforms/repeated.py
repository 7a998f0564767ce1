"""Compiled code for repeated calls of transforms outside of `jit`.

`rlx.grad(f)(x)` records `f` at every call, for `f` may look at numbers, print, or read what has
changed. If none of this can be, the second call of a kind keeps its recording, compiled, and later
ones enter its machine code as `jit` does. Guards compare what `f` reads from outside at every
call (`outside.py`).
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..ir.builder import current
from ..ir.config import Settings, config
from ..ir.policy import AS_WRITTEN
from ..ir.record import record
from ..runtime import MISS, default_device
from ..runtime.cache import clear_all
from ..runtime.session import CompileOptions
from ..trace import pytree, short_ways
from ..trace.apply import operand_type
from ..trace.array import Array, default_memory
from ..trace.host import is_python_scalar
from ..trace.make_graph import Traced, trace
from .jit.compiled import Compiled, Lowered
from .jit.identity import PLAIN, Walk, walked
from .jit.jitted import all_jitted, made_here
from .jit.paths import Arguments
from .outside import Outside, may_ask_what_it_is, may_change_outside, same

FEW, PAYS = 4, 32  # recordings that are tried anyhow, and calls that pay for one more
MOST_ENTRIES, MOST_KINDS, MOST_FAMILIES = 8, 64, 512
MOST_BYTES = 1 << 26  # of arrays that kept recordings hold
OPTIONS = CompileOptions(precision=AS_WRITTEN)  # policies are for what the user compiles
Place = int | str
Lent = Callable[[Place, int], bool]  # of an argument, and how many there are by position


@final
@record(frozen=False, eq=False)
class _Entry:
    """A kept recording: its functions, its guards, and the call path to its code."""

    functions: tuple[Any, ...]
    outside: Outside
    arrays: tuple[Place, ...]  # the arguments that must be arrays of rlx
    path: Callable[..., Any]
    nbytes: int

    def run(self, functions: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run the code; MISS if the recording is not for such a call."""
        mine = self.functions
        if not all(x is y or same(x, y) for x, y in zip(mine, functions, strict=True)):
            return MISS
        if not self.outside.hold():
            return MISS
        for place in self.arrays:
            given = _at(place, args, kwargs)
            if type(given) is not Array and not _are_arrays(given):
                return MISS
        return self.path(*args, **kwargs)


@final
class _Family:
    """Calls of one transform with functions of the same code."""

    def __init__(self) -> None:
        self.entries: tuple[_Entry, ...] = ()
        self.seen: set[Any] = set()
        self.tried = self.hits = 0
        self.is_closed = False  # nothing of it can be kept

    def may_try(self, kind: Any) -> bool:
        """Whether a kind was called before, and recordings of the family pay."""
        if kind not in self.seen:
            self.seen = {kind} if len(self.seen) >= MOST_KINDS else self.seen | {kind}
            return False
        return self.tried < FEW + self.hits // PAYS


class _State(threading.local):
    is_inside = False  # of a call that runs as it is written


_state = _State()
_families: dict[Any, _Family] = {}
_families_of: dict[Any, dict[Any, _Family]] = {}  # by settings
_is_off = False


def repeated(
    plain: Callable[..., Any],
    name: str,
    functions: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Any = None,
    lent: Lent | None = None,
) -> Any:
    """Compute `plain(*args, **kwargs)`, by code compiled for an earlier such call.

    `options`, which are `typed`, and the `functions` that are recorded are part of the key. `lent`
    marks arguments that reach the functions as they are.
    """
    if _is_off or _state.is_inside or current() is not None:
        return plain(*args, **kwargs)
    key = (name, options, *map(_code_of, functions))
    try:
        family = _families.get(key)
    except TypeError:  # options may be lists
        return plain(*args, **kwargs)
    if family is None:
        family = _new_family(key)
    for entry in family.entries:
        result = entry.run(functions, args, kwargs)
        if result is not MISS:
            family.hits += 1
            return made_here(result)
    if not family.is_closed:
        made = _tried(family, plain, name, functions, args, kwargs, lent)
        result = MISS if made is None else made.run(functions, args, kwargs)
        if result is not MISS:
            return made_here(result)
    try:
        _state.is_inside = True
        return plain(*args, **kwargs)
    finally:
        _state.is_inside = False


def typed(options: Any) -> Any:
    """Options that equal others of their types only, for 1.0 and True equal 1."""
    if type(options) is tuple:
        return tuple(map(typed, options))
    return type(options), options


def _at(place: Place, args: Any, kwargs: Any) -> Any:
    """An argument, or None if there is none."""
    if isinstance(place, str):
        return kwargs.get(place)
    return args[place] if place < len(args) else None


def _are_arrays(tree: Any) -> bool:
    return all(type(x) is Array for x in pytree.leaves(tree))


def _code_of(fn: Any) -> Any:
    if type(fn) is types.MethodType:
        fn = fn.__func__
    return fn.__code__ if type(fn) is types.FunctionType else id(fn)


def _new_family(key: Any) -> _Family:
    for old in list(_families)[: len(_families) + 1 - MOST_FAMILIES]:
        _families.pop(old, None)
    return _families.setdefault(key, _Family())


def _tried(
    family: _Family,
    plain: Callable[..., Any],
    name: str,
    functions: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    lent: Lent | None,
) -> _Entry | None:
    """Record the call to keep it, if it is not the first of its kind and may be kept."""
    marked = _marked(args, kwargs, lent)
    if marked is None:
        return None
    leaves, tree = pytree.flatten(marked[:2])
    kind = tree, tuple((operand_type(x), is_python_scalar(x)) for x in leaves)
    if not family.may_try(kind):
        return None
    family.tried += 1
    try:
        _state.is_inside = True
        entry = _entry(plain, name, functions, Arguments((args, kwargs), marked[:2]), marked[2])
    finally:
        _state.is_inside = False
    if entry is None:
        family.is_closed = True
        return None
    family.entries = (entry, *family.entries)[:MOST_ENTRIES]
    _forget_beyond(MOST_BYTES)
    return entry


def _entry(
    plain: Callable[..., Any],
    name: str,
    functions: tuple[Any, ...],
    arguments: Arguments,
    arrays: tuple[Place, ...],
) -> _Entry | None:
    """Record and compile a call; None if later recordings may differ."""
    looked = _looked(functions)
    if looked is None:
        return None
    walk, outside = looked
    # a traced tensor takes the place of an array that the function would get
    is_asked = bool(arrays) and may_ask_what_it_is(walk)
    args, kwargs = arguments.marked
    has_containers = any(type(_at(place, args, kwargs)) is not Array for place in arrays)
    if is_asked or may_change_outside(walk, has_containers):
        return None
    traced = _traced(plain, name, args, kwargs)
    after = None if traced is None else _looked(functions, True)
    if traced is None or after is None or after[0].digest.digest() != walk.digest.digest():
        return None
    if not outside.hold():
        return None
    lowered = Lowered(traced, default_device(), OPTIONS)
    compiled: Compiled = lowered.compile()
    if not compiled.has_path:
        return None
    nbytes = sum(x._data.nbytes for x in walk.arrays)
    return _Entry(functions, outside, arrays, compiled.path(arguments), nbytes)


def _looked(functions: tuple[Any, ...], is_recorded: bool = False) -> tuple[Walk, Outside] | None:
    """The guards of functions, if there can be any."""
    try:
        walk = walked(functions, is_recorded)
        return walk, Outside(walk)
    except Exception:  # a class of the user may raise anything when it is looked at
        return None


def _traced(
    plain: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Traced | None:
    """Record, unless the function asks for numbers that may change."""
    recorders = []

    def whole(*args: Any, **kwargs: Any) -> Any:
        recorder = current()
        assert recorder is not None, "it is traced"
        recorder.is_trial = True
        recorders.append(recorder)
        return plain(*args, **kwargs)

    whole.__name__ = name
    try:
        traced = trace(whole, args, kwargs)
    except Exception:  # the call as it is written tells what is wrong with it, if anything is
        return None
    later = [n for n in traced.graph.walk() if n.op.rules.calls_python]
    if recorders[0].was_asked or later or traced.graph.placed:
        return None
    on_host = all(isinstance(x, Array) and x._device is None for x in traced.captures)
    return traced if on_host else None


def _marked(
    args: tuple[Any, ...], kwargs: dict[str, Any], lent: Lent | None
) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Place, ...]] | None:
    """Arguments with static ones marked, and the places of lent arrays.

    Gives None if recordings of such a call are not kept.
    """
    if default_memory() is not None:
        return None
    arrays: list[Place] = []

    def mark(place: Place, x: Any, is_lent: bool) -> Any:
        leaves = pytree.leaves(x)
        if not is_lent:
            return x if all(map(_is_on_host, leaves)) else MISS
        if type(x) in PLAIN:
            return pytree.Static(x)
        if not all(type(leaf) is Array and leaf._device is None for leaf in leaves):
            return MISS  # what NumPy computes is not recorded
        arrays.append(place)
        return x

    given = tuple(mark(i, x, bool(lent and lent(i, len(args)))) for i, x in enumerate(args))
    named = {k: mark(k, x, bool(lent and lent(k, len(args)))) for k, x in kwargs.items()}
    if any(x is MISS for x in (*given, *named.values())):
        return None
    return given, named, tuple(arrays)


def _is_on_host(x: Any) -> bool:
    if type(x) is Array:
        return x._device is None
    return is_python_scalar(x) or type(x) is np.ndarray or isinstance(x, np.generic)


def clear_caches() -> None:
    """Clear the caches of traced and compiled programs; the disk cache stays.

    Each function is recorded and compiled anew by its next call. What somebody holds goes on:
    arrays, and what `lower(x).compile()` and `Session.compile` gave.

    >>> import rlx
    >>> double = rlx.jit(lambda x: x * 2)
    >>> double(3.0).item(), double.cache_size()
    (6.0, 1)
    >>> rlx.clear_caches()
    >>> double.cache_size()
    0
    """
    for jitted in all_jitted():
        jitted.cache_clear()
    _families.clear()
    _families_of.clear()
    short_ways.forget()
    clear_all()


def _forget_beyond(most: int) -> None:
    """Drop the oldest recordings until their arrays take no more than some bytes."""
    families = list(_families.values())
    total = sum(entry.nbytes for family in families for entry in family.entries)
    for family in families:
        while total > most and family.entries:
            total -= family.entries[-1].nbytes
            family.entries = family.entries[:-1]


def _change_settings(before: Settings, after: Settings) -> None:
    """Set aside what was compiled with other settings; keep nothing under some."""
    global _is_off, _families
    looks = after.check, after.key_reuse, after.debug_nans, after.debug_infs, after.checks
    _is_off = any(looks) or after.guards or after.disable_jit or after.dump is not None
    there = before.recorded_in, before.device
    here: Sequence[Any] = (after.recorded_in, after.device)
    if here != there:
        _families_of[there] = _families
        _families = _families_of.pop(tuple(here), {})


_change_settings(config.settings, config.settings)
config.watch(_change_settings)
