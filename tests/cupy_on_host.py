"""What rlx uses of CuPy, on the host: kernels are compiled as C++ and run thread by thread.

It stands for CuPy in tests, where no GPU is at hand: that the numbers of kernels are right, that
they get the arrays they want, and that errors are handled. It is no proof of what a driver does.
Threads of a group that wait for each other are coroutines; groups run one after another.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.backends import registry
from rlx.backends.cuda.machine import machine_of
from rlx.runtime.session import _session

CACHES = (registry._open, _session, machine_of)
SHIM = r"""
#include <math.h>
#include <string.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
struct Place { unsigned x, y, z; };
static Place threadIdx, blockIdx, blockDim;
template <class To, class From> static To bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static inline int __float_as_int(float x) { return bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
static inline float __int_as_float(int x) { return bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return bits<float>(x); }
static inline long long __double_as_longlong(double x) { return bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return bits<double>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }

static ucontext_t scheduler, contexts[256];
static char stacks[256][65536];
static bool done[256];
static int turn;
static void (*body)(void **);
static void **given;
static void __syncthreads() { swapcontext(&contexts[turn], &scheduler); }
// what each thread passes; nobody passes the next number before all have read
static long long passed[256];
template <class T> static T __shfl_xor_sync(unsigned, T x, int distance) {
  memcpy(&passed[turn], &x, sizeof x);
  __syncthreads();
  memcpy(&x, &passed[turn ^ distance], sizeof x);
  __syncthreads();
  return x;
}
static void one() { body(given); done[turn] = true; }

static void group(bool waits) {
  unsigned sx = blockDim.x, sy = blockDim.y, count = sx * sy * blockDim.z;
  for (unsigned i = 0; i < count; i++) {
    done[i] = false;
    if (!waits) continue;
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stacks[i];
    contexts[i].uc_stack.ss_size = sizeof stacks[i];
    contexts[i].uc_link = &scheduler;
    makecontext(&contexts[i], one, 0);
  }
  for (unsigned left = count; left;) {
    left = 0;
    for (unsigned i = 0; i < count; i++) {
      if (done[i]) continue;
      turn = i;
      threadIdx = {i % sx, i / sx % sy, i / sx / sy};
      if (waits) swapcontext(&scheduler, &contexts[i]); else one();
      left += !done[i];
    }
  }
}

static void run(const unsigned *d, bool waits, void (*kernel)(void **), void **a) {
  body = kernel;
  given = a;
  blockDim = {d[3], d[4], d[5]};
  for (unsigned z = 0; z < d[2]; z++)
    for (unsigned y = 0; y < d[1]; y++)
      for (unsigned x = 0; x < d[0]; x++) {
        blockIdx = {x, y, z};
        group(waits);
      }
}
"""
KERNEL = re.compile(r'extern "C" __global__ void [^\n]*\n(\w+)\((.*?)\) \{\n(.*?)\n\}', re.S)
OPTIONS = ("-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-w")


def on_host(text: str) -> str:
    """CUDA C as C++, with a way into each kernel."""
    lines = [SHIM, text]
    for name, parameters, inside in KERNEL.findall(text):
        kinds = [p.rpartition(" ")[0] + "*" * p.count("*") for p in parameters.split(", ")]
        given = ", ".join(f"*({kind} *)a[{i}]" for i, kind in enumerate(kinds))
        waits = "true" if "__syncthreads" in inside else "false"
        lines.append(f"static void call_{name}(void **a) {{ {name}({given}); }}")
        lines.append(f'extern "C" void run_{name}(const unsigned *d, void **a) {{')
        lines.append(f"  run(d, {waits}, call_{name}, a);\n}}")
    return "\n".join(lines)


class Failure(RuntimeError):
    """An error with a number, as CuPy's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class OutOfMemory(MemoryError):
    """CuPy's error of its pools."""


class Pointer:
    """Memory of a pool."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


class Pool:
    """Memory that is filled with nonsense; what is given back is the first to be given out."""

    def __init__(self) -> None:
        self.free: dict[int, list[np.ndarray]] = {}

    def malloc(self, nbytes: int) -> Any:
        if nbytes > 1 << 30:
            raise OutOfMemory(f"{nbytes} bytes")
        size = -(-nbytes // 512) * 512
        waiting = self.free.setdefault(size, [])
        block = waiting.pop() if waiting else np.empty(size, np.uint8)
        block[:] = 0xCD
        pointer = Pointer(block.ctypes.data)
        weakref.finalize(pointer, waiting.append, block).atexit = False
        return pointer


class Stream:
    """Runs what it is given at once, or records it."""

    ptr = 1

    def __init__(self, non_blocking: bool) -> None:
        self.recorded: list[Callable[[], Any]] | None = None
        self.launched = 0  # graphs

    def __enter__(self) -> None:
        self.current.append(self)

    def __exit__(self, *_: object) -> None:
        self.current.pop()

    current: list[Stream] = []  # noqa: RUF012

    def synchronize(self) -> None:
        assert self.recorded is None, "nobody may wait while commands are recorded"

    def do(self, command: Callable[[], Any]) -> None:
        command() if self.recorded is None else self.recorded.append(command)

    def begin_capture(self) -> None:
        self.recorded = []

    def end_capture(self) -> Any:
        recorded, self.recorded = self.recorded or [], None

        def launch(stream: Stream) -> None:
            self.launched += 1
            for command in recorded:
                command()

        return types.SimpleNamespace(launch=launch)


class Event:
    """A moment in a stream."""

    def record(self, stream: Stream) -> None:
        stream.do(self._happen)

    def _happen(self) -> None:
        self.moment = time.perf_counter_ns()


def elapsed(begin: Event, end: Event) -> float:
    """Milliseconds between two moments."""
    return (end.moment - begin.moment) / 1e6


class Device:
    """The only device, of compute capability 9.0."""

    compute_capability = "90"
    __enter__ = lambda self: None  # noqa: E731
    __exit__ = lambda self, *_: None  # noqa: E731

    def __init__(self, number: int) -> None:
        self.id = number


class Compiler:
    """NVRTC: a program is a number."""

    NVRTCError = type("NVRTCError", (RuntimeError,), {})

    def __init__(self) -> None:
        self.programs: dict[int, list[Any]] = {}

    def getVersion(self) -> tuple[int, int]:
        return 13, 0

    def getSupportedArchs(self) -> tuple[int, ...]:
        return 80, 90

    def createProgram(self, text: str, name: str, headers: Any, names: Any) -> int:
        self.programs[len(self.programs)] = [text, b"", ""]
        return len(self.programs) - 1

    def compileProgram(self, program: int, options: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path, target = Path(folder, "text.cpp"), Path(folder, "text.so")
            path.write_text(on_host(self.programs[program][0]))
            done = subprocess.run(
                ["g++", *OPTIONS, str(path), "-o", str(target)], capture_output=True, text=True
            )
            self.programs[program][2] = done.stderr
            if done.returncode:
                raise self.NVRTCError("NVRTC_ERROR_COMPILATION (6)")
            self.programs[program][1] = target.read_bytes()

    def getCUBIN(self, program: int) -> bytes:
        return self.programs[program][1]

    def getProgramLog(self, program: int) -> str:
        return self.programs[program][2]

    def destroyProgram(self, program: int) -> None:
        pass


class Module:
    """A loaded binary."""

    def load(self, binary: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary)
            file.flush()
            self.library = ctypes.CDLL(file.name)

    def get_function(self, name: str) -> Callable[..., None]:
        function = self.library[f"run_{name}"]

        def launch(grid: Any, block: Any, args: Any, *, stream: Stream) -> None:
            kinds = {np.uint64: ctypes.c_uint64, np.int32: ctypes.c_int32}
            values = [kinds[type(a)](int(a)) for a in args]
            pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            dimensions = (ctypes.c_uint * 6)(*grid, *block)
            keep = (values, function)
            stream.do(lambda: keep[1](dimensions, pointers))

        return launch


def seen(address: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Memory as an array."""
    dtype = np.dtype(dtype)
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    flat = np.frombuffer((ctypes.c_char * (reach * dtype.itemsize)).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides])


