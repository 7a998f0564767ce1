"""The WebGPU device as the runtime sees it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from ...ir.graph import Graph
from ...ir.record import replace
from ...ir.types import Type
from ...lower.lir.access import reads, writes
from ...lower.lir.expr import Expr, Load, load, substitute
from ...lower.lir.index import Index, Variable, as_index
from ...lower.lir.program import Buffer, Kernel, Program, RowGroup, Step, Store, nested_programs
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..c_like.dialect import Limits
from ..c_like.executable import kernel_executable, kernel_target, limits_for
from ..c_like.plan import Plan, plan
from ..c_like.products import ALONE, TILE
from ..c_like.timers import StepTimers
from ..locks import opening
from . import adapters
from .device import TIMESTAMPS, Device
from .layout import nbytes_of, place_temporaries
from .machine import Loaded
from .memory import Data, WebgpuMemory
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

    has_arena = True

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
        # a thread that shares nothing computes an operand for its own block alone
        most_uses = TILE if self.limits.shares else 3 * ALONE[0]
        return kernel_target(self.name, absent, most_uses)

    @cached_property
    def invariant_target(self) -> Target:  # type: ignore[override]
        """The target whose sums go in one order; WGSL lets drivers change it."""
        return replace(self.target, batch_invariant=True)

    @property  # of others it is known for all adapters, so there it is no property
    def has_timers(self) -> bool:  # type: ignore[override]
        """Whether the adapter writes timestamps."""
        return TIMESTAMPS in self.device.features

    @cached_property
    def limits(self) -> Limits:
        """What the adapter can do at once."""
        most = self.device.limits["max-compute-workgroups-per-dimension"]
        local = self.device.limits["max-compute-workgroup-storage-size"]
        shares = not self.device.is_processor
        lanes = self.device.subgroup
        return Limits(THREADS, (most, most, most), local, shares=shares, subgroup=lanes)

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
        target = target or self.target
        dialect = Wgsl(limits_for(target, self.limits), self.device.layout, self.name)
        return kernel_executable(
            graph,
            array,
            self.memory,
            target,
            write=lambda program: self._written(program, dialect),
            load=lambda made, timers: _Compiled(self, made, timers),
            show=lambda made: {"wgsl": text_of(made)},
            check=check,
        )

    def _written(self, program: Program, dialect: Wgsl) -> Plan:
        few_arrays(program, self.device.limits[MOST_ARRAYS] - 1)  # one for the numbers
        self._check_sizes(program)
        return plan(program, dialect)

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

    def __init__(self, backend: WebgpuBackend, made: Plan, timers: StepTimers | None) -> None:
        self.backend, self.plan, self.timers = backend, made, timers
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
            return self.loaded.run(inputs, self.timers)


def text_of(made: Plan) -> str:
    """The shaders of a plan, each a text of its own."""
    return "\n".join(f"// {k.name}\n{made.module(k)}" for k in made.kernels)


# -- kernels within the number of arrays that a device binds to one --------------------------------


def few_arrays(program: Program, most: int) -> None:
    """Let no kernel of a program, nor of a nested one, need more than `most` arrays.

    before: `kernel i < 4: z[i] = a[i] + b[i] + c[i]` for three arrays at most; after:
    `kernel i < 4: p[i] = b[i]`, `kernel i < 4: p[i + 4] = c[i]`, and the kernel reads `p` where it
    read `b` and `c`. Sets `Program.steps`.
    """
    for each in program.programs:
        names = (f"p{n}" for n in itertools.count())
        each.steps = [part for step in each.steps for part in _with_few(step, most, names)]


def _with_few(step: Step, most: int, names: Iterator[str]) -> Iterator[Step]:
    if isinstance(step, RowGroup):
        if _count(step) <= most:
            yield step
            return
        for k in step.kernels:
            flat = Kernel((*step.loops, *k.loops), k.stores, k.source)
            yield from _with_few(flat, most, names)
    elif isinstance(step, Kernel) and _count(step) > most:
        yield from _packed(step, most, names)
    else:
        yield step


def _count(step: Kernel | RowGroup) -> int:
    return len({*reads(step), *writes(step)})


def _packed(kernel: Kernel, most: int, names: Iterator[str]) -> Iterator[Step]:
    """The kernel, behind copies of its smallest arrays into one."""
    written = set(writes(kernel))
    by_dtype: dict[object, list[Buffer]] = defaultdict(list)
    for buffer in sorted(set(reads(kernel)) - written, key=lambda b: (b.count, b.serial)):
        by_dtype[buffer.number_dtype].append(buffer)
    over = _count(kernel) - most
    moved: dict[Buffer, tuple[Buffer, int]] = {}
    for buffers in sorted(by_dtype.values(), key=len, reverse=True):
        chosen = buffers[: over + 1] if over > 0 else []
        if len(chosen) < 2:
            continue
        over -= len(chosen) - 1
        total = sum(b.count for b in chosen)
        packed = Buffer(next(names), Type(chosen[0].number_dtype, (total,)), "temporary")
        start = 0
        for buffer in chosen:
            moved[buffer] = packed, start
            yield _copy(buffer, packed, start, kernel)
            start += buffer.count
    yield from _apart(_reading(kernel, moved), most, names)


def _apart(kernel: Kernel, most: int, names: Iterator[str]) -> Iterator[Step]:
    """The kernel, its stores shared out among two if it still writes to too many arrays."""
    half = len(kernel.stores) // 2
    parts = [replace(kernel, stores=kernel.stores[:half])] if half else []
    parts.append(replace(kernel, stores=kernel.stores[half:]))
    # what the first part writes the second one must not read
    orders = [p for p in (parts, parts[::-1]) if not {*writes(p[0])} & {*reads(p[-1])}]
    if _count(kernel) <= most or not half or not orders:
        yield kernel
        return
    for part in orders[0]:
        yield from _with_few(part, most, names)


def _copy(buffer: Buffer, packed: Buffer, start: int, kernel: Kernel) -> Kernel:
    place = Variable(buffer.count)
    loops = (place,) if buffer.count > 1 else ()
    store = Store(packed, as_index(place) + start, load(buffer, as_index(place)))
    return Kernel(loops, (store,), kernel.source)


def _reading(kernel: Kernel, moved: dict[Buffer, tuple[Buffer, int]]) -> Kernel:
    """The kernel with loads from where arrays were copied to."""
    memo: dict[Expr, Expr] = {}

    def again(expr: Expr) -> Expr:
        return substitute(expr, {}, leaf, memo)

    def leaf(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in moved:
            return None
        packed, start = moved[expr.buffer]
        return load(packed, place(expr.index) + start)

    def place(index: Index) -> Index:
        return index.substitute({}, again)

    stores = tuple(Store(s.buffer, place(s.index), again(s.expr)) for s in kernel.stores)
    return replace(kernel, stores=stores)
