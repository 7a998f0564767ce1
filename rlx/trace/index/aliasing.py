"""Alias analysis for assignments: who else has an array or a view of it.

rlx values have no views: `x[1:]` is an array of its own. NumPy would change one with the other,
so what assignment could not do as NumPy does is an error. Arrays carry `Ties` for that; most have
none.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...ir.errors import AliasError, ImmutableError
from ...ir.source import user_source

# -- the parts of an array: which share places with an assignment ----------------------------------


Box = tuple[range, ...] | None  # the places along each axis; None if they are not known
Places = Callable[[], Box] | None  # computed where it is asked for

FEW = 32


class Parts:
    """Weak references to parts, and their places.

    If there are many, `bounds` has the least and the greatest place along each axis of those that
    an assignment has met, so that most are passed over at once. Parts arrive by `arrived.append`,
    for which no lock is needed; callers of all else hold one. What a forked child finds half done
    there it can go on with, for no row is ever in two halves.
    """

    def __init__(self, rank: int) -> None:
        self.arrived: deque[tuple[weakref.ref[Any], Places]] = deque()
        self.rows: list[tuple[weakref.ref[Any] | None, Box | Places]] = []
        self.bounds = np.empty((0, 2, rank))
        self.limit = FEW  # at so many the dead are forgotten

    def __len__(self) -> int:
        return len(self.rows) + len(self.arrived)

    def settle(self) -> None:
        """Give what arrived and lives its row; forget the dead where there are many rows."""
        arrived, rows = self.arrived, self.rows
        while arrived:
            row = arrived.popleft()
            if row[0]() is not None:
                rows.append(row)
        if len(self) >= self.limit:
            self._forget_dead()
            self.limit = max(FEW, 2 * len(self))

    def taken(self, box: Box) -> Iterator[Any]:
        """Give and forget the living parts that may share places with a box."""
        self.settle()
        if len(self.rows) <= FEW:
            self._forget_dead()
        for i in range(len(self.rows)) if len(self.rows) <= FEW else self._near(box):
            reference, places = self.rows[i]
            known = _boxed(places)
            is_met = reference is not None and meet(known, box)
            self.rows[i] = (None if is_met else reference, known)
            part = reference() if reference is not None and is_met else None
            if part is not None:
                yield part

    def _near(self, box: Box) -> list[int]:
        """The parts whose bounds are not apart from those of a box."""
        first, rank = len(self.bounds), self.bounds.shape[2]
        if first < len(self.rows):
            late = [(reference, _boxed(places)) for reference, places in self.rows[first:]]
            self.rows[first:] = late
            bounds = np.array([_bounds(known, rank) for _, known in late], float)
            self.bounds = np.concatenate([self.bounds, bounds.reshape(-1, 2, rank)])
        low, high = _bounds(box, rank)
        near = (self.bounds[:, 0] <= high) & (self.bounds[:, 1] >= low)
        return np.flatnonzero(near.all(axis=1)).tolist()

    def _forget_dead(self) -> None:
        kept = [i for i, (ref, _) in enumerate(self.rows) if ref is not None and ref() is not None]
        self.bounds = self.bounds[[i for i in kept if i < len(self.bounds)]]
        self.rows = [self.rows[i] for i in kept]


def _boxed(places: Box | Places) -> Box:
    return places() if callable(places) else places


def _bounds(box: Box, rank: int) -> tuple[list[float], list[float]]:
    """The least and the greatest place along each axis; everywhere if they are not known."""
    if box is None:
        return [-np.inf] * rank, [np.inf] * rank
    ends = [(p[0], p[-1]) if p else (np.inf, -np.inf) for p in box]  # no step goes backwards
    return [low for low, _ in ends], [high for _, high in ends]


def meet(a: Box, b: Box) -> bool:
    """Whether places may have one in common."""
    if a is None or b is None:
        return True
    return all(_share(p, q) for p, q in zip(a, b, strict=True))


def _share(p: range, q: range) -> bool:
    if not p or not q:
        return False
    if p.step == q.step and (p.start - q.start) % p.step:
        return False
    return p.start <= q[-1] and q.start <= p[-1]


_serials = itertools.count(1)
_counting = threading.Lock()
_tying = threading.RLock()  # for two threads may take parts of one array
open_traces = 0  # in all threads, so that arrays made outside of all traces need not ask


class _State(threading.local):
    def __init__(self) -> None:
        self.traces: list[int] = []


_state = _State()


def _forget_other_threads() -> None:
    """In a forked child they are gone, with their traces and what they held."""
    global _counting, _tying, open_traces
    _counting, _tying, open_traces = threading.Lock(), threading.RLock(), len(_state.traces)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


class InField(NamedTuple):
    """The field of a module that an array is in: all of it, or a leaf of a tree."""

    module: str
    name: str
    is_all: bool


class Ties:
    """What an array is tied to."""

    # of the class, so that most ties set one of them only
    birth: int | None = None  # the number of the trace that made it
    field: InField | None = None  # the field of a module that has it: it never changes then
    bases: tuple[weakref.ref[Any], ...] = ()  # the arrays it is a part of
    parts: Parts | None = None  # the arrays that are parts of it, with their places
    owner = ""  # who else relies on the elements
    holder: weakref.ref[Any] | None = None  # must be alive for that


class Outdated:
    """A stand-in for elements that NumPy would have changed; every use raises."""

    __slots__ = ("_what", "_where")

    def __init__(self, what: str, where: str) -> None:
        self._what, self._where = what, where

    def __getattr__(self, attribute: str) -> NoReturn:
        raise AliasError(
            "a part of an array was used after the whole had been assigned to",
            notes=[f"the whole: {self._what}", f"assigned to at {self._where}"],
            fix="NumPy would change the part, too: take it again after the assignment, or keep\n"
            "the elements as they were, part = x[i].copy()",
        )


@contextmanager
def tracing() -> Iterator[None]:
    """Note which arrays a trace or branch makes in the block: it may assign to these."""
    global open_traces
    with _counting:
        open_traces += 1
    _state.traces.append(next(_serials))
    try:
        yield
    finally:
        _state.traces.pop()
        with _counting:
            open_traces -= 1


def is_tracing() -> bool:
    """Whether this thread records a function, or runs a branch at once."""
    return bool(_state.traces)


def new_ties() -> Ties | None:
    """The ties of an array made now, while some thread records a function."""
    if not _state.traces:
        return None
    ties = Ties()
    ties.birth = _state.traces[-1]
    return ties


def make_here(results: Any) -> Any:
    """Note that compiled code, which skips `__init__`, made arrays; gives them back.

    To be called if `open_traces` is not 0.
    """
    for array in results if isinstance(results, tuple) else (results,):
        array._ties = new_ties()
    return results


def ties_of(x: Any) -> Ties | None:
    """The ties of an array or a tensor, if it has any."""
    return getattr(x, "_ties", None)


def _tie(x: Any) -> Ties:
    ties = getattr(x, "_ties", None)
    if ties is None:
        with _tying:
            ties = ties_of(x)
            if ties is None:
                ties = x._ties = Ties()
    return ties


def is_born_here(x: Any) -> bool:
    """Whether the innermost trace made an array."""
    ties = ties_of(x)
    return ties is not None and ties.birth is not None and ties.birth == _state.traces[-1]


def give(tensors: Sequence[Any]) -> None:
    """Note that tensors are arguments, which the caller has too."""
    for tensor in tensors:
        lend(tensor, f"the caller has it too: it is {tensor.value.origin}")


def lend(x: Any, owner: str) -> Any:
    """Note who has an array besides the function that gets it; gives the array."""
    _tie(x).owner = owner
    return x


def put_in_field(x: Any, field: InField) -> None:
    """Note that an array is in a field of a module, if it is not in one already."""
    known = ties_of(x)
    if known is None or known.field is None:
        _tie(x).field = field


def hold(arrays: Sequence[Any], holder: Any, name: str) -> None:
    """Note that a compiled function has taken arrays from outside into its program."""
    for array in arrays:
        ties = _tie(array)
        ties.owner = f"the compiled function {name} has taken it up as it is"
        ties.holder = weakref.ref(holder)


def is_part(x: Any, part: Any, places: Places = None) -> Any:
    """Note that an array is what NumPy would make a view of `x`; gives the part."""
    if part is x or not part.shape:
        return part
    return _note(x, part, _tie(part), places)


def is_new_part(x: Any, part: Any, places: Places = None) -> Any:
    """The same for an array that was made just now and has no ties yet."""
    part._ties = made = Ties()
    ties = _tie(x)
    if ties.bases or ties.parts is None:
        return _note(x, part, made, places)
    made.bases = (weakref.ref(x),)
    arrived = ties.parts.arrived
    arrived.append((weakref.ref(part), places))
    if len(arrived) >= FEW:
        _settle(ties.parts)
    return part


def _note(x: Any, part: Any, made: Ties, places: Places) -> Any:
    """Note a part with the whole, and with what that is a part of; gives the part."""
    reference, ties = weakref.ref(part), _tie(x)
    made.bases = bases = (weakref.ref(x), *ties.bases)
    _arrive(ties.parts or _parts_of(x), reference, places)
    for base in bases[1:]:
        whole = base()
        if whole is not None:
            _arrive(_parts_of(whole), reference, None)
    return part


def _arrive(parts: Parts, reference: weakref.ref[Any], places: Places) -> None:
    parts.arrived.append((reference, places))
    if len(parts.arrived) >= FEW:
        _settle(parts)


def _settle(parts: Parts) -> None:
    with _tying:
        parts.settle()


def _parts_of(x: Any) -> Parts:
    ties = _tie(x)
    if ties.parts is None:
        with _tying:
            if ties.parts is None:
                ties.parts = Parts(x.ndim)
    return ties.parts


def check_free(x: Any, action: str) -> None:
    """Raise an error if an alias would show, or miss, an assignment."""
    ties = ties_of(x)
    if ties is None:
        return
    if ties.field is not None:
        raise _in_field(action, ties.field)
    if ties.owner and (ties.holder is None or ties.holder() is not None):
        raise taken(x, action, ties.owner)
    whole = next((base() for base in ties.bases if base() is not None), None)
    if whole is not None:
        raise AliasError(
            f"{action} would change a part of an array, and NumPy the whole with it",
            notes=[f"the part: {x.type}", f"the whole: {whole.type}"],
            fix="assign through the whole, x[0, 1] = v instead of x[0][1] = v, or take a copy of "
            "the part:\npart = x[0].copy()",
        )


def _in_field(action: str, field: InField) -> ImmutableError:
    """The error for an array of a module."""
    module, name, is_all = field
    changed = f"m.{name}.at[i].set(v)" if is_all else "..."
    return ImmutableError(
        f"modules are immutable: {action} would change {module}.{name}",
        fix=f"make another module: m = m.replace({name}={changed}), or change a copy of the "
        "array: x = x.copy()",
    )


def taken(x: Any, action: str, why: str) -> AliasError:
    """The error for an array that is not this function's to change."""
    return AliasError(
        f"{action} would change an array that somebody else has",
        notes=[f"x: {x.type}", why],
        fix="assign to a copy, x = x.copy(), or write x = x.at[i].set(v)",
    )


def has_parts(x: Any) -> bool:
    """Whether there are, or were, arrays that are parts of an array."""
    ties = ties_of(x)
    return ties is not None and bool(ties.parts)


def outdate_parts(x: Any, box: Box) -> None:
    """Make parts unusable that share places with an assignment."""
    with _tying:
        taken = [part for part in _parts_of(x).taken(box) if part is not x]
    if taken:
        stale = Outdated(str(x.type), str(user_source()))
        for part in taken:
            part._first = part._second = stale
