"""Are indices inside of their axis? A check, where that is wanted.

What a place outside means does not depend on it: a read gives the nearest element, an update is
left out, or as `mode` says. `rlx.config.checks` compiles the check in, or drops it everywhere. Else
index arrays that are known are looked at once outside of `jit`, also in `grad` there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..ir import builder
from ..ir.config import config
from ..ir.dims import Dim
from ..ir.errors import BoundsError
from ..ir.graph import Value
from ..ir.ops.custom import Rule
from ..ir.source import user_source
from ..ir.types import Size
from .apply import apply, as_operand
from .tensor import TracedTensor

_as_compiled = ContextVar("as_compiled", default=False)


@contextmanager
def as_compiled() -> Iterator[None]:
    """Look at indices in a block where compiled functions do, so by default nowhere."""
    token = _as_compiled.set(True)
    try:
        yield
    finally:
        _as_compiled.reset(token)


def are_checked() -> bool:
    """Whether known index arrays are looked at here."""
    if config.checks is not None:
        return config.checks
    if _as_compiled.get():
        for recorder in builder.open_builders():
            recorder.was_asked = True  # outside of the block the recording would look
        return False
    return all(b.runs_once or b.is_trial for b in builder.open_builders())


def check_places(places: Any, size: Size, axis: int) -> None:
    """Raise a `BoundsError` where traced places lie outside of an axis.

    It is raised now or when the program runs, or not at all: see above.
    """
    if places.size == 0:
        return
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, count: Any = size) -> None:
        if not (-count <= low and high < count):
            raise outside(int(high if low >= -count else low), int(count), axis, where)

    if config.checks:
        ends = [_end(places, op) for op in ("reduce_min", "reduce_max")]
        # an open size has its number when the program runs
        ends += [as_operand(size)] if isinstance(size, Dim) else []
        apply("debug_callback", *ends, fn=Rule(look, (where, size, axis)))
    elif not isinstance(size, Dim) and are_checked() and _is_simple(places.value):
        known = places.concrete
        if known is not None:
            look(known.min(), known.max())


def outside(index: int, size: int, axis: int, where: str) -> BoundsError:
    """The error for an index outside of an axis."""
    return BoundsError(
        f"index {index} is outside axis {axis} with size {size}",
        where=where,
        fix=f"use an index from {-size} to {size - 1}" if size else "the axis is empty",
    )


def _end(places: TracedTensor, op: str) -> Any:
    return apply(op, places, axes=tuple(range(places.ndim))) if places.ndim else places


def _is_simple(value: Value) -> bool:
    """Whether a value is computed from few integers only, at little cost."""
    waiting, count = [value], 0
    while waiting:
        top, count = waiting.pop(), count + 1
        if top.dtype.kind not in "iu" or count > 32:
            return False
        node = top.node
        if node is not None:
            # what looks at other members, or runs Python, is not computed twice
            if node.op.rules.named is not None or node.op.rules.calls_python or node.graphs:
                return False
            waiting += node.args
    return True
