"""Integer index expressions: affine in loop variables and opaque atoms.

Atoms are quotients, remainders and loaded integers. Extents, coefficients and constants are ints
or symbolic sizes, which have values when the program runs.

>>> i, j = Variable(4), Variable(6)
>>> place = i * 6 + j
>>> str(place // 6), str(place % 6), str(4 * (place // 4) + place % 4 - place)
('i', 'i', '0')
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ir.dims import Dim, Size, is_at_least, likely, quotient
from ...ir.lazy import lazy
from ...ir.record import field, record

if TYPE_CHECKING:
    from .expr import Expr

UNKNOWN = 1 << 62  # a bound that tells nothing

_serial = itertools.count()


@record(eq=False)
class Variable:
    """A loop variable with the values 0 to `extent - 1`, compared by identity."""

    extent: Size
    serial: int = field(default_factory=_serial.__next__)

    @property
    def low(self) -> int:
        """The least value."""
        return 0

    @property
    def high(self) -> Size:
        """The greatest value."""
        return self.extent - 1

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (0, self.serial)

    @lazy
    def index(self) -> Index:
        """The variable as an index; 0 if its extent is 1."""
        return Index(((self, 1),)) if is_long(self) else Index()

    def __add__(self, other: object) -> Index:
        return as_index(self) + other

    def __sub__(self, other: object) -> Index:
        return as_index(self) - other

    def __mul__(self, other: Size) -> Index:
        return as_index(self) * other

    def __floordiv__(self, other: Size) -> Index:
        return as_index(self) // other

    def __mod__(self, other: Size) -> Index:
        return as_index(self) % other

    def __neg__(self) -> Index:
        return as_index(self) * -1

    def __rsub__(self, other: object) -> Index:
        return as_index(other) - self

    __radd__ = __add__
    __rmul__ = __mul__


@record
class Quotient:
    """`index // divisor` (floor), where it could not be simplified."""

    index: Index
    divisor: Size

    @property
    def low(self) -> Size:
        """The least value."""
        low = self.index.low
        return _floor(low, self.divisor, 0 if is_at_least(low, 0) else -UNKNOWN)

    @property
    def high(self) -> Size:
        """The greatest value."""
        high = self.index.high
        return _floor(high, self.divisor, high if is_at_least(high, 0) else UNKNOWN)

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (1, _size_key(self.divisor), self.index.key)


@record
class Remainder:
    """`index % divisor` (never negative), where it could not be simplified."""

    index: Index
    divisor: Size

    @property
    def low(self) -> int:
        """The least value."""
        return 0

    @property
    def high(self) -> Size:
        """The greatest value."""
        return self.divisor - 1

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (2, _size_key(self.divisor), self.index.key)


@record
class Loaded:
    """An integer scalar expression as an index, with values in `low..high` inclusive."""

    expr: Expr
    low: Size
    high: Size

    @property
    def key(self) -> tuple:
        """What atoms are sorted by."""
        return (3, self.expr.serial)


Atom: TypeAlias = "Variable | Quotient | Remainder | Loaded"


# not frozen, which would double the time to make one: most of lowering makes indices
@record(frozen=False, unsafe_hash=True)
class Index:
    """A sum of `coefficient * atom` and a constant, in 64-bit integers.

    `terms` are sorted, coefficients are not zero. Adding, multiplying by a size, `//` and `%` by
    a positive size simplify with the known ranges of the atoms.
    """

    terms: tuple[tuple[Atom, Size], ...] = ()
    constant: Size = 0

    @property
    def low(self) -> Size:
        """The least value it can take."""
        return self.constant + sum(_product(c, a.low, a.high, -UNKNOWN) for a, c in self.terms)

    @property
    def high(self) -> Size:
        """The greatest value it can take."""
        return self.constant + sum(_product(c, a.high, a.low, UNKNOWN) for a, c in self.terms)

    @property
    def key(self) -> tuple:
        """What indices are sorted by."""
        return (*((a.key, _size_key(c)) for a, c in self.terms), (_size_key(self.constant),))

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value, as far as they are known numbers."""
        low, high = self.low, self.high
        least = low.low if isinstance(low, Dim) else low
        most = high.high if isinstance(high, Dim) else high
        return -UNKNOWN if least is None else least, UNKNOWN if most is None else most

    @property
    def fits_32_bits(self) -> bool:
        """Whether the index, its products and its divisors are known to fit in an int32."""
        parts = [self, *(Index((term,)) for term in self.terms)]
        bounds = [bound for part in parts for bound in part.bounds]
        numbers = [n for _, n in self.terms]
        numbers += [a.divisor for a, _ in self.terms if isinstance(a, Quotient | Remainder)]
        bounds += [UNKNOWN if isinstance(n, Dim) else n for n in numbers]
        return all(-(2**31) <= bound < 2**31 for bound in bounds)

    @property
    def is_nonnegative(self) -> bool:
        """Whether the index is known to be at least 0."""
        return is_at_least(self.low, 0)

    @property
    def is_affine(self) -> bool:
        """Whether all atoms are loop variables."""
        return all([isinstance(atom, Variable) for atom, _ in self.terms])

    @property
    def is_constant(self) -> bool:
        """Whether the index is a constant."""
        return not self.terms

    def without(self, variables: Collection[Variable]) -> Index:
        """The index where these variables are 0: what is left of it within their loops."""
        return Index(tuple((a, c) for a, c in self.terms if a not in variables), self.constant)

    def stride_of(self, variable: Variable) -> Size:
        """The coefficient of a loop variable in the affine part; 0 if absent."""
        return next((c for a, c in self.terms if a is variable), 0)

    def is_stepped_by(self, variable: Variable) -> bool:
        """Whether a step of the variable always adds `stride_of(variable)`."""
        return not any(a is not variable and _mentions(a, variable) for a, _ in self.terms)

    @property
    def variables(self) -> frozenset[Variable]:
        """Every loop variable in the index, those inside of opaque atoms included."""
        if self.is_affine:
            return frozenset([variable for variable, _ in self.terms])  # type: ignore[misc]
        return frozenset(v for atom, _ in self.terms for v in _variables(atom))

    @property
    def loads(self) -> tuple[Expr, ...]:
        """The scalar expressions inside of the index."""
        if self.is_affine:
            return ()
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
        """Substitute indices for loop variables; `in_expr` does so in loaded expressions."""
        if self.is_affine and table.keys().isdisjoint([atom for atom, _ in self.terms]):
            return self
        terms: dict[Atom, Size] = {}
        constant = self.constant
        for atom, coefficient in self.terms:
            part = _substitute(atom, table, in_expr)
            constant = constant + part.constant * coefficient
            for inner, times in part.terms:
                terms[inner] = terms.get(inner, 0) + times * coefficient
        return _collect(terms, constant)

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

    def __mul__(self, other: Size) -> Index:
        if other == 0:
            return Index()
        return Index(tuple((a, c * other) for a, c in self.terms), self.constant * other)

    def __floordiv__(self, divisor: Size) -> Index:
        whole, rest = _divide(self, divisor)
        fixed = _fixed_quotient(rest, divisor)
        if fixed is not None:
            return whole + fixed
        for factor in _factors(rest, divisor):
            coarse, fine = _split(rest, factor)
            if is_within(fine, factor):
                return whole + coarse // quotient(divisor, factor)
        atom, coefficient = rest.terms[0]
        is_alone = len(rest.terms) == 1 and coefficient == 1 and rest.constant == 0
        if is_alone and isinstance(atom, Quotient):
            return whole + atom.index // (atom.divisor * divisor)
        return whole + Index(((Quotient(rest, divisor), 1),))

    def __mod__(self, divisor: Size) -> Index:
        _, rest = _divide(self, divisor)
        fixed = _fixed_quotient(rest, divisor)
        if fixed is not None:
            return rest - fixed * divisor
        for factor in _factors(rest, divisor):
            coarse, fine = _split(rest, factor)
            if is_within(fine, factor):
                return (coarse % quotient(divisor, factor)) * factor + fine
        return Index(((Remainder(rest, divisor), 1),))

    __radd__ = __add__
    __rmul__ = __mul__


