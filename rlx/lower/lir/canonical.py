"""Canonical forms of steps: equal keys for steps that differ in buffers only."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

import numpy as np

from ...ir.record import fields
from ...ir.types import Type
from .expr import Const, Expr
from .index import Variable
from .program import Buffer

UNSEEN = ("source", "serial", "joins")  # fields on which nothing depends that a step does
PLAIN = (int, str, type(None), np.dtype, Type)


def canonical(step: Any) -> tuple[Hashable, list[Buffer]]:
    """The canonical key of a step, and its buffers in the key's order.

    A backend may ask for several steps that it has put into one record.
    Steps with equal keys do the same with their buffers, which have the same types and kinds and
    stand at the same places of the lists. All sizes are numbers.
    """
    writer = _Writer()
    writer.put(step)
    return tuple(writer.words), list(writer.buffers)


class _Writer:
    """Writes a step as words of a key; buffers, variables and expressions are numbered."""

    def __init__(self) -> None:
        self.words: list[Hashable] = []
        self.buffers: dict[Buffer, int] = {}
        self.numbers: dict[Variable | Expr, int] = {}

    def put(self, thing: Any) -> None:
        """Write a thing with all its fields, prefix-free: its first words tell its length."""
        kind = type(thing)
        if kind is Buffer:
            self.put_buffer(thing)
        elif kind is tuple:
            self.words.append(len(thing))
            for part in thing:
                self.put(part)
        elif isinstance(thing, PLAIN):
            self.words += (kind, thing)  # True is not 1
        elif isinstance(thing, Const):
            self.words += (kind, thing.dtype, thing.number.tobytes())  # -0.0 is not 0.0
        elif isinstance(thing, Variable | Expr) and thing in self.numbers:
            self.words += ("known", self.numbers[thing])
        else:
            self.words.append(kind)
            for name in _names(kind):
                self.put(getattr(thing, name))
            if isinstance(thing, Variable | Expr):
                self.numbers[thing] = len(self.numbers)

    def put_buffer(self, buffer: Buffer) -> None:
        """Write a buffer by its type; local ones with their offset in the step's block."""
        is_new = buffer not in self.buffers
        number = self.buffers.setdefault(buffer, len(self.buffers))
        self.words += (Buffer, number)
        if is_new:
            offset = buffer.offset if buffer.kind == "local" else None
            self.words += (buffer.type, buffer.kind, offset)


@cache
def _names(kind: type) -> tuple[str, ...]:
    assert hasattr(kind, "__record__"), f"{kind} cannot be compared"
    return tuple(name for name in fields(kind) if name not in UNSEEN)
