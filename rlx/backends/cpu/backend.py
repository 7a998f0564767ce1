"""The native device: LIR to machine code of the host processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...ir.bind import check_sizes, concrete_type
from ...ir.dims import Dim, Symbol, concrete, likely
from ...ir.graph import Graph
from ...ir.types import Type
from ...ir.verify import verify
from ...lower.cost import work
from ...lower.pipeline import lower
from ...lower.target import Target
from ..backend import MISS, Availability, Backend, Executable
from ..sized_entry import Sizes, sized_entry
from . import machine, pool
from .entry import Spec, array_layout, make_entry
from .host import host
from .library import Library, constant_name
from .program import ProgramWriter
from .reuse import reused_memory

RELEASE_ABOVE = 50_000  # nanoseconds of work that pay for giving up the interpreter lock


class CpuBackend(Backend):
    """Compiles a whole graph to one native function."""

    name = "cpu"

    def __init__(self) -> None:
        self.target = Target("cpu", lanes=host().lanes(4))

    def availability(self) -> Availability:
        """It runs wherever llvmlite does."""
        return Availability(True)

    def compile(self, graph: Graph, array: type, *, check: bool = False) -> Executable:
        """Lower the graph, write its program as LLVM text and load the machine code."""
        began = time.perf_counter()
        lowered = lower(graph, self.target, _verify_stage if check else None)
        program, report = lowered.program, lowered.report
        was_lowered = time.perf_counter()
        writer = ProgramWriter(host())
        memory = writer.write(program)
        text, symbols = writer.module.text, writer.module.symbols
        constants, is_symbolic = writer.constants, writer.is_symbolic
        calls = Library(writer.calls, writer.dims)
        is_long = writer.cost > RELEASE_ABOVE
        was_written = time.perf_counter()
        places = {constant_name(i): array.ctypes.data for i, array in enumerate(constants)}
        library = machine.load(text, symbols=pool.symbols() | calls.symbols | places)
        was_loaded = time.perf_counter()
        del lowered, writer, text  # graphs and lines are many times larger than the machine code

        def on_error(status: int) -> Any:
            raise calls.take_error()

        def make(takes_outputs: bool, sizes: Sizes | None = None) -> Callable[..., Any]:
            if is_symbolic and sizes is None:
                types = [b.type for b in program.inputs]
                return sized_entry(types, lambda sizes: make(takes_outputs, sizes))
            if sizes is not None:
                check_sizes(graph, sizes)
            numbers = _numbers(symbols, sizes or {})
            return make_entry(
                library.address("main"),
                [_spec(b.type, sizes) for b in program.inputs],
                [_spec(r.type, sizes) for r in graph.results],
                constants=[numbers.ctypes.data] if is_symbolic else [],
                arena_bytes=max(concrete(memory, sizes or {}), 64),
                array=array_layout(array),
                release_gil=is_long,
                takes_outputs=takes_outputs,
                on_error=on_error,
                keep_alive=(library, calls, constants, numbers),
            )

        return Executable(
            make(takes_outputs=False),
            MISS,
            lambda: {**self._stages(graph), "llvm": library.text, "assembly": library.assembly},
            report,
            arena_bytes=likely(memory),
            program=program,
            object_code=library.object_code,
            seconds={
                "lower": was_lowered - began,
                "write": was_written - was_lowered,
                "llvm": was_loaded - was_written,
            },
            work=lambda: work(program),
            make_entry_into=lambda: make(takes_outputs=True),
            reused_memory=lambda donated: reused_memory(program, donated),
        )

    def _stages(self, graph: Graph) -> dict[str, str]:
        """The stages' texts, made anew: their graphs are not kept."""
        return lower(graph, self.target).stages


def _numbers(symbols: Iterable[Symbol], sizes: Sizes) -> np.ndarray:
    """The numbers of symbols in their order, as compiled code reads them."""
    table = [concrete(Dim((((symbol,), 1),)), sizes) for symbol in symbols]
    return np.array(table or [0], np.int64)


def _spec(type: Type, sizes: Sizes | None) -> Spec:
    concrete = concrete_type(type, sizes or {})
    return Spec(concrete.dtype, concrete.shape)  # type: ignore[arg-type]


def _verify_stage(stage: str, graph: Graph) -> None:
    verify(graph, "mir" if stage == "mir" else "hir")
