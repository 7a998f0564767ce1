"""Symbolic sizes: integer polynomials over named dims with ranges.

>>> seq = dim("seq", max=128)
>>> 2 * seq + seq - 1, seq + 1 == 1 + seq, (4 * seq + 3) // 4, (seq + 1) // 2
(3*seq - 1, True, seq, floordiv(seq + 1, 2))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .errors import SymbolicSizeError
from .record import field, record

LIKELY = 64  # what a size is taken for where only a guess is needed


@record(slots=True)
class Floor:
    """The floor of a size divided by a number."""

    size: Dim
    divisor: int

    def value(self, sizes: Mapping[str, Size]) -> Size:
        """The value, given numbers for the dims."""
        return self.size.substitute(sizes) // self.divisor


@record(slots=True)
class Least:
    """The lesser of two sizes."""

    of: tuple[Size, Size]

    def value(self, sizes: Mapping[str, Size]) -> Size:
        """The value, given numbers for the dims."""
        one, other = (n.substitute(sizes) if isinstance(n, Dim) else n for n in self.of)
        return minimum(one, other)


@record(slots=True)
class Largest:
    """The largest of some sizes, rounded up to a multiple of a number."""

    of: tuple[Size, ...]
    multiple: int

    def value(self, sizes: Mapping[str, Size]) -> int:
        """The value, given numbers for all dims."""
        return -(-max(concrete(size, sizes) for size in self.of) // self.multiple) * self.multiple


@record(slots=True)
class Symbol:
    """A named size with its inclusive range."""

    name: str
    low: int = 1
    high: int | None = None  # None is no bound
    meaning: Floor | Least | Largest | None = None  # of one that follows from others


Monomial = tuple[Symbol, ...]  # sorted by name, a symbol as often as its power
Size: TypeAlias = "int | Dim"


@record(slots=True)
class Dim:
    """A polynomial with integer coefficients; equal if it is the same polynomial.

    A comparison that the ranges do not decide is a `SymbolicSizeError`.
    """

    terms: tuple[tuple[Monomial, int], ...] = field(default=())

    def __add__(self, other: object) -> Dim | int:
        return _combine(self, other, lambda a, b: _sum([*a, *b]))

    def __mul__(self, other: object) -> Dim | int:
        return _combine(self, other, _product)

    def __neg__(self) -> Dim | int:
        return self * -1

    def __sub__(self, other: object) -> Dim | int:
        return self + -other if isinstance(other, int | Dim) else NotImplemented

    def __rsub__(self, other: object) -> Dim | int:
        return -self + other if isinstance(other, int | Dim) else NotImplemented

    def __floordiv__(self, other: object) -> Dim | int:
        return _floor_divide(self, other) if isinstance(other, int | Dim) else NotImplemented

    def __rfloordiv__(self, other: object) -> Dim | int:
        return _floor_divide(other, self) if isinstance(other, int) else NotImplemented

    def __truediv__(self, other: object) -> Any:
        raise _no_size(self, f"{self} / {other}")

    def __rtruediv__(self, other: object) -> Any:
        raise _no_size(self, f"{other} / ({self})")

    def __pow__(self, other: object) -> Dim | int:
        if not isinstance(other, int) or other < 0:
            raise _no_size(self, f"({self}) ** {other}")
        power: Dim | int = 1
        for _ in range(other):
            power = power * self
        return power

    def __index__(self) -> int:
        raise SymbolicSizeError(
            f"the size {self} has no number while the function is recorded",
            fix="use a size that is known here, or leave this axis out of `dynamic`",
        )

    def __mod__(self, other: object) -> Dim | int:
        if not isinstance(other, int | Dim):
            return NotImplemented
        return self - self // other * other

    def __rmod__(self, other: object) -> Dim | int:
        return other - other // self * self if isinstance(other, int) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: object) -> bool:
        return not _is_at_least(self, other) if _is_size(other) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return _is_at_least(self, other) if _is_size(other) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return not _is_at_least(other, self) if _is_size(other) else NotImplemented

    def __le__(self, other: object) -> bool:
        return _is_at_least(other, self) if _is_size(other) else NotImplemented

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The named sizes it depends on."""
        found: set[Symbol] = set()
        for monomial, _ in self.terms:
            for symbol in monomial:
                found |= _own_symbols(symbol)
        return frozenset(found)

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

    def substitute(self, sizes: Mapping[str, Size]) -> Dim | int:
        """Substitute numbers for dims."""
        total: Dim | int = 0
        for monomial, coefficient in self.terms:
            product: Dim | int = coefficient
            for symbol in monomial:
                product = product * _substituted(symbol, sizes)
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


