"""The cpu backend: graphs to machine code of the host processor."""

from __future__ import annotations

import ctypes
import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from ...ir.bind import SizeChecks, concrete_type
from ...ir.config import config
from ...ir.dims import concrete, likely
from ...ir.errors import InternalError
from ...ir.graph import Graph
from ...ir.record import replace
from ...ir.types import Type
from ...lower.cost import work
from ...lower.lir.program import Program
from ...lower.memory_plan import MemoryPlan, memory_plan
from ...lower.pipeline import Lowered, lower
from ...lower.target import Target
from ..backend import Availability, Backend, Executable, Lasting, Plan
from ..bound_memory import room_for
from ..entries import Sizes, sized_entry
from ..locks import no_collection
from .disk_code import Code, DiskEntry, facts, tunes
from .donation import lifetimes, reused_memory
from .host_calls import HostCalls, constant_name
from .llvm import machine
from .llvm.compiling import Compiles, Units, compile_ahead, compiled_again, llvm_turn
from .llvm.host import Host, host
from .llvm.text import Module
from .products.problem import BYTES, Problem, Tuning
from .program import ProgramWriter
from .runtime import clock, entry, pool
from .runtime.entry import make_entry, make_ufunc_entry
from .runtime.object_layout import Spec, array_layout
from .sequence import Native, sequence_executable
from .sorting.top_k import MOST_RANKED
from .timers import Timers
from .tune import Tuned, tune
from .whole_ops import WHOLE

RELEASE_ABOVE = 50_000  # nanoseconds of work that pay for giving up the interpreter lock
LOCAL_BYTES = 1 << 16  # of a thread's stack, for what a row passes on


def target_of(host: Host) -> Target:
    """The lowering target of a processor."""
    return Target(
        "cpu",
        wants=frozenset(WHOLE),
        lanes=host.lanes(4),
        local_bytes=LOCAL_BYTES,
        most_ranked=MOST_RANKED,
        has_sort=True,
        in_place_carries=True,
        copied=frozenset(BYTES if host.has_tiles else host.grouped) & frozenset(BYTES),
        has_chains=True,
        packs_lanes=True,
        threads=host.cores,
    )


# of packed text that a compile takes: 0.01 s for some operations, 2 s for a train step of ResNet
SECONDS_PER_BYTE = 7e-6


