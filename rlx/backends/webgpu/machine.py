"""What a runner of programs does on a device: recorded, and handed in at once.

Work is handed in when a call ends, and before the host must know a number: which branch is taken,
whether a loop goes on, what an op without kernels is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...lower.lir.program import Buffer
from ..c_like.plan import KernelText, Launch, Plan
from ..c_like.runner import Place, Places, Runner
from ..c_like.timers import CallTimer, StepTimers
from .blocks import Block
from .device import Device, Pipeline, Region
from .layout import nbytes_of
from .memory import Data, Form, new_data
from .timestamps import Timestamps

SLAB = 4096  # rows of numbers in a block
ROW = 256  # bytes from one row to the next
MOST_GROUPS = 4096  # bindings that are kept for later calls
MOST = 65535  # groups of threads along an axis
COPIED = 256  # words that a group copies
COPY = """\
@group(0) @binding(0) var<storage, read_write> origin: array<WORD>;
@group(0) @binding(1) var<storage, read_write> words: array<WORD>;
@group(0) @binding(2) var<storage, read_write> numbers: array<i32>;

@compute @workgroup_size(256, 1, 1)
fn copy(
  @builtin(workgroup_id) group_id: vec3<u32>,
  @builtin(local_invocation_id) thread_id: vec3<u32>,
) {
  let i = i32((group_id.y * 65535u + group_id.x) * 256u + thread_id.x);
  if (i < numbers[2]) { words[numbers[1] + i] = origin[numbers[0] + i]; }
}
"""
COPY_WORDS = COPY.replace("WORD", "u32")
COPY_HALVES = "enable f16;\n" + COPY.replace("WORD", "f16")


class Numbers:
    """Rows of numbers that kernels are given, each written once."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.rows: dict[tuple[int, ...], tuple[Region, int]] = {}
        self.slabs: list[Block] = []

    def row(self, numbers: tuple[int, ...]) -> tuple[Region, int]:
        """The block where numbers lie, and the byte from which on they do."""
        found = self.rows.get(numbers)
        if found is None:
            at = len(self.rows) % SLAB
            if at == 0:
                self.slabs.append(self.device.take(SLAB * ROW, "numbers of kernels"))
            buffer = self.slabs[-1].buffer
            words = np.array(numbers, np.int32)
            self.device.write(Region(buffer, at * ROW, words.nbytes), words, "numbers")
            found = self.rows[numbers] = (Region(buffer, 0, ROW), at * ROW)
        return found


class Kernels:
    """The kernels of a plan, compiled when they first run, and their bindings."""

    def __init__(self, device: Device, plan: Plan) -> None:
        self.device, self.plan = device, plan
        self.numbers = Numbers(device)
        self.pipelines: dict[KernelText, Pipeline] = {}
        self.groups: dict[tuple, Any] = {}

    def pipeline(self, kernel: KernelText) -> Pipeline:
        """A kernel, compiled."""
        found = self.pipelines.get(kernel)
        if found is None:
            parameters = kernel.signature.parameters
            has_numbers = any(p.has_offset for p in parameters) or bool(kernel.signature.numbers)
            text = self.plan.module(kernel)
            found = self.device.pipeline(text, kernel.name, len(parameters), has_numbers)
            self.pipelines[kernel] = found
        return found

    def copier(self, size: int) -> Pipeline:
        """The kernel that copies words, or halves of words if their size is 2 bytes."""
        return self.device.pipeline(COPY_HALVES if size == 2 else COPY_WORDS, "copy", 2, True)

    def bound(self, pipeline: Pipeline, regions: Sequence[Region]) -> Any:
        """A kernel's binding to memory."""
        key = (pipeline, *regions)
        group = self.groups.get(key)
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                self.groups.clear()
            group = self.groups[key] = self.device.bind(pipeline, regions)
        return group


