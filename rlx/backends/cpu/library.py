"""What compiled code calls back into Python for: NumPy on views of its memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir.bind import concrete_attr, concrete_type
from ...ir.dims import concrete
from ...lower.lir.expr import Accumulated, Apply, Load
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Buffer, Contraction, LibraryCall

Callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
Sizes = dict[str, int]


@dataclass
class Library:
    """The Python functions that a program's compiled code calls back.

    `dims` are the names of a program's symbolic sizes, None if it has none; their numbers come
    first in the array of the run. An exception in a function is kept for the thread it is in, and
    the program ends with a status.
    """

    dims: list[str] | None = None
    keep: list[object] = field(default_factory=list)
    raised: threading.local = field(default_factory=threading.local)

    def take_error(self) -> BaseException:
        """The exception that ended the program in this thread."""
        return self.raised.__dict__.pop("error")

    def add(self, step: LibraryCall) -> int:
        """The address of a C function `i32 (ptr pointers)` that runs a library call."""
        buffers = called_with(step)
        types = [*step.input_types, *(b.type for b in step.outputs)]

        def run(pointers: int) -> None:
            addresses, sizes = self._given(pointers, len(buffers))
            shapes = [concrete_type(t, sizes).shape for t in types]
            arrays = [
                _view(a, b.dtype, shape)  # type: ignore[arg-type]
                for a, b, shape in zip(addresses, buffers, shapes, strict=True)
            ]
            given, targets = arrays[: len(step.inputs)], arrays[len(step.inputs) :]
            if "calls_python" in step.op.rules:  # a user's function, which may keep or change them
                given = [_own(a) for a in given]
            attrs = step.attrs
            if sizes:
                attrs = {name: concrete_attr(attr, sizes) for name, attr in attrs.items()}
            for target, result in zip(targets, step.op.run(given, attrs, "cpu"), strict=True):
                target[...] = result.reshape(target.shape)

        return self._address(run)

    def add_product(self, step: Contraction) -> int:
        """The address of a C function that runs a contraction of symbolic sizes."""
        (store,) = step.stores
        outer = [*step.batch]
        operands = [
            (step.lhs.index, [*outer, step.row, step.depth]),  # type: ignore[attr-defined]
            (step.rhs.index, [*outer, step.depth, step.column]),  # type: ignore[attr-defined]
            (store.index, [*outer, step.row, step.column]),
        ]
        buffers = called_with(step)
        is_plain = all(b.dtype == step.dtype for b in buffers)

        def run(pointers: int) -> None:
            addresses, sizes = self._given(pointers, len(buffers))
            lhs, rhs, result = (
                _strided(a, b, index, along, sizes)
                for a, b, (index, along) in zip(addresses, buffers, operands, strict=True)
            )
            with np.errstate(all="ignore"):
                if is_plain:
                    np.matmul(lhs, rhs, out=result)
                else:
                    result[...] = np.matmul(lhs.astype(step.dtype), rhs.astype(step.dtype))

        return self._address(run)

    def _given(self, pointers: int, count: int) -> tuple[list[int], Sizes]:
        """The addresses of the buffers, and the numbers of the dims."""
        if self.dims is None:
            return [a or 0 for a in (ctypes.c_void_p * count).from_address(pointers)], {}
        first, *addresses = (ctypes.c_void_p * (count + 1)).from_address(pointers)
        numbers = (ctypes.c_int64 * len(self.dims)).from_address(first or 0)
        return [a or 0 for a in addresses], dict(zip(self.dims, numbers, strict=True))

    def _address(self, run: Callable[[int], None]) -> int:
        def safely(pointers: int) -> int:
            try:
                run(pointers)
                return 0
            except BaseException as error:  # no exception may pass through compiled code
                self.raised.error = error
                return 1

        callback = Callback(safely)
        self.keep.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p).value or 0


def called_with(step: LibraryCall | Contraction) -> tuple[Buffer, ...]:
    """The buffers that a callback gets the pointers of, in this order."""
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


def _strided(
    address: int, buffer: Buffer, index: Index, along: Sequence[Variable], sizes: Sizes
) -> np.ndarray:
    """The view of a buffer that an affine index walks over."""
    flat = _view(address, buffer.dtype, (concrete(buffer.size, sizes),))
    item = buffer.dtype.itemsize
    shape = [concrete(v.extent, sizes) for v in along]
    strides = [concrete(index.stride_of(v), sizes) * item for v in along]
    start = concrete(index.constant, sizes) * item
    return np.ndarray(shape, buffer.dtype, flat, start, strides)
