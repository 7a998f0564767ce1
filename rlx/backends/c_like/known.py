"""What expressions of numbers alone come to."""

from __future__ import annotations

import numpy as np

from ...ir.types import is_float
from ...lower.lir.expr import Apply, Const, Expr, const
from ...lower.lir.instructions import NUMPY
from .dialect import Dialect, register


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
        if not isinstance(expr, Apply) or expr.instruction not in NUMPY:
            return None
        args = [known for known in map(self.__getitem__, expr.args) if known is not None]
        if len(args) < len(expr.args):
            return None
        numbers = [np.asarray(a.number, a.dtype) for a in args]
        with np.errstate(all="ignore"):
            return const(expr.dtype, NUMPY[expr.instruction](expr.dtype, *numbers))

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