class CpuBackend(Backend):
    """Compiles a whole graph to one native function."""

    name = "cpu"
    has_arena = has_timers = True

    def __init__(self) -> None:
        self.target = target_of(host())
        self.invariant_target = replace(self.target, batch_invariant=True, adds_in_turn=True)
        compile_ahead([pool.text, entry.text])

    def availability(self) -> Availability:
        """Always available, wherever llvmlite runs."""
        return Availability(True)

    def description(self) -> str:
        """The processor, its vectors and threads, and LLVM's version."""
        here = host()
        return f"{here.cpu}, vectors of {8 * here.vector_bytes} bits, {here.cores} threads, " + (
            f"llvmlite {llvmlite.__version__}"
        )

    def details(self) -> dict[str, str]:
        """The compiler, the processor with its features, and the threads."""
        here = host()
        version = ".".join(map(str, llvm.llvm_version_info))
        has = [name[1:] for name in here.features.split(",") if name.startswith("+")]
        return {
            "LLVM": f"{version} (llvmlite {llvmlite.__version__})",
            "processor": f"{here.cpu}, vectors of {8 * here.vector_bytes} bits",
            "features": " ".join(has),
            "threads": f"{here.cores}: RLX_NUM_THREADS, else the processors for this process",
        }

    def ufunc_entry(
        self, ufunc: np.ufunc, dtype: np.dtype, array: type, most: int
    ) -> Callable[..., Any] | None:
        """NumPy's own loop, called by machine code."""
        return make_ufunc_entry(ufunc, dtype, array_layout(array), most)

    def memory_context(self) -> Context | None:
        """One with the allocator of results."""
        return entry.memory_context()

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Compile a graph, or read its code from the disk cache."""
        target = target or self.target
        place = DiskEntry.of(graph, target, fixed)
        known = None if check else self._read(place, graph, lambda: graph, array, target)
        if known is not None:
            return known
        code, program, report, seconds = self._compile(graph, check, target, fixed)
        began = time.perf_counter()
        place.write(code)
        linked = Linked(code, config.guards)
        seconds["link"] = time.perf_counter() - began
        made = self._executable(linked, place, graph, lambda: graph, array, seconds, target)
        made.program, made.work = program, lambda: work(program)
        told = _told(code)
        made.make_report = lambda: _joined(report, told, place.report)
        return made

    def memory_plan(
        self, graph: Graph, target: Target | None = None, donated: Sequence[int] = ()
    ) -> MemoryPlan:
        """What a call of a graph holds in memory, that of matrix kernels included."""
        target = replace(target or self.target, timed=True)
        program = lower(graph, target).program
        memory, _ = ProgramWriter(_host_of(target)).write(program)
        scratch = max(likely(memory) - likely(program.arena_bytes), 0)
        reused = reused_memory(lifetimes(program), graph.param_types, graph.result_types, donated)
        return memory_plan(graph, program, self.name, scratch, reused)

    def compiled_for(self) -> object:
        """The processor and the compiler, as a part of cache keys."""
        return facts(self.target), machine.compiler()

    def recall(
        self,
        lasting: Lasting,
        signature: Graph,
        whole: Callable[[], Graph],
        array: type,
        *,
        target: Target | None = None,
    ) -> Executable | None:
        """Read code that an earlier process compiled from the disk cache."""
        place = DiskEntry(lasting.key, lasting.arrays)
        return self._read(place, signature, whole, array, target or self.target)

    def _read(
        self,
        place: DiskEntry,
        signature: Graph,
        whole: Callable[[], Graph],
        array: type,
        target: Target,
    ) -> Executable | None:
        """Read the code of an entry in the disk cache, if it fits this process."""
        began = time.perf_counter()
        code = place.read()
        if code is None:
            return None
        try:
            linked = Linked(code, config.guards)
        except InternalError:
            place.forget()
            return None
        seconds = {"read": time.perf_counter() - began}
        return self._executable(linked, place, signature, whole, array, seconds, target)

    def _executable(
        self,
        linked: Linked,
        place: DiskEntry,
        signature: Graph,
        whole: Callable[[], Graph],
        array: type,
        seconds: dict[str, float],
        target: Target,
    ) -> Executable:
        """Wrap linked machine code as an executable of the runtime."""
        code = linked.code
        about = replace(code, objects=(), texts=b"")  # the code may go before what tells of it

        def lowered() -> Lowered:
            return lower(whole(), target)

        def better() -> Executable:
            made = replace(code, objects=compiled_again(code.texts), texts=b"")
            place.write(made)
            with llvm_turn:
                better = Linked(made, linked.guards)
            return self._executable(better, place, signature, whole, array, seconds, target)

        checks = SizeChecks(signature)
        entry = functools.partial(linked.entry, signature, array, checks)
        is_lasting = bool(place.key) and not place.functions
        return Executable(
            entry(),
            native=Native(
                code, linked.library.address("main"), linked.types(signature), checks, linked
            ),
            make_stages=lambda: _stages(lowered(), target, about),
            make_report=lambda: _joined(lowered().report, _told(about), place.report),
            arena_bytes=likely(code.memory),
            constant_bytes=sum(constant.nbytes for constant in code.constants),
            objects=code.objects,
            seconds=seconds,
            work=lambda: work(lowered().program),
            make_entry_into=lambda: entry(takes_outputs=True),
            make_entry_filling=lambda: entry(fills_outputs=True),
            reused_memory=lambda donated: reused_memory(
                about.lifetimes, signature.param_types, signature.result_types, donated
            ),
            lasting=Lasting(place.key, lambda: place.arrays) if is_lasting else None,
            prepare=linked.prepare,
            make_tier_up=better if code.texts else None,
            compile_seconds=SECONDS_PER_BYTE * len(code.texts),
            timers=(code.steps, linked.totals) if code.steps else None,
        )

    def sequence(self, plan: Plan, array: type) -> Executable:
        """One machine program that runs those of the calls."""
        guards = config.guards

        def make(main: int, inputs: Sequence[Type], outputs: Sequence[Type], **how: Any) -> Any:
            specs = [_spec(t, None) for t in inputs], [_spec(t, None) for t in outputs]
            layout = array_layout(array)
            return make_entry(main, *specs, array=layout, guards=guards, on_error=_failed, **how)

        return sequence_executable(plan, make)

    def _compile(
        self, graph: Graph, check: bool, target: Target, fixed: int
    ) -> tuple[Code, Program, str, dict[str, float]]:
        """Lower the graph, write its program as LLVM text and compile that."""
        times = [time.perf_counter()]
        with Compiles(target.tier) as compiles:
            with no_collection:  # until there is work for other threads
                lowered = lower(graph, target, check)
                program = lowered.program
                times.append(time.perf_counter())
                tuned = tune(program, fixed, _host_of(target)) if tunes(target) else {}
                times.append(time.perf_counter())
                units = Units(Module(), host().cores, compiles.add)
                writer = ProgramWriter(_host_of(target), units.add, units.module, _tuning(tuned))
                writer.timers = Timers() if target.timed else None
                memory, early = writer.write(program, fixed)
                times.append(time.perf_counter())
            objects = compiles.finish(units.rest())
        times.append(time.perf_counter())
        may_be_better = target.tier == "auto" and not target.timed
        code = Code(
            objects,
            writer.constants,
            writer.calls,
            writer.dims,
            tuple(writer.module.symbols),
            memory,
            writer.cost > RELEASE_ABOVE,
            lifetimes(program),
            early,
            tuned,
            compiles.packed if may_be_better else b"",
            writer.timers.finished() if writer.timers else (),
        )
        spans = [after - before for before, after in itertools.pairwise(times)]
        phases = ("lower", "tune", "write", "llvm")
        seconds = {p: s for p, s in zip(phases, spans, strict=True) if p != "tune" or tuned}
        return code, program, lowered.report, seconds


class Linked:
    """Machine code in this process; with `guards` it runs as RLX_GUARDS says."""

    def __init__(self, code: Code, guards: bool) -> None:
        self.code, self.guards = code, guards
        self.calls = HostCalls(code.calls, code.dims)
        places = {constant_name(i): a.ctypes.data for i, a in enumerate(code.constants)}
        self.totals = np.zeros((len(code.steps), 2), np.int64)  # nanoseconds and how often, by step
        symbols = pool.symbols() | self.calls.symbols | places
        symbols |= clock.symbols(self.totals) if code.steps else {}
        names = ["main", "prepare"] if code.early and code.early.panels else ["main"]
        self.library = machine.Library(code.objects, names, symbols)

    def prepare(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Pack bound arrays into what entries take instead of them."""
        early = self.code.early
        if early is None:
            return tuple(arrays)
        kept = tuple(arrays[i] for i in early.kept)
        if not early.panels:
            return kept
        panels = room_for(early.panels)
        places = [x.ctypes.data for x in (*arrays, *panels)]
        table = (ctypes.c_void_p * len(places))(*places)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.library.address("prepare"))(table)
        return (*kept, *panels)

    def types(self, graph: Graph) -> list[Type]:
        """The types of an entry's arguments besides memory for results."""
        early, types = self.code.early, list(graph.param_types)
        if early is None:
            return types
        fixed = types[len(types) - early.fixed :]
        panels = [Type(np.dtype(np.uint8), (count,)) for count in early.panels]
        return [*types[: len(types) - early.fixed], *(fixed[i] for i in early.kept), *panels]

    def entry(
        self,
        graph: Graph,
        array: type,
        check_sizes: SizeChecks,
        takes_outputs: bool = False,
        fills_outputs: bool = False,
        sizes: Sizes | None = None,
    ) -> Callable[..., Any]:
        """The Python callable; for symbolic sizes one that infers them from arguments."""
        code = self.code
        types = self.types(graph)
        is_symbolic = code.dims is not None
        if is_symbolic and sizes is None:
            make = functools.partial(
                self.entry, graph, array, check_sizes, takes_outputs, fills_outputs
            )
            return sized_entry(types, lambda sizes: make(sizes=sizes))
        if sizes is not None:
            check_sizes(sizes)
        numbers = code.numbers(sizes or {})
        return make_entry(
            self.library.address("main"),
            [_spec(t, sizes) for t in types],
            [_spec(t, sizes) for t in graph.result_types],
            constants=[numbers.ctypes.data] if is_symbolic else [],
            arena_bytes=max(concrete(code.memory, sizes or {}), 64),
            array=array_layout(array),
            release_gil=code.is_long,
            takes_outputs=takes_outputs,
            fills_outputs=fills_outputs,
            guards=self.guards,
            on_error=_failed,
            keep_alive=(self, numbers),
        )


