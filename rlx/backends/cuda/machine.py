"""An open device: its stream, its memory, and the kernels built for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numpy as np

from ...ir.errors import (
    DeviceLostError,
    DeviceMemoryError,
    DtypeError,
    InternalError,
    KernelBuildError,
)
from ...ir.record import record
from ..backend import Availability
from ..c_like.dialect import Limits
from ..disk import disk_cache, hashed
from ..locks import DeviceLock

# -- which devices of NVIDIA and AMD there are, and which one a name means ------------------------

PIP = {
    "cuda": 'pip install "cupy-cuda13x[ctk]" (or "cupy-cuda12x[ctk]" for a driver of CUDA 12)',
    "rocm": "pip install cupy-rocm-7-0 (beside ROCm 7)",
}
MAKER = {"cuda": "NVIDIA", "rocm": "AMD"}
DRIVERS = {
    "cuda": "install NVIDIA's driver, https://www.nvidia.com/drivers",
    "rocm": "install ROCm, https://rocm.docs.amd.com",
}


def library() -> Any:
    """CuPy, imported when it is asked for."""
    import cupy

    return cupy


def find(kind: str, which: str) -> Availability:
    """Whether the device of a number is there; nothing is raised."""
    try:
        cupy = library()
    except ImportError:
        return Availability(False, "the package cupy is not installed", PIP[kind])
    except Exception as error:  # broken installations raise anything
        return Availability(False, f"cupy cannot be imported: {error}", PIP[kind])
    runtime = cupy.cuda.runtime
    if runtime.is_hip != (kind == "rocm"):
        other = "ROCm" if runtime.is_hip else "CUDA"
        return Availability(False, f"the cupy that is installed is for {other}", PIP[kind])
    try:
        count = runtime.getDeviceCount()
    except Exception as error:
        return _without_driver(runtime, kind, error)
    if count == 0:
        return Availability(False, f"there is no device of {MAKER[kind]}", DRIVERS[kind])
    number = which or "0"
    if not number.isdecimal() or int(number) >= count:
        reason = f"no {kind} device has the number {which!r}"
        return Availability(False, reason, f"write one of {', '.join(_names(kind, count))}")
    return _compiler(cupy, kind)


def _without_driver(runtime: Any, kind: str, error: Exception) -> Availability:
    version = 0 if runtime.is_hip else runtime.driverGetVersion()  # 0 if there is none
    if version:
        known = f"{version // 1000}.{version % 1000 // 10}"
        reason = f"the driver, of CUDA {known}, is too old for the cupy that is installed"
        return Availability(False, f"{reason}: {error}", f"install a newer driver, or {PIP[kind]}")
    reason = f"there is no driver of {MAKER[kind]} that cupy can use: {error}"
    return Availability(False, reason, DRIVERS[kind])


def _compiler(cupy: Any, kind: str) -> Availability:
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return Availability(False, f"the compiler of kernels is missing: {error}", PIP[kind])
    return Availability(True)


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}:{n}" for n in range(count)]


LEAST = 16  # bytes of an array's memory
THREADS = 256  # of a group
MOST_GROUPS = 65535  # along all axes but the first
SHARED = frozenset("?bhilqBHILQefdFD")  # dtypes that other libraries are given by DLPack


@record(eq=False)
class CudaArray:
    """An array in the memory of a device, dense and row-major."""

    memory: Any  # CuPy's object that owns it
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


# -- compiles CUDA C with NVRTC, and remembers the binaries on disk --------------------------------

# products are rounded before they are added, as on other devices
OPTIONS = ("--fmad=false", "--std=c++17")
HIP_OPTIONS = ("-ffp-contract=off", "-std=c++17")
NOTED = 20  # lines of the compiler's complaints that an error shows


def architecture(capability: str, known: tuple[int, ...]) -> tuple[str, bool]:
    """The architecture to compile for, and whether that gives a binary.

    A device newer than the compiler takes an intermediate code, which its driver translates.

    >>> architecture("90", (75, 80, 90)), architecture("103", (75, 80, 90))
    (('sm_90', True), ('compute_90', False))
    """
    number = int(capability)
    if number in known:
        return f"sm_{number}", True
    return f"compute_{max((n for n in known if n <= number), default=min(known))}", False


def compiled(device: str, text: str, capability: str) -> bytes:
    """The binary of a text for a device of a compute capability."""
    nvrtc: Any = library().cuda.nvrtc
    is_hip = library().cuda.runtime.is_hip
    if is_hip:
        wanted, is_binary, options = capability, False, HIP_OPTIONS
    else:
        wanted, is_binary = architecture(capability, tuple(nvrtc.getSupportedArchs()))
        options = (*OPTIONS, f"--gpu-architecture={wanted}")
    disk = disk_cache()
    key = hashed("cuda", text, wanted, options, nvrtc.getVersion(), is_hip)
    known = disk.get(key) if disk else None
    if known is not None:
        return known
    binary = _compile(nvrtc, device, text, options, is_binary)
    if disk:
        disk.put(key, binary)
    return binary


def _compile(
    nvrtc: Any, device: str, text: str, options: tuple[str, ...], is_binary: bool
) -> bytes:
    program = nvrtc.createProgram(text, "rlx.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getCUBIN(program) if is_binary else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        raise KernelBuildError(
            f"{device} cannot build the kernels of this function: {error}",
            notes=nvrtc.getProgramLog(program).splitlines()[:NOTED],
            fix="report this with the text, compiled.stages['cuda']; device='cpu' runs it "
            "meanwhile",
        ) from error
    finally:
        nvrtc.destroyProgram(program)


# -- what errors of CuPy mean for the user of rlx --------------------------------------------------

OUT_OF_MEMORY = 2  # of the runtime and of the driver
NO_MEMORY_FOR_BLAS = 3  # cuBLAS could not allocate what it needs
# After these a process cannot use the device any more; numbers of the runtime and of the driver.
LOST = frozenset(
    (
        4,  # the driver is shutting down
        46,  # all devices are busy or unavailable
        201,  # the context is not valid
        214,  # an error in memory that cannot be corrected
        700,  # a kernel used an address that is not its
        702,  # a kernel ran too long
        709,  # the context was destroyed
        710,  # an assertion failed in a kernel
        714,  # the stack is corrupt
        715,  # an illegal instruction
        716,  # a misaligned address
        717,  # an address of another space
        718,  # an invalid program counter
        719,  # a kernel failed
        999,  # unknown
    )
)


@contextmanager
def translated(device: str, doing: str) -> Iterator[None]:
    """Raise errors of rlx for those of CuPy."""
    cuda = library().cuda
    failures = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)
    try:
        yield
    except cuda.memory.OutOfMemoryError as error:
        raise _no_memory(device, doing, error) from error
    except failures as error:
        if error.status == OUT_OF_MEMORY:
            raise _no_memory(device, doing, error) from error
        if error.status in LOST:
            raise lost(device, doing, str(error)) from error
        raise _failed(device, doing, error) from error
    except RuntimeError as error:
        # the class of cuBLAS's errors cannot be imported where the library is missing
        if type(error).__name__ != "CUBLASError":
            raise
        if error.status == NO_MEMORY_FOR_BLAS:  # type: ignore[attr-defined]
            raise _no_memory(device, doing, error) from error
        raise _failed(device, doing, error) from error


def lost(device: str, doing: str, note: str) -> DeviceLostError:
    """The error for a device that this process cannot use any more."""
    return DeviceLostError(
        f"{device} was lost at {doing}",
        notes=[note],
        fix="start Python again: the driver gives a process that lost a device no new one; "
        "other devices, as device='cpu', go on working here",
    )


def _no_memory(device: str, doing: str, error: Exception) -> DeviceMemoryError:
    return DeviceMemoryError(
        f"{device} has not enough memory for {doing}",
        notes=[str(error)],
        fix="drop arrays that are no longer needed, or use a smaller batch",
    )


def _failed(device: str, doing: str, error: Exception) -> InternalError:
    return InternalError(
        f"{device} failed at {doing}: {error}",
        fix="report this with the program; device='cpu' runs it meanwhile",
    )
