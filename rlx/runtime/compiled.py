"""A compiled graph: calls, named and bound parameters, futures, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backends.backend import Executable
from ..ir.builder import user_source
from ..ir.errors import ArgumentError, DtypeError, RlxError, ShapeError
from ..ir.graph import Graph, Value
from ..ir.types import type_of
from ..trace.array import Array
from ..trace.host import check_supported, is_python_scalar, scalar_to_numpy
from .cost import Cost, cost
from .queue import Queue


@dataclass(eq=False)
class CompiledGraph:
    """A graph compiled for a device; call it with one array for each parameter.

    Gives one array, or a tuple of arrays where the graph has not exactly one result. Parameters
    that were bound by `bind` or `set_param` are left out of the call. Any number of threads may
    call it at once.
    """

    graph: Graph
    device: str
    executable: Executable
    queue: Queue
    _bound: dict[int, np.ndarray] = field(default_factory=dict)

    def __call__(self, *arrays: Any) -> Any:
        if self._bound:
            return self._run(self._with_bound(arrays))
        result = self.executable.entry(*arrays)
        return result if result is not self.executable.miss else self._run(arrays)

    def run(self, **arrays: Any) -> Any:
        """Call with arrays by the names of their parameters (see `names`)."""
        given = {self._place(name): array for name, array in arrays.items()}
        free = [i for i in range(len(self.graph.params)) if i not in self._bound]
        missing = [self.names[i] for i in free if i not in given]
        if missing:
            raise ArgumentError(
                f"{self.graph.name} was run without {', '.join(missing)}",
                where=_here(),
                fix=f"pass one array for each of {', '.join(self.names[i] for i in free)}",
            )
        everything = {**self._bound, **given}
        return self._run([everything[i] for i in range(len(self.graph.params))])

    def run_into(self, *arrays: Any, out: Sequence[np.ndarray]) -> None:
        """Run and copy the results into the given writeable arrays."""
        results = self(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        if len(out) != len(results):
            raise ArgumentError(
                f"{self.graph.name} has {len(results)} results, `out` has {len(out)} arrays",
                where=_here(),
                fix="pass one array for each result",
            )
        for i, (target, result) in enumerate(zip(out, results, strict=True)):
            if type_of(target) != result.type:
                raise ShapeError(
                    f"out[{i}] is {type_of(target)}, the result is {result.type}",
                    where=_here(),
                    fix=f"allocate it with np.empty({result.shape}, {result.dtype.name!r})",
                )
            np.copyto(target, result.host())

    def submit(self, *arrays: Any) -> Future[Any]:
        """Run later, on the session's thread, in the order of submission; gives a future.

        Arguments are checked now. Memory of NumPy arrays is copied now, so the caller may change
        it at once; `rlx` arrays are not copied.
        """
        kept = [x if isinstance(x, Array) else np.array(x) for x in self._with_bound(arrays)]
        prepared = prepare(self.graph.params, kept, self.graph.name)
        return self.queue.submit(lambda: self._run(prepared))

    async def run_async(self, *arrays: Any) -> Any:
        """Run on the session's thread while the event loop goes on: `await c.run_async(x)`."""
        import asyncio  # loaded where an event loop runs, and 20 ms to import elsewhere

        return await asyncio.wrap_future(self.submit(*arrays))

    # -- parameters by name -----------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters: `x`, or `params["w"]` for a part of an argument."""
        return tuple(_name(p, i) for i, p in enumerate(self.graph.params))

    @property
    def bound(self) -> dict[str, Array]:
        """The bound parameters by name."""
        return {self.names[i]: Array(array) for i, array in sorted(self._bound.items())}

    def bind(self, name: str, array: Any) -> None:
        """Use `array` as a parameter in all later calls, which leave it out.

        The memory of a dense NumPy array is shared, so that later calls see what is written into
        it; `set_param` copies instead.
        """
        self._bind(name, array)

    def set_param(self, name: str, array: Any) -> None:
        """Copy `array` and use the copy as a parameter in all later calls, which leave it out."""
        self._bind(name, array if isinstance(array, Array) else np.array(array))

    def unbind(self, name: str) -> None:
        """Make a bound parameter an argument of calls again."""
        place = self._place(name)
        self._bound = {i: array for i, array in self._bound.items() if i != place}

    def _bind(self, name: str, array: Any) -> None:
        place = self._place(name)
        (prepared,) = prepare([self.graph.params[place]], [array], self.graph.name)
        # a new table: a call in another thread sees all of the old one or all of the new one
        self._bound = {**self._bound, place: prepared}

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ArgumentError(
                f"{self.graph.name} has no parameter {name!r}",
                where=_here(),
                fix=f"its parameters are {', '.join(self.names)}",
            )
        return self.names.index(name)

    def _with_bound(self, arrays: Sequence[Any]) -> Sequence[Any]:
        bound, count = self._bound, len(self.graph.params)
        if not bound:
            return arrays
        free = [i for i in range(count) if i not in bound]
        if len(arrays) != len(free):
            raise _wrong_count(self.graph.name, len(free), len(arrays))
        everything = {**bound, **dict(zip(free, arrays, strict=True))}
        return [everything[i] for i in range(count)]

    def _run(self, arrays: Sequence[Any]) -> Any:
        prepared = prepare(self.graph.params, arrays, self.graph.name)
        result = self.executable.entry(*prepared)
        assert result is not self.executable.miss, "prepared arguments fit"
        return result

    # -- looking inside ---------------------------------------------------------------------------

    @property
    def stages(self) -> dict[str, str]:
        """The text of every stage, from the traced graph to the machine code."""
        return dict(self.executable.stages)

    def report(self) -> str:
        """For each op how it runs: native, expanded, library."""
        return self.executable.report

    def cost(self) -> Cost:
        """The work and memory of one call, counted in the loops it became."""
        return cost(self.graph, self.executable)


