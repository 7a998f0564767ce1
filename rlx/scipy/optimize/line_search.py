"""How far to go along a direction: the strong conditions of Wolfe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ... import numpy as rnp
from ...trace.control import while_loop

DECREASE, CURVATURE = 1e-4, 0.9  # how much of the first slope must be gained, and may be left


class Point(NamedTuple):
    """A place on the line: how far it is, the function, its slope, and its gradient."""

    distance: Any
    value: Any
    slope: Any
    gradient: Any


class Search(NamedTuple):
    """The best place so far, the other end of the search, the next place to try."""

    low: Point
    high: Point
    trial: Any
    is_bracketed: Any
    is_done: Any
    count: Any


def line_search(
    value_and_gradient: Callable[[Any], Any],
    x: Any,
    direction: Any,
    value: Any,
    gradient: Any,
    first: Any,
    most: int,
) -> Search:
    """Places along a direction until one is good, from the distance `first` on.

    `most` places are tried at most.

    Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6: outwards until a minimum
    must lie between two places, then between them.
    """
    start = Point(0 * value, value, rnp.dot(gradient, direction), gradient)

    def at(distance: Any) -> Point:
        value, gradient = value_and_gradient(x + distance * direction)
        return Point(distance, value, rnp.dot(gradient, direction), gradient)

    def goes_on(s: Search) -> Any:
        gap = rnp.abs(s.high.distance - s.low.distance)
        tiny = 4 * float(rnp.finfo(gap.dtype).eps) * rnp.abs(s.trial)
        return ~s.is_done & (s.count < most) & ~(s.is_bracketed & (gap <= tiny))

    def step(s: Search) -> Search:
        new = at(s.trial)
        limit = start.value + DECREASE * s.trial * start.slope
        is_high = (new.value > limit) | (new.value >= s.low.value) | rnp.isnan(new.value)
        is_good = ~is_high & (rnp.abs(new.slope) <= -CURVATURE * start.slope)
        way = rnp.where(s.is_bracketed, s.high.distance - s.low.distance, 1.0)
        is_beyond = ~is_high & (new.slope * way >= 0)
        high = _chosen(is_high, new, _chosen(is_beyond, s.low, s.high))
        low = _chosen(is_high, s.low, new)
        is_bracketed = s.is_bracketed | is_high | is_beyond
        trial = rnp.where(is_bracketed, _between(low, high), 2 * s.trial)
        return Search(low, high, trial, is_bracketed, is_good, s.count + 1)

    no = rnp.asarray(False)
    return while_loop(goes_on, step, Search(start, start, first, no, no, 0))


def _chosen(which: Any, one: Point, other: Point) -> Point:
    return Point(*(rnp.where(which, a, b) for a, b in zip(one, other, strict=True)))


def _between(low: Point, high: Point) -> Any:
    """The minimum of the cubic through both places, or their middle if it is near an end."""
    gap = high.distance - low.distance
    safe = rnp.where(gap == 0, 1.0, gap)
    chord = (high.value - low.value) / safe
    first = low.slope + high.slope - 3 * chord
    square = first * first - low.slope * high.slope
    second = rnp.sqrt(rnp.maximum(square, 0)) * rnp.sign(safe)
    below = high.slope - low.slope + 2 * second
    share = (high.slope + second - first) / rnp.where(below == 0, 1.0, below)
    is_inside = (square >= 0) & (share > 0.1) & (share < 0.9)
    share = rnp.where(is_inside, 1 - share, 0.5)
    return low.distance + share * gap
