"""The parts of an array: which share places with an assignment."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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