def prepare(params: Sequence[Value], arrays: Sequence[Any], name: str) -> list[np.ndarray]:
    """Check arguments against parameters; gives dense host arrays."""
    if len(arrays) != len(params):
        raise _wrong_count(name, len(params), len(arrays))
    return [_prepared(p, a, i, name) for i, (p, a) in enumerate(zip(params, arrays, strict=True))]


def _prepared(param: Value, given: Any, i: int, name: str) -> np.ndarray:
    array = given.host() if isinstance(given, Array) else given
    if type(array) is np.ndarray and array.dtype is param.dtype and array.shape == param.shape:
        if array.flags.c_contiguous and array.flags.aligned:
            return array
    place = param.origin or f"argument {i} of {name}"
    if is_python_scalar(array) and param.shape == ():
        array = _noted(lambda: scalar_to_numpy(array, param.dtype), place)  # type: ignore[arg-type]
    array = np.asarray(array)
    _noted(lambda: check_supported(array.dtype, given), place)
    if array.dtype.newbyteorder("=") != param.dtype:
        raise DtypeError(
            f"{place} is {array.dtype.name}, {name} was compiled for {param.type}",
            where=_here(),
            fix=f"convert it: x.astype({param.dtype.name!r})",
        )
    if array.shape != param.shape:
        raise ShapeError(
            f"{place} is {type_of(array)}, {name} was compiled for {param.type}",
            where=_here(),
            fix="compile again for this shape, or reshape the array",
        )
    # a fresh array has the one canonical dtype object that compiled code compares with
    dense = np.require(array, param.dtype, ["C", "A"])
    return np.asarray(dense).view(np.ndarray).reshape(array.shape).view(param.dtype)


def _noted(check: Callable[[], Any], place: str) -> Any:
    try:
        return check()
    except RlxError as error:
        error.notes = (place, *error.notes)
        raise


def _name(param: Value, i: int) -> str:
    if not param.origin:
        return f"%{i}"
    is_argument = param.origin.startswith("argument ") and ", " in param.origin
    return param.origin.split(", ", 1)[1] if is_argument else param.origin


def _wrong_count(name: str, wanted: int, given: int) -> ArgumentError:
    return ArgumentError(
        f"{name} takes {wanted} arrays, not {given}",
        where=_here(),
        fix="pass one array for each parameter that is not bound",
    )


def _here() -> str:
    return str(user_source())
