"""How fast a device does each kind of work, and what that makes of a program.

A `Curve` has measured times by size; between them, and beyond, times follow a line of logarithms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..lower.step_costs import StepCost

FEW_ROWS = 10  # products of fewer rows or columns take about as long as those of so many
# what was not measured takes so many times as long as a product of float32, and as long as so many
# bytes of a stream
PRODUCTS = {"float16": 1.0, "bfloat16": 1.0, "float64": 2.0}
BYTES = {"additions": 0.7, "series": 0.7, "gather": 10, "scatter": 40, "scan": 4, "sort": 90}


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

    `call` are the seconds of a call that does nothing, `step` those that each step adds to it, and
    `leaf` each array that is given or made. The `curves` give seconds: `stream` by bytes,
    `additions` and `series` by units of an addition, `product float32` and the like by operations,
    `gather`, `scatter`, `scan` and `sort` by numbers, `put` and `get` (copies to the device and
    back) by bytes; a device without the last two shares the host's memory.
    """

    call: float
    step: float
    leaf: float
    curves: Mapping[str, Curve]

    def seconds(self, kind: str, size: float) -> float:
        """The time of so much work of a kind."""
        curve = self.curves.get(kind)
        if curve is None:
            return self.seconds("stream", BYTES[kind] * size) if kind in BYTES else 0.0
        return curve.seconds(size)

    def strided(self, count: float) -> float:
        """The time to read numbers that are not side by side: any places of a cache."""
        curve = self.curves.get("gather")
        if curve is None:
            return self.seconds("gather", count)
        size, seconds = curve.points[0]
        return count * seconds / size

    def product(self, dtype: str, flops: float) -> float:
        """The time of matrix products."""
        name = f"product {dtype}"
        if name in self.curves:
            return self.seconds(name, flops)
        return PRODUCTS.get(dtype, 4.0) * self.seconds("product float32", flops)

    @property
    def text(self) -> str:
        """The rates as text that `rates_of` reads."""
        curves = {name: curve.points for name, curve in self.curves.items()}
        numbers = {"call": self.call, "step": self.step, "leaf": self.leaf}
        return json.dumps({**numbers, "curves": curves})


def rates_of(text: str) -> Rates:
    """Read rates; a `ValueError` or `KeyError` if the text is none."""
    known = json.loads(text)
    curves = {
        name: Curve(tuple((float(size), float(seconds)) for size, seconds in points))
        for name, points in known["curves"].items()
    }
    call, step, leaf = (float(known[name]) for name in ("call", "step", "leaf"))
    return Rates(call, step, leaf, curves)


@dataclass(frozen=True)
class Prediction:
    """The seconds of a call, and of which parts they consist.

    `compute` is what steps compute for longer than they wait for memory, `memory` the rest.
    """

    compute: float
    memory: float
    launches: float
    transfer: float

    @property
    def seconds(self) -> float:
        """The whole."""
        return self.compute + self.memory + self.launches + self.transfer


def predict(
    rates: Rates,
    steps: Iterable[StepCost],
    leaves: int = 2,
    given: float = 0.0,
    taken: float = 0.0,
) -> Prediction:
    """The time of a program whose steps do so much.

    `leaves` are how many arrays it takes and makes; `given` and `taken` bytes are transferred.
    """
    compute = memory = 0.0
    launches = rates.call + max(leaves - 2, 0) * rates.leaf
    for step in steps:
        launches += step.times * rates.step
        works, waits = _computing(rates, step), rates.seconds("stream", step.nbytes)
        compute += step.times * (works if works > waits else 0.0)
        memory += step.times * (waits if works <= waits else 0.0)
    transfer = rates.seconds("put", given) + rates.seconds("get", taken)
    return Prediction(compute, memory, launches, transfer)


def _computing(rates: Rates, step: StepCost) -> float:
    fill = max(1.0, FEW_ROWS / step.rows) if step.rows else 1.0
    return (
        rates.product(step.dtype, step.flops * fill)
        + rates.seconds("additions", step.additions)
        + rates.seconds("series", step.series)
        + rates.seconds("gather", step.gathered)
        + rates.strided(step.strided)
        + rates.seconds("scatter", step.scattered)
        + rates.seconds("scan", step.scanned)
        + rates.seconds("sort", step.ordered)
        + rates.seconds("library", step.calls)
    )
