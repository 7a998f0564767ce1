"""Sessions, which compile graphs: a device, options and a compile cache."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..backends import registry
from ..backends.backend import MISS, Executable, Lasting
from ..backends.locks import hold_in_forks
from ..ir.bind import is_symbolic, unbound
from ..ir.config import Settings, config
from ..ir.errors import ArgumentError, DeviceMismatchError, SymbolicSizeError
from ..ir.fingerprint import fingerprint, places
from ..ir.graph import Graph
from ..ir.policy import Policy, policy_of
from ..ir.record import replace
from ..ir.sharding import Shardings
from ..lower.target import Target
from ..trace.array import Array
from ..trace.make_graph import Traced, trace
from .cache import CompileCache, compiling
from .compiled import CompiledGraph, parameter_names, places_of, preparing
from .debug import dump, tell_compile, tell_hit, tell_slow
from .devices import default_device
from .options import CompileOptions, as_asked, check_whole, options_of
from .precision import prepared, with_report
from .queue import Queue
from .sizes import bucketed, specialized

if TYPE_CHECKING:
    from ..lower.memory_plan import MemoryPlan

_opening = hold_in_forks(0, threading.Lock())


class Session:
    """A session compiles graphs for one `device` and caches them.

    It keeps `capacity` programs; the least recently used is dropped first. `precision` is the
    policy of what it compiles (or its name, `mixed_bf16`), unless a compile has its own; without
    one that of `rlx.precision` holds. `policy` is another word for it.

    >>> import numpy as np
    >>> session = Session("cpu")
    >>> double = session.compile(lambda x: x * 2.0, np.ones(2, "float32"))
    >>> double(np.ones(2, "float32")).tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        device: str | None = None,
        *,
        capacity: int = 1024,
        precision: Policy | str | None = None,
        policy: Policy | str | None = None,
    ) -> None:
        check_whole("Session", "capacity", capacity)
        self.device = registry.shortest(default_device() if device is None else device)
        self.precision = _one_policy(precision, policy)
        self.backend = registry.get(self.device)
        self.cache = CompileCache(capacity)
        self._queue = Queue()

    def __repr__(self) -> str:
        return f"<session on {self.device}: {self.cache.stats.entries} programs>"

    def compile(
        self,
        program: Graph | Callable[..., Any],
        *specs: Any,
        options: CompileOptions | Mapping[str, Any] | None = None,
    ) -> CompiledGraph:
        """Compile `program`: a graph, or a function for arguments like `specs`.

        `options` may be a dict of the fields of `CompileOptions`, as {"tier": "max"}. Returns a
        `CompiledGraph`. Specs beside a graph are an `ArgumentError`.
        """
        options = options_of(options)
        if isinstance(program, Graph) and specs:
            raise ArgumentError(
                f"{program.name} is a graph, whose parameters have types already; specs were given",
                fix="leave them out: session.compile(graph)",
            )
        graph = program if isinstance(program, Graph) else self._closed(trace(program, specs))
        options.check_for(graph)
        self._check_fusing(options)
        options = as_asked(graph, options)
        name = options.name or graph.name
        settings = config.settings  # as they are now: another thread may change them
        check = settings.check if options.check is None else options.check
        policy = self.policy_for(options)
        made: list[Executable] = []

        def compile(graph: Graph) -> Executable:
            return self._compile(_checked(graph, options, settings), name, key[0], check, options)

        def make() -> Executable:
            whole = graph if options.dce else with_dead(graph)
            precise = prepared(_checked_inside(whole, settings), policy, options.const_fold)
            executable = self._sized(precise.graph, compile, options)
            is_plain = precise.graph is graph
            executable = executable if is_plain else with_report(executable, lambda: graph, policy)
            made.append(executable if whole is graph else first_of(executable, len(graph.results)))
            return made[0]

        self._check_placed(graph)
        self._check_shardings(graph, options)
        sizes = (options.specialize, options.buckets, options.deterministic, options.fixed)
        sizes += (options.in_shardings, options.out_shardings, options.debug_nans, options.dce)
        sizes += (options.const_fold, options.fuse, options.dump_ir, options.assert_fused)
        lines = places(graph) if config.profile else ""  # which timers tell of
        key = (fingerprint(graph), check, settings.compiled_in, sizes, options.tier, policy, lines)
        executable = self.cache.get(key, make)
        if not made:
            tell_hit(name, graph, self.device)
        # the names in it are this graph's, even if an equal one was compiled before
        compiled = CompiledGraph(graph, self.device, executable, self._queue, precision=policy)
        compiled.donated = _donated(compiled, options.donate)
        if compiled.donated and executable.make_donating:
            with compiling:
                compiled.executable = executable.make_donating(compiled.donated)
        return preparing(compiled, options.fixed) if options.fixed else compiled

    @property
    def policy(self) -> Policy:
        """The precision policy of what it compiles without one of its own.

        >>> Session("cpu", precision="bf16").policy.text
        'always_bf16'
        """
        return config.precision if self.precision is None else self.precision

    def with_policy(self, policy: Policy | str) -> Session:
        """A session of the same device under another precision policy, with its own cache."""
        return Session(self.device, capacity=self.cache.capacity, precision=policy)

    def policy_for(self, options: CompileOptions) -> Policy:
        """The precision policy of a compile with `options`: theirs, or the session's."""
        return self.policy if options.precision is None else policy_of(options.precision)

    def examine(self, graph: Graph, options: CompileOptions) -> dict[str, Counter[str]]:
        """What would become of the ops of a `graph`; an error if it cannot be compiled.

        `options` are those of the compile.
        """
        self._check_placed(graph)
        graph = prepared(graph, self.policy_for(options)).graph
        self._check_sizes(graph, options)
        return self.backend.examine(graph)

    def memory_plan(
        self, graph: Graph, options: CompileOptions, donated: Sequence[int] | None = None
    ) -> MemoryPlan:
        """What a call of a `graph` will hold in memory, compiled with some `options`.

        `donated` are parameters that give their memory to results; None takes those of the options.
        """
        graph = prepared(graph, self.policy_for(options)).graph
        names = parameter_names(graph)
        if donated is None:
            donated = [i for name in options.donate for i in places_of(name, names)]
        return self.backend.memory_plan(graph, self._target(options).get("target"), donated)

    def recall(
        self,
        lasting: Lasting,
        signature: Graph,
        record: Callable[[], Graph],
        options: CompileOptions,
    ) -> CompiledGraph | None:
        """Compile a graph that an earlier process compiled, if its code is still at hand.

        `lasting` is its key in the trace cache, `signature` the graph without nodes, `record` gives
        the whole graph to who looks inside, `options` are those of the compile.
        """
        began = time.perf_counter()
        policy = self.policy_for(options)
        with compiling:
            executable = self.backend.recall(
                lasting,
                signature,
                lambda: prepared(record(), policy).graph,
                Array,
                **self._target(options),
            )
        if executable is None:
            return None
        executable = with_report(executable, record, policy)
        executable.make_plan = lambda given: self.memory_plan(record(), options, given)
        executable = self._recorded(executable, signature.name, signature, began)
        tell_compile(
            signature.name, signature, self.device, executable, time.perf_counter() - began
        )
        compiled = CompiledGraph(signature, self.device, executable, self._queue, precision=policy)
        given = tuple(name for name in options.donate if places_of(name, compiled.names))
        compiled.donated = _donated(compiled, given)
        return compiled

    def _sized(
        self, graph: Graph, compile: Callable[[Graph], Executable], options: CompileOptions
    ) -> Executable:
        """Compile a graph in the way its symbolic sizes, if there are any, are to be met."""
        self._check_sizes(graph, options)
        if not is_symbolic(graph.param_types):
            return compile(graph)
        # the numbers in padding are not the user's to look at
        looks = config.debug_nans or config.debug_infs or options.debug_nans
        if options.buckets and not looks:
            return bucketed(graph, compile, options.buckets, self.backend.memory)
        if options.buckets or options.specialize:
            return specialized(graph, compile, self.backend.memory)
        return compile(graph)

    def _check_sizes(self, graph: Graph, options: CompileOptions) -> None:
        """Raise if the symbolic sizes of a graph, if there are any, cannot be met."""
        missing = unbound(graph)
        if missing:
            raise SymbolicSizeError(
                f"{graph.name}: no argument's shape tells the size {', '.join(missing)}",
                fix=f"let an axis of an argument be {missing[0]!r}",
            )
        is_met = bool(options.buckets) or options.specialize or not is_symbolic(graph.param_types)
        if not is_met and not self.backend.target.has_symbolic_sizes:
            raise SymbolicSizeError(
                f"{graph.name}: the device {self.device} compiles for known sizes only",
                fix='pass specialize=True, or buckets={"seq": (64, 128, 256)}, to rlx.jit',
            )

    def _closed(self, traced: Traced) -> Graph:
        if traced.captures:
            raise ArgumentError(
                f"{traced.graph.name} uses arrays from outside ({len(traced.captures)})",
                fix="pass them as arguments, or use rlx.jit, which passes them for you",
            )
        return traced.graph

    def _compile(
        self, graph: Graph, name: str, key: str, check: bool, options: CompileOptions
    ) -> Executable:
        began = time.perf_counter()
        more: dict[str, Any] = {"fixed": options.fixed} if options.fixed else {}
        more |= self._target(options)
        if options.in_shardings or options.out_shardings:
            inputs = options.in_shardings or (None,) * len(graph.params)
            more["shardings"] = Shardings(
                inputs, options.out_shardings or (None,) * len(graph.results)
            )
        try:
            with tell_slow(name, graph, self.device, options.tier):
                executable = self.backend.compile(graph, Array, check=check, **more)
        except BaseException:
            dump(name, graph, self.device, key, None)
            raise
        tell_compile(name, graph, self.device, executable, time.perf_counter() - began)
        dump(name, graph, self.device, key, executable, options.dump_ir)
        target = more.get("target")
        executable.make_plan = lambda given: self.backend.memory_plan(graph, target, given)
        return self._recorded(executable, name, graph, began)

    def _recorded(
        self, executable: Executable, name: str, graph: Graph, began: float
    ) -> Executable:
        """The executable, whose calls are recorded if programs are to be timed."""
        if not config.profile:
            return executable
        from . import recording  # with what is known of steps, which few programs need

        recording.record_compile(name, self.device, int(began * 1e9))
        return recording.timed(executable, name, graph, self.device)

    def _check_fusing(self, options: CompileOptions) -> None:
        """Raise if the device cannot do as the options say of fusion."""
        if options.assert_fused and not self.backend.has_arena:
            raise ArgumentError(
                f"the device {self.device} fuses operations itself, and does not tell which",
                fix="leave out assert_fused, or use device='cpu'",
            )
        if options.fuse is not True and not self.backend.can_split:
            raise ArgumentError(
                f"the device {self.device} always fuses operations as it likes",
                fix="leave out fuse, or use device='cpu'",
            )

    def _check_placed(self, graph: Graph) -> None:
        """Raise if a function in the graph was compiled for another device by name."""
        for placed in graph.placed:
            if placed.device != self.device:
                raise DeviceMismatchError(
                    f"{graph.name} is compiled for {self.device!r}, but {placed.who}, which it "
                    f"calls, for {placed.device!r}",
                    where=placed.where,
                    fix=f"name one device for both, or leave the device out of {placed.who}",
                )

    def _check_shardings(self, graph: Graph, options: CompileOptions) -> None:
        """Raise if parameters or results cannot be parted as the options say."""
        for field in ("in_shardings", "out_shardings"):
            if not isinstance(getattr(options, field), tuple | list | None):
                raise ArgumentError(
                    f"{field} is {getattr(options, field)!r}",
                    fix="give a list: a NamedSharding or None for each parameter or result",
                )
        given = [*(options.in_shardings or ()), *(options.out_shardings or ())]
        if any(s is not None for s in given) and not self.backend.has_shardings:
            raise ArgumentError(
                f"the device {self.device} does not part arrays among devices",
                fix='use the device of the mesh, as device="xla"',
            )
        sides = (("parameter", graph.params, options.in_shardings),)
        sides += (("result", graph.results, options.out_shardings),)
        for word, values, shardings in sides:
            for i, (value, sharding) in enumerate(zip(values, shardings or (), strict=False)):
                if sharding is not None:
                    sharding.check(value.shape, value.origin or f"{word} {i} of {graph.name}")

    def _target(self, options: CompileOptions) -> dict[str, Target]:
        """What the backend is told of a target that is not its own."""
        target = self.backend.target
        if options.deterministic:
            target = self._invariant_target()
        if options.tier != target.tier:
            target = replace(target, tier=options.tier)
        asked = options.const_fold, options.fusions, options.assert_fused
        if asked != (target.folds, target.fuses, target.asserts_fused):
            folds, fuses, asserts = asked
            target = replace(target, folds=folds, fuses=fuses, asserts_fused=asserts)
        if config.profile and self.backend.has_timers:
            target = replace(target, timed=True)
        return {} if target is self.backend.target else {"target": target}

    def _invariant_target(self) -> Target:
        if self.backend.invariant_target is None:
            raise ArgumentError(
                f'the device {self.device} does not offer deterministic="batch"',
                fix='use device="cpu"',
            )
        return self.backend.invariant_target


