"""An adapter that is open: its memory, its pipelines, and the work handed to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir.errors import (
    DeviceFailure,
    DeviceLostError,
    DeviceMemoryError,
    KernelBuildError,
    RlxError,
)
from ...ir.record import record
from ..locks import DeviceLock
from . import adapters
from .blocks import Block, Pool
from .layout import Layout

TIMESTAMPS = "timestamp-query"
FEATURES = ("shader-int64", "shader-f64", "shader-f16", "subgroup", TIMESTAMPS)
LIMITS = (
    "max-storage-buffer-binding-size",
    "max-buffer-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
)
"""What is asked of an adapter as far as it has it: more than WebGPU promises everywhere."""

ARRAYS = "max-storage-buffers-per-shader-stage"
MOST_ARRAYS = 64  # of a kernel: its numbers, one for each array, lie in 256 bytes

LOST = ("lost", "destroyed")  # what errors say of a device that is gone


class Region(NamedTuple):
    """Some bytes of a buffer, from a multiple of 256 on."""

    buffer: Any
    start: int
    nbytes: int

    @property
    def resource(self) -> dict[str, Any]:
        """What a bind group says of it: at least one word."""
        size = max(whole_words(self.nbytes), 8)
        return {"buffer": self.buffer, "offset": self.start, "size": size}


@record(eq=False)
class Pipeline:
    """A compiled kernel, with the layout of what is bound to it."""

    handle: Any
    layout: Any


class Device:
    """An open adapter.

    When it is lost, `generation` grows with the next use: it is then opened anew, and what was in
    its memory is gone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = DeviceLock(name)
        self.generation = -1
        self._is_lost = True
        self._opened: list[Any] = []  # kept when lost: a forked child that frees one waits forever
        self.reopen()

    def reopen(self) -> None:
        """Open the adapter again if it was lost."""
        if not self._is_lost:
            return
        with self.lock:
            if not self._is_lost:
                return
            adapter = adapters.choose(self.name)
            assert adapter is not None, f"{self.name} was said to be available"
            features = [f for f in FEATURES if f in adapter.features]
            limits = {name: adapter.limits[name] for name in LIMITS if name in adapter.limits}
            self.handle = adapter.request_device_sync(
                required_features=features, required_limits=limits
            )
            self._opened.append(self.handle)
            self.features = frozenset(features)
            self.layout = Layout("shader-f16" in features)
            self.subgroup = adapters.subgroup(adapter)
            self.is_processor = adapter.info["adapter_type"] == "CPU"
            self.limits = dict(self.handle.limits)
            self.limits[ARRAYS] = min(self.limits[ARRAYS], MOST_ARRAYS)
            self.queue = self.handle.queue
            self.pool = Pool(self._make_buffer)
            self._pipelines: dict[str, Pipeline] = {}
            self._is_lost = False
            self.generation += 1

    def _make_buffer(self, size: int) -> Any:
        from wgpu import BufferUsage

        usage = BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST
        return self.handle.create_buffer(size=size, usage=usage)

    def guarded(self, what: str) -> Guarded:
        """Give errors of the library the names that rlx has for them."""
        return Guarded(self, what)

    def error_of(self, error: BaseException, what: str) -> RlxError | None:
        """What rlx calls an error; None for those that the library does not raise."""
        import wgpu

        if isinstance(error, wgpu.GPUOutOfMemoryError):
            return DeviceMemoryError(
                f"{what}: {self.name} has no memory left",
                notes=[_first_line(error)],
                fix="use smaller arrays, or drop arrays that are no longer needed",
            )
        if not isinstance(error, wgpu.GPUError):
            return None
        if not _tells_loss(error):
            return DeviceFailure(
                f"{what}: {self.name} failed",
                notes=[_first_line(error)],
                fix='report this with the program; device="cpu" runs it meanwhile',
            )
        self._is_lost = True
        return self.lost_error(what)

    def lost_error(self, what: str) -> DeviceLostError:
        """The error for what lay in the memory of a device that is gone."""
        return DeviceLostError(
            f"{what}: the device {self.name} was lost, with all that lay in its memory",
            fix="call again with arrays of the host; the device is then opened anew",
        )

    # -- memory ----------------------------------------------------------------------------------

    def take(self, nbytes: int, what: str) -> Block:
        """A block of memory for something."""
        most = self.limits["max-buffer-size"]
        if nbytes > most:
            raise DeviceMemoryError(
                f"{what}: {nbytes} bytes are more than a buffer of {self.name} can have",
                notes=[f"its limit max-buffer-size is {most}"],
                fix="split the array, or run on another device",
            )
        with self.lock:
            free = self.pool.reuse(nbytes)
            if free is not None:
                return free
            with self.guarded(what):
                return self.pool.make(nbytes)

    def check_binding(self, nbytes: int, what: str) -> None:
        """Raise if a kernel cannot reach so many bytes at once."""
        most = self.limits["max-storage-buffer-binding-size"]
        if nbytes > most:
            raise DeviceMemoryError(
                f"{what}: kernels of {self.name} cannot reach {nbytes} bytes at once",
                notes=[f"its limit max-storage-buffer-binding-size is {most}"],
                fix="split the array, or run on another device",
            )

    def write(self, region: Region, words: np.ndarray, what: str) -> None:
        """Copy words to the device, behind all work handed in before.

        If half a word is left, the other half is 0 then.
        """
        if words.nbytes % 4:
            words = np.append(words, words.dtype.type(0))
        if words.nbytes:
            with self.lock, self.guarded(what):
                self.queue.write_buffer(region.buffer, region.start, words)

    def read(self, region: Region, what: str) -> np.ndarray:
        """Copy bytes from the device when all work handed in before is done."""
        if not region.nbytes:
            return np.empty(0, np.uint8)
        before = region.start % 4
        nbytes = whole_words(before + region.nbytes)
        with self.lock, self.guarded(what):
            raw = self.queue.read_buffer(region.buffer, region.start - before, nbytes)
        return np.frombuffer(raw, np.uint8)[before : before + region.nbytes]

    # -- kernels ---------------------------------------------------------------------------------

    def pipeline(self, text: str, entry: str, arrays: int, has_numbers: bool) -> Pipeline:
        """The compiled kernel of a text, given so many arrays and perhaps numbers."""
        with self.lock:
            found = self._pipelines.get(text)
            if found is None:
                layout = self._layout(arrays, has_numbers, entry)
                with self.guarded(f"compiling {entry}"):
                    found = self._pipelines[text] = self._compile(text, entry, layout)
            return found

    def _layout(self, arrays: int, has_numbers: bool, entry: str) -> list[dict[str, Any]]:
        most = self.limits["max-storage-buffers-per-shader-stage"]
        if arrays + has_numbers > most:
            raise KernelBuildError(
                f"{entry}: a kernel of this program needs {arrays + has_numbers} arrays at once",
                notes=[f"{self.name} binds at most {most} (max-storage-buffers-per-shader-stage)"],
                fix="concatenate some arrays first, or run on another device",
            )
        kinds = [{"type": "storage"}] * arrays
        kinds += [{"type": "storage", "has_dynamic_offset": True}] * has_numbers
        return [{"binding": i, "visibility": 4, "buffer": kind} for i, kind in enumerate(kinds)]

    def _compile(self, text: str, entry: str, entries: list[dict[str, Any]]) -> Pipeline:
        import wgpu

        try:
            layout = self.handle.create_bind_group_layout(entries=entries)
            whole = self.handle.create_pipeline_layout(bind_group_layouts=[layout])
            module = self.handle.create_shader_module(code=text)
            stage = {"module": module, "entry_point": entry}
            handle = self.handle.create_compute_pipeline(layout=whole, compute=stage)
        except wgpu.GPUError as error:
            if isinstance(error, wgpu.GPUOutOfMemoryError) or _tells_loss(error):
                raise
            raise KernelBuildError(
                f"{entry}: {self.name} does not compile this kernel",
                notes=str(error).strip().splitlines()[:20],
                fix="report it with the stage `wgsl` of the compiled function; "
                "run the function on another device meanwhile",
            ) from error
        return Pipeline(handle, layout)

    def bind(self, pipeline: Pipeline, regions: Sequence[Region]) -> Any:
        """What binds memory to a kernel."""
        entries = [{"binding": i, "resource": r.resource} for i, r in enumerate(regions)]
        return self.handle.create_bind_group(layout=pipeline.layout, entries=entries)


class Guarded:
    """A block in which errors of the library become those of rlx.

    A class, for a generator takes longer to enter than a short call.
    """

    __slots__ = ("device", "what")

    def __init__(self, device: Device, what: str) -> None:
        self.device, self.what = device, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        found = error and self.device.error_of(error, self.what)
        if found:
            raise found from error


def whole_words(nbytes: int) -> int:
    """The bytes of the words that hold so many.

    >>> whole_words(6)
    8
    """
    return -(-nbytes // 4) * 4


def _tells_loss(error: BaseException) -> bool:
    return any(word in str(error).lower() for word in LOST)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
