"""Symbolic sizes: integer polynomials over named dims with ranges.

>>> seq = dim("seq", low=1, high=128)
>>> 2 * seq + seq - 1, seq + 1 == 1 + seq
(3*seq - 1, True)
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size with its inclusive range; `high` None means no bound."""

    name: str
    low: int = 1
    high: int | None = None


Monomial = tuple[Symbol, ...]  # sorted by name, a symbol as often as its power


@dataclass(frozen=True, slots=True)
class Dim:
    """A polynomial with integer coefficients.

    `terms` maps sorted products to coefficients.
    """

    terms: tuple[tuple[Monomial, int], ...] = field(default=())

    def __add__(self, other: object) -> Dim | int:
        return _combine(self, other, lambda a, b: _sum([*a, *b]))

    def __mul__(self, other: object) -> Dim | int:
        return _combine(self, other, _product)

    def __neg__(self) -> Dim | int:
        return self * -1

    def __sub__(self, other: object) -> Dim | int:
        return self + (-other if isinstance(other, int | Dim) else NotImplemented)

    def __rsub__(self, other: object) -> Dim | int:
        return -self + other  # pyright: ignore[reportOperatorIssue]

    __radd__ = __add__
    __rmul__ = __mul__

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The named sizes in it."""
        return frozenset(s for monomial, _ in self.terms for s in monomial)

    @property
    def low(self) -> int | None:
        """The least value the ranges allow; None if unbounded."""
        return self._bound(least=True)

    @property
    def high(self) -> int | None:
        """The greatest value the ranges allow; None if unbounded."""
        return self._bound(least=False)

    def _bound(self, least: bool) -> int | None:
        total = 0
        for monomial, coefficient in self.terms:
            use_low = least == (coefficient > 0)
            product = coefficient
            for symbol in monomial:
                bound = symbol.low if use_low else symbol.high
                if bound is None:
                    return None
                product *= bound
            total += product
        return total

    def substitute(self, sizes: dict[str, int]) -> Dim | int:
        """Put numbers for the named dims."""
        total: Dim | int = 0
        for monomial, coefficient in self.terms:
            product: Dim | int = coefficient
            for symbol in monomial:
                product = product * (sizes.get(symbol.name) or Dim((((symbol,), 1),)))
            total = total + product
        return total

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            name = "*".join(s.name for s in monomial)
            sign = (
                ("-" if coefficient < 0 else "")
                if not text
                else (" - " if coefficient < 0 else " + ")
            )
            size = abs(coefficient)
            text += sign + (name if size == 1 and name else f"{size}*{name}" if name else str(size))
        return text

    __repr__ = __str__


def _terms(x: object) -> list[tuple[Monomial, int]] | None:
    if isinstance(x, Dim):
        return list(x.terms)
    return [((), int(x))] if isinstance(x, int) else None


def _combine(a: object, b: object, rule) -> Dim | int:
    left, right = _terms(a), _terms(b)
    if left is None or right is None:
        return NotImplemented
    return rule(left, right)


def _sum(terms: list[tuple[Monomial, int]]) -> Dim | int:
    table: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        table[monomial] = table.get(monomial, 0) + coefficient
    kept = {m: c for m, c in table.items() if c}
    if not kept or set(kept) == {()}:
        return kept.get((), 0)
    order = sorted(kept, key=lambda m: (-len(m), [s.name for s in m]))
    return Dim(tuple((m, kept[m]) for m in order))


def _product(a: list[tuple[Monomial, int]], b: list[tuple[Monomial, int]]) -> Dim | int:
    def product(m: Monomial, n: Monomial) -> Monomial:
        return tuple(sorted(m + n, key=lambda s: s.name))

    return _sum([(product(m, n), c * d) for m, c in a for n, d in b])


def dim(name: str, low: int = 1, high: int | None = None) -> Dim:
    """Make a symbolic size with an inclusive range."""
    return Dim((((Symbol(name, low, high),), 1),))
