"""A loop variable split into digits, each of which has a stride in memory.

>>> i = Variable(6)
>>> digits = Digits.of(i, [(i // 3) * 10 + i % 3])
>>> digits.strides, [part.extent for part in digits.parts]
((3, 1), [2, 3])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...ir.record import record
from .index import Index, Quotient, Remainder, Variable


@record
class Digits:
    """The digits of a variable, slowest first, with the stride of each."""

    parts: tuple[Variable, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, variable: Variable, indices: Iterable[Index]) -> Digits:
        """Split a variable where indices divide it."""
        extent = variable.extent
        assert isinstance(extent, int)
        cuts = {cut for index in indices for cut in _cuts(index, variable)}
        strides = [1]
        for cut in sorted(cuts):
            if strides[-1] < cut < extent and cut % strides[-1] == 0 and extent % cut == 0:
                strides.append(cut)
        ends = [*strides[1:], extent]
        parts = [Variable(end // stride) for stride, end in zip(strides, ends, strict=True)]
        return cls(tuple(reversed(parts)), tuple(reversed(strides)))

    @property
    def index(self) -> Index:
        """The variable in terms of its digits."""
        return sum((p * s for p, s in zip(self.parts, self.strides, strict=True)), Index())

    @property
    def period(self) -> int:
        """The number of values of the last digit."""
        extent = self.parts[-1].extent
        assert isinstance(extent, int)
        return extent


def _cuts(index: Index, variable: Variable) -> Iterator[int]:
    for atom, _ in index.terms:
        if not isinstance(atom, Quotient | Remainder):
            continue
        step = step_of(atom.index, variable)
        if step and isinstance(atom.divisor, int):
            yield step * atom.divisor
        yield from _cuts(atom.index, variable)


def step_of(index: Index, variable: Variable) -> int:
    """The divisor of the variable in an index; 0 if the index is another one."""
    if len(index.terms) != 1 or index.constant != 0 or index.terms[0][1] != 1:
        return 0
    atom = index.terms[0][0]
    if atom is variable:
        return 1
    if isinstance(atom, Quotient) and isinstance(atom.divisor, int):
        return step_of(atom.index, variable) * atom.divisor
    return step_of(atom.index, variable) if isinstance(atom, Remainder) else 0
