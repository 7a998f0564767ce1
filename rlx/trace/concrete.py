"""Known arrays of traced values: what lets Python `if` work in `grad`.

That is outside of `jit`. A trace that runs on known arrays enters its parameters here; the arrays
of other values are computed with the ops' references only when asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ..ir.bind import sizes_in
from ..ir.builder import builder_of
from ..ir.graph import Value
from .array import Array

Known = np.ndarray | None  # None: it depends on an unknown parameter


class _State(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.known: dict[Value, Known | Array] = {}


_state = _State()


@contextmanager
def knowing(arrays: Mapping[Value, np.ndarray | Array]) -> Iterator[None]:
    """While the block runs, these parameters stand for these arrays."""
    _state.known.update(arrays)
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        if not _state.depth:
            _state.known.clear()


def known_array(value: Value) -> Known:
    """The array a value stands for, or None if it depends on unknown ones."""
    # outside of such a trace what is computed from constants is known all the same
    known = _state.known if _state.depth else {}
    waiting = [value]
    while waiting:
        top = waiting[-1]
        needs = _needs(top)
        missing = [v for v in needs if v not in known]
        if missing and top not in known:
            waiting.extend(missing)
            continue
        waiting.pop()
        if top not in known:
            known.update(_computed(top, [_read(known, v) for v in needs]))
    return _read(known, value)


def _read(known: dict[Value, Known | Array], value: Value) -> Known:
    """What is known of a value; an array of a device is copied when it is asked for first."""
    found = known[value]
    if isinstance(found, Array):
        found = known[value] = found.host()
    return found


def _captured(param: Value) -> object:
    """What a hidden parameter of a graph under construction stands for, or None."""
    builder = builder_of(param.graph)
    if builder is None:
        return None
    pairs = zip(builder.capture_params, builder.captures, strict=True)
    return next((thing for hidden, thing in pairs if hidden is param), None)


def _needs(value: Value) -> Sequence[Value]:
    if value.node is not None:
        return value.node.args
    outside = _captured(value)
    return [outside] if isinstance(outside, Value) else []


def _computed(value: Value, arrays: Sequence[Known]) -> dict[Value, Known]:
    node = value.node
    if node is None:
        outside = _captured(value)
        if isinstance(outside, Array):
            return {value: outside.host()}
        return {value: outside if isinstance(outside, np.ndarray) else next(iter(arrays), None)}
    ready = [a for a in arrays if a is not None]
    # members of a batch differ, Python functions are called and sizes get numbers as it runs
    is_later = node.op.rules.named is not None or node.op.rules.calls_python
    if is_later or sizes_in(node.attrs) or len(ready) < len(arrays):
        return dict.fromkeys(node.results, None)
    results = node.op.run(ready, node.attrs, source=node.source)
    return dict(zip(node.results, results, strict=True))
