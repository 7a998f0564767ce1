"""Arrays of MLX: where it computes, how dtypes are stored, its errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, final

import ml_dtypes
import mlx.core as mx
import numpy as np

from ...ir.body import Fill, Move, View
from ...ir.errors import DeviceFailure, DeviceMemoryError, RlxError
from ...ir.graph import Graph, Node, Value
from ...ir.types import DTYPES
from ..locks import check_process

FIX = "use smaller arrays, or delete those you no longer need"
_MAIN = threading.main_thread()
_PROCESS = os.getpid()  # of MLX's threads, which a forked child has not
OUT_OF_MEMORY = ("Unable to allocate", "[malloc", "out of memory", "maximum allowed buffer size")


class _Leaving:
    """Clears what MLX keeps for a thread when Python ends the thread.

    Else MLX does so itself when Python may be gone already, and its compiled functions end the
    process.
    """

    def __del__(self) -> None:
        mx.clear_streams()


_thread = threading.local()


@contextmanager
def computing(device: mx.Device, name: str) -> Iterator[None]:
    """Compute on a device in the block; a failure there is an error of rlx."""
    check_process(name, _PROCESS)
    if not hasattr(_thread, "leaving") and threading.current_thread() is not _MAIN:
        _thread.leaving = _Leaving()
    try:
        with mx.stream(device):
            yield
    except RlxError:
        raise
    except (RuntimeError, MemoryError) as error:
        raise _translated(name, error) from error


def largest(graph: Graph) -> Value | None:
    """The value that takes most memory of those that are no other form of another one."""
    made = [r for node in graph.walk() if not _is_view(node) for r in node.results]
    return max(made, key=lambda value: value.type.nbytes, default=None)


def _is_view(node: Node) -> bool:
    """Whether MLX needs no memory for the results."""
    return isinstance(node.op.rules.body, Move | View | Fill)


def check_size(value: Value | None, name: str) -> None:
    """Raise if a value is larger than the machine's memory: MLX would crash."""
    if value is None or value.type.nbytes <= memory_size():
        return
    node = value.node
    assert node is not None
    raise DeviceMemoryError(
        f"{node.op.name}: {value.type} takes {value.type.nbytes:.1e} bytes, "
        f"{name} has {memory_size():.1e}",
        where=str(node.source),
        fix=FIX,
    )


@cache
def memory_size() -> int:
    """The bytes of memory of the machine, which GPUs of Apple share."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _translated(name: str, error: Exception) -> RlxError:
    text = str(error).partition("\n")[0]
    if isinstance(error, MemoryError) or any(word in text for word in OUT_OF_MEMORY):
        return DeviceMemoryError(
            f"the device {name!r} has too little memory: {text}",
            fix=FIX,
        )
    return DeviceFailure(
        f"MLX failed on the device {name!r}: {text}",
        fix='run the function on the cpu, rlx.jit(f, device="cpu"), and report what MLX says',
    )


# names of the dtypes that rows take
BOOL = frozenset({"bool"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED
HALVES = frozenset({"float16", "bfloat16"})
SINGLE = frozenset({"float32"})
DOUBLE = frozenset({"float64"})
FLOATS = HALVES | SINGLE | DOUBLE
REAL = BOOL | INTEGERS | FLOATS
COMPLEX = frozenset({"complex64"})
# with what lies in memory in another form: rows that only move whole numbers take REAL and COMPLEX
STORED = REAL | COMPLEX


# complex128 lies as pairs of parts, float8 as its bits: MLX has neither
PAIRS = DTYPES["complex128"]
BITS = frozenset(DTYPES[name] for name in ("float8_e4m3fn", "float8_e5m2"))
_NAMES = {name: name for name in DTYPES} | {
    "bool": "bool_",
    "complex128": "float64",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
}
FORMS = {DTYPES[name]: getattr(mx, stored) for name, stored in _NAMES.items()}
_PLAIN = {stored: dtype for dtype, stored in FORMS.items() if dtype not in (PAIRS, *BITS)}


def dtype_of(x: mx.array) -> np.dtype:
    """The NumPy dtype of the numbers that an array of MLX holds by itself."""
    return _PLAIN[x.dtype]


def to_mlx(x: np.ndarray) -> mx.array:
    """The array of MLX that holds a NumPy array: always a copy.

    Without its dtype MLX would make float32 of float64, and complex64 of complex128.
    """
    x = np.ascontiguousarray(x).reshape(x.shape)  # of 0-d arrays it makes others
    if x.dtype == PAIRS:
        x = np.stack([np.real(x), np.imag(x)], axis=-1)
    elif x.dtype in BITS:
        x = x.view(np.uint8)
    elif x.dtype == ml_dtypes.bfloat16:
        return mx.array(x.view(np.uint16)).view(mx.bfloat16)
    return mx.array(x, dtype=FORMS[x.dtype])


def to_numpy(x: mx.array, dtype: np.dtype) -> np.ndarray:
    """The numbers an array of MLX holds: its own memory, which NumPy may not write to."""
    found = np.asarray(x.view(mx.uint16) if x.dtype == mx.bfloat16 else x)
    if dtype == PAIRS:
        found = np.ascontiguousarray(found).view(dtype).reshape(found.shape[:-1])
    found = found.view(dtype)
    found.flags.writeable = False
    return found


@final
class MlxData:
    """An array of MLX with the shape and the dtype of what it holds."""

    __slots__ = ("array", "dtype")

    def __init__(self, array: mx.array, dtype: np.dtype) -> None:
        self.array, self.dtype = array, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        shape = tuple(self.array.shape)
        return shape[:-1] if self.dtype == PAIRS else shape


@final
class MlxMemory:
    """The memory of a device of MLX."""

    def __init__(self, name: str, device: mx.Device) -> None:
        self.name, self.device = name, device

    def to_host(self, data: Any) -> np.ndarray:
        """The numbers as a NumPy array."""
        with computing(self.device, self.name):
            return to_numpy(data.array, data.dtype)

    def from_host(self, array: np.ndarray) -> MlxData:
        """A NumPy array's numbers as an array of the device."""
        with computing(self.device, self.name):
            return MlxData(to_mlx(array), array.dtype)

    def wait(self, data: Any) -> None:
        """Return when the numbers are computed."""
        with computing(self.device, self.name):
            mx.eval(data.array)
