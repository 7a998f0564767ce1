"""Learning-rate schedules: functions of the number of the step, from 0.

They take the step as an int32 array and return the rate as a float array, and print as the calls
that made them. `start`, `peak` and `end` are rates, `steps` and `warmup_steps` numbers of steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import numpy as rnp
from ..ir.errors import AttributeValueError
from ..ir.lazy import listed
from ..trace.arguments import callable_of, count_of, flag, members, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real, scalar
from ..trace.axes import integer
from ..trace.described import described
from ..trace.promotion import FLOAT
from .optimizer import Schedule

__dir__ = listed(__name__)

Rates = Callable[[Any], Array]  # by the number of the step


@described
def constant(value: float) -> Rates:
    """A constant learning rate, `value`.

    >>> constant(0.5)(7).item()
    0.5
    """
    scalar("constant: value", value)
    return lambda step: rnp.asarray(value)


@described
def linear(start: float, end: float, steps: int) -> Rates:
    """Linear decay from `start` to `end`, which is then kept.

    >>> schedule = linear(1.0, 0.5, 10)
    >>> [schedule(step).item() for step in (0, 5, 20)]
    [1.0, 0.75, 0.5]
    """
    scalar("linear: start", start), scalar("linear: end", end)
    steps = _steps("linear", steps)
    return lambda step: start + (end - start) * _progress(step, steps)


@described
def polynomial(start: float, end: float, power: float, steps: int, *, begin: int = 0) -> Rates:
    """Polynomial decay from `start` to `end`, which is then kept.

    It begins at step `begin`; the rate is `(start - end) (1 - (step - begin) / steps)^power + end`.

    >>> polynomial(1.0, 0.0, 2, 10)(5).item()
    0.25
    """
    scalar("polynomial: start", start), scalar("polynomial: end", end)
    scalar("polynomial: power", power)
    steps, begin = _steps("polynomial", steps), _steps("polynomial: begin,", begin)

    def schedule(step: Any) -> Any:
        left = 1 - _progress(_at(step) - begin, steps)
        return (start - end) * left**power + end

    return schedule


@described
def exponential(
    start: float, factor: float, steps: int, *, staircase: bool = False, end: float | None = None
) -> Rates:
    """Exponential decay: `start`, multiplied by `factor` every `steps` steps.

    It is bounded by `end`, and goes in jumps if `staircase`. A rate that is too large a number is
    an `AttributeValueError`.

    >>> schedule = exponential(1.0, 0.5, 10, staircase=True)
    >>> [float(schedule(step)) for step in (0, 9, 20)]
    [1.0, 1.0, 0.25]
    """
    known_real("exponential: start", start)
    factor, steps = known_real("exponential: factor", factor), _steps("exponential", steps)
    bound = rnp.maximum if factor < 1 else rnp.minimum
    staircase = flag("exponential: staircase", staircase)

    def schedule(step: Any) -> Any:
        times = _at(step) / max(steps, 1)
        try:
            rate = start * factor ** (rnp.floor(times) if staircase else times)
        except OverflowError:
            raise AttributeValueError(
                f"exponential: at step {step} the rate is too large a number",
                fix="count steps from 0",
            ) from None
        return rate if end is None else bound(rate, end)

    return schedule


@described
def cosine(start: float, steps: int, *, end: float = 0.0) -> Rates:
    """Cosine decay from `start` down to `end`, which is then kept.

    >>> schedule = cosine(1.0, 10)
    >>> [round(schedule(step).item(), 3) for step in (0, 5, 20)]
    [1.0, 0.5, 0.0]
    """
    scalar("cosine: start", start), scalar("cosine: end", end)
    steps = _steps("cosine", steps)

    def schedule(step: Any) -> Any:
        wave = 0.5 * (1 + rnp.cos(math.pi * _progress(step, steps)))
        return end + (start - end) * wave

    return schedule


@described
def piecewise(start: float, factors: dict[int, float]) -> Rates:
    """Step decay: `start`, multiplied by a factor at some steps.

    `factors` is `{step: factor}`.

    >>> schedule = piecewise(1.0, {100: 0.5, 200: 0.5})
    >>> [schedule(step).item() for step in (99, 100, 200)]
    [1.0, 0.5, 0.25]
    """
    scalar("piecewise: start", start)
    if not isinstance(factors, Mapping):
        fix = "give a factor for each step: {1000: 0.1, 2000: 0.1}"
        raise wrong("piecewise: factors", factors, "a dict", fix)
    for boundary, factor in factors.items():
        integer("piecewise: a step", boundary), scalar("piecewise: a factor", factor)

    def schedule(step: Any) -> Any:
        rate = rnp.asarray(start)
        step = _at(step)
        for boundary, factor in sorted(factors.items()):
            rate = rnp.where(step >= boundary, rate * factor, rate)
        return rate

    return schedule


@described
def warmup(steps: int, then: Schedule, *, start: float = 0.0) -> Rates:
    """Linear warmup from `start` up to another schedule, then that schedule.

    The line takes `steps` steps and ends at the first rate of `then`, which begins there.

    >>> schedule = warmup(10, linear(1.0, 0.0, 20))
    >>> [schedule(step).item() for step in (0, 5, 10, 20)]
    [0.0, 0.5, 1.0, 0.5]
    """
    scalar("warmup: start", start), callable_of("warmup: then", then)
    steps = _steps("warmup", steps)

    def schedule(step: Any) -> Any:
        step = _at(step)
        rising = start + (then(rnp.zeros((), "int32")) - start) * _progress(step, steps)
        return rnp.where(step < steps, rising, then(rnp.maximum(step - steps, 0)))

    return schedule


@described
def warmup_cosine(peak: float, warmup_steps: int, steps: int, *, end: float = 0.0) -> Rates:
    """Linear warmup to `peak`, then cosine decay to `end`.

    The first `warmup_steps` go up; `steps` counts both.

    >>> schedule = warmup_cosine(1.0, 10, 30)
    >>> [round(schedule(step).item(), 3) for step in (0, 10, 20)]
    [0.0, 1.0, 0.5]
    """
    steps, rising = _steps("warmup_cosine", steps), _steps("warmup_cosine", warmup_steps)
    if steps < rising:
        raise wrong(
            "warmup_cosine: steps", steps, f"{rising} or more", "count the steps of the warmup too"
        )
    return warmup(rising, cosine(peak, steps - rising, end=end))


@described
def warmup_exponential(
    peak: float,
    warmup_steps: int,
    factor: float,
    steps: int,
    *,
    start: float = 0.0,
    staircase: bool = False,
    end: float | None = None,
) -> Rates:
    """Linear warmup to `peak`, then exponential decay by `factor` every `steps` steps.

    The first `warmup_steps` go up from `start`; `staircase` and `end` are as for `exponential`.

    >>> schedule = warmup_exponential(1.0, 10, 0.5, 20)
    >>> [schedule(step).item() for step in (5, 10, 30)]
    [0.5, 1.0, 0.5]
    """
    decay = exponential(peak, factor, steps, staircase=staircase, end=end)
    return warmup(_steps("warmup_exponential", warmup_steps), decay, start=start)


@described
def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Rates:
    """One of `schedules` after another: the next begins at each of `boundaries`.

    Boundaries are steps; each schedule begins from its step 0.

    >>> schedule = join_schedules([constant(1.0), linear(0.5, 0.0, 10)], [100])
    >>> [schedule(step).item() for step in (99, 100, 105)]
    [1.0, 0.5, 0.25]
    """
    schedules = members("join_schedules: schedules", schedules)
    boundaries = members("join_schedules: boundaries", boundaries)
    each = [callable_of("join_schedules: a schedule", one) for one in schedules]
    starts = [0, *(integer("join_schedules: a boundary", step) for step in boundaries)]
    if len(starts) != len(each):
        fix = "give one boundary fewer than schedules"
        raise wrong("join_schedules: boundaries", boundaries, f"{len(each) - 1} steps", fix)
    if starts != sorted(starts):
        raise wrong("join_schedules: boundaries", boundaries, "rising", "sort the schedules")

    def schedule(step: Any) -> Any:
        rate, step = each[0](step), _at(step)
        for first, then in zip(starts[1:], each[1:], strict=True):
            # a schedule that has not begun stands at its first step
            rate = rnp.where(step < first, rate, then(rnp.maximum(step - first, 0)))
        return rate

    return schedule


@described
def linear_onecycle(
    steps: int,
    peak: float,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Rates:
    """One cycle in lines: up to `peak`, down again, and on to nearly nothing.

    It begins at `peak / div_factor`, is at its peak at the part `pct_start` of the steps, back at
    `pct_final`, and ends `final_div_factor` below. Smith and Topin, 2017,
    https://arxiv.org/abs/1708.07120

    >>> schedule = linear_onecycle(100, 1.0)
    >>> [round(schedule(step).item(), 3) for step in (0, 30, 85)]
    [0.04, 1.0, 0.04]
    """
    steps, peak = _cycle("linear_onecycle", steps, peak)
    low = peak / div_factor
    points = [(0, low), (int(pct_start * steps), peak), (int(pct_final * steps), low)]
    return _through([*points, (steps, low / final_div_factor)], lambda part: part)


@described
def cosine_onecycle(
    steps: int,
    peak: float,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Rates:
    """One cycle in two half waves: up to `peak`, and down to nearly nothing.

    It begins at `peak / div_factor`, is at its peak at the part `pct_start` of the steps, and ends
    `final_div_factor` below the beginning. Smith and Topin, 2017, https://arxiv.org/abs/1708.07120

    >>> schedule = cosine_onecycle(100, 1.0)
    >>> [round(schedule(step).item(), 3) for step in (0, 15, 30, 65)]
    [0.04, 0.52, 1.0, 0.5]
    """
    steps, peak = _cycle("cosine_onecycle", steps, peak)
    low = peak / div_factor
    points = [(0, low), (int(pct_start * steps), peak), (steps, low / final_div_factor)]
    return _through(points, lambda part: 0.5 - 0.5 * rnp.cos(math.pi * part))


def _cycle(name: str, steps: Any, peak: Any) -> tuple[int, float]:
    return count_of(f"{name}: steps", steps, least=1), known_real(f"{name}: peak", peak)


def _through(points: list[tuple[int, float]], curve: Callable[[Any], Any]) -> Rates:
    """Rates through points (step, rate), with a curve from 0 to 1 between two of them."""

    def schedule(step: Any) -> Any:
        rate, step = rnp.asarray(points[0][1]), _at(step)
        for (left, low), (right, high) in itertools.pairwise(points):
            part = curve(_progress(step - left, right - left))
            rate = rnp.where(step >= left, low + (high - low) * part, rate)
        return rate

    return schedule


def _at(step: Any) -> Any:
    """The number of a step."""
    found = scalar("a schedule: the step", step)
    if isinstance(found, complex) or getattr(found, "dtype", FLOAT).kind == "c":
        raise wrong("a schedule: the step", step, "a real number", "count steps from 0")
    return found


def _progress(step: Any, steps: int) -> Any:
    """How much of the steps is done, from 0 to 1."""
    return rnp.clip(_at(step) / max(steps, 1), 0.0, 1.0)


def _steps(name: str, given: Any) -> int:
    return count_of(f"{name}: steps", given, most=2**62)
