"""Callbacks of compiled code into Python: NumPy on views of its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...ir.bind import concrete_attr, concrete_type
from ...ir.dims import Size, concrete
from ...ir.graph import Source
from ...ir.op import Op
from ...ir.record import record
from ...ir.types import Type
from ...lower.lir.expr import Accumulated, Apply, Load
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Buffer, Contraction, LibraryCall

Sizes = dict[str, int]


@record(eq=False)
class OpCall:
    """A call of an op's NumPy reference on whole buffers."""

    op: Op
    attrs: dict[str, Any]
    types: tuple[Type, ...]  # of inputs, then outputs
    count: int  # of inputs
    source: Source | None = None

    @property
    def buffers(self) -> int:
        """How many pointers it takes."""
        return len(self.types)

    def run(self, addresses: Sequence[int], sizes: Sizes) -> None:
        """Run the call, given the values of symbolic sizes."""
        types = [concrete_type(t, sizes) for t in self.types]
        arrays = [
            _view(a, t.dtype, t.shape)  # type: ignore[arg-type]
            for a, t in zip(addresses, types, strict=True)
        ]
        given, targets = arrays[: self.count], arrays[self.count :]
        if self.op.rules.calls_python:  # a user's function, which may keep or change them
            given = [_own(a) for a in given]
        attrs = self.attrs
        if sizes:
            attrs = {name: concrete_attr(attr, sizes) for name, attr in attrs.items()}
        results = self.op.run(given, attrs, "cpu", source=self.source)
        for target, result in zip(targets, results, strict=True):
            # complex numbers may go to memory that holds them as pairs of parts
            target[...] = result.reshape(-1).view(target.dtype).reshape(target.shape)


def op_call(step: LibraryCall) -> OpCall:
    """The callback of a library call, independent of its program."""
    types = (*step.input_types, *(b.type for b in step.outputs))
    return OpCall(step.op, step.attrs, types, len(step.inputs), step.source)


@record(eq=False)
class View:
    """Some elements of a dense buffer; sizes and strides are counted in elements."""

    dtype: np.dtype
    size: Size
    start: Size
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]

    def array(self, address: int, sizes: Sizes) -> np.ndarray:
        """The array at an address, given the values of symbolic sizes."""
        flat = _view(address, self.dtype, (concrete(self.size, sizes),))
        item = self.dtype.itemsize
        shape = [concrete(n, sizes) for n in self.shape]
        strides = [concrete(n, sizes) * item for n in self.strides]
        return np.ndarray(shape, self.dtype, flat, concrete(self.start, sizes) * item, strides)


@record(eq=False)
class ProductCall:
    """A matrix product of views, computed in a dtype."""

    lhs: View
    rhs: View
    result: View
    dtype: np.dtype
    buffers: int = 3

    def run(self, addresses: Sequence[int], sizes: Sizes) -> None:
        """Compute, with the numbers of the dims."""
        views = (self.lhs, self.rhs, self.result)
        lhs, rhs, result = (v.array(a, sizes) for v, a in zip(views, addresses, strict=True))
        with np.errstate(all="ignore"):
            if all(view.dtype == self.dtype for view in views):
                np.matmul(lhs, rhs, out=result)
            else:
                result[...] = np.matmul(lhs.astype(self.dtype), rhs.astype(self.dtype))


def product_call(step: Contraction) -> ProductCall:
    """The callback of a contraction of symbolic sizes, independent of its program."""
    (store,) = step.stores
    outer = step.batch
    operands = [
        (step.lhs.index, (*outer, step.row, step.depth)),  # type: ignore[attr-defined]
        (step.rhs.index, (*outer, step.depth, step.column)),  # type: ignore[attr-defined]
        (store.index, (*outer, step.row, step.column)),
    ]
    pairs = zip(called_with(step), operands, strict=True)
    lhs, rhs, result = (_walked(b, index, along) for b, (index, along) in pairs)
    return ProductCall(lhs, rhs, result, step.dtype)


def _walked(buffer: Buffer, index: Index, along: Sequence[Variable]) -> View:
    """The view of a buffer that an affine index walks over."""
    shape = tuple(v.extent for v in along)
    strides = tuple(index.stride_of(v) for v in along)
    return View(buffer.number_dtype, buffer.count, index.constant, shape, strides)


Call: TypeAlias = OpCall | ProductCall


def call_name(number: int) -> str:
    """The name that a call has in a module."""
    return f"call_{number}"


def constant_name(number: int) -> str:
    """The name that a constant array has in a module."""
    return f"constant_{number}"


class HostCalls:
    """Python functions of arrays of pointers, for the calls of a program."""

    def __init__(self, calls: Sequence[Call], dims: Sequence[str] | None) -> None:
        self.dims = dims  # names of symbolic sizes, whose values come first among the pointers
        self._kept = [_function(call, dims) for call in calls]
        # addresses for `polls.call_python`
        self.symbols = {call_name(i): id(each) for i, each in enumerate(self._kept)}


def _function(call: Call, dims: Sequence[str] | None) -> Callable[[int], None]:
    def run(pointers: int) -> None:
        call.run(*_given(pointers, call.buffers, dims))

    return run


def _given(pointers: int, count: int, dims: Sequence[str] | None) -> tuple[list[int], Sizes]:
    """The addresses of buffers, and the values of symbolic sizes."""
    if dims is None:
        return [a or 0 for a in (ctypes.c_void_p * count).from_address(pointers)], {}
    first, *addresses = (ctypes.c_void_p * (count + 1)).from_address(pointers)
    numbers = (ctypes.c_int64 * len(dims)).from_address(first or 0)
    return [a or 0 for a in addresses], dict(zip(dims, numbers, strict=True))


def called_with(step: LibraryCall | Contraction) -> tuple[Buffer, ...]:
    """The buffers whose pointers a callback takes, in order."""
    if isinstance(step, LibraryCall):
        return (*step.inputs, *step.outputs)
    return step.lhs.buffer, step.rhs.buffer, step.stores[0].buffer  # type: ignore[attr-defined]


def multiplies_views(step: Contraction) -> bool:
    """Whether a contraction is a product of strided views that NumPy computes fast."""
    (store,) = step.stores
    expr = store.expr
    is_plain = isinstance(expr, Accumulated) or (
        isinstance(expr, Apply)
        and expr.instruction == "convert"
        and isinstance(expr.args[0], Accumulated)
    )
    loads = isinstance(step.lhs, Load) and isinstance(step.rhs, Load)
    if not (is_plain and loads and step.dtype.kind in "fc"):
        return False
    indices = (step.lhs.index, step.rhs.index, store.index)  # type: ignore[attr-defined]
    return all(index.is_affine for index in indices)


def _own(array: np.ndarray) -> np.ndarray:
    """A copy that cannot be written."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _view(address: int, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """A dense array over memory at an address."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if count == 0:
        return np.empty(shape, dtype)
    raw: Any = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(raw, np.uint8).view(dtype).reshape(shape)
