"""The parts of an array: which share places with an assignment."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Box = tuple[range, ...] | None  # the places along each axis; None if they are not known
Places = Callable[[], Box] | None  # computed where it is asked for

FEW = 32


class Parts:
    """Weak references to parts, and their places.

    If there are many, `bounds` has the least and the greatest place along each axis of those that
    an assignment has met, so that most are passed over at once.
    """

    def __init__(self, rank: int) -> None:
        self.references: list[weakref.ref[Any] | None] = []
        self.places: list[Box | Places] = []
        self.bounds = np.empty((0, 2, rank))
        self.limit = FEW  # at so many the dead are forgotten

    def __len__(self) -> int:
        return len(self.references)

    def add(self, reference: weakref.ref[Any], places: Places) -> None:
        """Add a part."""
        if len(self) >= self.limit:
            self._forget_dead()
            self.limit = max(FEW, 2 * len(self))
        self.references.append(reference)
        self.places.append(places)

    def taken(self, box: Box) -> Iterator[Any]:
        """Give and forget the living parts that may share places with a box."""
        if len(self) <= FEW:
            self._forget_dead()
        for i in range(len(self)) if len(self) <= FEW else self._near(box):
            reference, places = self.references[i], self.places[i]
            known = self.places[i] = places() if callable(places) else places
            if reference is not None and meet(known, box):
                self.references[i] = None
                part = reference()
                if part is not None:
                    yield part

    def _near(self, box: Box) -> list[int]:
        """The parts whose bounds are not apart from those of a box."""
        first, rank = len(self.bounds), self.bounds.shape[2]
        if first < len(self):
            found = [places() if callable(places) else places for places in self.places[first:]]
            self.places[first:] = found
            rows = np.array([_bounds(known, rank) for known in found], float)
            self.bounds = np.concatenate([self.bounds, rows.reshape(-1, 2, rank)])
        low, high = _bounds(box, rank)
        near = (self.bounds[:, 0] <= high) & (self.bounds[:, 1] >= low)
        return np.flatnonzero(near.all(axis=1)).tolist()

    def _forget_dead(self) -> None:
        pairs = enumerate(self.references)
        kept = [i for i, reference in pairs if reference is not None and reference() is not None]
        self.bounds = self.bounds[[i for i in kept if i < len(self.bounds)]]
        self.references = [self.references[i] for i in kept]
        self.places = [self.places[i] for i in kept]


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