def _no_size(size: Dim, wanted: str) -> SymbolicSizeError:
    return SymbolicSizeError(
        f"the size {size} has no number while the function is recorded: {wanted}",
        fix="divide with // for a size, or compute with rlx.numpy.asarray(size) for a number",
    )


def _own_symbols(symbol: Symbol) -> set[Symbol]:
    meaning = symbol.meaning
    if meaning is None:
        return {symbol}
    sizes = [meaning.size] if isinstance(meaning, Floor) else meaning.of
    return {s for size in sizes if isinstance(size, Dim) for s in size.symbols}


def _is_size(x: object) -> bool:
    return isinstance(x, int | Dim)


def _is_at_least(x: Any, y: Any) -> bool:
    """Whether x >= y for all sizes in range; an error if that depends."""
    known = compare(x, y)
    if known is None:
        raise SymbolicSizeError(
            f"whether {x} >= {y} depends on the size of {_names(x - y)}",
            fix="give the dims ranges that decide it, as rlx.dim(name, min=2, max=512), or do not "
            "branch on a symbolic size",
        )
    return known


def _names(size: Dim) -> str:
    return ", ".join(sorted(f"{s.name} ({s.low} to {s.high})" for s in size.symbols))


def compare(x: Size, y: Size) -> bool | None:
    """Whether x >= y for all sizes in range; None if that depends on them."""
    gap = x - y
    if isinstance(gap, int):
        return gap >= 0
    if _is_surely_at_least(gap, 0):
        return True
    return False if _is_surely_at_least(-gap, 1) else None


def _is_surely_at_least(size: Size, bound: int) -> bool:
    """Whether the ranges alone make a size at least a number."""
    if isinstance(size, int):
        return size >= bound
    if size.low is not None and size.low >= bound:
        return True
    for monomial, coefficient in size.terms:
        if len(monomial) == 1 and isinstance(monomial[0].meaning, Least):
            # what a lesser size takes off is at most either; what it adds may be either
            term = _sum([(monomial, coefficient)])
            each = (size - term + coefficient * one for one in monomial[0].meaning.of)
            found = (_is_surely_at_least(one, bound) for one in each)
            return any(found) if coefficient < 0 else all(found)
    return False


def is_at_least(x: Size, y: Size) -> bool:
    """Whether x >= y is known for all sizes in range."""
    if type(x) is int and type(y) is int:
        return x >= y
    return compare(x, y) is True


def likely(size: Size) -> int:
    """A likely number for a size, for costs only."""
    if isinstance(size, int):
        return size
    return static(size.substitute({s.name: _guess(s) for s in size.symbols}))


def _guess(symbol: Symbol) -> int:
    guess = max(symbol.low, LIKELY)
    return guess if symbol.high is None else min(guess, symbol.high)


def static(size: Size) -> int:
    """A size that is a number, as the caller knows."""
    assert isinstance(size, int), f"{size} has dims left"
    return size


def concrete(size: Size, sizes: Mapping[str, Size]) -> int:
    """The value of a size, given those of all dims."""
    return static(size.substitute(sizes)) if isinstance(size, Dim) else size


def _substituted(symbol: Symbol, sizes: Mapping[str, Size]) -> Size:
    if symbol.meaning:
        return symbol.meaning.value(sizes)
    found = sizes.get(symbol.name)
    return Dim((((symbol,), 1),)) if found is None else found


# -- arithmetic -----------------------------------------------------------------------------------


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


