"""An open device: its queue, its memory, and the kernels built for it."""

from __future__ import annotations

import atexit
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np

from ...ir.errors import DeviceFailure, DeviceLostError, DeviceMemoryError, KernelBuildError
from ...ir.record import record
from ..backend import Availability
from ..c_like.dialect import Limits
from ..c_like.plan import Launch
from ..c_like.runner import Place
from ..disk import disk_cache, hashed
from ..locks import DeviceLock

# -- which OpenCL devices there are, and which one a name means -----------------------------------

PIP = 'pip install "pyopencl>=2026.1"'
DRIVERS = (
    "install a driver: that of your GPU, or for the processor `apt install pocl-opencl-icd` "
    "(Debian, Ubuntu) or `pip install intel-opencl-rt`"
)
BROKEN = "PoCL 3.0"  # what pip has: it is listed, and builds nothing on processors newer than it


def library() -> Any:
    """PyOpenCL, imported when it is asked for."""
    import pyopencl

    return pyopencl


def find(wanted: str) -> tuple[Any, Availability]:
    """The device that is wanted, or None, and whether it is there; nothing is raised.

    It is wanted by its number, or by a part of its name, or of its platform's name or version (that
    alone says PoCL); an empty text takes the first one. Processors come after all others.
    """
    try:
        cl = library()
    except Exception as error:  # broken installations raise anything
        return None, Availability(False, f"pyopencl cannot be imported, {error}", PIP)
    try:
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
    except cl.Error:
        return None, Availability(False, "there is no OpenCL driver", DRIVERS)
    devices.sort(key=lambda d: (BROKEN in d.platform.version, _is_processor(cl, d)))
    if not devices:
        return None, Availability(False, "the OpenCL drivers have no device", DRIVERS)
    found = _chosen(devices, wanted)
    if found is None:
        names = "; ".join(f"{i}: {title(d)}" for i, d in enumerate(devices))
        reason = f"no OpenCL device is called {wanted!r}"
        return None, Availability(False, reason, f"name one of those there are: {names}")
    if BROKEN in found.platform.version:
        reason = "the PoCL 3.0 that pip installs cannot build kernels for newer processors"
        return None, Availability(False, reason, DRIVERS)
    return found, Availability(True)


def title(device: Any) -> str:
    """The names of a device and its platform."""
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def _chosen(devices: list[Any], wanted: str) -> Any:
    if wanted.isdecimal():
        return devices[int(wanted)] if int(wanted) < len(devices) else None

    def is_wanted(device: Any) -> bool:
        return wanted.lower() in f"{title(device)} {device.platform.version}".lower()

    return next(filter(is_wanted, devices), None)


def _is_processor(cl: Any, device: Any) -> bool:
    return bool(device.type & cl.device_type.CPU)


INTEL, VECTORIZER = "Intel(R) OpenCL", "CL_CONFIG_USE_VECTORIZER"
LEAST = 64  # bytes of a buffer; none may be empty
BUILD_OPTIONS = "-cl-std=CL1.2"
SLOW_LOCAL = 1 << 10  # threads of a group on a processor


@record(eq=False)
class ClArray:
    """An array in the memory of a device, dense and row-major."""

    buffer: Any
    shape: tuple[int, ...]
    dtype: np.dtype
    session: int  # of the machine: in another one the array is lost with the device's context

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize


