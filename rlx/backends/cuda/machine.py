"""An open device: its stream, its memory, and the kernels built for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from ...ir.errors import DeviceLostError, DtypeError
from ..c_like.dialect import Limits
from ..forks import DeviceLock
from .cards import library
from .compiling import compiled
from .faults import lost, translated

LEAST = 16  # bytes of an array's memory
THREADS = 256  # of a group
MOST_GROUPS = 65535  # along all axes but the first
SHARED = frozenset("?bhilqBHILQefdFD")  # dtypes that other libraries are given by DLPack


@dataclass(frozen=True, eq=False)
class CudaArray:
    """An array in the memory of a device, dense and row-major.

    `memory` is what CuPy gave for it; it keeps the memory.
    """

    memory: Any
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    machine: CudaMachine

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return nbytes_of(self.shape, self.dtype)

    def as_cupy(self) -> Any:
        """The same memory as an array of CuPy."""
        if self.dtype.char not in SHARED:
            raise DtypeError(
                f"other libraries do not take arrays of {self.dtype} from a device",
                fix="bitcast it to an integer of the same size, or convert it",
            )
        return self.machine.cupy.ndarray(self.shape, self.dtype, self.memory)

    def __dlpack__(self, **options: Any) -> Any:
        # our stream is CuPy's current one here, behind whose work it puts that of `stream`
        with self.machine.doing("sharing an array"):
            return self.as_cupy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        with self.machine.doing("sharing an array"):
            return self.as_cupy().__dlpack_device__()


def nbytes_of(shape: Sequence[int], dtype: np.dtype) -> int:
    """The bytes of an array."""
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


class CudaMachine:
    """A device with one stream, on which all is done in order.

    `lock` is held while commands of one call are put into it. Memory goes back to a pool of its own
    when nobody has it any more; it may be used again at once, for the next user comes later in the
    stream. A device that `is_lost` stays so as long as the process lives.
    """

    def __init__(self, kind: str, number: int) -> None:
        self.name = f"{kind}:{number}" if number else kind
        self.kind = kind
        self.cupy: Any = library()
        self.lock = DeviceLock(self.name)
        self.is_lost = False
        self._arena: CudaArray | None = None
        self.device = self.cupy.cuda.Device(number)
        with translated(self.name, "opening it"), self.device:
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
            self.pool = self.cupy.cuda.MemoryPool()
            self.capability = str(self.device.compute_capability)
            self.facts = self.cupy.cuda.runtime.getDeviceProperties(number)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Hold the stream, with errors of rlx for those of CuPy."""
        with self.lock:
            if self.is_lost:
                raise lost(self.name, what, "it was lost at an earlier call")
            try:
                with translated(self.name, what), self.device, self.stream:
                    yield
            except DeviceLostError:
                self.is_lost = True
                raise

    # -- what the device can do ------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """What kernels are written for: numbers of threads fit in an int32."""
        groups = (2**31 // THREADS - 1, MOST_GROUPS, MOST_GROUPS)
        local, warp = int(self.facts["sharedMemPerBlock"]), int(self.facts["warpSize"])
        return Limits(THREADS, groups, local, subgroup=warp)

    def describe(self) -> str:
        """The device and the versions of what runs it, on which compiled code depends."""
        name = self.facts["name"]
        name = name.decode() if isinstance(name, bytes) else str(name)
        driver = self.cupy.cuda.runtime.driverGetVersion()
        return (
            f"{name}, {self.kind} {self.capability}, driver {driver}, cupy {self.cupy.__version__}"
        )

    @cached_property
    def blas(self) -> Any:
        """CuPy's interface of cuBLAS; None where that is not installed, and on ROCm."""
        if self.kind != "cuda":
            return None
        try:
            from cupy_backends.cuda.libs import cublas
        except ImportError:
            return None
        return cublas

    # -- memory ----------------------------------------------------------------------------------

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> CudaArray:
        """An array with whatever is in its memory; only inside of `doing`."""
        memory = self.pool.malloc(max(nbytes_of(shape, dtype), LEAST))
        return CudaArray(memory, memory.ptr, tuple(shape), dtype, self)

    def from_host(self, array: np.ndarray) -> CudaArray:
        """Copy an array to the device; it may change afterwards."""
        array = np.asarray(array, order="C")  # ascontiguousarray gives scalars an axis
        with self.doing(f"copying {array.nbytes} bytes to it"):
            if not array.nbytes:
                return self.empty(array.shape, array.dtype)
            with self.cupy.cuda.using_allocator(self.pool.malloc):
                # it copies through memory that it keeps until the stream has come so far
                memory = self.cupy.array(array.reshape(-1).view(np.uint8)).data
            return CudaArray(memory, memory.ptr, array.shape, array.dtype, self)

    def to_host(self, data: CudaArray) -> np.ndarray:
        """Copy an array to the host, when all before is done."""
        with self.doing(f"copying {data.nbytes} bytes from it"):
            return self.read(data.address, data.shape, data.dtype)

    def wait(self, data: CudaArray) -> None:
        """Return when an array and all before is done."""
        with self.doing("waiting for an array"):
            self.stream.synchronize()

    def from_dlpack(self, x: Any, copy: bool = True) -> CudaArray:
        """An array of another library that lies on this device.

        Without a `copy` it is the same memory, if that is dense.
        """
        allocator = self.cupy.cuda.using_allocator(self.pool.malloc)
        with self.doing("taking over an array"), allocator:
            found = self.cupy.from_dlpack(x)  # the other library's work comes before our stream's
            found = found.copy() if copy else self.cupy.ascontiguousarray(found)
        if found.dtype.char not in SHARED:
            raise DtypeError(
                f"an array of {found.dtype} is of no dtype that rlx takes from a device",
                fix="convert it first, as to float32",
            )
        return CudaArray(found.data, found.data.ptr, found.shape, found.dtype, self)

    def read(self, address: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """Copy memory to the host, when all before is done; only inside of `doing`."""
        made = np.empty(shape, dtype)
        runtime = self.cupy.cuda.runtime
        if made.nbytes:
            target = made.ctypes.data
            runtime.memcpyAsync(
                target, address, made.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr
            )
        self.stream.synchronize()
        return made

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        """Copy memory of the device."""
        runtime = self.cupy.cuda.runtime
        runtime.memcpyAsync(target, origin, nbytes, runtime.memcpyDeviceToDevice, self.stream.ptr)

    def block(self, nbytes: int) -> CudaArray:
        """So many bytes of memory; only inside of `doing`."""
        return self.empty((nbytes,), np.dtype(np.uint8))

    def arena(self, nbytes: int) -> CudaArray:
        """Memory for temporaries: one for all programs that run one after another."""
        if self._arena is None or self._arena.nbytes < nbytes:
            self._arena = None
            self._arena = self.block(nbytes)
        return self._arena

    # -- kernels ---------------------------------------------------------------------------------

    def build(self, text: str) -> Any:
        """Compile a text, or read what an earlier process compiled, and load it."""
        binary = compiled(self.name, text, self.capability)
        module = self.cupy.cuda.function.Module()
        module.load(binary)
        return module


@cache
def machine_of(kind: str, number: int) -> CudaMachine:
    """The open device of a number, one for all its names."""
    return CudaMachine(kind, number)
