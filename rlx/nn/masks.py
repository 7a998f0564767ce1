"""Masks of attention: which keys a query sees, and what is added to its scores.

A mask is made by a function of this file and given to `dot_product_attention` as `mask`. Masks are
joined by `&` (a key is seen if both show it; what they do to scores is done by both) and `|` (if
one shows it), and turned round by `~`. They are pytrees whose leaves are their arrays. A query
stands at the place of its row, if `shifted` does not say otherwise, a key at that of its own.

Causal masks and windows, also joined by `&`, `soft_cap`, and `alibi` of known slopes are never in
memory as a table of queries and keys, however long these are; what else there is, is made of the
places of queries and keys where it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, final

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from ..ir.lazy import listed
from ..trace.apply import as_tensor
from ..trace.arguments import callable_of, count_of, size_of, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.axes import integer
from .conditions import (
    FAR,
    Asked,
    Condition,
    Either,
    Hidden,
    Listed,
    Near,
    Short,
    Slopes,
    Together,
    places,
)
from .module import Module, field

__dir__ = listed(__name__)

__all__ = [
    "Mask",
    "alibi",
    "alibi_slopes",
    "array",
    "bias",
    "causal",
    "everything",
    "lengths",
    "predicate",
    "segments",
    "soft_cap",
    "window",
]


@final
class Mask(Module):
    """A mask of attention, which the functions of `nn.masks` make.

    `conditions` hold where a key is seen; `biases` and `slopes` are added to the scores, after
    `cap` bounds them. Joined by `&`, `|` and `~`; the last two, of masks with a bias, a cap or
    slopes, are an `ArgumentError`.

    >>> (causal() & ~window(0, 0)).seen(3, 3)[0, 0].tolist()
    [[False, False, False], [True, False, False], [True, True, False]]
    """

    conditions: tuple[Condition, ...] = ()
    biases: tuple[Any, ...] = ()
    slopes: tuple[Slopes, ...] = ()
    cap: float | None = field(static=True, default=None)

    def __and__(self, other: Any) -> Mask:
        if not isinstance(other, Mask):
            raise _no_mask("&", other)
        if self.cap is not None and other.cap is not None:
            raise ArgumentError("nn.masks: both masks have a soft cap", fix="leave one of them out")
        return Mask(
            (*self.conditions, *other.conditions),
            (*self.biases, *other.biases),
            (*self.slopes, *other.slopes),
            other.cap if self.cap is None else self.cap,
        )

    def __or__(self, other: Any) -> Mask:
        if not isinstance(other, Mask):
            raise _no_mask("|", other)
        return Mask((Either((self._plain("|"), other._plain("|"))),))

    def __invert__(self) -> Mask:
        return Mask((Hidden(self._plain("~")),))

    def __rand__(self, other: Any) -> NoReturn:
        raise _no_mask("&", other)

    def __ror__(self, other: Any) -> NoReturn:
        raise _no_mask("|", other)

    def __bool__(self) -> NoReturn:
        raise ArgumentError(
            "nn.masks: a mask is neither true nor false",
            fix="join masks by &, | and ~, not by and, or and not",
        )

    def shifted(self, offset: Any) -> Mask:
        """The mask for queries that stand `offset` places later than their rows.

        `offset` is an integer, or an array of integers, one for each member of the batch: so many
        keys of earlier calls are there, say. What arrays list is not moved.

        >>> causal().shifted(2).seen(1, 4)[0, 0].tolist()
        [[True, True, True, False]]
        """
        if isinstance(offset, int | np.integer) and not isinstance(offset, bool):
            offset = int(offset)
        else:
            offset = _integers("Mask.shifted: offset", offset, 1)
        slopes = tuple(
            Slopes(s.slopes, s.is_known, s.known, offset if s.offset is None else s.offset + offset)
            for s in self.slopes
        )
        conditions = tuple(c.shifted(offset) for c in self.conditions)
        return Mask(conditions, self.biases, slopes, self.cap)

    def seen(self, length: Any, count: Any) -> Array:
        """Which of `count` keys each of `length` queries sees: bool[batch, heads, T, S].

        Batch and heads are 1 where they make no difference. A bias hides nothing. What does not fit
        `length` and `count` is a `ShapeError`.
        """
        sizes = (size_of("Mask.seen: length", length), size_of("Mask.seen: count", count))
        shown = self.shown(*places(*sizes))
        shown = rnp.reshape(shown, (1,) * (4 - shown.ndim) + tuple(shown.shape))
        return rnp.broadcast_to(shown, (*shown.shape[:2], *sizes))

    def shown(self, own: Any, other: Any) -> Any:
        """Which keys at `other`, i32[1, S], are seen from `own`, i32[T, 1]; returns bools."""
        seen = [_no_more_axes(c.at(own, other)) for c in self.conditions]
        return functools.reduce(rnp.logical_and, seen) if seen else rnp.ones((1, 1), "bool")

    def _plain(self, operator: str) -> Mask:
        if self.biases or self.slopes or self.cap is not None:
            raise ArgumentError(
                f"nn.masks: {operator} of a mask that changes scores: it has a bias, a soft cap or "
                "slopes",
                fix=f"use {operator} between conditions alone, and join the rest by &",
            )
        return self


def _no_mask(operator: str, given: Any) -> ArgumentError:
    fix = "make a mask of an array with nn.masks.array(x)"
    return wrong(f"nn.masks: an operand of {operator}", given, "a mask", fix)


def _no_more_axes(seen: Any) -> Any:
    if seen.ndim > 4:
        raise ShapeError(
            f"nn.masks: a condition is {seen.type}",
            fix="give bools that broadcast to (batch, heads, queries, keys)",
        )
    return seen


def _integers(what: str, given: Any, most: int) -> Any:
    given = as_tensor(given)
    if given.dtype.kind not in "iu":
        raise DtypeError(f"{what} is {given.type}", fix="give integers, int32 say")
    if given.ndim > most:
        raise ShapeError(f"{what} is {given.type}", fix=f"give {most} axes or less")
    return given


# -- functions that make masks ---------------------------------------------------------------------


def everything() -> Mask:
    """Every query sees every key; returns a `Mask`.

    >>> everything().seen(1, 2).tolist()
    [[[[True, True]]]]
    """
    return Mask()


def causal() -> Mask:
    """A query sees the keys up to its own place; returns a `Mask`.

    >>> causal().seen(2, 3)[0, 0].tolist()
    [[True, False, False], [True, True, False]]
    """
    return window(None, 0)


def window(before: int | None = None, after: int | None = None) -> Mask:
    """A query sees keys so far before and after its place; returns a `Mask`.

    `before` or `after` None is all that there are. A negative number leaves out the nearest;
    both together must be 0 or more, else it is an `AttributeValueError`. `causal() & window(n)` is
    the sliding window of Mistral 7B, Jiang et al., 2023: a query sees n keys before its own.

    >>> window(1, 0).seen(3, 3)[0, 0].tolist()
    [[True, False, False], [True, True, False], [False, True, True]]
    """
    first = FAR if before is None else integer("masks.window: before", before)
    last = FAR if after is None else integer("masks.window: after", after)
    if first + last < 0 or max(abs(first), abs(last)) > FAR:
        raise AttributeValueError(
            f"masks.window: ({before}, {after}) shows no key", fix="use 0 or more, or None"
        )
    return Mask((Near(first, last),))


def lengths(keys: Any) -> Mask:
    """Of each member of the batch only so many keys are there; returns a `Mask`.

    `keys` is i32[batch], or i32[] for all; other dtypes are a `DtypeError`.

    >>> lengths(np.array([1, 2])).seen(1, 2)[:, 0, 0].tolist()
    [[True, False], [True, True]]
    """
    return Mask((Short(_integers("masks.lengths: keys", keys, 1)),))


def segments(queries: Any, keys: Any = None) -> Mask:
    """A query sees the keys of its segment, as in packed sequences; returns a `Mask`.

    `queries` are the numbers of their segments, i32[batch, T] or i32[T], `keys` those of the keys,
    i32[batch, S]; without them both are the same. Floats are a `DtypeError`, more axes a
    `ShapeError`.

    >>> segments(np.array([0, 0, 1])).seen(3, 3)[0, 0].tolist()
    [[True, True, False], [True, True, False], [False, False, True]]
    """
    own = _integers("masks.segments: queries", queries, 2)
    other = own if keys is None else _integers("masks.segments: keys", keys, 2)
    for what, x in (("queries", own), ("keys", other)):
        if not x.ndim:
            raise ShapeError(
                f"masks.segments: {what} is {x.type}", fix="give one integer for each place"
            )
    return Mask((Together(own, other),))


def array(seen: Any) -> Mask:
    """A query sees the keys where `seen` is true; returns a `Mask`.

    The bools broadcast to (batch, heads, queries, keys). Another dtype is a `DtypeError`, more axes
    are a `ShapeError`.

    >>> (array(np.array([True, False])) | causal()).seen(2, 2)[0, 0].tolist()
    [[True, False], [True, True]]
    """
    given = as_tensor(seen)
    if given.dtype.kind != "b":
        raise DtypeError(
            f"masks.array: seen is {given.type}", fix="give bools; numbers to add are masks.bias(x)"
        )
    return Mask((Listed(_no_more_axes(given)),))


def predicate(function: Callable[[Any, Any], Any]) -> Mask:
    """A query sees keys for which `function(query, key)` is true; returns a `Mask`.

    It is called with the places of queries, i32[T, 1], and of keys, i32[1, S] (with a batch of
    offsets the former are i32[batch, 1, T, 1]), and gives bools that broadcast to (batch, heads, T,
    S), else it is a `DtypeError` where the mask is used. As `mask_mod` of PyTorch's
    `flex_attention`.

    >>> predicate(lambda query, key: (query - key) % 2 == 0).seen(2, 3)[0, 0].tolist()
    [[True, False, True], [False, True, False]]
    """
    return Mask((Asked(callable_of("masks.predicate: function", function)),))


def bias(x: Any) -> Mask:
    """Numbers `x` that are added to the scores; returns a `Mask`.

    They broadcast to (batch, heads, queries, keys). Bools are a `DtypeError`.

    >>> zeros = np.zeros((1, 2, 1, 4), "float32")
    >>> from rlx.nn import dot_product_attention
    >>> dot_product_attention(zeros, zeros, zeros, mask=causal() & bias(np.ones((2, 2)))).shape
    (1, 2, 1, 4)
    """
    given = as_tensor(x)
    if given.dtype.kind not in "fiuV":
        raise DtypeError(
            f"masks.bias: x is {given.type}", fix="give numbers; bools are masks.array(x)"
        )
    return Mask(biases=(given,))


def soft_cap(cap: float) -> Mask:
    """Scores are bounded smoothly, before biases are added; returns a `Mask`.

    They become cap * tanh(score / cap). `cap` is a number above 0, else it is an
    `AttributeValueError`. From "Gemma 2", Gemma Team, 2024.

    >>> (causal() & soft_cap(50.0)).cap
    50.0
    """
    number = known_real("masks.soft_cap: cap", cap)
    if not 0 < number < np.inf:
        raise AttributeValueError(f"masks.soft_cap: cap is {number}", fix="use a number above 0")
    return Mask(cap=number)


def alibi_slopes(heads: int) -> Array:
    """Slopes of attention with linear biases, one for each head: `f32[heads]`.

    Of a power of two heads they are 2^(-8 i / heads); others take every second slope of twice as
    many for the rest. From "Train Short, Test Long", Press et al., 2022.

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    return rnp.array(_slopes("alibi_slopes: heads", heads), "float32")


def _slopes(what: str, heads: Any) -> tuple[float, ...]:
    count = count_of(what, heads, 1)
    whole = 1 << (count.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    slopes += [2 ** (-4 * (i + 1) / whole) for i in range(0, 2 * (count - whole), 2)]
    return tuple(slopes)


def alibi(heads: Any) -> Mask:
    """Scores fall with distance, by a slope for each head; returns a `Mask`.

    `heads` is how many there are, for the slopes of `alibi_slopes`, or an array of slopes, f32[
    heads]. From "Train Short, Test Long", Press et al., 2022.

    >>> (causal() & alibi(8)).slopes[0].known[:2]
    (0.5, 0.25)
    """
    if isinstance(heads, int):
        return Mask(slopes=(Slopes(None, True, _slopes("masks.alibi: heads", heads)),))
    slopes = as_tensor(heads)
    if slopes.ndim != 1 or slopes.dtype.kind not in "fV":
        raise ShapeError(
            f"masks.alibi: the slopes are {slopes.type}",
            fix="give a number for each head, f32[heads], or how many heads there are",
        )
    return Mask(slopes=(Slopes(slopes, False, ()),))