def with_dead(graph: Graph) -> Graph:
    """The graph with further results: what nothing needs, and would be left out."""
    known = {*graph.results, *graph.users()}
    dead = [value for node in graph.nodes for value in node.results if value not in known]
    return replace(graph, results=[*graph.results, *dead]) if dead else graph


def first_of(executable: Executable, count: int) -> Executable:
    """The executable that gives the first of its results alone."""
    entry, miss = executable.entry, executable.miss

    def run(*arrays: Any) -> Any:
        found = entry(*arrays)
        if found is miss:
            return miss
        found = found if isinstance(found, tuple) else (found,)
        return found[0] if count == 1 else found[:count]

    return replace(
        executable,
        entry=run,
        make_entry_into=None,
        make_entry_filling=lambda: lambda *arrays: MISS,
        make_donating=None,
        make_tier_up=None,
    )


def _checked_inside(graph: Graph, settings: Settings) -> Graph:
    """The graph with looks in the functions that were jitted with `debug_nans`."""
    if settings.debug_nans or not any(node.attrs.get("debug_nans") for node in graph.walk()):
        return graph
    from ..lower.hir.number_checks import with_asked_checks

    return with_asked_checks(graph)


def _checked(graph: Graph, options: CompileOptions, settings: Settings) -> Graph:
    """The graph with looks at numbers, as the options and the settings ask for them."""
    nans, infs = settings.debug_nans or options.debug_nans, settings.debug_infs
    if not (nans or infs):
        return graph
    from ..lower.hir.number_checks import with_checks  # with all of lowering, 20 ms to import

    return with_checks(graph, nans=nans, infs=infs)


def _donated(compiled: CompiledGraph, names: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of the parameters with these names."""
    found: dict[int, None] = {}
    for name in names:
        places = places_of(name, compiled.names)
        if not places:
            raise ArgumentError(
                f"{compiled.graph.name} has no parameter {name!r} to donate",
                fix=f"its parameters are {', '.join(compiled.names)}",
            )
        found.update(dict.fromkeys(places))
    return tuple(found)


def _one_policy(precision: Policy | str | None, policy: Policy | str | None) -> Policy | None:
    """The policy under either of its two names."""
    if precision is not None and policy is not None:
        raise ArgumentError(
            "Session was given `precision` and `policy`, which are two names of one thing",
            fix="give one of them",
        )
    given = precision if policy is None else policy
    return None if given is None else policy_of(given)


def default_session(device: str | None = None) -> Session:
    """The session `rlx.jit` uses for a device."""
    with _opening:
        name = registry.shortest(default_device() if device is None else device)
        return _session(name, registry.times_registered(name))


@cache
def _session(device: str, times: int = 0) -> Session:
    return Session(device)