class ClMachine:
    """A device with one queue, on which all is done in order.

    `lock` is held while commands of one call are put into it.
    """

    def __init__(self, name: str, device: Any) -> None:
        self.name, self.device = name, device
        self.cl: Any = library()
        self.lock = DeviceLock(name)
        self.session = 0
        self.limits = self._limits()
        self._open()
        atexit.register(self._finish)  # drivers crash if they are unloaded while they work

    def _open(self) -> None:
        cl = self.cl
        with translated(self.name, "opening it"):
            self.context = cl.Context([self.device])
            self.queue = cl.CommandQueue(self.context, self.device)
            self.pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(self.queue))
        self._arena: Any = None

    def timed_queue(self) -> Any:
        """Another queue, whose events know when they ran."""
        timed = self.cl.command_queue_properties.PROFILING_ENABLE
        return self.cl.CommandQueue(self.context, self.device, timed)

    def _finish(self) -> None:
        with suppress(self.cl.Error, DeviceLostError), self.lock:  # a forked child has no say here
            self.queue.finish()

    def reopen(self) -> None:
        """Open the device anew, after its context was lost; its arrays are lost with it."""
        with self.lock:
            self.session += 1
            self._open()

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Hold the queue, with errors of rlx for those of the device."""
        with self.lock:
            try:
                with translated(self.name, what):
                    yield
            except DeviceLostError:
                self.reopen()
                raise

    # -- what the device can do ------------------------------------------------------------------

    @property
    def is_processor(self) -> bool:
        """Whether it is the host's processor."""
        return bool(self.device.type & self.cl.device_type.CPU)

    @property
    def keeps_order(self) -> bool:
        """Whether numbers are added in the order that a program says.

        Where Intel's driver for processors makes vectors of a loop it adds in another one, against
        the rules of OpenCL C and whatever its pragmas say.
        """
        is_intel = self.is_processor and self.device.platform.name.strip() == INTEL
        return not is_intel or os.environ.get(VECTORIZER, "").lower() in ("false", "0")

    @property
    def has_doubles(self) -> bool:
        """Whether it has float64."""
        return bool(self.device.double_fp_config)

    def _limits(self) -> Limits:
        """What kernels are written for."""
        device = self.device
        wanted = SLOW_LOCAL if self.is_processor else 256
        threads = min(wanted, int(device.max_work_group_size))
        most = 2**31 - 1
        lanes = int(device.native_vector_width_float) if self.is_processor else 1
        local = int(device.local_mem_size)
        return Limits(threads, (most, most, most), local, self.is_processor, lanes)

    @cached_property
    def keeps_builds(self) -> bool:
        """Whether the driver itself keeps what it built for later processes.

        PoCL would build all kernels a second time, for groups of any size, to give their binaries.
        """
        from pyopencl.characterize import has_src_build_cache

        return bool(has_src_build_cache(self.device))

    def describe(self) -> str:
        """What compiled code depends on."""
        platform = self.device.platform
        facts = (platform.version, self.device.version, self.device.driver_version)
        return " ".join((title(self.device), *facts))

    # -- memory ----------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Any:
        """Memory of the pool, to which it goes back when nobody has it any more."""
        try:
            return self.pool.allocate(max(nbytes, LEAST))
        except self.cl.MemoryError:
            self.pool.free_held()
            return self.pool.allocate(max(nbytes, LEAST))

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> ClArray:
        """An array with whatever is in its memory."""
        nbytes = math.prod(shape) * dtype.itemsize
        return ClArray(self.allocate(nbytes), tuple(shape), dtype, self.session)

    def from_host(self, array: np.ndarray) -> ClArray:
        """Copy an array to the device."""
        array = np.asarray(array, order="C")  # ascontiguousarray gives a number an axis
        with self.doing(f"copying {array.nbytes} bytes to it"):
            made = self.empty(array.shape, array.dtype)
            if array.nbytes:
                flat = array.reshape(-1).view(np.uint8)
                self.cl.enqueue_copy(self.queue, made.buffer, flat, is_blocking=True)
        return made

    def to_host(self, data: ClArray) -> np.ndarray:
        """Copy an array to the host, when all before is done."""
        made = np.empty(data.shape, data.dtype)
        with self.lock:  # or another thread could open the device anew in between
            self.check(data)
            with self.doing(f"copying {made.nbytes} bytes from it"):
                if made.nbytes:
                    flat = made.reshape(-1).view(np.uint8)
                    self.cl.enqueue_copy(self.queue, flat, data.buffer, is_blocking=True)
        return made

    def wait(self, data: ClArray) -> None:
        """Return when an array and all before is done."""
        with self.lock:
            self.check(data)
            with self.doing("waiting for an array"):
                self.queue.finish()

    def check(self, data: ClArray) -> None:
        """Raise if an array was lost with an earlier context."""
        if data.session != self.session:
            raise self.lost_error(f"an array of shape {data.shape}")

    def lost_error(self, what: str) -> DeviceLostError:
        """The error for what was in the memory of an earlier context."""
        return DeviceLostError(
            f"{what} was in the memory of {self.name}, which was lost",
            fix="make the array again from the host's",
        )

    def arena(self, nbytes: int) -> Any:
        """Memory for temporaries: one for all programs that run one after another."""
        if self._arena is None or self._arena.size < nbytes:
            self._arena = None
            self._arena = self.cl.Buffer(
                self.context, self.cl.mem_flags.READ_WRITE, max(nbytes, LEAST)
            )
        return self._arena

    # -- kernels ---------------------------------------------------------------------------------

    def build(self, text: str) -> Any:
        """Compile a text, or read what an earlier process compiled."""
        cl, disk = self.cl, None if self.keeps_builds else disk_cache()
        key = hashed("opencl", text, self.describe(), BUILD_OPTIONS, cl.VERSION_TEXT)
        known = disk.get(key) if disk else None
        if disk and known is not None:
            try:
                return cl.Program(self.context, [self.device], [known]).build(BUILD_OPTIONS)
            except cl.Error:  # of a driver that has changed without telling
                disk.remove(key)
        program = self.build_text(text)
        if disk:
            disk.put(key, program.get_info(cl.program_info.BINARIES)[0])
        return program

    def build_text(self, text: str) -> Any:
        """Compile a text."""
        try:
            with warnings.catch_warnings():  # of remarks that a compiler makes on what it did
                warnings.simplefilter("ignore", self.cl.CompilerWarning)
                return self.cl.Program(self.context, text).build(BUILD_OPTIONS)
        except self.cl.RuntimeError as error:
            raise KernelBuildError(
                f"{self.name} cannot build the kernels of this function",
                notes=str(error).splitlines()[:20],
                fix="report this with the text, compiled.stages['opencl']; device='cpu' runs it "
                "meanwhile",
            ) from error


