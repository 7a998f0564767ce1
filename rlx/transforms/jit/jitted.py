"""Jitted functions: trace and compile for each kind of arguments, then call."""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from ...ir.config import Settings, config
from ...ir.errors import (
    ArgumentError,
    ConcretizationError,
    DeviceMemoryError,
    StaticArgumentError,
)
from ...ir.graph import OPS, Graph, Value
from ...ir.number_check import looking
from ...ir.policy import policy_of
from ...ir.record import replace
from ...ir.tracebacks import boundary, hide_frames
from ...ir.types import Type
from ...runtime import MISS, Device, default_device
from ...runtime.cache import SingleFlight
from ...runtime.debug import tell_reason
from ...runtime.session import CompileOptions, default_session
from ...trace import pytree
from ...trace.apply import as_leaf, as_operand, operand_type, to_value
from ...trace.array import Array
from ...trace.index import aliasing
from ...trace.make_graph import Traced, function_name, nested_too_deeply, titled, trace
from ...trace.named import asked_axes
from ...trace.placement import common_device, run_here
from ...trace.tensor import TracedTensor
from .compiled import Compiled, Lowered, TimedPath, may_be_better
from .disable import run_at_once
from .paths import Arguments, Call, missed, unless_static
from .signature import (
    CacheInfo,
    Key,
    LruCache,
    check_recompile,
    dynamic_advice,
    kinds_of,
    reason_to_compile,
)
from .sizes import Dynamic
from .trace_cache import TraceCache
from .tree_calls import Ready, TreeCalls

AUTO = "auto"  # the device that the cost model predicts to be fastest
PATHS = 4  # kinds of arguments that are tried before they are looked at
KEPT = 512  # kinds of arguments a function stays compiled for


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result", covariant=True)


