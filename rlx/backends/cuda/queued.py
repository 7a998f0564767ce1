"""Puts the launches of a program into the stream of its device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..c_like.plan import Launch, Product
from ..c_like.runner import Place
from .machine import CudaMachine
from .products import Gemm, Matrices

# numbers of the library's header, which CuPy does not give names
SUMS_IN_FLOAT32, SUMS_IN_FLOAT64, ANY_WAY = 68, 70, -1
AS_IT_LIES, TURNED = 0, 1
DTYPES = {
    "float16": "CUDA_R_16F",
    "bfloat16": "CUDA_R_16BF",
    "float32": "CUDA_R_32F",
    "float64": "CUDA_R_64F",
}


@dataclass(frozen=True)
class _Bound:
    """A kernel with what stays from call to call."""

    function: Any
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]
    sizes: tuple[int, ...]  # bytes of an element of each array
    numbers: tuple[np.int32, ...]


class Queued:
    """A loaded module: launches its kernels in the stream of a device.

    Memories are addresses here.
    """

    def __init__(self, machine: CudaMachine, module: Any) -> None:
        self.machine, self.module, self.name = machine, module, machine.name
        self.bound: dict[int, _Bound] = {}  # by a launch's id, for to hash one takes long

    def launch(self, launch: Launch, places: Sequence[Place]) -> None:
        """Run a kernel, its arrays at these places."""
        bound = self.bound.get(id(launch))
        if bound is None:
            bound = self.bound[id(launch)] = self._bind(launch)
        # as numbers of 64 bits, which is what a pointer is
        given = [
            np.uint64(p.memory + p.start * n) for p, n in zip(places, bound.sizes, strict=True)
        ]
        bound.function(
            bound.groups, bound.threads, (*given, *bound.numbers), stream=self.machine.stream
        )

    def _bind(self, launch: Launch) -> _Bound:
        signature = launch.kernel.signature
        assert not any(p.has_offset for p in signature.parameters), "places are exact here"
        return _Bound(
            self.module.get_function(launch.kernel.name),
            launch.groups,
            signature.threads,
            tuple(p.dtype.itemsize for p in signature.parameters),
            tuple(map(np.int32, launch.numbers)),
        )

    def multiply(self, product: Product, places: Sequence[Place]) -> None:
        """Call cuBLAS.

        It takes matrices by columns: read so, ours are turned. So the right one comes first, and
        the result is turned back.
        """
        call: Gemm = product.call  # type: ignore[assignment]
        cuda, blas = self.machine.cupy.cuda, self.machine.blas
        kind, total = (getattr(cuda.runtime, DTYPES[d.name]) for d in (call.dtype, call.sums.dtype))
        is_double = call.dtype.itemsize == 8
        one, zero = (np.array(n, np.float64 if is_double else np.float32) for n in (1, 0))

        def at(number: int, matrices: Matrices) -> int:
            place, buffer = places[number], product.buffers[number]
            return place.memory + (place.start + matrices.start) * buffer.number_dtype.itemsize

        left, right, target = call.left, call.right, call.target
        blas.gemmStridedBatchedEx(
            cuda.device.get_cublas_handle(),
            TURNED if right.turned else AS_IT_LIES,
            TURNED if left.turned else AS_IT_LIES,
            *(call.columns, call.rows, call.depth, one.ctypes.data),
            *(at(1, right), kind, right.pitch, right.step),
            *(at(0, left), kind, left.pitch, left.step),
            zero.ctypes.data,
            *(at(2, target), total, target.pitch, target.step),
            *(call.count, SUMS_IN_FLOAT64 if is_double else SUMS_IN_FLOAT32, ANY_WAY),
        )

    def copy(self, origin: Place, target: Place, dtype: np.dtype, count: int) -> None:
        """Copy so many numbers of a dtype."""
        size = dtype.itemsize
        to, start = (p.memory + p.start * size for p in (target, origin))
        self.machine.copy(to, start, count * size)

    def read(self, place: Place, dtype: np.dtype, count: int) -> np.ndarray:
        """Copy numbers to the host, when all before is done."""
        return self.machine.read(place.memory + place.start * dtype.itemsize, (count,), dtype)

    def write(self, place: Place, array: np.ndarray) -> None:
        """Copy a flat array to the device."""
        given = self.machine.from_host(array)
        target = place.memory + place.start * array.dtype.itemsize
        self.machine.copy(target, given.address, given.nbytes)

    def let_go(self) -> AbstractContextManager[None]:
        """Let other threads have the device for a block."""
        return self.machine.lock.let_go()
