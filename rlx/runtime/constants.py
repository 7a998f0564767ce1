"""Graphs compiled with some parameters as constants.

What depends on these alone runs once for each set of arrays, and matrix products get them in the
order in which they read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.bound_memory import copies
from ..backends.disk import disk_cache
from ..ir.bind import bind_sizes, is_symbolic
from ..ir.dims import Dim
from ..ir.graph import Graph, Value
from ..ir.policy import AS_WRITTEN
from ..ir.record import record, replace
from ..ir.types import Type
from ..trace.array import Array
from .arrays import prepare
from .compiled import CompiledGraph
from .precision import prepared, with_report
from .session import CompileOptions, Session


@record
class WithConstants:
    """A graph compiled for parameters that are constants, without their arrays."""

    params: dict[int, Value]  # the constants by their places
    early: CompiledGraph | None  # runs once
    late: CompiledGraph  # takes the free parameters, those of `kept`, and results of `early`
    kept: tuple[int, ...]  # places of constants
    casts: str = ""  # a line for the report

    @classmethod
    def of(
        cls, session: Session, graph: Graph, fixed: Sequence[int], options: CompileOptions
    ) -> WithConstants:
        """Compile a graph whose parameters at some places are constants."""
        from ..lower.hir.split_fixed import split_fixed  # with all of lowering, 20 ms to import

        precise = prepared(graph, session.policy_for(options))
        casts = "" if precise.graph is graph else f"; {precise.report}"
        options = replace(options, precision=AS_WRITTEN)  # constants are cast once, early
        graph = precise.graph
        parts = split_fixed(graph, fixed, session.backend.target.wants)
        early = None
        if parts.early.results:
            plain = replace(options, donate=(), specialize=False, buckets=(), fixed=0)
            early = session.compile(parts.early, options=plain)
        is_open = is_symbolic(parts.late.param_types) and meets_sizes(session, options)
        count, buckets = (0, options.buckets) if is_open else (parts.count, ())
        late = session.compile(parts.late, options=replace(options, fixed=count, buckets=buckets))
        return cls({i: graph.params[i] for i in fixed}, early, late, parts.kept, casts)

    @property
    def report(self) -> str:
        """What becomes of the constants."""
        count = len(self.early.graph.results) if self.early else 0
        return f"values computed once: {count}{self.casts}"

    def bind(self, given: Mapping[int, Any], in_files: bool = False) -> CompiledGraph:
        """The compiled graph of the free parameters.

        `given` are the constants by their places. The memory of NumPy arrays is not shared. What
        becomes of them is kept in a file of the disk cache if it is to be `in_files` and can be.
        """
        name = self.late.graph.name
        arrays = [given[i] for i in self.params]
        memory = self.late.executable.memory
        prepared = prepare(list(self.params.values()), arrays, name, memory)
        disk = disk_cache() if in_files and memory is None and self._code else None
        if disk is None:
            return self._made(prepared, arrays)
        from ..backends.mapped import content_key, map_arrays, write_arrays  # few programs do

        key = content_key(self._code, prepared)
        known = map_arrays(disk, key)
        if known is None:
            made = self._made(prepared, arrays)
            is_written = write_arrays(disk, key, made.executable.held)
            known = map_arrays(disk, key) if is_written else None
            if known is None:
                return made
        shapes = [prepared[list(self.params).index(i)].shape for i in self.kept]
        shapes += [r.type.shape for r in self.early.graph.results] if self.early else []
        return _with_held(self.late, known, shapes)

    @property
    def _code(self) -> list[bytes]:
        """The machine code that constants go through; empty if that cannot be told."""
        every = [self.late, *([self.early] if self.early else [])]
        codes = [(graph.unprepared or graph.executable).objects for graph in every]
        is_open = self.early is not None and is_symbolic(self.early.graph.result_types)
        return [] if is_open or not all(codes) else [part for code in codes for part in code]

    def _made(self, prepared: Sequence[Any], arrays: Sequence[Any]) -> CompiledGraph:
        table = dict(zip(self.params, prepared, strict=True))
        made = [table[i] for i in self.kept]
        if self.early is not None:
            results = self.early(*prepared)
            results = results if isinstance(results, tuple) else (results,)
            is_host = self.late.executable.memory is None
            made += [x.host() if is_host else x for x in results]
        rows = zip(prepared, arrays, strict=True)
        return _holding(self.late, made, [x for x, y in rows if not isinstance(y, Array)])


def meets_sizes(session: Session, options: CompileOptions) -> bool:
    """Whether open sizes are met in ways of their own, which know of no constants."""
    in_parts = options.buckets or options.specialize
    return bool(in_parts) or not session.backend.target.has_symbolic_sizes


def compiled_with(
    session: Session, graph: Graph, arrays: Sequence[Any], options: CompileOptions
) -> CompiledGraph:
    """Compile a graph for arrays of its last parameters, which are cast once."""
    policy = session.policy_for(options)
    has_places = options.in_shardings is not None or options.out_shardings is not None
    if policy == AS_WRITTEN or has_places or not options.dce:
        compiled = session.compile(graph, options=replace(options, fixed=len(arrays)))
        return hold_constants(compiled, arrays)
    places = range(len(graph.params) - len(arrays), len(graph.params))
    made = WithConstants.of(session, graph, places, options)
    compiled = made.bind(dict(zip(places, arrays, strict=True)))
    # what is cast early lies in no file that another process could recall
    executable = with_report(compiled.executable, lambda: graph, policy)
    compiled.executable = replace(executable, lasting=None)
    compiled.precision = policy
    return compiled


def hold_constants(compiled: CompiledGraph, arrays: Sequence[Any]) -> CompiledGraph:
    """The compiled graph of the other parameters, for arrays of the last ones."""
    if not arrays:
        return compiled
    params = compiled.graph.params[len(compiled.graph.params) - len(arrays) :]
    prepared = prepare(params, arrays, compiled.graph.name, compiled.executable.memory)
    return _holding(compiled, prepared, [])


def _holding(
    compiled: CompiledGraph, arrays: Sequence[np.ndarray], foreign: Sequence[np.ndarray]
) -> CompiledGraph:
    """A compiled graph that passes its own arrays, copies of `foreign` ones, as last."""
    executable = compiled.unprepared or compiled.executable
    others = {id(x) for x in foreign}
    held = list(executable.prepare(arrays))
    shared = [i for i, x in enumerate(held) if id(x) in others]
    for i, copy in zip(shared, copies([held[i] for i in shared]), strict=True):
        held[i] = copy
    return _with_held(compiled, held, [x.shape for x in arrays])


def _with_held(
    compiled: CompiledGraph, held: Sequence[Any], shapes: Sequence[tuple[int, ...]]
) -> CompiledGraph:
    """A compiled graph that passes what it holds, of last parameters of these shapes."""
    executable = compiled.unprepared or compiled.executable
    return CompiledGraph(
        _signature(compiled.graph, shapes),
        compiled.device,
        replace(executable, held=tuple(held)),
        compiled.queue,
        compiled.donated,
        precision=compiled.precision,
    )


def _signature(graph: Graph, shapes: Sequence[tuple[int, ...]]) -> Graph:
    """A graph without nodes and the last parameters, whose shapes tell the numbers of dims."""
    count = len(graph.params) - len(shapes)
    free, last = graph.params[:count], graph.params[count:]
    names = [p.origin for p in last]
    sizes = bind_sizes([p.type for p in last], shapes, names)
    signature = Graph(graph.name)
    for param in free:
        signature.add_param(_sized(param.type, sizes), param.origin)
    signature.results = [Value(_sized(r.type, sizes), signature) for r in graph.results]
    return signature


def _sized(type: Type, sizes: Mapping[str, int]) -> Type:
    """A type with numbers for some of its dims."""
    shape = (n.substitute(sizes) if isinstance(n, Dim) else n for n in type.shape)
    return type.with_shape(tuple(shape))
