"""The graph under construction, and the user's line: the only ambient state.

`build(fn, types)` opens a graph, calls `fn` with its parameters and closes it. While it is open,
every op called on values records a node in it. A value of an enclosing open graph becomes a
hidden parameter (a capture) of the inner one.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from .config import config
from .errors import ArgumentError, LeakedTracerError, UnrolledLoopWarning
from .graph import OPS, Graph, Node, Value
from .source import PACKAGE, Source, lines, nearest_frames, source_of
from .types import Type

# -- notice Python loops that record one line again and again --------------------------------------
#
# Each call of rlx from the user's code is one frame of rlx right above the user's. The same line
# with another such frame has been reached again; ops that one call records count once. Whose loop
# it is tells the innermost frame that two rounds share.


NEVER = -(1 << 60)
_told: set[tuple[str, int]] = set()  # a line is told of once in a process


class Repeats:
    """Counts how often each line of the user's code is recorded in a graph."""

    def __init__(self) -> None:
        self.limit = config.settings.unroll_limit
        self._counts: dict[tuple[str, int, str, int], int] = {}
        self._entry: FrameType | None = None  # kept, so that no later frame has its identity
        self._before: list[FrameType] = []  # the frames of the round at the limit

    def note(self, entry: FrameType | None, frame: FrameType) -> None:
        """Count a call from the user's frame into rlx."""
        if entry is self._entry or not self.limit:
            return
        self._entry = entry
        code = frame.f_code
        key = (code.co_filename, frame.f_lineno, code.co_name, frame.f_lasti)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == self.limit:
            self._before = _frames(frame)
        elif count == self.limit + 1 and not _is_users_loop(self._before, _frames(frame)):
            self._counts[key] = NEVER

    def tell(self, name: str, is_silent: bool) -> None:
        """Warn of the line repeated most, if it is more often than the limit."""
        most = max(self._counts, key=lambda key: self._counts[key], default=None)
        self._entry, self._before = None, []
        if most is None or is_silent or not 0 < self.limit < self._counts[most]:
            return
        file, line, function, _ = most
        if (file, line) in _told:
            return
        _told.add((file, line))
        warnings.warn_explicit(
            f"{name} records a line {self._counts[most]} times: a Python loop is unrolled\n"
            f"  where  {Source(file, line, function)}\n"
            "  fix    rlx.scan or rlx.fori_loop compiles one round; a larger "
            "rlx.config.unroll_limit (0: none) silences this",
            UnrolledLoopWarning,
            file,
            line,
        )


def _frames(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _is_users_loop(before: list[FrameType], now: list[FrameType]) -> bool:
    """Whether the innermost frame that two rounds share is the user's."""
    known = set(map(id, before))
    shared = next((frame for frame in now if id(frame) in known), None)
    return shared is not None and not shared.f_code.co_filename.startswith(PACKAGE)


class Builder:
    """A graph being recorded, with what it captured from outside.

    `captures` are values of enclosing graphs, or objects given to `capture`, in the order of their
    hidden parameters.
    """

    def __init__(self, name: str, graph: Graph | None = None) -> None:
        self.graph = Graph(name) if graph is None else graph
        self.captures: list[Any] = []
        self.capture_params: list[Value] = []
        self.baked: list[Any] = []  # outside things whose elements became part of the graph
        self.runs_once = False  # the graph is recorded for one run, on known arrays
        self.is_trial = False  # it would be recorded so for each run, unless it can be kept
        self.was_asked = False  # somebody asked for numbers of a trial
        self.repeats = Repeats()
        self._by_identity: dict[int, Value] = {}

    def capture(self, thing: Any, type: Type, origin: str = "") -> Value:
        """Give the hidden parameter for a captured thing."""
        found = self._by_identity.get(id(thing))
        if found is None:
            found = Value(type, self.graph, origin=origin)
            self._by_identity[id(thing)] = found
            self.captures.append(thing)
            self.capture_params.append(found)
        return found

    def replace_capture(self, thing: Any, other: Any) -> None:
        """Let the hidden parameter of a captured thing stand for another one."""
        found = self._by_identity.pop(id(thing), None)
        if found is not None:
            self._by_identity[id(other)] = found
            self.captures[:] = [other if each is thing else each for each in self.captures]

    def own(self, value: Value) -> Value:
        """Give the value of this graph for a value of this or an enclosing graph."""
        if value.graph is self.graph or self.graph.owns(value):
            return value
        if not any(builder.graph.owns(value) for builder in _state.stack):
            raise leaked(value)
        return self.capture(value, value.type, value.origin)


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Builder] = []


_state = _State()


def leaked(value: Value) -> LeakedTracerError:
    """The error for a value that outlived its trace, with the line that made it."""
    source = value.node.source if value.node else None
    made = (
        f"{value.type} made at {source}"
        if source
        else f"{value.type}, {value.origin or 'a parameter'}"
    )
    if value.graph.is_built:
        return LeakedTracerError(
            f"a tensor of the graph `{value.graph.name}` was used outside of it",
            notes=[made],
            fix="call a method of the graph, as g.add(x, y), or write operators in `with g:`",
        )
    return LeakedTracerError(
        f"a traced tensor of `{value.graph.name}` was used after its trace had ended",
        notes=[made],
        fix="return the tensor from the traced function instead of storing it outside",
    )


