"""Learning-rate schedules: functions of the number of the step, from 0.

They take the step as an int32 array and give the rate as a float array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import numpy as rnp
from ..ir.errors import AttributeValueError
from ..ir.lazy import listed
from ..trace.arguments import callable_of, count_of, flag, wrong
from ..trace.array_arguments import known_real, scalar
from ..trace.axes import integer
from .optimizer import Schedule

__dir__ = listed(__name__)


def constant(value: float) -> Schedule:
    """A constant learning rate."""
    scalar("constant: value", value)
    return lambda step: rnp.asarray(value)


def linear(start: float, end: float, steps: int) -> Schedule:
    """Linear decay from `start` to `end`, which is then kept."""
    scalar("linear: start", start), scalar("linear: end", end)
    steps = _steps("linear", steps)
    return lambda step: start + (end - start) * _progress(step, steps)


def exponential(
    start: float, factor: float, steps: int, *, staircase: bool = False, end: float | None = None
) -> Schedule:
    """Exponential decay: multiplied by `factor` every `steps` steps.

    It is bounded by `end`, and goes in jumps if `staircase`.
    """
    known_real("exponential: start", start)
    factor, steps = known_real("exponential: factor", factor), _steps("exponential", steps)
    bound = rnp.maximum if factor < 1 else rnp.minimum
    staircase = flag("exponential: staircase", staircase)

    def schedule(step: Any) -> Any:
        times = scalar("a schedule: the step", step) / max(steps, 1)
        try:
            rate = start * factor ** (rnp.floor(times) if staircase else times)
        except OverflowError:
            raise AttributeValueError(
                f"exponential: at step {step} the rate is too large a number",
                fix="count steps from 0",
            ) from None
        return rate if end is None else bound(rate, end)

    return schedule


def cosine(start: float, steps: int, *, end: float = 0.0) -> Schedule:
    """Cosine decay from `start` down to `end`, which is then kept."""
    scalar("cosine: start", start), scalar("cosine: end", end)
    steps = _steps("cosine", steps)

    def schedule(step: Any) -> Any:
        wave = 0.5 * (1 + rnp.cos(math.pi * _progress(step, steps)))
        return end + (start - end) * wave

    return schedule


def piecewise(start: float, factors: dict[int, float]) -> Schedule:
    """Step decay: multiplied by a factor at some steps: `{1000: 0.1, 2000: 0.1}`."""
    scalar("piecewise: start", start)
    if not isinstance(factors, Mapping):
        fix = "give a factor for each step: {1000: 0.1, 2000: 0.1}"
        raise wrong("piecewise: factors", factors, "a dict", fix)
    for boundary, factor in factors.items():
        integer("piecewise: a step", boundary), scalar("piecewise: a factor", factor)

    def schedule(step: Any) -> Any:
        rate = rnp.asarray(start)
        for boundary, factor in sorted(factors.items()):
            rate = rnp.where(step >= boundary, rate * factor, rate)
        return rate

    return schedule


def warmup(steps: int, then: Schedule, *, start: float = 0.0) -> Schedule:
    """Linear warmup from `start` up to another schedule, then that schedule.

    The line ends at the first rate of that schedule.
    """
    scalar("warmup: start", start), callable_of("warmup: then", then)
    steps = _steps("warmup", steps)

    def schedule(step: Any) -> Any:
        rising = start + (then(rnp.zeros((), "int32")) - start) * _progress(step, steps)
        return rnp.where(step < steps, rising, then(rnp.maximum(step - steps, 0)))

    return schedule


def warmup_cosine(peak: float, warmup_steps: int, steps: int, *, end: float = 0.0) -> Schedule:
    """Linear warmup to `peak`, then cosine decay; `steps` counts both."""
    steps, rising = _steps("warmup_cosine", steps), _steps("warmup_cosine", warmup_steps)
    if steps < rising:
        raise wrong(
            "warmup_cosine: steps", steps, f"{rising} or more", "count the steps of the warmup too"
        )
    return warmup(rising, cosine(peak, steps - rising, end=end))


def _progress(step: Any, steps: int) -> Any:
    """How much of the steps is done, from 0 to 1."""
    return rnp.clip(scalar("a schedule: the step", step) / max(steps, 1), 0.0, 1.0)


def _steps(name: str, given: Any) -> int:
    return count_of(f"{name}: steps", given, most=2**62)
