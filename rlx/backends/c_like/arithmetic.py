"""Numbers with operators for formulas, and what those of numbers alone are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.record import record
from ...ir.types import as_dtype, is_float
from ...lower.lir.expr import INSTRUCTIONS, Apply, Const, Expr, const, in_numpy
from .dialect import Dialect, register

BOOL = as_dtype("bool")


@record(frozen=False, eq=False)
class Given(Expr):
    """What a variable of the kernel's text holds."""

    name: str


def plain(instruction: str, dtype: np.dtype, *args: Expr) -> Apply:
    """An instruction of a language that programs do not have, such as `fma`."""
    return Apply(dtype, instruction, args)


def _operator(instruction: str, dtype: np.dtype | None = None) -> Callable[[Number, Any], Number]:
    """An operator of Python that applies an instruction."""
    return lambda x, other: x.do(instruction, other, dtype=dtype)


@record
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

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __truediv__ = _operator("div")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("plain_shl")
    __rshift__ = _operator("plain_shr")
    __lt__ = _operator("lt", BOOL)
    __le__ = _operator("le", BOOL)
    __gt__ = _operator("gt", BOOL)
    __ge__ = _operator("ge", BOOL)

    def __radd__(self, other: Any) -> Number:
        return self.like(other) + self

    def __rsub__(self, other: Any) -> Number:
        return self.like(other) - self

    def __rmul__(self, other: Any) -> Number:
        return self.like(other) * self

    def __rtruediv__(self, other: Any) -> Number:
        return self.like(other) / self

    def __neg__(self) -> Number:
        return self.do("neg")

    def __abs__(self) -> Number:
        return self.do("abs")

    def __invert__(self) -> Number:
        return self.do("not")

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


class Known(dict[Expr, "Const | None"]):
    """The number that an expression is, or None; what was asked for is remembered.

    Some languages compute what is made of numbers alone before they run, and `1 / 0` is an error.
    """

    def __missing__(self, expr: Expr) -> Const | None:
        self[expr] = found = self._computed(expr)
        return found

    def _computed(self, expr: Expr) -> Const | None:
        if isinstance(expr, Const):
            return expr
        if not isinstance(expr, Apply) or expr.instruction not in INSTRUCTIONS:
            return None
        args = [known for known in map(self.__getitem__, expr.args) if known is not None]
        if len(args) < len(expr.args):
            return None
        numbers = [np.asarray(a.number, a.dtype) for a in args]
        with np.errstate(all="ignore"):
            return const(expr.dtype, in_numpy(expr.instruction, expr.dtype, *numbers))

    def factors(self, expr: Apply, texts: list[str], dialect: Dialect) -> list[str]:
        """The operands of an instruction; a 0 in a product in the dialect's words."""
        if expr.instruction not in ("mul", "div"):
            return texts
        pairs = zip(expr.args, texts, strict=True)
        return [
            dialect.zero_factor(register(e.dtype), text) if self._is_zero(e) else text
            for e, text in pairs
        ]

    def _is_zero(self, expr: Expr) -> bool:
        known = self[expr]
        return known is not None and is_float(known.dtype) and known.number == 0