def not_recording(operand: Any) -> LeakedTracerError | ArgumentError:
    """The error for an op of a graph where none is being recorded."""
    if isinstance(operand, Value):
        return leaked(operand)
    return ArgumentError(
        "an op of `rlx.ir.ops` was called where no graph is being recorded",
        fix="call the function of rlx.numpy, or record one: rlx.make_graph(f)(x), "
        "or g.sin(x) of g = rlx.Graph()",
    )


def current() -> Builder | None:
    """The innermost open builder of this thread, or None."""
    return _state.stack[-1] if _state.stack else None


def open_builders() -> list[Builder]:
    """All open builders of this thread, the innermost last."""
    return list(_state.stack)


def builder_of(graph: Graph) -> Builder | None:
    """The builder that records or changes the graph in this thread, or None."""
    lineage = graph.lineage
    return next((builder for builder in _state.stack if builder.graph.lineage is lineage), None)


def is_open(graph: Graph) -> bool:
    """Whether the graph is being recorded in this thread."""
    return builder_of(graph) is not None


@contextmanager
def recording(name: str) -> Iterator[Builder]:
    """Open a new innermost graph for the block."""
    builder = Builder(name)
    _state.stack.append(builder)
    try:
        yield builder
    finally:
        _state.stack.pop()


@contextmanager
def reopened(builder: Builder) -> Iterator[None]:
    """Resume the recording of a graph in the block."""
    _state.stack.append(builder)
    try:
        yield
    finally:
        _state.stack.remove(builder)


def build(
    fn: Callable[..., Any], types: Sequence[Type], name: str = "graph", origins: Sequence[str] = ()
) -> Graph:
    """Record `fn`, called with one value for each type, as a graph.

    `fn` gives a value or a sequence of values. Captures of enclosing graphs are not allowed; use
    `build_with_captures` for those.
    """
    graph, captures = build_with_captures(fn, types, name, origins)
    assert not captures, f"{name} captured values of an enclosing graph: {captures}"
    return graph


def build_with_captures(
    fn: Callable[..., Any], types: Sequence[Type], name: str = "graph", origins: Sequence[str] = ()
) -> tuple[Graph, list[Any]]:
    """Record `fn` as a graph, with captured values as its last parameters."""
    with recording(name) as builder:
        graph = builder.graph
        for i, type in enumerate(types):
            graph.add_param(type, origins[i] if i < len(origins) else "")
        results = fn(*graph.params)
        results = [results] if isinstance(results, Value) else list(results)
        graph.results = [builder.own(r) for r in results]
    graph.params = [*graph.params, *builder.capture_params]
    return graph, builder.captures


def note_question() -> None:
    """Note that the recording depends on numbers that are not known."""
    for builder in _state.stack:
        builder.was_asked = True


def node_source() -> Source | None:
    """The user's line for a node, counted by the open graph."""
    if lines.source is not None:
        return lines.source
    entry, frame = nearest_frames()
    if frame is None:
        return None
    if _state.stack:
        _state.stack[-1].repeats.note(entry, frame)
    return source_of(frame)


def inline(graph: Graph, args: Sequence[Value]) -> list[Value]:
    """Record a graph's nodes in the current one with `args` for its parameters."""
    if all(a.type == p.type for a, p in zip(args, graph.params, strict=True)):
        return rewrite(graph, args, repeat)
    return rewrite(graph, args, lambda node, operands: node.op.apply(operands, node.attrs))


def repeat(node: Node, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Record a node again on operands of the same types, without type inference."""
    builder = current()
    assert builder is not None, "nodes need an open graph"
    args = tuple(map(builder.own, operands))
    return builder.graph.add_like(node, args, node_source()).results


def rewrite(
    graph: Graph,
    args: Sequence[Any],
    visit: Callable[[Any, list[Any]], Sequence[Any]],
) -> list[Any]:
    """Walk a graph: `visit(node, operands)` gives what stands for the node's results.

    `args` stand for the parameters; they may be values or whatever a transform carries.
    """
    assert len(args) == len(graph.params), f"{graph.name} takes {len(graph.params)} arguments"
    heed(graph)
    table = dict(zip(graph.params, args, strict=True))
    before = lines.source
    try:
        for node in graph.nodes:
            lines.source = node.source or before
            results = visit(node, [table[a] for a in node.args])
            table.update(zip(node.results, results, strict=True))
    finally:
        lines.source = before
    return [table[r] for r in graph.results]


def heed(graph: Graph) -> None:
    """Place the graph under construction on the device of one that it is made of."""
    if graph.placed and _state.stack:
        _state.stack[-1].graph.place(graph.placed)


def as_value(operand: Any, like: Value | None = None) -> Value:
    """Convert a value, an array or a Python scalar to a value of the current graph.

    A Python scalar takes the dtype and shape of `like`.
    """
    builder = current()
    if builder is None:
        raise not_recording(operand)
    if isinstance(operand, Value):
        return builder.own(operand)
    if isinstance(operand, bool | int | float | complex) and not isinstance(operand, np.generic):
        if like is not None:
            return OPS["full"](shape=like.shape, value=operand, dtype=like.dtype)
        return OPS["constant"].lift(operand)
    return OPS["constant"].lift(operand)
