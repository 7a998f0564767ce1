"""Places in padded arrays: whether true ones are there, and arrays of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from ...ir.body import Read
from ...ir.dims import Dim, Size, concrete
from ...ir.errors import UnsupportedOp
from ...ir.graph import OPS, Graph, Node, Value
from ...ir.record import field, record
from ...ir.types import DTYPES, is_signed
from ..lir import expr as scalar
from ..lir.expr import Expr
from ..lir.index import (
    Atom,
    Index,
    Loaded,
    Quotient,
    Remainder,
    Variable,
    as_index,
    is_within,
    loaded,
)
from ..schedule.elements import flatten
from .inline_calls import expand, inline_calls

FIX = "pass specialize=True to rlx.jit, which compiles once for each size, in place of buckets"
Guards = Sequence[tuple[Index, Any, Any]]  # the conditions low <= index < high


@final
class PaddingChecks:
    """Checks that all arrays of a graph fit padded ones, each shape once.

    `x[: n % 4]` has elements for n = 3 and none for n = 4.
    """

    def __init__(self, graph: Graph) -> None:
        self._makers: dict[tuple[Size, ...], Node] = {}
        for node in expand(inline_calls(graph, keep_recomputed=False)).walk():
            for value in node.results:
                if not value.type.is_static:
                    self._makers.setdefault(value.shape, node)

    def __call__(self, true: Mapping[str, int], padded: Mapping[str, int]) -> None:
        """Raise an error unless arrays of padded sizes hold those of the true ones."""
        for shape, node in self._makers.items():
            lesser, larger = (tuple(concrete(n, sizes) for n in shape) for sizes in (true, padded))
            if any(n > m for n, m in zip(lesser, larger, strict=True)):
                raise UnsupportedOp(
                    f"{node.op.name}: its result has the shape {larger} for padded arrays, which "
                    f"does not hold the true {lesser}",
                    where=str(node.source),
                    notes=[", ".join(f"{name} = {n}" for name, n in sorted(true.items()))],
                    fix=FIX,
                )


@record(frozen=False)
class Loads:
    """The `load` of bodies: remembers which element of which operand an index holds."""

    found: dict[Expr, tuple[int, tuple[Index, ...]]] = field(default_factory=dict)

    def __call__(self, operand: int, index: Sequence[Any], low: Size, high: Size) -> Index:
        """The element as an index in `low..high`."""
        stand_in = scalar.const(DTYPES["int32"], len(self.found))
        self.found[stand_in] = operand, tuple(map(as_index, index))
        return loaded(stand_in, low, high)

    def variables(self, index: Index) -> set[Variable]:
        """The loop variables that an index depends on, through what it loads too."""
        inner = (i for expr in index.loads for i in self.found[expr][1])
        return set(index.variables).union(*map(self.variables, inner))


@record
class Places:
    """What a body reads or writes for each element of an array: a place in an operand.

    `place` is the index of an element of the array, `index` that in the operand.
    """

    place: tuple[Index, ...]
    index: tuple[Index, ...]
    guards: Guards
    steps: Sequence[tuple[Index, int]]  # the conditions index % step == 0
    loads: Loads

    @classmethod
    def of(cls, place: Sequence[Index], read: Read, loads: Loads) -> Places:
        """What a body gave, without conditions that always hold."""
        guards = [(as_index(i), low, high) for i, low, high in read.guards]
        guards = [g for g in guards if not is_within(g[0] - g[1], g[2] - g[1])]
        steps = [(as_index(i), step) for i, step in read.strides]
        return cls(tuple(place), tuple(map(as_index, read.index)), guards, steps, loads)

    @property
    def depend_on_sizes(self) -> bool:
        """Whether a size that is not known changes the place of some element."""
        if any(isinstance(n, Dim) for _, low, high in self.guards for n in (low, high)):
            return True
        inner = [i for _, index in self.loads.found.values() for i in index]
        conditions = [i for i, *_ in (*self.guards, *self.steps)]
        return any(map(mentions_size, (*self.index, *conditions, *inner)))

    def count_lines(self, own: Sequence[Size], theirs: Sequence[Size]) -> int:
        """How many last axes of both arrays, of these shapes, go along as they are."""
        count = 0
        for i, j in zip(reversed(range(len(own))), reversed(range(len(theirs))), strict=False):
            others = [*self.index[:j], *self.index[j + 1 :]]
            others += [k for k, *_ in (*self.guards, *self.steps)]
            used = set().union(*map(self.loads.variables, others))
            fits = self.index[j] == self.place[i] and own[i] <= theirs[j]
            if not fits or not used.isdisjoint(self.place[i].variables):
                break
            count += 1
        return count


@record
class IndexArrays:
    """Records indices as integer arrays of a shape, of which `axes` are the variables.

    `number(size)` is the scalar of a size; `operands` are those that indices are loaded from.
    """

    shape: tuple[Size, ...]
    axes: Sequence[Variable]
    number: Callable[[Size], Value]
    operands: Sequence[Value]
    loads: Loads

    def filled(self, size: Size) -> Value:
        """An array of a size everywhere."""
        return OPS["broadcast"](self.number(size), shape=self.shape, axes=())

    def of(self, index: Index) -> Value:
        """The values of an index."""
        total = None if index.terms and index.constant == 0 else self.filled(index.constant)
        for atom, factor in index.terms:
            term = self._atom(atom)
            term = term if factor == 1 else term * self.filled(factor)
            total = term if total is None else total + term
        assert total is not None, "a sum has a term"
        return total

    def holds(self, guards: Guards, steps: Sequence[tuple[Index, int]]) -> Value | None:
        """Where all conditions hold; None if there are none."""
        found = []
        for index, low, high in guards:
            value = self.of(index)
            found.append(OPS["ge"](value, self.filled(low)))
            found.append(OPS["lt"](value, self.filled(high)))
        for index, step in steps:
            rest = OPS["rem"](self.of(index), self.filled(step))
            found.append(OPS["eq"](rest, self.filled(0)))
        return all_of(found)

    def _atom(self, atom: Atom) -> Value:
        if isinstance(atom, Variable):
            axis = next(i for i, variable in enumerate(self.axes) if variable is atom)
            return OPS["iota"](shape=self.shape, axis=axis, dtype=self._dtype)
        if isinstance(atom, Loaded):
            return self._loaded(atom)
        value = self.of(atom.index)
        # a size of 0 divides nothing that counts
        divisor = OPS["max"](self.filled(atom.divisor), self.filled(1))
        rest = OPS["rem"](value, divisor)
        if not atom.index.is_nonnegative:  # rounded down, and not towards 0
            rest = OPS["select"](OPS["lt"](rest, self.filled(0)), rest + divisor, rest)
        return rest if isinstance(atom, Remainder) else OPS["div"](value - rest, divisor)

    def _loaded(self, atom: Loaded) -> Value:
        """An element of an operand, clamped in a dtype that holds it and its bounds."""
        number, index = self.loads.found[atom.expr]
        x = self.operands[number]
        element = lines_of(x, self.of(flatten(index, x.shape)), ())
        wide = x.dtype if x.dtype.itemsize >= 4 else self._dtype
        element = OPS["convert"](element, dtype=wide)
        low, high = (
            OPS["convert"](self.filled(bound), dtype=wide) for bound in (atom.low, atom.high)
        )
        element = OPS["min"](element, high)
        element = OPS["max"](element, low) if is_signed(wide) else element
        return OPS["convert"](element, dtype=self._dtype)

    @property
    def _dtype(self) -> np.dtype:
        return self.number(0).dtype


def lines_of(x: Value, places: Value, last: Sequence[Size]) -> Value:
    """Blocks of x at places among its first axes, counted in row-major order.

    A block has the beginning of each of the last axes, of these sizes. Places outside of x are
    moved inside.
    """
    shape = (*places.shape, *last)
    lines = as_lines(x, x.rank - len(last))
    if lines.type.size == 0:
        return OPS["full"](shape=shape, value=0, dtype=x.dtype)
    return OPS["gather"](
        lines,
        OPS["reshape"](places, shape=(*places.shape, 1)),
        offset_axes=tuple(range(places.rank, len(shape))),
        collapsed_axes=(0,),
        start_axes=(0,),
        sizes=(1, *last),
    )


def as_lines(x: Value, count: int) -> Value:
    """An array with its first axes, so many of them, as one."""
    return OPS["reshape"](x, shape=(math.prod(x.shape[:count]), *x.shape[count:]))


def all_of(conditions: Sequence[Value]) -> Value | None:
    """Where all conditions hold; None if there are none."""
    found: Value | None = None
    for condition in conditions:
        found = condition if found is None else OPS["bit_and"](found, condition)
    return found


def mentions_size(index: Index) -> bool:
    """Whether an index is computed with a size that is not known."""
    for part in index.nested():
        numbers: list[Any] = [part.constant, *(c for _, c in part.terms)]
        for atom, _ in part.terms:
            numbers += [atom.divisor] if isinstance(atom, Quotient | Remainder) else []
            numbers += [atom.low, atom.high] if isinstance(atom, Loaded) else []
        if any(isinstance(n, Dim) for n in numbers):
            return True
    return False