def as_index(x: Any) -> Index:
    """Convert a size, a variable or an index to an index."""
    if isinstance(x, Index):
        return x
    if isinstance(x, Variable):
        return x.index
    return Index((), x if isinstance(x, Dim) else int(x))


def is_long(variable: Variable) -> bool:
    """Whether a variable takes, or may take, more than one value."""
    return isinstance(variable.extent, Dim) or variable.extent > 1


def is_within(index: Index, size: Size) -> bool:
    """Whether `0 <= index < size` is known to hold."""
    return index.is_nonnegative and is_at_least(size - 1, index.high)


def loaded(expr: Expr, low: Size, high: Size) -> Index:
    """Make an index of an integer expression with values in `low..high`."""
    return Index((), low) if low == high else Index(((Loaded(expr, low, high), 1),))


def _size_key(size: Size) -> tuple:
    """The key that sizes are sorted by: numbers first."""
    return (1, str(size)) if isinstance(size, Dim) else (0, size)


def _product(factor: Size, first: Size, second: Size, unknown: int) -> Size:
    """The factor times `first` if it is positive, times `second` if it is negative."""
    if type(factor) is int:
        return factor * first if factor > 0 else factor * second
    if is_at_least(factor, 0):
        return factor * first
    return factor * second if is_at_least(0, factor) else unknown


