"""Compiled code, its calls and costs, and graphs with parameters bound by name.

There are two kinds of `CompiledCode`: a `CompiledGraph` is called with one array for each parameter
of a graph, the `Compiled` of `jit` with arguments like those of a Python function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.backend import MISS, Executable
from ..ir.bind import bind_sizes, concrete_type, is_symbolic
from ..ir.dims import likely
from ..ir.errors import ArgumentError, DeviceMemoryError
from ..ir.graph import Graph
from ..ir.memory import Memory
from ..ir.policy import AS_WRITTEN, Policy
from ..ir.record import field, record, replace
from ..ir.tracebacks import hide_frames
from ..ir.types import Type
from ..trace.arguments import callable_of, members
from ..trace.array import Array
from ..trace.index import aliasing
from .arrays import (
    Sized,
    alone,
    check_donated,
    check_output,
    is_dense,
    mark_donated,
    new_array,
    overlaps,
    prepare,
    wrong_count,
)
from .queue import Pending, Queue, current, failing, given_calls, later, run_all, started

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..lower.memory_plan import MemoryPlan


@record
class Cost:
    """Work and memory of one call.

    flops         scalar instructions (a tanh counts as one); 0 on a device without loops
    bytes         what the steps read and write; 0 on a device without loops
    arena_bytes   temporaries
    peak_bytes    arguments, results and temporaries

    Of branches the dearest counts, of a `while` loop one iteration. A symbolic size counts as a
    likely number.
    """

    flops: int
    bytes: int
    arena_bytes: int
    peak_bytes: int


class CompiledCode:
    """Code for a device that takes one array for each parameter of a graph.

    Any number of threads may call it at once.
    """

    signature: Graph  # parameters and results of the code; it may have no nodes
    device: str
    executable: Executable
    queue: Queue
    donated: tuple[int, ...]  # parameters whose arrays each call gives away
    precision: Policy  # under which it was compiled
    _bound: Mapping[int, Any] = MappingProxyType({})  # arrays by parameters; calls leave them out

    def __repr__(self) -> str:
        return f"<{self.signature.signature} compiled for {self.device}>"

    def _call(self, *arrays: Any) -> Any:
        """Run; gives an array, or a tuple of arrays where there is not exactly one result."""
        try:
            if self._bound or self.donated:
                return self._plan(self._with_bound(arrays))()
            executable = self.executable
            result = executable.entry(*arrays, *executable.held)
            if result is executable.miss:
                return self._plan(arrays)()
            return aliasing.make_here(result) if aliasing.open_traces else result
        except BaseException as error:
            if isinstance(error, DeviceMemoryError):
                self._tell_memory(error)
            hide_frames(error)
            raise

    def _fill(self, *arrays: Any, out: Sequence[np.ndarray]) -> None:
        """Run with `arrays`, and write the results into the writable arrays `out`.

        Nothing is allocated or copied for an array that is dense and apart from the arguments.
        """
        graph, executable = self.signature, self.executable
        counts = len(graph.params), len(graph.results)
        is_plain = not (self._bound or self.donated) and type(out) in (list, tuple)
        if is_plain and (len(arrays), len(out)) == counts:
            if executable.entry_filling(*arrays, *executable.held, *out) is None:
                return
        given = self._with_bound(arrays)
        types = self._result_types(given)
        self._check_outputs(out, types)
        prepared = self._prepared(given)
        pairs = zip(out, types, strict=True)
        direct = [x if is_dense(x, t) and not overlaps(x, prepared) else None for x, t in pairs]
        results = self._enter(prepared, direct)
        for i, target in enumerate(out):
            found = results[i]._on_host()
            if found is not target:
                np.copyto(target, found)

    def submit_then(self, arrays: Sequence[Any], then: Callable[[Any], Any]) -> Future[Any]:
        """Do as `submit` with `arrays`; a future of what `then` returns for the results."""
        callable_of("submit_then: then", then)
        if not isinstance(arrays, tuple | list):
            arrays = members("submit_then: arrays", arrays)
        call = self._plan(self._with_bound(arrays), keeps=True)
        return current(self.queue).submit(lambda: then(call()))

    def planned(self, call: Any, then: Callable[[Any], Any] | None = None) -> Callable[[], Any]:
        """What makes one of many calls; if it cannot be made, what raises its error.

        `call` has the arguments of the call, `then` is what to do with its results.
        """
        try:
            if isinstance(call, dict):
                plan = self._plan(self._by_name(call))
            else:
                plan = self._plan(self._with_bound(call if isinstance(call, tuple) else (call,)))
        except Exception as error:
            return failing(error)
        return plan if then is None else lambda: then(plan())

    def start(self, arrays: Callable[[], Sequence[Any]], then: Callable[[Any], Any]) -> Pending:
        """Run on the session's thread, then something on the results.

        `arrays` gives the arguments when it is called; `then` gets the results.
        """
        try:
            call = self._plan(self._with_bound(arrays()), keeps=True)
        except Exception as error:
            hide_frames(error)
            return Pending.failed(error)
        return started(self.queue, lambda: then(call()))

    def _by_name(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The arrays of all parameters, in order."""
        bound, names = self._bound, parameter_names(self.signature)
        everything = {**bound} | {self._place(name): array for name, array in arrays.items()}
        missing = [name for i, name in enumerate(names) if i not in everything]
        if missing:
            free = [name for i, name in enumerate(names) if i not in bound]
            raise ArgumentError(
                f"{self.signature.name} was run without {', '.join(missing)}",
                fix=f"pass one array for each of {', '.join(free)}",
            )
        return [everything[i] for i in range(len(names))]

    def _place(self, name: str) -> int:
        names = parameter_names(self.signature)
        if not isinstance(name, str) or name not in names:
            raise ArgumentError(
                f"{self.signature.name} has no parameter {name!r}",
                fix=f"its parameters are {', '.join(names)}",
            )
        return names.index(name)

    def _with_bound(self, arrays: Sequence[Any]) -> Sequence[Any]:
        bound, count = self._bound, len(self.signature.params)
        if not bound:
            return arrays
        free = [i for i in range(count) if i not in bound]
        if len(arrays) != len(free):
            raise wrong_count(self.signature.name, len(free), len(arrays))
        everything = {**bound, **dict(zip(free, arrays, strict=True))}
        return [everything[i] for i in range(count)]

    def _plan(self, arrays: Sequence[Any], keeps: bool = False) -> Callable[[], Any]:
        """Check the arguments and give away the donated ones; gives the call to make.

        If it `keeps` them, what others could write to until then is copied.
        """
        prepared = self._prepared(arrays)
        if keeps:
            pairs = zip(arrays, prepared, strict=True)
            prepared = [x if isinstance(given, Array) else x.copy() for given, x in pairs]
        return lambda: self._reuse(prepared)

    def try_donating(self, *arrays: Any) -> Any:
        """Run with donated `arrays` if they fit as they are, else give MISS.

        They are as many as the parameters.
        """
        prepared = []
        for given, (dtype, shape) in zip(arrays, self._specs, strict=True):
            array = given._data if type(given) is Array else given
            is_array = type(array) is np.ndarray and array.dtype is dtype and array.shape == shape
            if not is_array or not (array.flags.c_contiguous and array.flags.aligned):
                return MISS
            prepared.append(array)
        params = self.signature.params
        check_donated(params, arrays, self.donated)
        mark_donated(params, arrays, self.donated)
        del given, array  # which would show as references to the memory of the last
        return self._reuse(prepared)

    @cached_property
    def _specs(self) -> list[tuple[np.dtype, tuple[int, ...]]]:
        # only asked for where all sizes are known
        return [(p.type.dtype, p.type.shape) for p in self.signature.params]  # type: ignore[misc]

    def _reuse(self, prepared: list[np.ndarray]) -> Any:
        """Run; results take over the memory of donated arguments."""
        out: list[Any] = [None] * len(self.signature.results)
        for result, i in self._reused.items():
            out[result] = prepared[i] if alone(prepared, i) else None
        results = self._enter(prepared, out)
        return results[0] if len(results) == 1 else results

    def _prepared(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        params, name = self.signature.params, self.signature.name
        if not self.donated:
            return prepare(params, arrays, name, self._memory, self._sized)
        if len(arrays) == len(params):
            check_donated(params, arrays, self.donated)
        prepared = prepare(params, arrays, name, self._memory, self._sized)
        mark_donated(params, arrays, self.donated)
        return prepared

    @property
    def _memory(self) -> Memory | None:
        return self.executable.memory

    @cached_property
    def _sized(self) -> Sized:
        """The types of parameters for shapes that came before."""
        return {}

    @cached_property
    def _reused(self) -> dict[int, int]:
        return self.executable.reused_memory(self.donated) if self.donated else {}

    def _enter(self, prepared: Sequence[np.ndarray], out: Sequence[Any] = ()) -> tuple[Array, ...]:
        executable = self.executable
        if any(x is not None for x in out) and executable.entry_into:
            result = executable.entry_into(*prepared, *executable.held, *out)
        else:
            result = executable.entry(*prepared, *executable.held)
        assert result is not executable.miss, "prepared arguments fit"
        result = aliasing.make_here(result) if aliasing.open_traces else result
        return result if isinstance(result, tuple) else (result,)

    def _result_types(self, arrays: Sequence[Any]) -> list[Type]:
        """The types of the results for these arguments."""
        graph = self.signature
        if not is_symbolic(graph.param_types) or len(arrays) != len(graph.params):
            return list(graph.result_types)
        shapes = [np.shape(x) for x in arrays]
        sizes = bind_sizes(graph.param_types, shapes, parameter_names(graph))
        return [concrete_type(t, sizes) for t in graph.result_types]

    def _check_outputs(self, out: Sequence[np.ndarray], types: Sequence[Type]) -> None:
        if not isinstance(out, Sequence):
            raise ArgumentError(
                f"`out` is of type {type(out).__name__}, not a list of arrays",
                fix="pass a list, also for one result: out=[y]",
            )
        if len(out) != len(types):
            raise ArgumentError(
                f"{self.signature.name} has {len(types)} results, `out` has {len(out)} arrays",
                fix="pass one array for each result",
            )
        for i, (target, wanted) in enumerate(zip(out, types, strict=True)):
            if not is_dense(target, wanted) or not target.flags.writeable:
                check_output(i, target, wanted)
            if overlaps(target, out[:i]):
                raise ArgumentError(
                    f"out[{i}] shares memory with an earlier array of `out`",
                    fix=f"give each result its own array: {new_array(wanted)}",
                )

    # -- looking inside ---------------------------------------------------------------------------

    @property
    def stages(self) -> dict[str, str]:
        """The text of each stage, from the traced graph to the machine code."""
        return dict(self.executable.stages)

    def report(self) -> str:
        """How each op runs, what a precision policy cast, where donated memory goes.

        An op runs native, expanded or as a library call.
        """
        names = parameter_names(self.signature)
        takers = {i: result for result, i in self._reused.items()}
        lost = "the device has it" if self._memory else "no result can take it"
        lines = [
            f"donated {names[i]}: "
            + (f"result {takers[i]} takes its memory" if i in takers else lost)
            for i in self.donated
        ]
        return "\n".join([self.executable.report, *lines])

    def memory_plan(self) -> MemoryPlan:
        """What a call holds; an `ArgumentError` if it is compiled for each size."""
        if self.executable.make_plan is None:
            raise ArgumentError(
                f"the memory of {self.signature.name}, compiled for each size, is not known",
                fix="plan it for arrays of one size: rlx.memory_plan(f)(*args)",
            )
        return self.executable.make_plan(self.donated)

    def _tell_memory(self, error: DeviceMemoryError) -> None:
        """Say in an error that memory is missing what a call holds, and which lines need it."""
        if self.executable.make_plan and not error.notes:
            error.notes = self.memory_plan().notes

    def cost(self) -> Cost:
        """The work and memory of one call, by a static cost model."""
        flops, moved = self.executable.work()
        values = (*self.signature.params, *self.signature.results)
        outside = sum(likely(v.type.nbytes) for v in values)
        arena = self.executable.arena_bytes
        return Cost(flops, moved, arena, outside + arena)


@record(frozen=False, eq=False, repr=False)
class CompiledGraph(CompiledCode):
    """A graph compiled for a device; call it with one array for each parameter.

    Gives one array, or a tuple of arrays where the graph has not exactly one result. Parameters
    that were bound by `bind` or `set_param` are left out of the call. Any number of threads may
    call it at once.
    """

    graph: Graph  # as it was given to the session
    device: str  # by name
    executable: Executable  # the machine code of the device
    queue: Queue  # of calls that run on the session's thread
    donated: tuple[int, ...] = ()  # parameters whose arrays each call gives away
    _bound: dict[int, np.ndarray] = field(default_factory=dict)
    precision: Policy = AS_WRITTEN  # under which it was compiled
    unprepared: Executable | None = None  # takes prepared arrays for the fixed parameters

    def __post_init__(self) -> None:
        self.signature = self.graph

    __call__, run_into = CompiledCode._call, CompiledCode._fill

    def run(self, **arrays: Any) -> Any:
        """Call with `arrays` by the names of their parameters (see `names`).

        Returns one array, or a tuple of them where there is not exactly one result.
        """
        return self._plan(self._by_name(arrays))()

    def submit(self, *arrays: Any) -> Future[Any]:
        """Run on the session's thread, in order of submission, and give a future.

        The `arrays` are checked now. Memory of NumPy arrays is copied now, so the caller may change
        it at once; `rlx` arrays are not copied.
        """
        return self.submit_then(arrays, then=lambda results: results)

    def run_async(self, *arrays: Any) -> Pending:
        """Run on the session's thread or that of a `Stream`; gives a result to wait for.

        `arrays` are those of a call, or what other such calls gave. Use it as
        `p = c.run_async(x)`, then `p.result()`; or `await c.run_async(x)`. It does as `submit`, but
        all errors come out where the result is asked for.
        """
        pending = later(self._call, arrays, {})
        return pending or self.start(lambda: arrays, then=lambda results: results)

    def run_many(self, calls: Iterable[Any], *, return_errors: bool = False) -> list[Any]:
        """Run several calls, some of them concurrently, with results in order.

        Each of the `calls` is a tuple of arrays, a dict of arrays by their names, or one array. On
        the host some threads share them; another device is given one after the other, and works on
        them while Python goes on. All of them run, also where one fails: then the error of the
        first that failed is raised, or with `return_errors` each stands where its result would.

        >>> from rlx import Session
        >>> double = Session("cpu").compile(lambda x: x * 2, np.ones(2, np.float32))
        >>> [y.tolist() for y in double.run_many([np.full(2, i, np.float32) for i in range(3)])]
        [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]
        """
        plans = [self.planned(call) for call in given_calls("run_many", calls)]
        return run_all(plans, self._memory is None, return_errors)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters: `x`, or `params["w"]` for a part of an argument."""
        return parameter_names(self.graph)

    @property
    def bound(self) -> dict[str, Array]:
        """The bound parameters by name."""
        return {self.names[i]: _as_array(x) for i, x in sorted(self._bound.items())}

    def bind(self, name: str, array: Any) -> None:
        """Bind parameter `name` to `array` in all later calls, which leave it out.

        The memory of a dense NumPy array is shared, so that later calls see what is written into
        it; `set_param` copies instead.
        """
        place, prepared = self._checked(name, array)
        is_fixed = isinstance(array, Array)
        # a new table: a call in another thread sees all of the old one or all of the new one
        self._bound = {**self._bound, place: self._moved(prepared) if is_fixed else prepared}

    def set_param(self, name: str, array: Any) -> None:
        """Bind parameter `name` to a copy of `array` in all later calls.

        Calls then leave it out.
        """
        place, prepared = self._checked(name, array)
        copied = prepared if isinstance(array, Array) else prepared.copy()
        self._bound = {**self._bound, place: self._moved(copied)}

    def unbind(self, name: str) -> None:
        """Make the bound parameter `name` an argument of calls again."""
        place = self._place(name)
        self._bound = {i: array for i, array in self._bound.items() if i != place}

    def _checked(self, name: str, array: Any) -> tuple[int, np.ndarray]:
        place = self._place(name)
        if place in self.donated:
            raise ArgumentError(
                f"{name!r} of {self.graph.name} is donated, so each call needs an array of its own",
                fix="do not donate what is bound",
            )
        (prepared,) = prepare([self.graph.params[place]], [array], self.graph.name, self._memory)
        return place, prepared

    def _moved(self, prepared: Any) -> Any:
        """What no call changes, where the graph runs: calls need not copy it there."""
        memory = self._memory
        if memory is None or isinstance(prepared, Array):
            return prepared
        return Array(memory.from_host(prepared), memory)


def preparing(compiled: CompiledGraph, fixed: int) -> CompiledGraph:
    """The compiled graph that takes arrays as they are for fixed parameters.

    Others hold them, and prepare them once.
    """
    graph, executable = compiled.graph, compiled.executable

    def entry(*arrays: Any) -> Any:
        if len(arrays) != len(graph.params):
            return executable.miss
        count = len(arrays) - fixed
        last = prepare(graph.params[count:], arrays[count:], graph.name, executable.memory)
        return executable.entry(*arrays[:count], *executable.prepare(last))

    compiled.unprepared = executable
    compiled.executable = replace(
        executable,
        entry=entry,
        native=None,
        make_entry_into=None,
        make_entry_filling=lambda: lambda *arrays: MISS,
    )
    return compiled


def parameter_names(graph: Graph) -> tuple[str, ...]:
    """The names of parameters: those of arguments, else as in the graph's text."""
    names = []
    for i, param in enumerate(graph.params):
        is_argument = param.origin.startswith("argument ") and ", " in param.origin
        name = param.origin.split(", ", 1)[1] if is_argument else param.origin
        names.append(name or f"%{i}")
    return tuple(names)


def places_of(name: str, names: Sequence[str]) -> list[int]:
    """Indices of parameters with a name, or that are parts of an argument with it."""
    starts = (f"{name}[", f"{name}.")
    return [i for i, other in enumerate(names) if other == name or other.startswith(starts)]


def _as_array(prepared: Any) -> Array:
    return prepared if isinstance(prepared, Array) else Array(prepared)