class Jitted(TreeCalls, Generic[Parameters, Result]):
    """A function that `jit` compiles when it is called."""

    def __init__(
        self,
        fn: Callable[Parameters, Result],
        static: tuple[str, ...],
        options: CompileOptions,
        device: str | None,
        dynamic: Dynamic | None,
    ) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._static, self._options, self._dynamic = static, options, dynamic
        for name in set(self._static) & set(options.donate):
            raise StaticArgumentError(
                f"the argument {name!r} is static and donated",
                fix="make it static or donate it: only arrays can be donated",
            )
        self._is_auto = isinstance(device, str) and device == AUTO
        self._named = None if device is None or self._is_auto else Device(device)
        self._entries, self._making = LruCache(), SingleFlight()
        self._compiles, self._reason = 0, ""
        self._recent: Compiled | None = None
        self._fast: Callable[..., Any] = missed
        self._paths: dict[Any, Callable[..., Any]] = {}
        self._into: Callable[..., Any] = missed
        self._elsewhere: dict[str, Jitted] = {}
        self._follows = False  # whether it is there for arguments on its device
        self._last: Jitted | None = None  # the one of `_elsewhere` that was called last
        self._chosen: dict[Any, str] = {}  # devices, by kinds of arguments and where these lie
        _jitted.add(weakref.ref(self, _jitted.discard))
        default_session(self._device)  # an unknown device is an error here, not at the first call

    def __repr__(self) -> str:
        kinds = f"{self._compiles} kind{'s' * (self._compiles != 1)}"
        return f"<{titled('jit', self._fn)} on {self._device}: {kinds} compiled>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: its first argument is the instance, a pytree such as a module."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            result = self._fast(*args, **kwargs)
            if result is MISS:
                return self._slow(args, kwargs)
            return made_here(result) if aliasing.open_traces else result
        except RecursionError:
            raise nested_too_deeply(function_name(self._fn)) from None
        except BaseException as error:
            if isinstance(error, DeviceMemoryError):
                self._tell_memory(error)
            hide_frames(error)
            raise

    def _tell_memory(self, error: DeviceMemoryError) -> None:
        """Say what the call that was made last holds in memory."""
        entered = [each for each, path in self._paths.items() if path is self._fast]
        for entry in (*entered, self._recent):
            if isinstance(entry, Compiled):
                entry._tell_memory(error)
                return

    @boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the function for arguments like these."""
        marked = self._arguments(args, kwargs)
        call = Call(Arguments(marked, marked), *pytree.flatten(marked))
        traced = self._trace(call)
        return self._where(call, traced)._lower(traced)

    @property
    def _device(self) -> Device:
        return self._named or default_device()

    def _where(self, call: Call, traced: Traced | None = None) -> Jitted:
        """The function for the device of its arguments, unless one was named.

        Captured arrays, known when it is `traced`, count too, and so do functions it calls that are
        compiled for a device by name.
        """
        if self._named and not self._follows:
            return self
        if self._is_auto:
            name = self._fastest(call)
        else:
            outside = (*traced.captures, *traced.baked) if traced else ()
            placed = traced.graph.placed if traced else ()
            memory = common_device(function_name(self._fn), (*call.leaves, *outside), placed)
            name = self._device if memory is None else memory.name
            name = placed[0].device if placed else name
        if name == self._device:
            return self
        if name not in self._elsewhere:
            made = Jitted(self._fn, self._static, self._options, name, self._dynamic)
            made._follows = not self._is_auto
            self._elsewhere.setdefault(name, made)  # another thread may have made it meanwhile
        return self._elsewhere[name]

    def _fastest(self, call: Call) -> str:
        """The device that the cost model predicts to be fastest for such arguments."""
        if call.is_traced:
            return str(self._device)  # it becomes a part of another function
        places = tuple(x.device if isinstance(x, Array) else "" for x in call.leaves)
        key = call.tree, kinds_of(self._fn, call), places
        if key not in self._chosen:
            traced = self._trace(call)
            self._chosen = {**self._chosen, key: self._best(traced, call)}
        return self._chosen[key]

    def _best(self, traced: Traced, call: Call) -> str:
        """The device of a function in the graph that names one, else the fastest."""
        if traced.graph.placed:
            return traced.graph.placed[0].device
        from ...tools.costs import explain

        leaves, name = [*call.leaves, *traced.captures], function_name(self._fn)
        return explain(traced, leaves, self._options, name).best

    def _trace(self, call: Call) -> Traced:
        """Trace the function, with symbolic sizes for dynamic arguments."""
        if self._dynamic is None:
            return trace(self._fn, *call.marked)
        types = [x if isinstance(x, Type) else operand_type(as_operand(x)) for x in call.leaves]
        opened = self._dynamic.types(call, types)
        rows = zip(call.leaves, types, opened, strict=True)
        known = [x if now == was else now for x, was, now in rows]
        return trace(self._fn, *pytree.unflatten(call.tree, known))

    def _lower(self, traced: Traced) -> Lowered:
        options = self._options
        if self._dynamic is not None:
            buckets = self._dynamic.buckets_of(traced.graph, options.buckets)
            options = replace(options, buckets=buckets)
        return Lowered(traced, self._device, options, self._arguments)

    def cache_size(self) -> int:
        """The number of kinds of arguments that it is compiled for."""
        return sum(key.is_current for each in self._everywhere for key in each._entries)

    @property
    def _everywhere(self) -> list[Jitted]:
        return [self, *self._elsewhere.values()]

    def cache_info(self) -> CacheInfo:
        """Statistics of the compile cache, and why it was last compiled."""
        compiles = sum(each._compiles for each in self._everywhere)
        size = sum(each._entries.bytes for each in self._everywhere)
        last = self._last or self
        counts = self.cache_size(), KEPT, compiles, last._reason, size, config.cache_bytes
        known = [(key, entry.names) for key, entry in last._entries.items()]
        return CacheInfo(*counts, "" if self._dynamic else dynamic_advice(known))

    def cache_clear(self) -> None:
        """Clear the compile cache."""
        self._entries.clear()
        self._elsewhere, self._last = {}, None
        self._forget_paths()

    def _forget_paths(self) -> None:
        self._paths, self._recent, self._fast, self._into = {}, None, missed, missed

    @property
    def identity_parts(self) -> tuple[Any, ...]:
        """What tracing it inside of another function depends on."""
        added = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        device = AUTO if self._is_auto else str(self._device)
        return self._fn, self._static, self._options, device, self._dynamic, added

    @property
    def graph(self) -> Graph:
        """The graph of the last kind of arguments it was compiled for."""
        entries = (self._last or self)._entries
        if not len(entries):
            raise ArgumentError(
                f"{function_name(self._fn)} is not compiled, so it has no graph",
                fix="call it first, or take f.lower(x).graph",
            )
        return entries.last.graph

    def _arguments(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Mark the static arguments."""
        if not self._static:
            return args, kwargs
        names, mark = self._names, self._marked
        positional = tuple(
            mark(names[i], a) if i < len(names) and names[i] in self._static else a
            for i, a in enumerate(args)
        )
        return positional, {k: mark(k, a) if k in self._static else a for k, a in kwargs.items()}

    @functools.cached_property
    def _names(self) -> list[str]:
        return list(inspect.signature(self._fn).parameters)

    def _marked(self, name: str, value: Any) -> pytree.Static:
        what = f"the static argument {name!r} of {function_name(self._fn)} is"
        if isinstance(value, Array | TracedTensor):
            raise StaticArgumentError(
                f"{what} an array, {value.type}",
                fix="make the argument not static, or pass a number or a tuple",
            )
        try:
            hash(value)
        except TypeError:
            raise StaticArgumentError(
                f"{what} a {type(value).__name__}, which cannot be hashed",
                fix="pass a hashable value (a tuple for a list), or make the argument not static",
            ) from None
        return pytree.Static(value)

    # -- the slow path: a key, the cache of keys, and for a new key tracing and lowering -----------

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call where the last call path did not fit."""
        if config.disable_jit:
            with looking(self._options.debug_nans):
                return run_at_once(self._fn, args, kwargs, None if self._follows else self._named)
        result = self._find_path(args, kwargs)
        if result is not MISS:
            return made_here(result)
        call = self._call(args, kwargs)
        there = self._where(call)
        if there is not self:
            self._last = there
            if self._is_auto:  # arguments that its code takes would go there again
                self._add_path(there, there._enter)
            return there(*args, **kwargs)
        self._last = None
        recent = self._recent
        if recent is not None and call.tree == recent.traced.in_tree:
            result = recent.try_run(call.leaves)
            if result is not MISS:
                return result
        found = self._found(call)
        if isinstance(found, Traced):
            return self._record(found, call.leaves)
        self._open_path(found, call)
        return found.run(call.leaves)

    def _found(self, call: Call) -> Compiled | Traced:
        """What is compiled for such arguments; in an outer trace, what was traced for them."""
        if call.is_traced:
            return trace(self._fn, *call.marked)
        key = self._key(call)
        entry = self._entries.get(key)
        if entry is None:
            with self._making.turn(key):  # another thread may make it
                entry = self._entries.get(key) or self._compile(key, call)
        return entry

    def _key(self, call: Call) -> Key:
        """The key of a call, with dims for the sizes that are left open."""
        kinds = kinds_of(self._fn, call)
        if self._dynamic is not None:
            types = [kind[0] if isinstance(kind[0], Type) else Type(*kind) for kind in kinds]
            rows = zip(kinds, types, self._dynamic.types(call, types), strict=True)
            kinds = tuple(kind if now == was else (now.dtype, now.shape) for kind, was, now in rows)
        return Key.now(call.tree, kinds)

    def _compile(self, key: Key, call: Call) -> Compiled | Traced:
        """Trace, lower and compile for a new key, or recall what an earlier process did."""
        reason = self._entries.reason(key, KEPT)
        reason = reason or reason_to_compile(self._fn, call, key, list(self._entries))
        check_recompile(self._fn, reason)
        about = self._fn, key, self._device, self._options, self._dynamic
        disk = TraceCache.of(*about) if config.cache else None
        entry = disk.recall(self._fn, call.leaves, self._arguments) if disk else None
        if entry is None:
            with asked_axes() as asked:
                traced = self._trace(call)
            # it holds in the enclosing trace only
            if asked or any(isinstance(c, Value) for c in traced.captures):
                return traced
            there = self._where(call, traced)
            entry = there._lower(traced).compile()
            key = Key.now(*key[:2])  # tracing may have changed settings
            if disk and there is self:
                disk.keep(entry)
        if key.is_current:  # no other thread has changed them
            self._cache(key, entry, reason)
        return entry

    def _cache(self, key: Key, entry: Compiled, reason: str) -> None:
        """Keep what was compiled for a new key, in place of the least recently used."""
        traced = entry.traced
        if reason:
            tell_reason(traced.graph.name, reason)
        aliasing.hold((*traced.captures, *traced.baked), entry, traced.graph.name)
        self._compiles, self._reason = self._compiles + 1, reason
        self._entries.put(key, entry, KEPT)

    @boundary
    def run_into(self, *args: Any, out: Any, **kwargs: Any) -> None:
        """Run, and write the results into a tree of writable NumPy arrays.

        Nothing is allocated or copied for an array that is dense and apart from the arguments.

        >>> import numpy as np, rlx
        >>> double, y = rlx.jit(lambda x: {"y": x * 2}), np.empty(2, np.float32)
        >>> double.run_into(np.ones(2, np.float32), out={"y": y})
        >>> y
        array([2., 2.], dtype=float32)
        """
        if self._into(args, kwargs, out) is None:
            return
        call = self._call(args, kwargs)
        there = self._where(call)
        if there is not self:
            return there.run_into(*args, out=out, **kwargs)
        entry = self._alone(call, "run_into")
        entry.fill(call.leaves, out)
        if entry.has_path and not entry.donated:
            self._into = entry.path_into(call.arguments, out)
            self._close_if_changed(call)

    def _ready(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ready:
        call = self._call(args, kwargs)
        return self._where(call)._alone(call, name).ready(call.leaves)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        marked = self._arguments(args, kwargs)
        leaves, tree = pytree.flatten(marked)
        read = [as_leaf(x) for x in leaves]
        if any(x is not y for x, y in zip(leaves, read, strict=True)):
            marked = pytree.unflatten(tree, read)
            # a call path tells static arguments by their being marked
            args = tuple(map(unless_static, args, marked[0]))
            kwargs = {key: unless_static(x, marked[1][key]) for key, x in kwargs.items()}
        return Call(Arguments((args, kwargs), marked), read, tree)

    def _alone(self, call: Call, name: str) -> Compiled:
        """The compiled function for a call outside of traces."""
        found = self._found(call)
        if isinstance(found, Compiled):
            return found
        raise ConcretizationError(
            f"{name} of {function_name(self._fn)} was called while a function is recorded",
            fix="call the function itself: y = f(x)",
        )

    def _record(self, traced: Traced, leaves: Sequence[Any]) -> Any:
        """Record the function as one call node of the enclosing trace."""
        given = (*leaves, *traced.captures)
        operands = [x if isinstance(x, Value) else to_value(as_operand(x)) for x in given]
        if self._named and not self._follows:
            run_here(traced.graph.name, self._named)
        own, name = self._options.precision, traced.graph.name
        attrs: dict[str, Any] = {} if own is None else {"precision": policy_of(own).text}
        if self._options.deterministic:
            attrs["deterministic"] = self._options.deterministic
        if self._options.debug_nans:
            attrs["debug_nans"] = True
        op = OPS["precise_call" if attrs else "call"]
        results = op(*operands, graph=traced.graph, name=name, **attrs)
        return traced.unflatten(results)

    def _open_path(self, entry: Compiled, call: Call) -> None:
        """Open a call path into the machine code."""
        if entry.has_path and entry not in self._paths:
            path = entry.path(call.arguments)
            if path is not missed and may_be_better(entry):
                path = TimedPath(path, entry, self._settle)
            self._add_path(entry, path)
        self._recent = entry
        self._close_if_changed(call)

    def _close_if_changed(self, call: Call) -> None:
        """Close the call paths if a thread changed settings since the call began."""
        if config.settings is not call.settings:
            self._forget_paths()

    def _add_path(self, way: Any, path: Callable[..., Any]) -> None:
        """Keep the call paths for the last few kinds of arguments."""
        # a new one, for another thread may read the old
        paths = {**self._paths, way: path}
        self._paths = {each: paths[each] for each in list(paths)[-PATHS:]}

    def _enter(self, *args: Any, **kwargs: Any) -> Any:
        """Call by an open path; MISS if there is none for the arguments."""
        result = self._fast(*args, **kwargs)
        return self._find_path(args, kwargs) if result is MISS else result

    def _find_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        paths = self._paths
        for path in paths.values():
            result = path(*args, **kwargs)
            if result is not MISS:
                self._fast = path
                if self._paths is not paths:  # better code is there, or settings changed
                    self._fast = missed
                return result
        return MISS

    def _settle(self, entry: Compiled) -> None:
        """Drop the tier-up wrapper from the call path."""
        self._paths = {each: path for each, path in self._paths.items() if each is not entry}
        self._recent, self._fast, self._into = None, missed, missed


_jitted: set[weakref.ref[Jitted]] = set()  # no WeakSet: threads may add to it at any time


def all_jitted() -> list[Jitted]:
    """All living functions that `jit` made."""
    return [jitted for reference in _jitted.copy() if (jitted := reference()) is not None]


def _change_settings(before: Settings, after: Settings) -> None:
    watched = ("compiled_in", "disable_jit", "device")
    if any(getattr(before, name) != getattr(after, name) for name in watched):
        for jitted in all_jitted():
            jitted._forget_paths()


config.watch(_change_settings)


def made_here(result: Any) -> Any:
    """The result of a call, whose arrays belong to the trace that is open, if one is."""
    if aliasing.open_traces:
        aliasing.make_here(tuple(pytree.leaves(result)))
    return result