def _floor(size: Size, divisor: Size, otherwise: Size) -> Size:
    """The floor of a bound's quotient; `otherwise` where no formula is known."""
    exact, above = quotient(size, divisor), quotient(size + 1, divisor)
    if exact is not None:
        return exact
    if above is not None:
        return above - 1  # (q * n - 1) // n
    return size // divisor if isinstance(divisor, int) else otherwise


def _fixed_quotient(index: Index, divisor: Size) -> Size | None:
    """The floor of the quotient if it is the same for all values of the variables."""
    low, high = index.low, index.high
    if isinstance(low, int) and isinstance(high, int) and isinstance(divisor, int):
        return low // divisor if low // divisor == high // divisor else None
    if is_within(index, divisor):
        return 0
    return None if index.terms or not isinstance(divisor, int) else low // divisor


def _collect(table: dict[Atom, Size], constant: Size) -> Index:
    """Sort the terms; q * (x // n) + c * (x % n) with q = c * n becomes c * x."""
    for atom, coefficient in table.items():
        if not isinstance(atom, Remainder) or coefficient == 0:
            continue
        whole = atom.index // atom.divisor
        scale = coefficient * atom.divisor
        if all(table.get(a) == c * scale for a, c in whole.terms):
            inside = {a for a, _ in whole.terms}
            rest = {a: c for a, c in table.items() if a is not atom and a not in inside}
            return _collect(rest, constant - whole.constant * scale) + atom.index * coefficient
    kept = [(a, c) for a, c in table.items() if c != 0]
    return Index(tuple(sorted(kept, key=lambda term: term[0].key)), constant)


def _divide(index: Index, divisor: Size) -> tuple[Index, Index]:
    """Split index = divisor * whole + rest, with the least possible terms of rest."""
    assert isinstance(divisor, Dim) or divisor >= 0, "indices are divided by sizes"
    whole: list[tuple[Atom, Size]] = []
    rest: list[tuple[Atom, Size]] = []
    for atom, coefficient in index.terms:
        times = _times(coefficient, divisor)
        left = coefficient - times * divisor
        if times != 0:
            whole.append((atom, times))
        if left != 0:
            rest.append((atom, left))
    if isinstance(index.constant, int) and isinstance(divisor, int):
        carried = index.constant // divisor
    else:
        carried = quotient(index.constant, divisor) or 0
    return Index(tuple(whole), carried), Index(tuple(rest), index.constant - carried * divisor)


def _times(coefficient: Size, divisor: Size) -> Size:
    """The quotient of a coefficient; a symbolic one only if it is exact."""
    if isinstance(coefficient, int) and isinstance(divisor, int):
        return int(coefficient / divisor)  # towards zero keeps small negative ones
    return quotient(coefficient, divisor) or 0


def _factors(index: Index, divisor: Size) -> list[Size]:
    """The common factors of the divisor and a coefficient, greatest first."""
    if isinstance(divisor, int):
        numbers = (c for _, c in index.terms if isinstance(c, int))
        return sorted({math.gcd(divisor, c) for c in numbers} - {1}, reverse=True)
    found = {c for _, c in index.terms if is_at_least(c, 2) and quotient(divisor, c) is not None}
    return sorted(found, key=likely, reverse=True)


def _split(index: Index, factor: Size) -> tuple[Index, Index]:
    """Split index = factor * coarse + fine."""
    parts = [(a, c, quotient(c, factor)) for a, c in index.terms]
    coarse = tuple((a, q) for a, _, q in parts if q is not None)
    fine = tuple((a, c) for a, c, q in parts if q is None)
    if isinstance(index.constant, int) and isinstance(factor, int):
        return Index(coarse, index.constant // factor), Index(fine, index.constant % factor)
    carried = quotient(index.constant, factor)
    if carried is None:
        return Index(coarse), Index(fine, index.constant)
    return Index(coarse, carried), Index(fine)


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
        return table[atom] if atom in table else atom.index
    if isinstance(atom, Loaded):
        expr = in_expr(atom.expr) if in_expr else atom.expr
        return Index(((Loaded(expr, atom.low, atom.high), 1),))
    inner = atom.index.substitute(table, in_expr)
    return inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor
