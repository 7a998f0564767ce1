"""What a device makes of the ops of a function, told without a compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..backends import registry
from ..ir.errors import ArgumentError, RlxError
from ..ir.graph import OPS, Graph
from ..ir.op import Op
from ..ir.tracebacks import boundary
from ..lower.target import EXPANDED, LIBRARY, NATIVE
from ..trace.make_graph import trace
from .devices import Device
from .options import CompileOptions
from .samples import Case, graph_of
from .session import default_session

TOLD = {NATIVE: "native", EXPANDED: "written in simpler ops", LIBRARY: "on the host, by a library"}


@dataclass(frozen=True)
class Support:
    """Whether a device runs a function, and what becomes of each op; it is true if so.

    `ways` counts the ops of each way by their names: `native`; `expanded`, written in simpler ops;
    `library`, computed on the host by NumPy. If the device refuses it, `reason` says which op or
    dtype is the first one in the way.
    """

    device: str
    name: str
    ways: Mapping[str, Counter[str]] = field(default_factory=dict)
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {self.device} cannot run it: {self.reason}"
        lines = [f"{self.name}: {self.device} can run it"]
        lines += [f"  {TOLD[way]}: {_told(ops)}" for way, ops in self.ways.items() if ops]
        return "\n".join(lines)

    __repr__ = __str__


@boundary
def supports(device: str, fn: Callable[..., Any] | Graph, *specs: Any, **named: Any) -> Support:
    """Whether a device can run a function of such arguments; compiles nothing.

    `specs` are arrays or `rlx.spec`s. What it gives is true or false; printed, it tells which ops
    run natively, which are written in simpler ones, and which NumPy computes on the host; or why
    the device refuses the function. A device that is not here runs nothing.

    >>> import rlx, rlx.numpy as rnp
    >>> print(supports("cpu", lambda x: rnp.linalg.svd(x)[1].sum(), rlx.spec((40, 40))))
    <lambda>: cpu can run it
      native: reduce_sum
      on the host, by a library: svd
    >>> bool(supports("cpu", rnp.sin, rlx.spec((4,))))
    True
    """
    graph = fn if isinstance(fn, Graph) else trace(fn, specs, named).graph
    return _support(Device(device), graph)


def _support(device: str, graph: Graph) -> Support:
    found = registry.availability(device)
    if not found.is_available:
        return Support(device, graph.name, {}, f"{found.reason} ({found.install})")
    try:
        ways = default_session(device).examine(graph, CompileOptions())
    except RlxError as error:
        return Support(device, graph.name, {}, error.what)
    return Support(device, graph.name, ways)


def of_op(device: str, op: Op | str) -> Support:
    """Whether a device can run an op, by its samples in float32."""
    room = OPS.get(op) if isinstance(op, str) else op
    if not isinstance(room, Op) or not room.sample_list:
        raise ArgumentError(
            f"there is no op {op!r} with samples",
            fix="name an op of rlx.ir.ops, as sin or sort; "
            "rlx.supports(device, f, *specs) tells of any function",
        )
    cases = [Case(room, sample) for sample in room.sample_list]
    graphs = [graph_of(room, c.in_dtype("float32") or c.arrays(), c.attrs) for c in cases]
    made = [_support(device, graph) for graph in graphs]
    fitting = [each for each in made if each]
    if not fitting:
        return Support(device, room.name, {}, made[0].reason)
    ways = {way: Counter[str]() for way in TOLD}
    for each in fitting:
        for way, ops in each.ways.items():
            ways[way] |= ops
    return Support(device, room.name, ways)


def _told(ops: Counter[str]) -> str:
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in sorted(ops.items()))
