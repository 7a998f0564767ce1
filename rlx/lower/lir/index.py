"""Integer index expressions: affine in loop variables.

Where they are not, they have opaque parts.

>>> i, j = Variable(4), Variable(6)
>>> place = i * 6 + j
>>> str(place // 6), str(place % 6), str(4 * (place // 4) + place % 4 - place)
('i', 'i', '0')
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .expr import Expr

_serial = itertools.count()


@dataclass(frozen=True, eq=False)
class Variable:
    """A loop variable: takes the values 0 to `extent - 1`.

    Two are equal only if identical.
    """

    extent: int
    serial: int = field(default_factory=_serial.__next__)

    @property
    def low(self) -> int:
        """The least value."""
        return 0

    @property
    def high(self) -> int:
        """The greatest value."""
        return self.extent - 1

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (0, self.serial)

    def __add__(self, other: object) -> Index:
        return as_index(self) + other

    def __sub__(self, other: object) -> Index:
        return as_index(self) - other

    def __mul__(self, other: int) -> Index:
        return as_index(self) * other

    def __floordiv__(self, other: int) -> Index:
        return as_index(self) // other

    def __mod__(self, other: int) -> Index:
        return as_index(self) % other

    def __neg__(self) -> Index:
        return as_index(self) * -1

    def __rsub__(self, other: object) -> Index:
        return as_index(other) - self

    __radd__ = __add__
    __rmul__ = __mul__


@dataclass(frozen=True)
class Quotient:
    """`index // divisor` (floor), where it could not be simplified."""

    index: Index
    divisor: int

    @property
    def low(self) -> int:
        """The least value."""
        return self.index.low // self.divisor

    @property
    def high(self) -> int:
        """The greatest value."""
        return self.index.high // self.divisor

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (1, self.divisor, self.index.key)


@dataclass(frozen=True)
class Remainder:
    """`index % divisor` (never negative), where it could not be simplified."""

    index: Index
    divisor: int

    @property
    def low(self) -> int:
        """The least value."""
        return 0

    @property
    def high(self) -> int:
        """The greatest value."""
        return self.divisor - 1

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (2, self.divisor, self.index.key)


@dataclass(frozen=True)
class Loaded:
    """An integer scalar expression as an index.

    Its value lies in `low..high` inclusive.
    """

    expr: Expr
    low: int
    high: int

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (3, self.expr.serial)


Atom: TypeAlias = "Variable | Quotient | Remainder | Loaded"


@dataclass(frozen=True)
class Index:
    """A sum of `coefficient * atom` and a constant, in 64-bit integers.

    `terms` are sorted, coefficients are not zero. Adding, multiplying by an int, `//` and `%` by
    a positive int simplify with the known ranges of the atoms.
    """

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @property
    def low(self) -> int:
        """The least value it can take."""
        return self.constant + sum(c * (a.low if c > 0 else a.high) for a, c in self.terms)

    @property
    def high(self) -> int:
        """The greatest value it can take."""
        return self.constant + sum(c * (a.high if c > 0 else a.low) for a, c in self.terms)

    @property
    def key(self) -> tuple:
        """What indices are sorted by."""
        return (*((a.key, c) for a, c in self.terms), self.constant)

    @property
    def is_affine(self) -> bool:
        """Whether all atoms are loop variables."""
        return all(isinstance(atom, Variable) for atom, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return not self.terms

    def stride_of(self, variable: Variable) -> int:
        """The coefficient of a loop variable in the affine part; 0 if absent."""
        return next((c for a, c in self.terms if a is variable), 0)

    def is_stepped_by(self, variable: Variable) -> bool:
        """Whether a step of the variable adds `stride_of(variable)`.

        It must do so whatever the others are.
        """
        return not any(a is not variable and _mentions(a, variable) for a, _ in self.terms)

    @property
    def variables(self) -> frozenset[Variable]:
        """Every loop variable in it, those inside of opaque atoms included."""
        return frozenset(v for atom, _ in self.terms for v in _variables(atom))

    @property
    def loads(self) -> tuple[Expr, ...]:
        """The scalar expressions inside of it."""
        return tuple(e for atom, _ in self.terms for e in _exprs(atom))

    def nested(self) -> Iterator[Index]:
        """The index itself and those inside of its quotients and remainders."""
        yield self
        for atom, _ in self.terms:
            if isinstance(atom, Quotient | Remainder):
                yield from atom.index.nested()

    def substitute(
        self, table: dict[Variable, Index], in_expr: Callable[[Expr], Expr] | None = None
    ) -> Index:
        """Put indices for loop variables; `in_expr` does the same in loaded expressions."""
        total = Index((), self.constant)
        for atom, coefficient in self.terms:
            total = total + _substitute(atom, table, in_expr) * coefficient
        return total

    def __add__(self, other: Any) -> Index:
        other = as_index(other)
        if not other.terms:
            return Index(self.terms, self.constant + other.constant)
        table = dict(self.terms)
        for atom, coefficient in other.terms:
            table[atom] = table.get(atom, 0) + coefficient
        return _collect(table, self.constant + other.constant)

    def __sub__(self, other: Any) -> Index:
        return self + as_index(other) * -1

    def __rsub__(self, other: Any) -> Index:
        return as_index(other) - self

    def __neg__(self) -> Index:
        return self * -1

    def __mul__(self, other: int) -> Index:
        if not other:
            return Index()
        return Index(tuple((a, c * other) for a, c in self.terms), self.constant * other)

    def __floordiv__(self, divisor: int) -> Index:
        whole, rest = _divide(self, divisor)
        if rest.low // divisor == rest.high // divisor:
            return whole + rest.low // divisor
        for factor in _factors(rest, divisor):
            coarse, fine = _split(rest, factor)
            if 0 <= fine.low and fine.high < factor:
                return whole + coarse // (divisor // factor)
        atom, coefficient = rest.terms[0]
        is_alone = len(rest.terms) == 1 and coefficient == 1 and rest.constant == 0
        if is_alone and isinstance(atom, Quotient):
            return whole + atom.index // (atom.divisor * divisor)
        return whole + Index(((Quotient(rest, divisor), 1),))

    def __mod__(self, divisor: int) -> Index:
        _, rest = _divide(self, divisor)
        if rest.low // divisor == rest.high // divisor:
            return rest - rest.low // divisor * divisor
        for factor in _factors(rest, divisor):
            coarse, fine = _split(rest, factor)
            if 0 <= fine.low and fine.high < factor:
                return (coarse % (divisor // factor)) * factor + fine
        return Index(((Remainder(rest, divisor), 1),))

    __radd__ = __add__
    __rmul__ = __mul__


def as_index(x: Any) -> Index:
    """Give the index for an int, a variable or an index."""
    if isinstance(x, Index):
        return x
    if isinstance(x, Variable):
        return Index(((x, 1),)) if x.extent > 1 else Index()
    return Index((), int(x))


def loaded(expr: Expr, low: int, high: int) -> Index:
    """Give an integer expression whose value lies in `low..high` as an index."""
    return Index(((Loaded(expr, low, high), 1),)) if low < high else Index((), low)


def _collect(table: dict[Atom, int], constant: int) -> Index:
    """Sort the terms; q * (x // n) + c * (x % n) with q = c * n becomes c * x."""
    for atom, coefficient in table.items():
        if not isinstance(atom, Remainder) or not coefficient:
            continue
        whole = atom.index // atom.divisor
        scale = coefficient * atom.divisor
        if all(table.get(a) == c * scale for a, c in whole.terms):
            inside = {a for a, _ in whole.terms}
            rest = {a: c for a, c in table.items() if a is not atom and a not in inside}
            return _collect(rest, constant - whole.constant * scale) + atom.index * coefficient
    kept = [(a, c) for a, c in table.items() if c]
    return Index(tuple(sorted(kept, key=lambda term: term[0].key)), constant)


def _divide(index: Index, divisor: int) -> tuple[Index, Index]:
    """Split index = divisor * whole + rest.

    The terms of rest are as small as can be.
    """
    assert divisor > 0, "indices are divided by positive ints"
    whole: list[tuple[Atom, int]] = []
    rest: list[tuple[Atom, int]] = []
    for atom, coefficient in index.terms:
        quotient = int(coefficient / divisor)  # towards zero keeps small negative ones
        if quotient:
            whole.append((atom, quotient))
        if coefficient - quotient * divisor:
            rest.append((atom, coefficient - quotient * divisor))
    carried = index.constant // divisor
    return Index(tuple(whole), carried), Index(tuple(rest), index.constant - carried * divisor)


def _factors(index: Index, divisor: int) -> list[int]:
    """The common factors of the divisor and a coefficient, greatest first."""
    return sorted({math.gcd(divisor, c) for _, c in index.terms} - {1}, reverse=True)


def _split(index: Index, factor: int) -> tuple[Index, Index]:
    """Split index = factor * coarse + fine."""
    coarse = tuple((a, c // factor) for a, c in index.terms if c % factor == 0)
    fine = tuple((a, c) for a, c in index.terms if c % factor)
    return Index(coarse, index.constant // factor), Index(fine, index.constant % factor)


def _mentions(atom: Atom, variable: Variable) -> bool:
    return any(v is variable for v in _variables(atom))


def _variables(atom: Atom) -> Iterator[Variable]:
    if isinstance(atom, Variable):
        yield atom
    elif isinstance(atom, Loaded):
        yield from atom.expr.variables
    else:
        yield from atom.index.variables


def _exprs(atom: Atom) -> Iterator[Expr]:
    if isinstance(atom, Loaded):
        yield atom.expr
    elif isinstance(atom, Quotient | Remainder):
        yield from atom.index.loads


def _substitute(
    atom: Atom, table: dict[Variable, Index], in_expr: Callable[[Expr], Expr] | None
) -> Index:
    if isinstance(atom, Variable):
        return table.get(atom, as_index(atom))
    if isinstance(atom, Loaded):
        expr = in_expr(atom.expr) if in_expr else atom.expr
        return Index(((Loaded(expr, atom.low, atom.high), 1),))
    inner = atom.index.substitute(table, in_expr)
    return inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor
