"""Blocks of elements that are computed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.body import Blocks
from ...ir.graph import Node
from ..lir import expr as scalar
from ..lir.expr import Expr
from ..lir.index import Variable, as_index, is_long
from ..lir.program import Kernel, Step, Store
from .elements import flatten

if TYPE_CHECKING:
    from .schedule import Scheduler


class Scalar:
    """An expression, as the bodies of ops write it."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __add__(self, other: Any) -> Scalar:
        return self._with("add", other)

    def __sub__(self, other: Any) -> Scalar:
        return self._with("sub", other)

    def __mul__(self, other: Any) -> Scalar:
        return self._with("mul", other)

    def __truediv__(self, other: Any) -> Scalar:
        return self._with("div", other)

    def __lt__(self, other: Any) -> Scalar:
        return self._compared("lt", other)

    def __gt__(self, other: Any) -> Scalar:
        return self._compared("gt", other)

    def __and__(self, other: Any) -> Scalar:
        return self._with("and", other)

    def __neg__(self) -> Scalar:
        return self._of("neg")

    def __abs__(self) -> Scalar:
        return self._of("abs")

    def equals(self, other: Any) -> Scalar:
        """Whether both are the same number."""
        return self._compared("eq", other)

    def sqrt(self) -> Scalar:
        """The square root."""
        return self._of("sqrt")

    def log(self) -> Scalar:
        """The natural logarithm."""
        return self._of("log")

    def sign(self) -> Scalar:
        """-1, 0 or 1."""
        return self._of("sign")

    def select(self, on_true: Any, on_false: Any) -> Any:
        """One of two, by what this is; of two equal ones no choice is made."""
        dtype = next((x.expr.dtype for x in (on_true, on_false) if isinstance(x, Scalar)), None)
        dtype = dtype or np.dtype(np.int32)
        chosen = [as_scalar(x, dtype) for x in (on_true, on_false)]
        if chosen[0] is chosen[1]:
            return Scalar(chosen[0])
        return Scalar(scalar.apply("select", dtype, self.expr, *chosen))

    def _of(self, instruction: str) -> Scalar:
        return Scalar(scalar.apply(instruction, self.expr.dtype, self.expr))

    def _with(self, instruction: str, other: Any) -> Scalar:
        dtype = self.expr.dtype
        return Scalar(scalar.apply(instruction, dtype, self.expr, as_scalar(other, dtype)))

    def _compared(self, instruction: str, other: Any) -> Scalar:
        both = self.expr, as_scalar(other, self.expr.dtype)
        return Scalar(scalar.apply(instruction, np.dtype(bool), *both))


def as_scalar(x: Any, dtype: np.dtype) -> Expr:
    """The expression of a scalar, or of a Python number in a dtype."""
    return x.expr if isinstance(x, Scalar) else scalar.const(dtype, x)


def block_kernel(scheduler: Scheduler, node: Node, body: Blocks) -> list[Step]:
    """The kernel that computes the blocks of a node; none for no blocks."""
    types = [a.type for a in node.args]
    extents = body.extents(types, **node.attrs)
    assert extents is not None, f"{node} is a library call"
    variables = [Variable(n) for n in extents]

    def load(operand: int, index: Sequence[Any]) -> Scalar:
        return Scalar(scheduler.elements.at(node.args[operand], tuple(map(as_index, index))))

    place = tuple(map(as_index, variables))
    stores = []
    for result, block in zip(
        node.results, body.compute(place, load, types, **node.attrs), strict=True
    ):
        buffer = scheduler.result_buffer(result)
        for index, element in block:
            offset = flatten(tuple(map(as_index, index)), result.shape)
            stores.append(Store(buffer, offset, as_scalar(element, result.dtype)))
    if 0 in extents or not stores:
        return []
    loops = tuple(v for v in variables if is_long(v))
    return [Kernel(loops, tuple(stores), node.source)]
