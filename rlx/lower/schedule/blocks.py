"""Ops on blocks, as small matrices, whose elements are computed together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...ir.body import Blocks
from ...ir.graph import Constant, Node, Value
from ...ir.types import Type, as_dtype
from ..lir import expr as scalar
from ..lir.expr import Expr
from ..lir.index import Index, Variable, as_index, is_long
from ..lir.program import REAL_PARTS, Buffer, Kernel, Step, Store
from .elements import flatten
from .scheduler import Scheduler

BOOL = as_dtype("bool")
Source: TypeAlias = Callable[[tuple[Index, ...]], Any]


def _operator(instruction: str) -> Callable[[Scalar, Any], Scalar]:
    """The method that applies an instruction to a scalar and another one, or a number."""

    def method(self: Scalar, other: Any) -> Scalar:
        dtype = self.expr.dtype
        result = BOOL if instruction in scalar.COMPARISONS else dtype
        return Scalar(scalar.apply(instruction, result, self.expr, as_scalar(other, dtype)))

    return method


def _function(instruction: str) -> Callable[[Scalar], Scalar]:
    """The method that applies an instruction to a scalar."""
    return lambda self: Scalar(scalar.apply(instruction, self.expr.dtype, self.expr))


class Scalar:
    """A scalar expression with the operators that bodies of ops are written in."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    __add__ = __radd__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = __rmul__ = _operator("mul")
    __truediv__ = _operator("div")
    __lt__ = _operator("lt")
    __gt__ = _operator("gt")
    __and__ = _operator("and")
    equals = _operator("eq")
    __neg__ = _function("neg")
    __abs__ = _function("abs")
    sqrt = _function("sqrt")
    log = _function("log")
    sign = _function("sign")

    def select(self, on_true: Any, on_false: Any) -> Any:
        """Choose by this condition between two scalars; equal ones need no choice."""
        dtype = next((x.expr.dtype for x in (on_true, on_false) if isinstance(x, Scalar)), None)
        dtype = dtype or np.dtype(np.int32)
        chosen = [as_scalar(x, dtype) for x in (on_true, on_false)]
        if chosen[0] is chosen[1]:
            return Scalar(chosen[0])
        return Scalar(scalar.apply("select", dtype, self.expr, *chosen))


def as_scalar(x: Any, dtype: np.dtype) -> Expr:
    """Convert a scalar or a Python number to an expression of a dtype."""
    return x.expr if isinstance(x, Scalar) else scalar.const(dtype, x)


def pass_kernels(scheduler: Scheduler, node: Node, body: Blocks) -> list[Step]:
    """Make a kernel for each pass of a node; none if there are no blocks."""
    passes = body.passes([a.type for a in node.args], **node.attrs)
    assert passes, f"{node} is a library call"
    steps: list[Step] = []
    targets: list[tuple[Buffer, Type]] = []
    sources: list[Source] = []
    following: list[Source] = [_operand(scheduler, a) for a in node.args]
    for each in passes:
        if not each.continues:
            sources = following
        load = _loader([*sources, *(_table(scheduler, array) for array in each.tables())])
        variables = [Variable(n) for n in each.extents]
        blocks = each.compute(tuple(map(as_index, variables)), load)
        if not each.types:
            targets = [(scheduler.result_buffer(r), r.type) for r in node.results]
        elif not each.continues:
            targets = [(scheduler.new_buffer(t), t) for t in each.types]
        following = [functools.partial(_part, buffer, type) for buffer, type in targets]
        stores = [
            store
            for target, block in zip(targets, blocks, strict=True)
            for index, element in block
            for store in _stores(*target, index, element)
        ]
        if 0 not in each.extents and stores:
            loops = tuple(v for v in variables if is_long(v))
            steps.append(Kernel(loops, tuple(stores), node.source))
    return steps


def _operand(scheduler: Scheduler, value: Value) -> Source:
    if value.dtype in REAL_PARTS:
        return functools.partial(_part, scheduler.buffer(value), value.type)
    return lambda index: Scalar(scheduler.elements.at(value, index))


def _table(scheduler: Scheduler, array: np.ndarray) -> Source:
    constant = Constant(array)
    if constant not in scheduler.constants:
        buffer = scheduler.new_buffer(Type(as_dtype(array.dtype), array.shape), "constant")
        buffer.array = constant.array
        scheduler.constants[constant] = buffer
    buffer = scheduler.constants[constant]
    return functools.partial(_part, buffer, buffer.type)


def _loader(sources: Sequence[Source]) -> Callable[[int, Sequence[Any]], Any]:
    return lambda source, index: sources[source](tuple(map(as_index, index)))


def _part(buffer: Buffer, type: Type, index: tuple[Index, ...]) -> Any:
    """The element of an array in a buffer: a scalar, or both parts of a complex one."""
    offset = flatten(index, type.shape)
    if type.dtype not in REAL_PARTS:
        return Scalar(scalar.load(buffer, offset))
    return tuple(Scalar(scalar.load(buffer, offset * 2 + part)) for part in (0, 1))


def _stores(buffer: Buffer, type: Type, index: Sequence[Any], element: Any) -> list[Store]:
    offset, dtype = flatten(tuple(map(as_index, index)), type.shape), buffer.number_dtype
    if type.dtype not in REAL_PARTS:
        return [Store(buffer, offset, as_scalar(element, dtype))]
    return [Store(buffer, offset * 2 + i, as_scalar(x, dtype)) for i, x in enumerate(element)]
