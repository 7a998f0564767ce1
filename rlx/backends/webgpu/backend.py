"""The WebGPU device as the runtime sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ...ir.graph import Graph
from ...ir.types import DTYPES
from ...lower.cost import work
from ...lower.pipeline import lower
from ...lower.target import FLOATS, NUMBERS, Target
from ..backend import Availability, Backend, Executable
from ..c_like.dialect import Limits
from ..c_like.plan import Plan, plan
from ..c_like.report import report
from ..device_entry import device_executable
from . import adapters
from .device import Device
from .few_arrays import few_arrays
from .memory import Data, WebgpuMemory
from .program import Loaded
from .wgsl import Wgsl

THREADS = 64  # of a group: two or one of those that hardware runs at once
MOST_RANKED = 64
MOST_ARRAYS = "max-storage-buffers-per-shader-stage"
NEEDS = {
    "shader-int64": frozenset(("int64", "uint64")),
    "shader-f64": frozenset(("float64", "complex128")),
}
"""The dtypes that a device has only with a feature of its adapter."""


class WebgpuBackend(Backend):
    """Compiles graphs for the best adapter that a name asks for.

    `webgpu` takes any, `vulkan` and `webgpu:metal` one of an interface, `webgpu:nvidia` one by a
    part of its name.
    """

    def __init__(self, name: str = "webgpu", which: str = "") -> None:
        self.name = f"{name}:{which}" if which else name
        self.memory: WebgpuMemory = WebgpuMemory(self.name, lambda: self.device)

    def availability(self) -> Availability:
        """Whether wgpu finds an adapter."""
        return adapters.availability(self.name)

    def description(self) -> str:
        """The adapter, its interface and the library's version."""
        return adapters.description(self.name)

    @cached_property
    def _device(self) -> Device:
        return Device(self.name)

    @property
    def device(self) -> Device:
        """The open adapter, opened anew if it was lost."""
        self._device.reopen()
        return self._device

    @cached_property
    def target(self) -> Target:  # type: ignore[override]
        """What lowering must know of the adapter."""
        missing = [NEEDS[feature] for feature in NEEDS if feature not in self.device.features]
        absent = frozenset[str]().union(*missing)
        return Target(
            self.name,
            stored=frozenset(DTYPES) - absent,
            native=frozenset((*NUMBERS, *FLOATS)) - absent,
            contracted=frozenset((*FLOATS, "int32", "int64", "uint32", "uint64")) - absent,
            most_ranked=MOST_RANKED,
            has_sort=True,
            has_symbolic_sizes=False,
        )

    @cached_property
    def dialect(self) -> Wgsl:
        """The language of kernels, with what the adapter can do at once."""
        most = self.device.limits["max-compute-workgroups-per-dimension"]
        local = self.device.limits["max-compute-workgroup-storage-size"]
        shares = not self.device.is_processor
        limits = Limits(THREADS, (most, most, most), local, shares=shares)
        return Wgsl(limits, self.device.layout)

    def compiled_for(self) -> object:
        """The adapter, by its name and interface."""
        return self.name, self.description()

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Lower a graph and write its kernels; they are compiled when they first run."""
        lowered = lower(graph, target or self.target, check)
        few_arrays(lowered.program, self.device.limits[MOST_ARRAYS] - 1)  # one for the numbers
        made = plan(lowered.program, self.dialect)
        compiled = _Compiled(self, made)
        executable = device_executable(graph, array, self.memory, compiled.run)
        executable.make_stages = lambda: {**lowered.stages, "wgsl": text_of(made)}
        executable.make_report = lambda: report(lowered, made)
        executable.constant_bytes = sum(
            b.nbytes for p in made.program.programs for b in p.constants
        )
        executable.program, executable.work = made.program, lambda: work(made.program)
        return executable


class _Compiled:
    """A plan that is put into the device's memory when it runs, again if lost."""

    def __init__(self, backend: WebgpuBackend, made: Plan) -> None:
        self.backend, self.plan = backend, made
        self.what = f"running {made.program.name}"
        self.loaded: Loaded | None = None

    def run(self, inputs: Sequence[Data]) -> list[Data]:
        """Run the program on arrays of the device."""
        device = self.backend.device
        what = self.what
        with device.lock, device.guarded(what):
            if any(data.generation != device.generation for data in inputs):
                raise device.lost_error(what)
            if self.loaded is None or self.loaded.generation != device.generation:
                self.loaded = Loaded(device, self.plan)
            return self.loaded.run(inputs)


def text_of(made: Plan) -> str:
    """The shaders of a plan, each a text of its own."""
    return "\n".join(f"// {k.name}\n{made.module(k)}" for k in made.kernels)
