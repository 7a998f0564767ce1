"""Which device would run a function soonest: a table of what a model predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..backends import registry
from ..ir.dims import likely
from ..ir.errors import DeviceUnavailable, RlxError
from ..ir.graph import Graph
from ..ir.tracebacks import boundary
from ..trace import pytree
from ..trace.array import Array
from ..trace.make_graph import Traced, function_name, trace
from .devices import devices
from .precision import prepared
from .rates import FACTORIZATIONS, Prediction, Rates, predict
from .session import CompileOptions, default_session

HOST = "cpu"


@dataclass(frozen=True)
class Candidate:
    """A device, and what is predicted of it; or why it cannot run the function."""

    device: str
    prediction: Prediction | None
    reason: str = ""


@dataclass(frozen=True)
class Explanation:
    """The devices, the fastest first, those that cannot run the function last."""

    name: str
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> str:
        """The device of the least predicted time."""
        first = self.candidates[0] if self.candidates else None
        if first is None or first.prediction is None:
            reasons = [f"{c.device}: {c.reason}" for c in self.candidates]
            raise DeviceUnavailable(
                f"no device can run {self.name}",
                fix="install one (rlx.doctor() tells how), or change the function",
                notes=reasons,
            )
        return first.device

    def __str__(self) -> str:
        head = ["device", "predicted", "compute", "memory", "launches", "transfer", ""]
        rows = [head, *(_row(c) for c in self.candidates)]
        wide = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
        lines = ["  ".join(map(str.ljust, row, wide)) + "  " + row[-1] for row in rows]
        return "\n".join([f"{self.name}:", *(line.rstrip() for line in lines)])


def _row(candidate: Candidate) -> list[str]:
    p = candidate.prediction
    if p is None:
        return [candidate.device, "-", "", "", "", "", candidate.reason]
    parts = (p.seconds, p.compute, p.memory, p.launches, p.transfer)
    return [candidate.device, *map(_time, parts), "; ".join(p.notes)]


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


@boundary
def explain_device(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """How long a call of a function would take on each device, by a model.

    The model counts what the function's loops compute and move, and knows how fast each device
    does that: the first question about a device measures it, for a second at most, and the answer
    is kept on disk. `jit(device="auto")` takes the first device of the table. Print it to see it.

        print(rlx.explain_device(lambda x: x @ x, rlx.numpy.ones((64, 64))))
    """
    traced = trace(fn, args, kwargs)
    operands = [*pytree.leaves((args, kwargs)), *traced.captures]
    return explain(traced, operands, CompileOptions(), function_name(fn))


def explain(
    traced: Traced, operands: Sequence[Any], options: CompileOptions, name: str
) -> Explanation:
    """The table for a recorded function and its operands."""
    found = [_candidate(str(d), traced, operands, options) for d in devices()]
    found.sort(key=lambda c: c.prediction.seconds if c.prediction else float("inf"))
    return Explanation(name, tuple(found))


def _candidate(
    device: str, traced: Traced, operands: Sequence[Any], options: CompileOptions
) -> Candidate:
    elsewhere = [p for p in traced.graph.placed if p.device != device]
    if elsewhere:
        return Candidate(device, None, f"{elsewhere[0].who} runs on {elsewhere[0].device}")
    available = registry.availability(device)
    if not available.is_available:
        return Candidate(device, None, available.reason)
    try:
        args, kwargs = traced.in_tree.children()
        places = places_in([*args.children(), *kwargs.children(), traced.out_tree])
        return Candidate(device, prediction(device, traced.graph, operands, options, places))
    except RlxError as error:
        return Candidate(device, None, error.what)


def places_in(trees: Sequence[pytree.Structure]) -> int:
    """How many containers there are, and places in them."""
    return sum(tree.num_nodes for tree in trees if tree.num_nodes > 1)


def prediction(
    device: str,
    graph: Graph,
    operands: Sequence[Any],
    options: CompileOptions,
    places: int = 0,
    known: Rates | None = None,
) -> Prediction:
    """What the model says of one device; an error if it cannot run the graph.

    Arrays come and go at so many `places` of containers. `known` are rates other than those that
    are kept.
    """
    from ..lower.cost import notes, step_costs
    from ..lower.pipeline import lower  # with all of lowering, 20 ms to import
    from .calibrate import rates

    session = default_session(device)
    # composites that the device takes whole do the work of what they are made of
    target = replace(session.backend.target, wants=frozenset())
    precise = prepared(graph, session.policy_for(options)).graph
    program = lower(precise, target).program
    steps = step_costs(program)
    given, taken = _transferred(session.backend.memory, graph, operands)
    known = known or rates(session.device)
    if session.device != HOST and any(set(FACTORIZATIONS) & step.work.keys() for step in steps):
        known = replace(known, host=rates(HOST))
    if "stream" not in known.curves:
        raise DeviceUnavailable(
            f"the speed of {device} could not be measured", fix="name a device: jit(device=...)"
        )
    leaves = len(graph.params) + len(graph.results)
    found = predict(known, steps, leaves, places, given, taken)
    return replace(found, notes=notes(program))


def _transferred(
    memory: Any, graph: Graph, operands: Sequence[Any]
) -> tuple[list[float], list[float]]:
    """The bytes of arrays that go to the device, and of those that come back.

    Results go where operands lie.
    """
    if memory is None:
        return [], []
    places = [x._device if isinstance(x, Array) else None for x in operands]
    rows = zip(graph.params, places, strict=False)
    given = [float(likely(p.type.nbytes)) for p, place in rows if place is not memory]
    is_there = any(place is memory for place in places)
    taken = [] if is_there else [float(likely(r.type.nbytes)) for r in graph.results]
    return given, taken
