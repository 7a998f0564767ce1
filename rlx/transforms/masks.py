"""Cotangents that a choice has made zero stay zero.

In `where(x > 0, log(x), 0)` the cotangent of `log(x)` is zero at x = 0, and 0 times the slope 1 / 0
would be NaN. So reverse mode remembers with a cotangent where it may differ from zero: what is
computed from it number by number is zero elsewhere, whatever it is multiplied with; so is what
moves, repeats or adds numbers. `docs/derivatives.md` says where that ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.body import Concat, Gather, Move, Pointwise, Reduce, View
from ..ir.graph import OPS, Node, Value
from ..ir.op import Linear
from ..ir.ops.constant import SCALAR, like, uniform

Choice = Callable[[Value], Value]  # from what a node chooses by to the places of one argument


class Mask:
    """Where numbers may differ from zero: bools, recorded when asked for."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._value: Value | None = None

    @property
    def value(self) -> Value:
        """The bools in the current graph."""
        if self._value is None:
            self._value = self._make()
        return self._value


@dataclass(frozen=True)
class Masked:
    """A cotangent that is zero outside of its mask.

    If `is_clean` its numbers are so already.
    """

    value: Value
    mask: Mask | None = None
    is_clean: bool = True

    def settled(self) -> Value:
        """The numbers, zero outside of the mask."""
        if self.mask is None or self.is_clean:
            return self.value
        return OPS["select"](self.mask.value, self.value, like(self.value, 0))


def add_masked(first: Masked | None, second: Masked | None) -> Masked | None:
    """The sum of two cotangents, zero where both are."""
    if first is None or second is None:
        return second if first is None else first
    one, two = first.mask, second.mask
    if one is two:
        is_clean = first.is_clean and second.is_clean
        return Masked(_sum(first.value, second.value), one, is_clean)
    total = _sum(first.settled(), second.settled())
    if one is None or two is None:
        return Masked(total)
    return Masked(total, Mask(lambda: OPS["bit_or"](one.value, two.value)))


def _sum(x: Value, y: Value) -> Value:
    """The sum of two cotangents; parts of an array that lie side by side are put together."""
    join = x.node.op.rules.join if x.node and y.node and x.node.op is y.node.op else None
    joined = join(x, y) if join else None
    return OPS["add"](x, y) if joined is None else joined


class Masks:
    """The masks of one transposition: the same choice gives the same mask."""

    def __init__(self) -> None:
        self._found: dict[tuple[Value, Choice, Mask | None], Mask] = {}

    def of_choice(
        self, node: Node, args: Sequence[Value | Linear], outer: Mask | None
    ) -> list[Mask | None]:
        """For each argument of a node where its cotangent may differ from zero.

        `outer` is the mask of the node's own cotangent.
        """
        rules: Sequence[Choice | None] = node.op.rules.choice
        which = args[0] if rules else None
        if not isinstance(which, Value):
            return [None] * len(args)
        return [rule and self._chosen(which, rule, outer) for rule in rules]

    def _chosen(self, which: Value, rule: Choice, outer: Mask | None) -> Mask:
        key = (which, rule, outer)
        if key not in self._found:
            inner = Mask(lambda: rule(which))
            both = outer and Mask(lambda: OPS["bit_and"](outer.value, inner.value))
            self._found[key] = both or inner
        return self._found[key]


def passes_numbers(node: Node) -> bool:
    """Whether each number of a result is made from those at its place alone."""
    return isinstance(node.op.rules.body, Pointwise)


def keeps_zeros(args: Sequence[Value | Linear]) -> bool:
    """Whether zero times what is known is zero: it holds nothing that may be infinite."""
    return all(isinstance(a, Linear) or _is_finite(a) for a in args)


def _is_finite(x: Value) -> bool:
    if not x.type.is_inexact:
        return True
    number: SCALAR | None = uniform(x)
    return number is not None and number != 0 and math.isfinite(abs(number))


def moves_numbers(node: Node, args: Sequence[Value | Linear]) -> bool:
    """Whether each number of the result is one of the operands', or a sum of some."""
    body = node.op.rules.body
    moves = isinstance(body, Move | View | Concat | Gather) or body == Reduce("add")
    return moves and all(isinstance(a, Linear) or not a.type.is_inexact for a in args)


def moved(node: Node, mask: Mask, pull: Callable[[Value], Sequence[Value | None]]) -> list[Mask]:
    """The masks of the arguments of a node that `moves_numbers`.

    `pull` gives their cotangents; that of ones where the mask holds counts them.
    """
    counts: list[Sequence[Value | None]] = []

    def count(place: int) -> Value:
        if not counts:
            ones = OPS["convert"](mask.value, dtype=node.results[0].dtype)
            counts.append(pull(ones))
        total = counts[0][place]
        assert total is not None, "a linear argument has a cotangent"
        return OPS["ne"](total, like(total, 0))

    return [Mask(lambda i=i: count(i)) for i in range(len(node.args))]
