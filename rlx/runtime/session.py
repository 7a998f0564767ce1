"""A session: a device, options and a compile cache. It turns graphs into callables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..backends import registry
from ..backends.backend import Executable
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.fingerprint import fingerprint
from ..ir.graph import Graph, Value
from ..ir.types import type_of
from ..trace.array import Array
from ..trace.make_graph import Traced, trace
from .cache import CompileCache


@dataclass(frozen=True)
class CompileOptions:
    """What a compile may vary in; part of the cache key."""

    name: str = ""


@dataclass
class CompiledGraph:
    """A graph compiled for a device; call it with one array for each parameter.

    Gives one array, or a tuple of arrays where the graph has not exactly one result.
    """

    graph: Graph
    device: str
    executable: Executable

    def __call__(self, *arrays: Any) -> Any:
        result = self.executable.entry(*arrays)
        if result is not self.executable.miss:
            return result
        prepared = prepare(self.graph.params, arrays, self.graph.name)
        result = self.executable.entry(*prepared)
        assert result is not self.executable.miss, "prepared arguments fit"
        return result

    def run_into(self, *arrays: Any, out: Sequence[np.ndarray]) -> None:
        """Run and copy the results into the given writeable arrays."""
        results = self(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        if len(out) != len(results):
            raise ArgumentError(
                f"{self.graph.name} has {len(results)} results, `out` has {len(out)} arrays",
                fix="pass one array for each result",
            )
        for i, (target, result) in enumerate(zip(out, results, strict=True)):
            if type_of(target) != result.type:
                raise ShapeError(
                    f"out[{i}] is {type_of(target)}, the result is {result.type}",
                    fix=f"allocate it with np.empty({result.shape}, {result.dtype.name!r})",
                )
            np.copyto(target, result.host())

    @property
    def stages(self) -> dict[str, str]:
        """The text of every stage, from the traced graph to the machine code."""
        stages = self.executable.stages
        fill: Callable[[], dict[str, str]] | None = getattr(stages, "fill", None)
        return dict(fill() if fill else stages)

    def report(self) -> str:
        """For each op how it runs: native, expanded, library."""
        return self.executable.report


def prepare(params: Sequence[Value], arrays: Sequence[Any], name: str) -> list[np.ndarray]:
    """Check arguments against parameters; gives dense host arrays."""
    if len(arrays) != len(params):
        raise ArgumentError(
            f"{name} takes {len(params)} arrays, not {len(arrays)}",
            fix="pass one array for each parameter",
        )
    return [_prepared(p, a, i, name) for i, (p, a) in enumerate(zip(params, arrays, strict=True))]


def _prepared(param: Value, given: Any, i: int, name: str) -> np.ndarray:
    array = given.host() if isinstance(given, Array) else np.asarray(given)
    is_number = isinstance(given, bool | int | float | complex)
    if is_number and param.type.shape == ():
        array = array.astype(param.dtype)
    actual = type_of(array)
    place = param.origin or f"argument {i} of {name}"
    if actual.dtype != param.dtype:
        raise DtypeError(
            f"{place} is {actual}, {name} was compiled for {param.type}",
            fix=f"convert it: x.astype({param.dtype.name!r})",
        )
    if actual.shape != param.shape:
        raise ShapeError(
            f"{place} is {actual}, {name} was compiled for {param.type}",
            fix="compile again for this shape, or reshape the array",
        )
    # a fresh array has the one canonical dtype object that compiled code compares with
    return np.ascontiguousarray(array, dtype=param.dtype).reshape(array.shape).view(param.dtype)


class Session:
    """Compiles for one device and keeps what it compiled.

    >>> import numpy as np
    >>> session = Session("cpu")
    >>> double = session.compile(lambda x: x * 2.0, np.ones(2, "float32"))
    >>> double(np.ones(2, "float32")).tolist()
    [2.0, 2.0]
    """

    def __init__(self, device: str = "cpu", *, capacity: int = 1024) -> None:
        self.device = device
        self.backend = registry.get(device)
        self.cache = CompileCache(capacity)

    def compile(
        self,
        program: Graph | Callable[..., Any],
        *specs: Any,
        options: CompileOptions | None = None,
    ) -> CompiledGraph:
        """Compile a graph, or a function for arguments like `specs`."""
        graph = program if isinstance(program, Graph) else self._closed(trace(program, specs))
        key = (fingerprint(graph), options)
        return self.cache.get(key, lambda: self._compile(graph))

    def _closed(self, traced: Traced) -> Graph:
        if traced.captures:
            raise ArgumentError(
                f"{traced.graph.name} uses {len(traced.captures)} arrays from outside",
                fix="pass them as arguments, or use rlx.jit, which passes them for you",
            )
        return traced.graph

    def _compile(self, graph: Graph) -> CompiledGraph:
        return CompiledGraph(graph, self.device, self.backend.compile(graph, Array))


@cache
def default_session(device: str = "cpu") -> Session:
    """The session `rlx.jit` uses for a device."""
    return Session(device)