class Queued:
    """A built program: puts launches into the queue of its machine."""

    def __init__(self, machine: ClMachine, program: Any, timed: bool = False) -> None:
        self.machine, self.program, self.name = machine, program, machine.name
        self.session = machine.session
        self.queue = machine.timed_queue() if timed else machine.queue
        self.bound: dict[Launch, _Bound] = {}

    def launch(self, launch: Launch, places: Sequence[Place]) -> Any:
        """Run a kernel, its arrays at these places; gives its event."""
        bound = self.bind(launch)
        bound.set(places)
        return self.enqueue(bound.kernel, bound.threads, bound.group)

    def enqueue(self, kernel: Any, threads: Sequence[int], group: Sequence[int]) -> Any:
        """Put a kernel into the queue; gives its event."""
        cl = self.machine.cl
        return cl.enqueue_nd_range_kernel(self.queue, kernel, threads, group)

    def spans(self, events: Sequence[Any]) -> list[tuple[int, int]]:
        """When each began and ended, in nanoseconds of the device; all before is done."""
        self.queue.finish()
        return [(event.profile.start, event.profile.end) for event in events]

    def bind(self, launch: Launch) -> _Bound:
        """The kernel of a launch, which remembers its arguments."""
        bound = self.bound.get(launch)
        if bound is None:
            kernel = self.machine.cl.Kernel(self.program, launch.kernel.name)
            bound = self.bound[launch] = _Bound.of(launch, kernel)
        return bound

    def copy(self, origin: Place, target: Place, dtype: np.dtype, count: int) -> Any:
        """Copy so many numbers of a dtype; gives the event."""
        size = dtype.itemsize
        return self.machine.cl.enqueue_copy(
            self.queue,
            target.memory,
            origin.memory,
            byte_count=count * size,
            src_offset=origin.start * size,
            dst_offset=target.start * size,
        )

    def read(self, place: Place, dtype: np.dtype, count: int) -> np.ndarray:
        """Copy numbers to the host, when all before is done."""
        made = np.empty(count, dtype)
        if count:
            start = place.start * dtype.itemsize
            self.machine.cl.enqueue_copy(
                self.queue,
                made.view(np.uint8),
                place.memory,
                src_offset=start,
                is_blocking=True,
            )
        return made

    def write(self, place: Place, array: np.ndarray) -> None:
        """Copy a flat array to the device."""
        self.machine.cl.enqueue_copy(
            self.queue,
            place.memory,
            np.ascontiguousarray(array).view(np.uint8),
            dst_offset=place.start * array.dtype.itemsize,
            is_blocking=True,
        )

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Let other threads have the device for a block; raises if it was lost meanwhile."""
        with self.machine.lock.let_go():
            yield
        if self.session != self.machine.session:
            raise self.machine.lost_error("the temporaries of a call that was under way")


@record(frozen=False)
class _Bound:
    """A kernel with its arguments; those that stay from call to call are set once."""

    kernel: Any
    threads: tuple[int, int, int]
    group: tuple[int, int, int]
    offsets: tuple[int | None, ...]  # the argument that counts what lies before each array
    changes: tuple[bool, ...]  # whether the array is another one in each call
    last: list[Place | None]

    @classmethod
    def of(cls, launch: Launch, kernel: Any) -> _Bound:
        """A kernel with its numbers, which no call changes."""
        signature = launch.kernel.signature
        group = signature.threads
        threads = tuple(n * m for n, m in zip(launch.groups, group, strict=True))
        count = len(signature.parameters)
        offsets: list[int | None] = []
        for parameter in signature.parameters:
            offsets.append(count if parameter.has_offset else None)
            count += parameter.has_offset
        for number in launch.numbers:
            kernel.set_arg(count, np.int32(number))
            count += 1
        changes = tuple(b.kind in ("input", "output") for b in launch.buffers)
        last: list[Place | None] = [None] * len(changes)
        return cls(kernel, threads, group, tuple(offsets), changes, last)  # type: ignore[arg-type]

    def set(self, places: Sequence[Place]) -> None:
        """Set the arguments that changed."""
        for number, place in enumerate(places):
            last = self.last[number]
            if last is not None and last.memory is place.memory and last.start == place.start:
                continue
            if place.memory is not None:
                self.kernel.set_arg(number, place.memory)
            offset = self.offsets[number]
            if offset is not None:
                self.kernel.set_arg(offset, np.int64(place.start))
            if not self.changes[number]:
                self.last[number] = place


# -- what PyOpenCL raises, as errors of rlx --------------------------------------------------------

MEMORY = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE")
LOST = ("DEVICE_NOT_AVAILABLE", "INVALID_COMMAND_QUEUE", "INVALID_CONTEXT", "OUT_OF_RESOURCES")


@contextmanager
def translated(device: str, doing: str) -> Iterator[None]:
    """Raise errors of rlx for those of PyOpenCL."""
    cl = library()
    try:
        yield
    except cl.Error as error:
        said = str(error)
        if isinstance(error, cl.MemoryError) or any(name in said for name in MEMORY):
            raise DeviceMemoryError(
                f"{device} has not enough memory for {doing}",
                notes=[said],
                fix="drop arrays that are no longer needed, or use a smaller batch",
            ) from error
        if any(name in said for name in LOST):
            raise DeviceLostError(
                f"{device} was lost at {doing}",
                notes=[said],
                fix="call again: the device is opened anew; make its arrays again from the host's",
            ) from error
        raise DeviceFailure(
            f"{device} failed at {doing}: {said}",
            fix="report this with the program; device='cpu' runs it meanwhile",
        ) from error