class WebgpuMachine:
    """Records the work of one call, perhaps with timestamps around each kernel."""

    def __init__(self, device: Device, kernels: Kernels, timed: bool = False) -> None:
        self.device, self.kernels, self.name = device, kernels, device.name
        self._timestamps = Timestamps(device) if timed else None
        self._encoder: Any = None
        self._pass: Any = None

    def launch(self, launch: Launch, places: Sequence[Place]) -> int | None:
        """Run a kernel."""
        pipeline = self.kernels.pipeline(launch.kernel)
        given = zip(launch.kernel.signature.parameters, places, strict=True)
        starts = [place.start for parameter, place in given if parameter.has_offset]
        numbers = (*starts, *launch.numbers)
        memories = [place.memory for place in places]
        return self._dispatch(pipeline, memories, numbers, launch.groups)

    def _dispatch(
        self,
        pipeline: Pipeline,
        regions: list[Region],
        numbers: tuple[int, ...],
        groups: tuple[int, int, int],
    ) -> int | None:
        """Record a kernel; gives the number of its timestamps, if it is timed."""
        offsets = []
        if numbers:
            slab, offset = self.kernels.numbers.row(numbers)
            regions.append(slab)
            offsets.append(offset)
        group = self.kernels.bound(pipeline, regions)
        number = None
        if self._pass is None:
            self._encoder = self._encoder or self.device.handle.create_command_encoder()
            told: Any = None
            if self._timestamps is not None:
                told, number = self._timestamps.take()
            self._pass = self._encoder.begin_compute_pass(timestamp_writes=told)
        self._pass.set_pipeline(pipeline.handle)
        self._pass.set_bind_group(0, group, offsets)
        self._pass.dispatch_workgroups(*groups)
        if number is not None:
            self._end_pass()  # the next kernel has its own
        return number

    def spans(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """When each kernel began and ended, in nanoseconds; all is done then."""
        self.submit()
        found = self._timestamps.spans() if self._timestamps is not None else []
        return [found[number] for number in numbers]

    def _end_pass(self) -> None:
        if self._pass is not None:
            self._pass.end()
            self._pass = None

    def copy(self, origin: Place, target: Place, dtype: np.dtype, count: int) -> int | None:
        """Copy so many numbers of a dtype.

        The library copies between two buffers only, and never inside of a pass; a kernel can.
        """
        size = self.device.layout.word(dtype).itemsize
        words = max(size // 4, 1)
        numbers = (origin.start * words, target.start * words, count * words)
        groups = -(-count * words // COPIED)
        rows = -(-groups // MOST)
        return self._dispatch(
            self.kernels.copier(size),
            [origin.memory, target.memory],
            numbers,
            (min(groups, MOST), rows, 1),
        )

    def read(self, place: Place, dtype: np.dtype, count: int) -> np.ndarray:
        """Copy numbers to the host, when all before is done."""
        self.submit()
        layout = self.device.layout
        raw = self.device.read(part(place, layout.word(dtype), count), "reading")
        return layout.numbers(raw, dtype)

    def write(self, place: Place, array: np.ndarray) -> None:
        """Copy a flat array to the device."""
        self.submit()
        words = self.device.layout.words(array)
        region = part(place, words.dtype, words.size)
        before, after = region.start % 4, -(region.start + region.nbytes) % 4
        if before or after:  # halves of words, whose other halves stay
            region = Region(region.buffer, region.start - before, before + region.nbytes + after)
            whole = self.device.read(region, "reading").view(words.dtype).copy()
            whole[before // 2 : before // 2 + words.size] = words
            words = whole
        self.device.write(region, words, "writing")

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Let other threads have the device for a block; raises if it was lost meanwhile."""
        generation = self.device.generation
        with self.device.lock.let_go():
            yield
        if generation != self.device.generation:
            raise self.device.lost_error("going on after a function of the host")

    def submit(self) -> None:
        """Hand in what was recorded."""
        self._end_pass()
        if self._encoder is not None:
            commands = self._encoder.finish()
            self._encoder = None
            self.device.queue.submit([commands])


def part(place: Place, word: np.dtype, count: int) -> Region:
    """Some words of a region."""
    size = word.itemsize
    region: Region = place.memory
    return Region(region.buffer, region.start + place.start * size, count * size)


# -- A program in the memory of an open device -----------------------------------------------------


class Loaded:
    """A plan with its constants and its memory for temporaries on a device."""

    def __init__(self, device: Device, plan: Plan, offsets: dict[Buffer, int], nbytes: int) -> None:
        self.device, self.plan = device, plan
        self.generation = device.generation
        self.kernels = Kernels(device, plan)
        self.forms = [Form.of(b.type.shape, b.dtype, device) for b in plan.program.outputs]  # type: ignore[arg-type]
        self.blocks: list[Block] = []  # kept as long as the program is
        self.constants = {}
        for program in plan.program.programs:
            for buffer in program.constants:
                assert buffer.array is not None, f"{buffer} has no numbers"
                words = device.layout.words(buffer.array)
                region = self._take(words.nbytes, "a constant")
                device.write(region, words, "a constant")
                self.constants[buffer] = Place(region)
        self.offsets, self.nbytes = offsets, nbytes
        self.whole, self.owned = self._temporaries()

    def _temporaries(self) -> tuple[Block, Places]:
        """Memory for all temporaries, and where in it each lies."""
        block = self.device.take(self.nbytes, f"the temporaries of {self.plan.program.name}")
        sizes = {b: nbytes_of(b, self.device.layout) for b in self.offsets}
        return block, {
            b: Place(Region(block.buffer, at, sizes[b])) for b, at in self.offsets.items()
        }

    def _take(self, nbytes: int, what: str) -> Region:
        block = self.device.take(nbytes, what)
        self.blocks.append(block)
        return Region(block.buffer, 0, nbytes)

    def run(self, inputs: Sequence[Data], timers: StepTimers | None = None) -> list[Data]:
        """Run the program; what it does is handed in, and done only if it is timed."""
        outputs = [new_data(self.device, form) for form in self.forms]
        machine = WebgpuMachine(self.device, self.kernels, timers is not None)
        timer = None if timers is None else CallTimer(timers)
        # another call may begin while the host computes, even by this thread
        _kept, owned = self._temporaries() if self.plan.calls_host else (self.whole, self.owned)
        runner = Runner(self.plan, machine, self.constants, owned)
        given, taken = ([Place(d.region) for d in datas] for datas in (inputs, outputs))
        runner.run(given, taken, None, timer)
        machine.submit()
        if timer is not None:
            timer.finish(machine.spans)
        return outputs
