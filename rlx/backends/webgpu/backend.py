"""The WebGPU device as the runtime sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ...ir.graph import Graph
from ...lower.lir.access import reads, writes
from ...lower.lir.program import Program, nested_programs
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..c_like.dialect import Limits
from ..c_like.executable import kernel_executable, kernel_target
from ..c_like.plan import Plan, plan
from ..locks import opening
from . import adapters
from .device import Device
from .few_arrays import few_arrays
from .machine import Loaded
from .memory import Data, WebgpuMemory
from .places import nbytes_of, place_temporaries
from .wgsl import Wgsl

THREADS = 64  # of a group: two or one of those that hardware runs at once
MOST_ARRAYS = "max-storage-buffers-per-shader-stage"
WORDS = {
    "input": "an argument",
    "output": "a result",
    "constant": "a constant",
    "temporary": "a temporary",
}
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
        self._device: Device | None = None
        self.memory: WebgpuMemory = WebgpuMemory(self.name, lambda: self.device)

    def availability(self) -> Availability:
        """Whether wgpu finds an adapter."""
        return adapters.availability(self.name)

    def shortest_name(self) -> str:
        """`webgpu` for the best of all adapters."""
        is_best = adapters.choose(self.name) is adapters.choose("webgpu")
        return "webgpu" if is_best else self.name

    def description(self) -> str:
        """The adapter, its interface and the library's version."""
        return adapters.description(self.name)

    @property
    def device(self) -> Device:
        """The open adapter, opened anew if it was lost."""
        device = self._device
        if device is None:
            with opening:
                device = self._device = self._device or Device(self.name)
        device.reopen()
        return device

    @cached_property
    def target(self) -> Target:  # type: ignore[override]
        """What lowering must know of the adapter."""
        missing = [NEEDS[feature] for feature in NEEDS if feature not in self.device.features]
        absent = frozenset[str]().union(*missing)
        return kernel_target(self.name, absent)

    @cached_property
    def dialect(self) -> Wgsl:
        """The language of kernels, with what the adapter can do at once."""
        most = self.device.limits["max-compute-workgroups-per-dimension"]
        local = self.device.limits["max-compute-workgroup-storage-size"]
        shares = not self.device.is_processor
        lanes = self.device.subgroup
        limits = Limits(THREADS, (most, most, most), local, shares=shares, subgroup=lanes)
        return Wgsl(limits, self.device.layout, self.name)

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
        return kernel_executable(
            graph,
            array,
            self.memory,
            target or self.target,
            write=self._written,
            load=lambda made: _Compiled(self, made),
            show=lambda made: {"wgsl": text_of(made)},
            check=check,
        )

    def _written(self, program: Program) -> Plan:
        few_arrays(program, self.device.limits[MOST_ARRAYS] - 1)  # one for the numbers
        self._check_sizes(program)
        return plan(program, self.dialect)

    def _check_sizes(self, program: Program) -> None:
        """Raise if kernels cannot reach an array: they could not count its elements either."""
        for part in program.programs:
            steps = (s for s in part.steps if not nested_programs(s))
            used = [b for s in steps for b in (*reads(s), *writes(s))]
            for b in (*part.inputs, *part.outputs, *used):
                what = f"{WORDS[b.kind]} of {program.name}, {b.type}"
                self.device.check_binding(nbytes_of(b, self.device.layout), what)


class _Compiled:
    """A plan that is put into the device's memory when it runs, again if lost."""

    def __init__(self, backend: WebgpuBackend, made: Plan) -> None:
        self.backend, self.plan = backend, made
        self.offsets, self.arena_bytes = place_temporaries(made, backend.device.layout)
        self.what = f"running {made.program.name}"
        self.loaded: Loaded | None = None

    def report_lines(self) -> Sequence[str]:
        """Nothing beside what is told of all devices."""
        return ()

    def run(self, inputs: Sequence[Data]) -> list[Data]:
        """Run the program on arrays of the device."""
        device = self.backend.device
        what = self.what
        with device.lock, device.guarded(what):
            device.reopen()  # if another thread lost it in between
            if any(data.generation != device.generation for data in inputs):
                raise device.lost_error(what)
            if self.loaded is None or self.loaded.generation != device.generation:
                self.loaded = Loaded(device, self.plan, self.offsets, self.arena_bytes)
            return self.loaded.run(inputs)


def text_of(made: Plan) -> str:
    """The shaders of a plan, each a text of its own."""
    return "\n".join(f"// {k.name}\n{made.module(k)}" for k in made.kernels)
