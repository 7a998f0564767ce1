"""What a function uses from outside, as arrays on the host."""

from __future__ import annotations

import numpy as np

from ..ir.errors import ArgumentError
from ..trace.array import Array
from ..trace.make_graph import Traced


def host_captures(traced: Traced, name: str) -> tuple[np.ndarray, ...]:
    """The arrays that a function used from outside; traced tensors are refused."""
    found = []
    for thing in traced.captures:
        if not isinstance(thing, Array):
            raise ArgumentError(
                f"{name}: {traced.graph.name} uses a traced tensor from outside, {thing.type}",
                fix=f"give it to the function as an argument, or call rlx.{name} outside of traces",
            )
        found.append(np.asarray(thing.host()))
    return tuple(found)
