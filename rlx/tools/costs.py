"""The cost model of devices, and `rlx.explain_device`, a table of predictions.

The model has rates of each kind of work on a device: a `Curve` has measured times by size;
between them, and beyond, times follow a line of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backends import registry
from ..ir.dims import likely
from ..ir.errors import DeviceUnavailable, RlxError
from ..ir.graph import Graph
from ..ir.record import record, replace
from ..ir.tracebacks import boundary
from ..runtime.devices import devices
from ..runtime.precision import prepared
from ..runtime.session import CompileOptions, default_session
from ..trace import pytree
from ..trace.array import Array
from ..trace.make_graph import Traced, function_name, trace

if TYPE_CHECKING:
    from ..lower.cost import StepCost
# -- how fast a device does each kind of work, and what that makes of a program -------------------

PRODUCT = "product float32"
# what was not measured takes so many times as long as something that was
INSTEAD = {
    "product float16": (1.0, PRODUCT),
    "product bfloat16": (1.0, PRODUCT),
    "product float64": (2.0, PRODUCT),
    "additions": (0.7, "stream"),
    "series": (0.7, "stream"),
    "gather": (10.0, "stream"),
    "strided": (1.0, "gather"),
    "scatter": (4.0, "gather"),
    "scan": (4.0, "stream"),
    "sort": (5.0, "stream"),
    "direct": (4.5, PRODUCT),
    "iterative": (4.5, PRODUCT),
}

# They follow from products: LAPACK shares its work among threads, so that on a machine that others
# use a short measurement of it tells little (a QR of 96 by 96 took 0.3 or 80 ms).
FACTORIZATIONS = ("direct", "iterative")


@record
class Curve:
    """Seconds by size: pairs in rising order."""

    points: tuple[tuple[float, float], ...]

    def seconds(self, size: float) -> float:
        """The time of so much work; beyond what was measured in proportion to it."""
        if size <= 0:
            return 0.0
        first, last = self.points[0], self.points[-1]
        if size <= first[0]:
            return first[1] * size / first[0]
        if size >= last[0]:
            return last[1] * size / last[0]
        low, high = next(
            (a, b) for a, b in zip(self.points, self.points[1:], strict=False) if size <= b[0]
        )
        share = math.log(size / low[0]) / math.log(high[0] / low[0])
        return low[1] * (high[1] / low[1]) ** share


@record
class Rates:
    """What was measured of a device, in seconds."""

    call: float  # of a call that does nothing
    step: float  # added by each step
    leaf: float  # by each array that is given or made
    place: float  # by each container and each place in it
    # `stream`, `put` and `get` (copies to the device and back) by bytes, the others by what
    # `StepCost` counts; a device without `put` shares the host's memory
    curves: Mapping[str, Curve]
    host: Rates | None = None  # those of the host, whose LAPACK factors matrices for all devices

    def seconds(self, kind: str, size: float) -> float:
        """The time of so much work of a kind."""
        if kind in FACTORIZATIONS and self.host is not None:
            return self.host.seconds(kind, size)
        if kind in self.curves:
            return self.curves[kind].seconds(size)
        if kind.startswith("product ") and kind != PRODUCT:
            times, other = INSTEAD.get(kind, (4.0, PRODUCT))
        elif kind in INSTEAD:
            times, other = INSTEAD[kind]
        else:
            return 0.0
        return self.seconds(other, times * size)

    def moving(self, step: StepCost) -> float:
        """The time to move the bytes of a step: most of many bytes come from main memory."""
        near = self.seconds("stream", step.nbytes - step.far)
        within = max(step.within, step.far)
        return near + (step.far / within * self.seconds("stream", within) if step.far else 0.0)

    def copying(self, kind: str, nbytes: float) -> float:
        """The time of one copy: the least of them takes as long as a small one."""
        curve = self.curves.get(kind)
        return curve.seconds(max(nbytes, curve.points[0][0])) if curve else 0.0


@record
class Prediction:
    """The seconds of a call, and of which parts they consist."""

    compute: float  # of steps that compute for longer than they wait for memory
    memory: float  # of the other steps
    launches: float
    transfer: float
    notes: tuple[str, ...] = ()  # what was not counted

    @property
    def seconds(self) -> float:
        """The whole."""
        return self.compute + self.memory + self.launches + self.transfer


def predict(
    rates: Rates,
    steps: Iterable[StepCost],
    leaves: int = 2,
    places: int = 0,
    given: Sequence[float] = (),
    taken: Sequence[float] = (),
) -> Prediction:
    """The time of a program whose steps do so much.

    `leaves` are how many arrays it takes and makes, at so many `places` of containers; `given` and
    `taken` are the bytes of those that are transferred.
    """
    compute = memory = 0.0
    launches = rates.call + max(leaves - 2, 0) * rates.leaf + places * rates.place
    for step in steps:
        launches += step.times * rates.step
        waits, works = rates.moving(step), 0.0
        for kind, count in step.work.items():
            if kind.startswith("product "):  # reads its matrices into an order of its own first
                compute += step.times * rates.seconds(kind, count)
            else:
                works += rates.seconds(kind, count)
        compute += step.times * (works if works > waits else 0.0)
        memory += step.times * (waits if works <= waits else 0.0)
    transfer = sum(rates.copying("put", n) for n in given)
    transfer += sum(rates.copying("get", n) for n in taken)
    return Prediction(compute, memory, launches, transfer)


HOST = "cpu"


@record
class Candidate:
    """A device, and what is predicted of it; or why it cannot run the function."""

    device: str
    prediction: Prediction | None
    reason: str = ""


@record
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
    """Predict the time of a call on each device, by a cost model.

    The call is `fn(*args, **kwargs)`. The model counts what the function's loops compute and move,
    and knows how fast each device does that: the first question about a device measures it, for a
    second at most, and the answer is kept on disk. Returns a table with the fastest device first;
    print it to see it. `jit(device="auto")` takes the first device of the table.

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
    """What the model predicts for one device; an error if it cannot run the graph.

    Arrays are passed at so many `places` of containers. `known` are rates other than the stored
    ones.
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
    """The bytes of arrays that are copied to the device, and of those copied back.

    Results are where the operands are.
    """
    if memory is None:
        return [], []
    places = [x._device if isinstance(x, Array) else None for x in operands]
    rows = zip(graph.params, places, strict=False)
    given = [float(likely(p.type.nbytes)) for p, place in rows if place is not memory]
    is_there = any(place is memory for place in places)
    taken = [] if is_there else [float(likely(r.type.nbytes)) for r in graph.results]
    return given, taken