class Foreign:
    """An array of CuPy, as far as others take it over; its capsule is itself."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, data: Any) -> None:
        self.shape, self.dtype, self.data = shape, dtype, data

    def __dlpack__(self, **options: Any) -> Foreign:
        """As CuPy does: the stream that is given waits for the current one."""
        if options.get("stream") != -1:
            assert Stream.current, "work of no stream of ours is waited for"
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class Blas:
    """The one function of cuBLAS that is used, by NumPy; matrices lie by columns."""

    def __init__(self, kinds: dict[int, Any]) -> None:
        self.kinds, self.calls, self.stream = kinds, 0, None

    def gemmStridedBatchedEx(
        self, handle, turn_a, turn_b, m, n, k, alpha, a, kind_a, lda, step_a,
        b, kind_b, ldb, step_b, beta, c, kind_c, ldc, step_c, count, compute, way,
    ) -> None:  # fmt: skip
        wide = {68: np.float32, 70: np.float64}[compute]
        assert (kind_a == kind_b and seen(alpha, wide, (), ())[()], way) == (1, -1)
        assert lda >= (k if turn_a else m) and ldb >= (n if turn_b else k) and ldc >= m
        for i in range(count):
            strides_a = (lda, 1) if turn_a else (1, lda)
            strides_b = (ldb, 1) if turn_b else (1, ldb)
            kind, total = (np.dtype(self.kinds[number]) for number in (kind_a, kind_c))
            x = seen(a + i * step_a * kind.itemsize, kind, (m, k), strides_a).astype(wide)
            y = seen(b + i * step_b * kind.itemsize, kind, (k, n), strides_b).astype(wide)
            seen(c + i * step_c * total.itemsize, total, (m, n), (1, ldc))[...] = x @ y
        self.calls += 1


def fake() -> dict[str, Any]:
    """The modules that stand for CuPy's, by their names."""
    import ml_dtypes

    space = types.SimpleNamespace
    kinds = {0: "float32", 1: "float64", 2: "float16", 14: ml_dtypes.bfloat16}
    allocators: list[Any] = []
    streams: list[Stream] = []

    def stream(non_blocking: bool) -> Stream:
        streams.append(Stream(non_blocking))
        return streams[-1]

    @contextmanager
    def using_allocator(allocator: Any) -> Iterator[None]:
        allocators.append(allocator)
        yield
        allocators.pop()

    def array(given: np.ndarray) -> Any:
        pointer = allocators[-1](given.nbytes)
        ctypes.memmove(pointer.ptr, given.ctypes.data, given.nbytes)
        return space(data=pointer)

    def copy(target: int, origin: int, nbytes: int, kind: int, pointer: int) -> None:
        streams[-1].do(lambda: ctypes.memmove(target, origin, nbytes))

    def from_dlpack(x: Any) -> Any:
        assert Stream.current, "no stream of ours waits for the other library's work"
        return x.__dlpack__()

    runtime = space(
        is_hip=False, CUDARuntimeError=Failure, memcpyAsync=copy, memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3, getDeviceCount=lambda: 1, driverGetVersion=lambda: 13000,
        getDeviceProperties=lambda n: {"name": b"Host", "sharedMemPerBlock": 49152, "warpSize": 32},
        CUDA_R_32F=0, CUDA_R_64F=1, CUDA_R_16F=2, CUDA_R_16BF=14,
    )  # fmt: skip
    cuda = space(
        runtime=runtime, driver=space(CUDADriverError=Failure), nvrtc=Compiler(), Stream=stream,
        memory=space(OutOfMemoryError=OutOfMemory), MemoryPool=Pool, Device=Device,
        function=space(Module=Module), using_allocator=using_allocator,
        device=space(get_cublas_handle=lambda: 1), Event=Event, get_elapsed_time=elapsed,
    )  # fmt: skip
    modules = {
        name: types.ModuleType(name) for name in ("cupy", "cupy_backends", "cupy_backends.cuda")
    }
    libraries = types.ModuleType("cupy_backends.cuda.libs")
    libraries.cublas = Blas(kinds)  # type: ignore[attr-defined]
    vars(modules["cupy"]).update(
        __version__="14 on the host", cuda=cuda, array=array, ndarray=Foreign,
        from_dlpack=from_dlpack, ascontiguousarray=lambda x: x,
    )  # fmt: skip
    return {**modules, "cupy_backends.cuda.libs": libraries}


def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fixture's generator: the device `cuda`, whose CuPy runs kernels on the host."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed, which compiles kernels for the host")
    for name, module in fake().items():
        monkeypatch.setitem(sys.modules, name, module)
    for cache in CACHES:
        cache.cache_clear()
    yield sys.modules["cupy"].cuda
    for cache in CACHES:
        cache.cache_clear()
