"""How fast a device does each kind of work, and what that makes of a program.

A `Curve` has measured times by size; between them, and beyond, times follow a line of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..lower.cost import StepCost

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Rates:
    """What was measured of a device.

    `call` are the seconds of a call that does nothing, `step` those that each step adds to it,
    `leaf` each array that is given or made, and `place` each container and each place in it.
    The `curves` give seconds: `stream` by bytes, `put` and `get` (copies to the device and back)
    by bytes, the others by what `StepCost` counts; a device without `put` shares the host's memory.
    `host` are the rates of the host, whose LAPACK factors matrices for all devices.
    """

    call: float
    step: float
    leaf: float
    place: float
    curves: Mapping[str, Curve]
    host: Rates | None = None

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
        """The time to move the bytes of a step: of much data most lies far away."""
        near = self.seconds("stream", step.nbytes - step.far)
        within = max(step.within, step.far)
        return near + (step.far / within * self.seconds("stream", within) if step.far else 0.0)

    def copying(self, kind: str, nbytes: float) -> float:
        """The time of one copy: the least of them takes as long as a small one."""
        curve = self.curves.get(kind)
        return curve.seconds(max(nbytes, curve.points[0][0])) if curve else 0.0


@dataclass(frozen=True)
class Prediction:
    """The seconds of a call, and of which parts they consist.

    `compute` is what steps compute for longer than they wait for memory, `memory` the rest.
    """

    compute: float
    memory: float
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
