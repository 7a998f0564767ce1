"""Traced and compiled functions, as `jit` makes them for one kind of arguments.

From a function to the address of its code there are four objects. `Jitted` finds by the kind of the
arguments a `Compiled`: the structure of arguments and results, the constants, and an `Executable`
with all that a backend knows of the program. Its `entry` is an object of C that reads arrays and
jumps to the address. A call path (`paths.py`) goes to the entry past all of them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, final

import numpy as np

from ...ir.bind import is_symbolic
from ...ir.config import config
from ...ir.errors import ArgumentError, StructureError
from ...ir.graph import Graph
from ...ir.policy import Policy
from ...ir.record import field, record, replace
from ...ir.tracebacks import boundary
from ...ir.types import as_dtype
from ...runtime import MISS, Executable
from ...runtime.compiled import CompiledCode, CompiledGraph, Cost, parameter_names, places_of
from ...runtime.constants import WithConstants, compiled_with, meets_sizes
from ...runtime.debug import tell_tier_up
from ...runtime.queue import Queue
from ...runtime.session import CompileOptions, default_session
from ...trace import pytree
from ...trace.host import PYTHON_SCALARS
from ...trace.index import aliasing
from ...trace.make_graph import Traced
from .binding import Binding, bound_to, check_alone, others
from .paths import Arguments, call_path, into_path
from .signature import difference
from .sizes import with_leaves
from .tree_calls import Ready, TreeCalls

MarkStatic = Callable[[Any, Any], tuple[Any, Any]]


@record(frozen=False, eq=False, repr=False)
class Compiled(CompiledCode, TreeCalls):
    """A traced and compiled function for one kind of arguments.

    A call takes arguments like those it was recorded for; static ones may be left out, and bound
    ones must be.
    """

    traced: Traced  # its graph has no nodes if an earlier process traced it
    signature: Graph  # of the code, which holds captured arrays, or takes them as last
    device: str
    executable: Executable
    queue: Queue
    donated: tuple[int, ...]  # parameters whose arrays each call gives away
    precision: Policy  # under which it was compiled
    mark_static: MarkStatic
    options: CompileOptions
    record: Callable[[], Graph] | None = None  # traces it again if an earlier process did
    settled: threading.Lock = field(default_factory=threading.Lock)  # taken when code is to stay
    _binding: Binding | None = None
    _set: dict[str, Any] = field(default_factory=dict)  # what `set_param` was given

    @staticmethod
    def of(
        traced: Traced,
        code: CompiledGraph,
        mark_static: MarkStatic,
        options: CompileOptions,
        record: Callable[[], Graph] | None = None,
    ) -> Compiled:
        """The function whose graph was compiled."""
        plain = code.graph, code.device, code.executable, code.queue, code.donated, code.precision
        return Compiled(traced, *plain, mark_static, options, record)

    @property
    def compiled(self) -> CompiledGraph:
        """Its code alone, which takes one array for each parameter."""
        plain = self.signature, self.device, self.executable, self.queue, self.donated
        return CompiledGraph(*plain, precision=self.precision)

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self.record() if self.record else self.traced.graph

    @property
    def stages(self) -> dict[str, str]:
        """The text of each stage, from the traced graph to the machine code."""
        return self._binding.code.stages if self._binding else super().stages

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arrays: `x`, or `params["w"]` for a part of an argument."""
        return parameter_names(self.traced.graph)[: self.traced.n_args]

    def cost(self) -> Cost:
        """The work and memory of one call, by a static cost model."""
        return self._binding.code.cost() if self._binding else super().cost()

    def report(self) -> str:
        """Report how each op runs, and what was precomputed for bound arguments."""
        bound = self._binding
        return f"{bound.code.report()}\n{bound.report}" if bound else super().report()

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        code, arrays, unflatten = self._ready("__call__", args, kwargs)
        return unflatten(code._call(*arrays))

    @boundary
    def bind(self, **arguments: Any) -> None:
        """Bind arguments by name, as constants that later calls leave out.

        What depends on these alone is computed now, and their matrices are packed for products.
        They stay the same until they are bound again, which compiles nothing; `bind()` frees them
        all. The memory of NumPy arrays is not shared.

        >>> import rlx
        >>> scale = rlx.jit(lambda x, factor: x * factor)
        >>> scale = scale.lower(rlx.array([1.0, 2.0]), rlx.array(3.0)).compile()
        >>> scale.bind(factor=rlx.array(10.0))
        >>> scale(rlx.array([1.0, 2.0])).tolist()
        [10.0, 20.0]
        """
        self._binding, self._set = self._bound_to(arguments) if arguments else None, {}

    @boundary
    def bind_shared(self, **arguments: Any) -> None:
        """Bind like `bind`, in one copy for all processes.

        What `arguments` become is kept in a file of the disk cache, by their content and the code,
        which processes map. It is as `bind` on other devices than `cpu`, without a cache, and for
        more than a quarter of `config.cache_disk_bytes`.

        >>> import rlx
        >>> scale = rlx.jit(lambda x, factor: x * factor)
        >>> scale = scale.lower(rlx.array(1.0), rlx.array(3.0)).compile()
        >>> scale.bind_shared(factor=rlx.array(10.0))
        """
        self._binding, self._set = self._bound_to(arguments, in_files=True), {}

    @boundary
    def with_bound(self, **arguments: Any) -> Compiled:
        """The same code with other `arguments` bound; this function stays as it is.

        Compiles nothing if the same names are bound here. So equal layers share their code.

        >>> import rlx
        >>> scale = rlx.jit(lambda x, factor: x * factor)
        >>> scale = scale.lower(rlx.array([1.0, 2.0]), rlx.array(3.0)).compile()
        >>> scale.bind(factor=rlx.array(10.0))
        >>> both = scale, scale.with_bound(factor=rlx.array(2.0))
        >>> [f(rlx.array([1.0, 2.0])).tolist() for f in both]
        [[10.0, 20.0], [2.0, 4.0]]
        """
        given = arguments, bool(self._binding and self._binding.in_files)
        return replace(self, _binding=self._bound_to(*given) if arguments else None, _set={})

    @boundary
    def set_param(self, name: str, value: Any) -> None:
        """Bind one argument to a copy of an array.

        These calls leave the argument out. Other arguments that were set stay so. Their arrays are
        kept: where memory matters, `bind` all arguments at once.

        >>> import rlx
        >>> affine = rlx.jit(lambda x, a, b: x * a + b).lower(*rlx.numpy.ones((3, 1))).compile()
        >>> affine.set_param("a", rlx.array([3.0]))
        >>> affine.set_param("b", rlx.array([1.0]))
        >>> affine(rlx.array([2.0])).tolist(), affine.bound
        ([7.0], ('a', 'b'))
        """
        check_alone(self, self.bound, self._set, name)
        copied = pytree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, value)
        self._rebind({**self._set, name: copied})

    @boundary
    def unbind(self, name: str) -> None:
        """Unbind an argument, so that calls take it again.

        It was bound by `set_param`, or is the only bound one.
        """
        if name not in self.bound:
            raise ArgumentError(
                f"{name!r} of {self.traced.graph.name} is not bound",
                fix=f"bound are: {', '.join(self.bound) or 'none'}",
            )
        if self.bound == (name,):
            return self.bind()
        check_alone(self, self.bound, self._set, name)
        self._rebind({other: value for other, value in self._set.items() if other != name})

    @property
    def bound(self) -> tuple[str, ...]:
        """The names of the arguments that are bound, which calls leave out."""
        return tuple(sorted(self._binding.names)) if self._binding else ()

    def _rebind(self, given: dict[str, Any]) -> None:
        self._binding, self._set = self._bound_to(given), given

    def _bound_to(self, given: dict[str, Any], in_files: bool = False) -> Binding:
        def compiled(constants: Sequence[int]) -> WithConstants:
            session = default_session(self.device)
            return WithConstants.of(session, self.graph, constants, self.options)

        return bound_to(self, self.traced, compiled, self._binding, given, in_files)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The leaves of arguments, checked against those it was traced for."""
        leaves, tree = pytree.flatten((args, kwargs))
        if tree == self._without_static:
            return leaves
        leaves, tree = pytree.flatten(self.mark_static(args, kwargs))
        if tree == self.traced.in_tree:
            return leaves
        place = difference(self.traced.in_tree, tree)
        raise StructureError(
            f"{self.traced.graph.name} was compiled for other arguments: {place}",
            fix="pass arguments with the containers, keys and static values it was compiled for",
        )

    @functools.cached_property
    def _without_static(self) -> pytree.Structure:
        """The structure of the arguments that are arrays."""
        return others(self.traced)

    @functools.cached_property
    def captures(self) -> tuple[Any, ...]:
        """Captured arrays that the code takes as arguments."""
        is_held = len(self.signature.params) == self.traced.n_args
        return () if is_held else self.traced.captures

    @functools.cached_property
    def passed(self) -> tuple[Any, ...]:
        """Arrays that machine code takes after the leaves."""
        return (*self.captures, *self.executable.held)

    def ready(self, leaves: Sequence[Any]) -> Ready:
        """A call on the leaves of the arguments, none of them bound."""
        return self, (*leaves, *self.captures), self._unflatten

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on the leaves of the arguments, none of them bound."""
        return self._unflatten(self._call(*leaves, *self.captures))

    def fill(self, leaves: Sequence[Any], out: Any) -> None:
        """Run on the leaves of the arguments, and write the results into a tree of arrays."""
        self._fill(*leaves, *self.captures, out=self.outs(out))

    def _ready(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ready:
        bound = self._binding
        if bound is None:
            return self.ready(self._leaves(args, kwargs))
        return bound.code, bound.leaves(args, kwargs), self._unflatten

    def try_run(self, leaves: Sequence[Any]) -> Any:
        """Run if the leaves are arrays that fit as they are; else give MISS."""
        if (
            not self.has_path
            or self.donated
            or not all(
                type(leaves[i]) is kind if kind else type(leaves[i]) not in PYTHON_SCALARS
                for i, kind in self.scalars.items()
            )
        ):
            return MISS
        results = self.executable.entry(*leaves, *self.passed)
        if results is MISS:
            return MISS
        return self._unflatten(aliasing.make_here(results) if aliasing.open_traces else results)

    @functools.cached_property
    def has_path(self) -> bool:
        """Whether a call path may enter its machine code."""
        return self.executable.miss is MISS

    @functools.cached_property
    def scalars(self) -> dict[int, type | None]:
        """For each leaf the Python type of number that it may be, or None for an array."""
        rows = enumerate(zip(self.traced.graph.params, self.traced.in_weak, strict=False))
        return {i: _python_type(p.dtype) if w else None for i, (p, w) in rows if p.type.rank == 0}

    def improve(self) -> None:
        """Tier up: replace the machine code by better code."""
        executable = self.executable
        assert executable.make_tier_up is not None, "there is no better code"
        better = executable.make_tier_up()
        self.executable = executable.improved(better)
        default_session(self.device).cache.improve(executable.make_tier_up, better)

    def path(self, arguments: Arguments) -> Callable[..., Any]:
        """Make the call path into the machine code for arguments like these."""
        traced, entry = self.traced, self.executable.entry
        out, count = traced.out_tree, len(traced.graph.results)
        is_flat_out = out.is_leaf() or (count != 1 and out == pytree.structure((0,) * count))
        is_flat_in = traced.in_tree == pytree.structure(((0,) * traced.n_args, {}))
        if self.donated:
            return call_path(self.try_donating, traced, arguments, self.scalars, self.captures)
        if is_flat_in and is_flat_out and not (self.passed or self.scalars):
            return entry
        return call_path(entry, traced, arguments, self.scalars, self.passed)

    @boundary
    def run_into(self, *args: Any, out: Any, **kwargs: Any) -> None:
        """Run, and write the results into a tree of writable NumPy arrays.

        Nothing is allocated or copied for an array that is dense and apart from the arguments.
        """
        code, arrays, _ = self._ready("run_into", args, kwargs)
        code._fill(*arrays, out=self.outs(out))

    def outs(self, out: Any) -> list[Any]:
        """The arrays of a tree like the result."""
        sides = ("the result", "`out`")
        return pytree.flatten_like(self.traced.out_tree, out, "run_into", sides)

    def path_into(self, arguments: Arguments, out: Any) -> Callable[..., Any]:
        """Make the call path into machine code that writes to arrays like `out`."""
        entry = self.executable.entry_filling
        return into_path(entry, self.traced, arguments, self.scalars, self.passed, out)

    def _unflatten(self, results: Any) -> Any:
        results = results if isinstance(results, tuple) else (results,)
        return pytree.unflatten(self.traced.out_tree, results)


@record(frozen=False, repr=False)
class Lowered:
    """A traced function that is not compiled yet."""

    traced: Traced
    device: str
    options: CompileOptions
    mark_static: MarkStatic = lambda args, kwargs: (args, kwargs)

    def __repr__(self) -> str:
        return f"<{self.traced.graph.signature} recorded for {self.device}>"

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self.traced.graph

    def compile(self) -> Compiled:
        """Compile the function for its device."""
        names = parameter_names(self.graph)
        given = tuple(name for name in self.options.donate if places_of(name, names))
        options = replace(self.options, donate=given)
        if options.in_shardings is not None or options.out_shardings is not None:
            options = with_leaves(options, self.traced)
        session = default_session(self.device)
        # each call looks whether a donated array is one from outside
        is_open = bool(given)
        if is_symbolic(self.graph.param_types):
            is_open = is_open or meets_sizes(session, options)
        captures = () if is_open else self.traced.captures
        if captures:
            compiled = compiled_with(session, self.graph, captures, options)
        else:
            compiled = session.compile(self.graph, options=options)
        return Compiled.of(self.traced, compiled, self.mark_static, options)


def _python_type(dtype: np.dtype) -> type:
    """The Python type whose default dtype this is."""
    return next(kind for kind in PYTHON_SCALARS if as_dtype(kind) == dtype)


# -- tier-up: better machine code for programs that have run long ---------------------------------

# `jit(tier="auto")` leaves out passes of LLVM that take half of a compile again and make most
# programs faster by less than a tenth, some by half. Nobody knows how long a program will run; the
# best guess is as long as it has run. So its calls are timed, and when they have taken some ten
# times as long as its compile did, another thread makes the better code, and the next call enters
# it. Results are the same to the last bit. Calls that are over sooner than timing pays are not.
PAYS_AFTER = 10.0  # compiles' worth of running
LOOKS = 8  # calls, after which they are not timed any more if they are short
SHORT = 100e-6  # seconds of a call; timing takes a fifth of a microsecond
NICENESS = 5  # of the thread that compiles: the program should hardly feel it


def may_be_better(entry: Compiled) -> bool:
    """Whether a compiled function may tier up, so that its calls are timed."""
    return not entry.settled.locked() and config.swap and entry.executable.make_tier_up is not None


@final
class TimedPath:
    """A call path that times its calls, to find out when better code pays off."""

    def __init__(
        self, path: Callable[..., Any], entry: Compiled, settle: Callable[[Compiled], None]
    ) -> None:
        self._path, self._entry, self._settle = path, entry, settle
        self._limit = PAYS_AFTER * entry.executable.compile_seconds
        self._calls, self._seconds = 0, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        result = self._path(*args, **kwargs)
        if result is not MISS:
            self._calls += 1
            self._seconds += perf_counter() - began
            pays = self._seconds > self._limit
            if pays or (self._calls >= LOOKS and self._seconds < self._calls * SHORT):
                self._end(pays and config.swap)
        return result

    def _end(self, pays: bool) -> None:
        """End the timing, and let another thread make better code, unless one did."""
        is_first = self._entry.settled.acquire(blocking=False)
        self._settle(self._entry)
        if is_first and pays:
            thread = threading.Thread(target=self._improve, name="rlx improves", daemon=True)
            with suppress(RuntimeError):  # while Python ends no thread can start
                thread.start()

    def _improve(self) -> None:
        if sys.platform == "linux":  # elsewhere this would be the priority of the process
            with suppress(OSError):  # a sandbox may forbid it
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        began, problem = perf_counter(), ""
        try:
            self._entry.improve()
        except Exception as error:  # the code there is stays good
            problem = str(error)
        self._settle(self._entry)
        name = self._entry.traced.graph.name
        tell_tier_up(name, self._seconds, perf_counter() - began, problem)
