"""Compiled programs as plain data, in memory and in the disk cache.

Machine code is kept with what the linker has to be told again in each process: constant arrays and
calls into Python. Arrays and Python functions of the graph are not kept but taken from the graph at
hand, which has equal ones in the same places.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...ir.config import config
from ...ir.dims import Dim, Size, Symbol, concrete
from ...ir.fingerprint import lasting_fingerprint, places
from ...ir.graph import OPS, Graph
from ...ir.op import Op
from ...ir.ops.custom import Rule
from ...ir.record import field, fields, record
from ...ir.types import as_dtype
from ...lower.step_facts import StepFacts
from ...lower.target import Target
from ..disk import disk_cache, hashed, sources
from .donation import Lifetimes
from .host_calls import Call
from .llvm.machine import compiler
from .products.constants import PackedConstants
from .products.problem import Problem
from .tune import Tuned

Arrays = Callable[[], dict[bytes, np.ndarray]]


@record
class Code:
    """A compiled program."""

    objects: tuple[bytes, ...]  # machine code
    constants: list[np.ndarray]
    calls: list[Call]  # into Python
    dims: list[str] | None  # the names of its arguments' symbolic sizes, None without any
    symbols: tuple[Symbol, ...]  # all symbolic sizes that it needs, those of the arguments first
    memory: Size  # bytes for temporaries
    is_long: bool  # other Python threads shall run meanwhile
    lifetimes: Lifetimes
    early: PackedConstants | None = None  # what it takes instead of fixed inputs
    tuned: Mapping[Problem, Tuned] = field(default_factory=dict)  # products that were measured
    texts: bytes = b""  # packed LLVM text, of which better code can be made
    steps: tuple[StepFacts | None, ...] = ()  # those that are timed, by number

    def numbers(self, sizes: Mapping[str, Size]) -> np.ndarray:
        """The values of its symbolic sizes as an array, in their order."""
        table = [concrete(Dim((((symbol,), 1),)), sizes) for symbol in self.symbols]
        return np.array(table or [0], np.int64)


class DiskEntry:
    """The entry of a graph in the disk cache; its `report` says what became of it."""

    def __init__(self, key: str, arrays: Arrays, functions: Sequence[Any] = ()) -> None:
        self.key, self.functions, self.report = key, functions, ""  # no entry without a key
        self._arrays = arrays  # gives the constant arrays of the graph by their content
        self._disk, self._sources = disk_cache(), ""

    @staticmethod
    def of(graph: Graph, target: Target, fixed: int = 0) -> DiskEntry:
        """The entry of a graph, whose last parameters may be bound."""
        place = DiskEntry("", lambda: _constants(graph))
        place._sources = sources(place._disk) if place._disk else ""
        if not place._sources:
            return place
        try:
            content, place.functions = lasting_fingerprint(graph)
        except LookupError as error:
            place.report = f"not in the cache on disk: {error.args[0]}"
            return place
        how = facts(target), tunes(target), fixed
        lines = places(graph) if target.timed else ""  # which timers tell of
        place.key = hashed("program", content, how, place._sources, compiler(), lines)
        return place

    def read(self) -> Code | None:
        """Read the code, if there is any."""
        if not self.key or self._disk is None:
            return None
        data = self._disk.get(self.key)
        if data is None:
            return None
        try:
            code = _Reader(io.BytesIO(data), self).load()
            self.report = "read from the cache on disk"
            return code
        except Exception:  # damage that the checksum does not show raises anything
            self.forget()
            return None

    def forget(self) -> None:
        """Remove code that turned out to be invalid."""
        if self._disk is not None:
            self._disk.remove(self.key)

    def write(self, code: Code) -> None:
        """Keep the code."""
        if not self.key or self._disk is None:
            return
        file = io.BytesIO()
        try:
            _Writer(file, self).dump(code)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            self.report = f"not in the cache on disk: a call cannot be written, {error}"
            return
        found = sources(self._disk)  # those of a code that was recalled are not known
        is_fresh = found and found == (self._sources or found)
        if is_fresh and self._disk.put(self.key, file.getvalue()):
            self.report = "written to the cache on disk"

    @cached_property
    def arrays(self) -> dict[bytes, np.ndarray]:
        """The constant arrays of the graph by their content."""
        return self._arrays()


def _constants(graph: Graph) -> dict[bytes, np.ndarray]:
    constants = [node.attrs["value"] for node in graph.walk() if node.op.is_constant]
    return {constant.digest: constant.array for constant in constants}


def tunes(target: Target) -> bool:
    """Whether products are autotuned for a target."""
    return target.tier == "max" and config.tune


def facts(target: Target) -> list[object]:
    """The fields of a target as a key that is equal in all processes."""
    found = [getattr(target, name) for name in fields(target)]
    return [sorted(x) if isinstance(x, frozenset) else x for x in found]


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, place: DiskEntry) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._functions = {function: i for i, function in enumerate(place.functions)}
        self._arrays = {id(array): digest for digest, array in place.arrays.items()}

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, np.dtype):
            return "dtype", thing.name
        if isinstance(thing, Op):
            return "op", thing.name
        if isinstance(thing, np.ndarray) and id(thing) in self._arrays:
            return "array", self._arrays[id(thing)]
        if isinstance(thing, Rule):
            if thing not in self._functions:
                raise pickle.PicklingError("it has a Python function")
            return "function", self._functions[thing]
        return None


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, place: DiskEntry) -> None:
        super().__init__(file)
        self._place = place

    def persistent_load(self, pid: Any) -> Any:
        kind, name = pid
        match kind:
            case "dtype":
                return as_dtype(name)
            case "op":
                return OPS[name]
            case "array":
                return self._place.arrays[name]
        return self._place.functions[name]
