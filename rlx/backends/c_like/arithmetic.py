"""Numbers with operators, to write formulas of scalar expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.types import as_dtype
from ...lower.lir.expr import Apply, Expr, const

BOOL = as_dtype("bool")


@dataclass(eq=False)
class Given(Expr):
    """What a variable of the kernel's text holds."""

    name: str


def plain(instruction: str, dtype: np.dtype, *args: Expr) -> Apply:
    """An instruction of a language that programs do not have, such as `fma`."""
    return Apply(dtype, instruction, args)


@dataclass(frozen=True)
class Number:
    """An expression with Python's operators; numbers beside it take its dtype."""

    expr: Expr

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the expression."""
        return self.expr.dtype

    def like(self, other: Any) -> Number:
        """A number of this dtype."""
        return other if isinstance(other, Number) else Number(const(self.dtype, other))

    def do(self, instruction: str, *others: Any, dtype: np.dtype | None = None) -> Number:
        """Apply an instruction."""
        args = [self.expr, *(self.like(o).expr for o in others)]
        return Number(plain(instruction, dtype or self.dtype, *args))

    def to(self, dtype: np.dtype) -> Number:
        """Convert it to a dtype whose range it does not leave."""
        return self if dtype == self.dtype else self.do("cast", dtype=dtype)

    def bits(self, dtype: np.dtype) -> Number:
        """Take its bits as another dtype of the same size."""
        return self if dtype == self.dtype else self.do("bitcast", dtype=dtype)

    def where(self, yes: Any, no: Any) -> Number:
        """Choose one of two numbers by this condition."""
        yes = yes if isinstance(yes, Number) else no.like(yes)
        no = yes.like(no)
        return Number(plain("select", yes.dtype, self.expr, yes.expr, no.expr))

    def fma(self, factor: Any, term: Any) -> Number:
        """self * factor + term, rounded once where there is an instruction for it."""
        return self.do("fma", factor, term)

    def polynomial(self, coefficients: Sequence[float]) -> Number:
        """Evaluate a polynomial, the highest power first."""
        total = self.like(coefficients[0])
        for c in coefficients[1:]:
            total = total.fma(self, c)
        return total

    def __add__(self, other: Any) -> Number:
        return self.do("add", other)

    def __radd__(self, other: Any) -> Number:
        return self.like(other) + self

    def __sub__(self, other: Any) -> Number:
        return self.do("sub", other)

    def __rsub__(self, other: Any) -> Number:
        return self.like(other) - self

    def __mul__(self, other: Any) -> Number:
        return self.do("mul", other)

    def __rmul__(self, other: Any) -> Number:
        return self.like(other) * self

    def __truediv__(self, other: Any) -> Number:
        return self.do("div", other)

    def __rtruediv__(self, other: Any) -> Number:
        return self.like(other) / self

    def __neg__(self) -> Number:
        return self.do("neg")

    def __abs__(self) -> Number:
        return self.do("abs")

    def __invert__(self) -> Number:
        return self.do("not")

    def __and__(self, other: Any) -> Number:
        return self.do("and", other)

    def __or__(self, other: Any) -> Number:
        return self.do("or", other)

    def __xor__(self, other: Any) -> Number:
        return self.do("xor", other)

    def __lshift__(self, count: Any) -> Number:
        return self.do("plain_shl", count)

    def __rshift__(self, count: Any) -> Number:
        return self.do("plain_shr", count)

    def __lt__(self, other: Any) -> Number:
        return self.do("lt", other, dtype=BOOL)

    def __le__(self, other: Any) -> Number:
        return self.do("le", other, dtype=BOOL)

    def __gt__(self, other: Any) -> Number:
        return self.do("gt", other, dtype=BOOL)

    def __ge__(self, other: Any) -> Number:
        return self.do("ge", other, dtype=BOOL)

    def equals(self, other: Any) -> Number:
        """Whether it equals another number."""
        return self.do("eq", other, dtype=BOOL)

    def differs(self, other: Any) -> Number:
        """Whether it differs from another number; NaN does from all."""
        return self.do("ne", other, dtype=BOOL)

    @property
    def is_nan(self) -> Number:
        """Whether it is NaN."""
        return self.differs(self)


def number(dtype: np.dtype, value: Any) -> Number:
    """A number of a dtype."""
    return Number(const(dtype, value))
