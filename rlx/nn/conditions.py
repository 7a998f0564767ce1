"""Conditions of masks: which keys a query sees; slopes of linear biases.

`masks.py` makes masks of them. Places of queries are i32[T, 1], those of keys i32[1, S].
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np

from .. import numpy as rnp
from ..ir.errors import DtypeError, ShapeError
from ..trace.apply import as_tensor
from .module import Module, field

FAR = 1 << 30  # places away: no sequence is so long


def places(length: Any, count: Any) -> tuple[Any, Any]:
    """The places of queries, i32[T, 1], and keys, i32[1, S]."""
    own, other = (rnp.arange(n, dtype="int32") for n in (length, count))
    return own[:, None], other[None]


class Condition(Module):
    """Which keys queries see: bools that broadcast to (batch, heads, queries, keys)."""

    @abstractmethod
    def at(self, own: Any, other: Any) -> Any:
        """Whether it holds for queries at `own`, i32[T, 1], keys at `other`, i32[1, S]."""

    def shifted(self, offset: Any) -> Condition:
        """The condition for queries that stand `offset` places later."""
        return self


@final
class Near(Condition):
    """So many places before and after the query are seen; it stands `offset` later."""

    before: int = field(static=True)
    after: int = field(static=True)
    offset: Any = None

    def at(self, own: Any, other: Any) -> Any:
        """Whether the distance of query and key is in the window."""
        distance = other - (own if self.offset is None else _moved(own, self.offset))
        seen = [distance <= self.after] if self.after < FAR else []
        seen += [distance >= -self.before] if self.before < FAR else []
        return functools.reduce(rnp.logical_and, seen) if seen else rnp.ones_like(distance, "bool")

    def shifted(self, offset: Any) -> Condition:
        """The window seen from there: another window, if the offset is known."""
        if isinstance(offset, int):  # a window as well, which begins elsewhere
            before = self.before - offset if self.before < FAR else FAR
            after = self.after + offset if self.after < FAR else FAR
            return Near(before, after, self.offset)
        return Near(
            self.before, self.after, offset if self.offset is None else self.offset + offset
        )


@final
class Short(Condition):
    """Keys from a number on are not there."""

    lengths: Any

    def at(self, own: Any, other: Any) -> Any:
        """Whether the keys are there."""
        return other < rnp.reshape(as_tensor(self.lengths), (-1, 1, 1, 1))


@final
class Together(Condition):
    """A query sees the keys of its own segment."""

    queries: Any
    keys: Any

    def at(self, own: Any, other: Any) -> Any:
        """Whether query and key are of one segment."""
        queries, keys = (rnp.atleast_2d(as_tensor(x)) for x in (self.queries, self.keys))
        for what, found, wanted in (
            ("queries", queries.shape[1], own.shape[0]),
            ("keys", keys.shape[1], other.shape[1]),
        ):
            if found != wanted:
                raise ShapeError(
                    f"masks.segments: there are {wanted} {what}, and segments for {found}",
                    fix=f"give one integer for each of the {what}",
                )
        return queries[:, None, :, None] == keys[:, None, None, :]


@final
class Listed(Condition):
    """What an array of bools says."""

    array: Any

    def at(self, own: Any, other: Any) -> Any:
        """What the array says."""
        return as_tensor(self.array)


@final
class Asked(Condition):
    """What a function of the places says."""

    function: Callable[..., Any] = field(static=True)
    offset: Any = None

    def at(self, own: Any, other: Any) -> Any:
        """What the function says."""
        own = own if self.offset is None else _moved(own, self.offset)
        seen = as_tensor(self.function(own, other))
        if seen.dtype.kind != "b":
            raise DtypeError(
                f"masks.predicate: the function gave {seen.type}",
                fix="return bools, true where the query sees the key",
            )
        return seen

    def shifted(self, offset: Any) -> Condition:
        """The function of later places."""
        return Asked(self.function, offset if self.offset is None else self.offset + offset)


@final
class Either(Condition):
    """What one of several masks shows."""

    masks: tuple[Any, ...]  # of `nn.masks`

    def at(self, own: Any, other: Any) -> Any:
        """Whether one of the masks shows it."""
        return functools.reduce(rnp.logical_or, (m.shown(own, other) for m in self.masks))

    def shifted(self, offset: Any) -> Condition:
        """Each mask, shifted."""
        return Either(tuple(m.shifted(offset) for m in self.masks))


@final
class Hidden(Condition):
    """What a mask does not show."""

    mask: Any  # of `nn.masks`

    def at(self, own: Any, other: Any) -> Any:
        """Whether the mask does not show it."""
        return rnp.logical_not(self.mask.shown(own, other))

    def shifted(self, offset: Any) -> Condition:
        """The mask, shifted."""
        return Hidden(self.mask.shifted(offset))


@final
class Slopes(Module):
    """A bias that falls with the distance, with a slope for each head."""

    slopes: Any  # known ones are a tuple of numbers
    is_known: bool = field(static=True)
    known: tuple[float, ...] = field(static=True)
    offset: Any = None

    @property
    def is_fixed(self) -> bool:
        """Whether it is known, and queries stand at the places of their rows."""
        return self.is_known and self.offset is None

    def at(self, own: Any, other: Any, dtype: Any) -> Any:
        """The bias (heads, T, S) for queries at `own` and keys at `other`."""
        own = own if self.offset is None else _moved(own, self.offset)
        slopes = np.asarray(self.known, dtype) if self.is_known else as_tensor(self.slopes)
        return rnp.reshape(slopes, (-1, 1, 1)) * -rnp.abs(own - other)


def _moved(own: Any, offset: Any) -> Any:
    """The places of queries some places later; with a batch of offsets (batch, 1, T, 1)."""
    offset = as_tensor(offset)
    return own + (rnp.reshape(offset, (-1, 1, 1, 1)) if offset.ndim else offset)