def quotient(size: Size, divisor: Size) -> Any:
    """The quotient of two sizes if it is exact for all values of dims; else None."""
    if type(size) is int and type(divisor) is int:
        return None if size % divisor else size // divisor
    (names, factor), *_ = _terms(divisor) or []
    whole: Size = 0
    while size != 0:  # divide the highest term, and go on with the rest
        (monomial, coefficient), *_ = _terms(size) or []
        left = list(monomial)
        for symbol in names:
            if symbol not in left:
                return None
            left.remove(symbol)
        if not factor or coefficient % factor:
            return None
        part = _sum([(tuple(left), coefficient // factor)])
        whole, size = whole + part, size - part * divisor
    return whole


def _floor_divide(size: Any, divisor: Any) -> Dim | int:
    """The floor of a quotient: the terms that divide are taken out."""
    if isinstance(divisor, int) and divisor <= 0:
        raise SymbolicSizeError(
            f"{size} is divided by {divisor}",
            fix="divide sizes by positive numbers",
        )
    whole: Size = 0
    rest: Size = 0
    for term in _terms(size) or []:
        part = _sum([term])
        exact = quotient(part, divisor)
        if exact is None and isinstance(divisor, int):
            whole, rest = (
                whole + _sum([(term[0], term[1] // divisor)]),
                rest + _sum([(term[0], term[1] % divisor)]),
            )
        elif exact is None:
            rest = rest + part
        else:
            whole = whole + exact
    if is_at_least(rest, 0) and is_at_least(divisor - 1, rest):
        return whole
    if not isinstance(divisor, int):
        raise SymbolicSizeError(
            f"{size} is divided by {divisor}, which need not divide it",
            fix="divide symbolic sizes by numbers, or by sizes that divide them",
        )
    return whole + _floor_symbol(rest, divisor)


def _floor_symbol(size: Any, divisor: int) -> Dim | int:
    if isinstance(size, int):
        return size // divisor
    low, high = (None if bound is None else bound // divisor for bound in (size.low, size.high))
    name = f"floordiv({size}, {divisor})"
    symbol = Symbol(name, -(2**62) if low is None else low, high, Floor(size, divisor))
    return Dim((((symbol,), 1),))


def minimum(x: Size, y: Size) -> Size:
    """Make the size that is the lesser of two.

    >>> n, m = dim("n"), dim("m")
    >>> minimum(n, m), minimum(n, n + 1), minimum(m, n) == minimum(n, m), minimum(n, m) <= m
    (minimum(m, n), n, True, True)
    """
    if is_at_least(y, x):
        return x
    if is_at_least(x, y):
        return y
    one, other = sorted((x, y), key=str)
    bounds = [n if isinstance(n, int) else n.high for n in (one, other)]
    lows = [n if isinstance(n, int) else n.low for n in (one, other)]
    low = -(2**62) if None in lows else min(n for n in lows if n is not None)
    high = min((n for n in bounds if n is not None), default=None)
    name = f"minimum({one}, {other})"
    return Dim((((Symbol(name, low, high, Least((one, other))),), 1),))


def maximum(x: Size, y: Size) -> Size:
    """Make the size that is the greater of two."""
    return x + y - minimum(x, y)


def largest(name: str, sizes: Sequence[Size], multiple: int) -> Dim:
    """Make a symbolic size that is the largest of some, rounded up to a multiple."""
    return Dim((((Symbol(name, 0, None, Largest(tuple(sizes), multiple)),), 1),))


def dim(name: str, min: int = 1, max: int | None = None) -> Dim:
    """Make a symbolic size: a `name` with an inclusive range from `min` to `max`.

    Arithmetic gives further sizes; comparisons hold for the whole range. Equal names are equal
    sizes, within one function. A size that is open equals no number, as in JAX: do not branch on
    `x.shape[0] == 3`. An empty name or range is a `SymbolicSizeError`.

    >>> seq = dim("seq", max=512)
    >>> seq * 2 >= 2, (seq - 1) * seq, seq.high, seq == 3
    (True, seq*seq - seq, 512, False)
    """
    if not isinstance(name, str) or not name:
        raise SymbolicSizeError(
            f"the name of a dim is {name!r}",
            fix='give it a name, as rlx.dim("seq")',
        )
    is_number = [isinstance(n, int) and not isinstance(n, bool) for n in (min, max)]
    if not is_number[0] or not (is_number[1] or max is None):
        raise SymbolicSizeError(
            f"the range of {name} is {min!r} to {max!r}",
            fix="give whole numbers, as min=1, max=512",
        )
    if min < 0 or (max is not None and max < min):
        raise SymbolicSizeError(
            f"the range of {name}, {min} to {max}, holds no sizes",
            fix="let 0 <= min <= max",
        )
    return Dim((((Symbol(name, min, max),), 1),))
