"""What compiled code calls back into Python for: NumPy on views of its memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir.bind import concrete_type
from ...ir.dims import Dim, Size, Symbol, concrete
from ...lower.lir.expr import Accumulated, Apply, Load
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Buffer, Contraction, LibraryCall

Callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
Sizes = dict[str, int]


@dataclass
class Library:
    """The Python functions that a program's compiled code calls back.

    An exception in one is kept for the thread it is in, and the program ends with a status.
    """

    keep: list[object] = field(default_factory=list)
    raised: threading.local = field(default_factory=threading.local)

    def take_error(self) -> BaseException:
        """The exception that ended the program in this thread."""
        return self.raised.__dict__.pop("error")

    def add(self, step: LibraryCall, symbols: dict[Symbol, int] | None) -> int:
        """The address of a C function `i32 (ptr pointers)` that runs a library call."""
        buffers = called_with(step)
        types = [*step.input_types, *(b.type for b in step.outputs)]
        places = _places([n for t in types for n in t.shape], symbols)

        def run(pointers: int) -> None:
            addresses, sizes = _given(pointers, len(buffers), places)
            shapes = [concrete_type(t, sizes).shape for t in types]
            arrays = [
                _view(a, b.dtype, shape)  # type: ignore[arg-type]
                for a, b, shape in zip(addresses, buffers, shapes, strict=True)
            ]
            given, targets = arrays[: len(step.inputs)], arrays[len(step.inputs) :]
            if "calls_python" in step.op.rules:  # a user's function, which may keep or change them
                given = [_own(a) for a in given]
            attrs = {name: _number(attr, sizes) for name, attr in step.attrs.items()}
            for target, result in zip(targets, step.op.run(given, attrs, "cpu"), strict=True):
                target[...] = result.reshape(target.shape)

        return self._address(run)

    def add_product(self, step: Contraction, symbols: dict[Symbol, int]) -> int:
        """The address of a C function that runs a contraction of symbolic sizes."""
        (store,) = step.stores
        outer = [*step.batch]
        operands = [
            (step.lhs.index, [*outer, step.row, step.depth]),  # type: ignore[attr-defined]
            (step.rhs.index, [*outer, step.depth, step.column]),  # type: ignore[attr-defined]
            (store.index, [*outer, step.row, step.column]),
        ]
        buffers = called_with(step)
        mentioned = [n for index, along in operands for n in _mentioned(index, along)]
        places = _places([*mentioned, *(b.size for b in buffers)], symbols)
        is_plain = all(b.dtype == step.dtype for b in buffers)

        def run(pointers: int) -> None:
            addresses, sizes = _given(pointers, len(buffers), places)
            lhs, rhs, result = (
                _strided(a, b, index, along, sizes)
                for a, b, (index, along) in zip(addresses, buffers, operands, strict=True)
            )
            if is_plain:
                np.matmul(lhs, rhs, out=result)
            else:
                result[...] = np.matmul(lhs.astype(step.dtype), rhs.astype(step.dtype))

        return self._address(run)

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


def _places(
    sizes: Iterable[Any], symbols: dict[Symbol, int] | None
) -> list[tuple[str, int]] | None:
    """Where the numbers of the dims in some sizes will stand; None if nothing is symbolic."""
    if symbols is None:
        return None
    found = {s for size in sizes if isinstance(size, Dim) for s in size.symbols}
    ordered = sorted(found, key=lambda s: s.name)
    return [(s.name, symbols.setdefault(s, len(symbols))) for s in ordered]


def _given(
    pointers: int, count: int, places: list[tuple[str, int]] | None
) -> tuple[list[int], Sizes]:
    """The addresses of the buffers, and the numbers of the dims."""
    if places is None:
        return [a or 0 for a in (ctypes.c_void_p * count).from_address(pointers)], {}
    table = list((ctypes.c_void_p * (count + 1)).from_address(pointers))
    length = max((place for _, place in places), default=-1) + 1
    numbers = (ctypes.c_int64 * length).from_address(table[0] or 0) if length else ()
    return [a or 0 for a in table[1:]], {name: numbers[place] for name, place in places}


def _number(attr: Any, sizes: Sizes) -> Any:
    """An attribute with numbers for its symbolic sizes."""
    if isinstance(attr, Dim):
        return concrete(attr, sizes)
    return tuple(_number(a, sizes) for a in attr) if isinstance(attr, tuple) else attr


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


def _mentioned(index: Index, along: Sequence[Variable]) -> list[Size]:
    return [index.constant, *(n for v in along for n in (v.extent, index.stride_of(v)))]


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