def _failed(status: int) -> Any:
    raise InternalError(
        f"rlx bug in the cpu backend: a program ended with status {status}",
        fix="please report it with RLX_DUMP's output of this program",
    )


def _host_of(target: Target) -> Host:
    return replace(host(), batch_invariant=target.batch_invariant)


def _tuning(tuned: Mapping[Problem, Tuned]) -> Tuning:
    return {problem: way.blocking for problem, way in tuned.items()}


def _stages(lowered: Lowered, target: Target, code: Code) -> dict[str, str]:
    """The texts of all stages, lowered anew since graphs are not kept."""
    fixed = code.early.fixed if code.early else 0
    writer = ProgramWriter(_host_of(target), tuning=_tuning(code.tuned))
    writer.timers = Timers() if target.timed else None
    writer.write(lowered.program, fixed)
    text = writer.module.text
    return {**lowered.stages, "llvm": text, "assembly": machine.assembly(text)}


def _told(code: Code) -> str:
    """Report lines about products: their tuning, and packed operands."""
    lines = [way.text for way in code.tuned.values()]
    if code.early is not None:
        panels = code.early.panels
        lines.append(f"operands packed once: {len(panels)}, {sum(panels)} bytes")
    return "\n".join(lines)


def _joined(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _spec(type: Type, sizes: Sizes | None) -> Spec:
    concrete = concrete_type(type, sizes or {})
    return Spec(concrete.dtype, concrete.shape)  # type: ignore[arg-type]
