"""A line search: how far to go along an update, by values and slopes on the way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError
from ..trace import pytree
from ..trace.arguments import choice, count_of
from ..trace.control import cond
from ..transforms.grad import value_and_grad
from ..transforms.loops import while_loop
from .loss_scale import choose
from .optimizer import (
    Optimizer,
    check_numbers,
    first_step,
    needs_params,
    of_kind,
    zero_beside,
    zeros_like,
)


def dot(x: Any, y: Any) -> Any:
    """The inner product of two trees, each as one vector of real numbers."""
    products = pytree.leaves(pytree.map(lambda a, b: rnp.real(rnp.vdot(a, b)), x, y))
    return sum(products[1:], start=products[0]) if products else rnp.zeros(())


class ZoomState(NamedTuple):
    """The last step of a line search, and how the search went."""

    learning_rate: Any  # the step
    value: Any  # the function after the step
    grad: Any  # the gradient there
    steps: Any  # how many values the search took
    decrease_error: Any  # by how much the decrease was missed
    curvature_error: Any  # by how much the slope was


class Point(NamedTuple):
    """A point of the line: how far it is, the value and the slope there."""

    step: Any
    value: Any
    slope: Any


class Safe(NamedTuple):
    """The best point yet that has decreased the value enough."""

    step: Any
    value: Any
    grad: Any


class Search(NamedTuple):
    """What a search knows: it looks for an interval first, then makes it smaller."""

    count: Any
    is_found: Any
    is_done: Any
    is_failed: Any
    at: Point
    grad: Any
    low: Point
    high: Point
    third: Point
    safe: Safe
    decrease_error: Any
    curvature_error: Any


class Rules(NamedTuple):
    """The parameters of a search, see `scale_by_zoom_linesearch`."""

    most: int
    longest: float | None
    tol: float
    increase_factor: float
    slope_rtol: float
    curv_rtol: float
    approx_dec_rtol: float | None
    stepsize_precision: float
    is_last_kept: bool


def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: float | None = None,
    tol: float = 0.0,
    increase_factor: float = 2.0,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    approx_dec_rtol: float | None = 1e-6,
    stepsize_precision: float = 1e-5,
    initial_guess_strategy: str = "keep",
) -> Optimizer:
    """Multiply by a step that decreases the value and flattens the slope enough.

    With values f and slopes f' along the update, the step s has `f(s) <= f(0) + slope_rtol s f'(0)`
    and `|f'(s)| <= curv_rtol |f'(0)|` within `tol`; near a minimum, where values are too near to
    each other, `approx_dec_rtol` lets a slope stand for the first. `initial_guess_strategy` takes
    the last step ("keep") or 1 ("one") for the guess; it is multiplied by `increase_factor`, up to
    `max_learning_rate`, until an interval holds such a step, which is then made smaller, down to
    `stepsize_precision`. After `max_linesearch_steps` the best step yet is taken. `update` needs
    `value`, `grad` and `value_fn`, the function of the parameters that gives the value; what else
    it is given by keyword goes to that function. Nocedal and Wright, Numerical Optimization, 2006,
    algorithms 3.5 and 3.6; Hager and Zhang, 2006, https://doi.org/10.1145/1132973.1132979

    >>> def f(x):
    ...     return ((x - 3.0) ** 2).sum()
    >>> step, x = scale_by_zoom_linesearch(10), rnp.zeros(1)
    >>> grad = rnp.array([-6.0])
    >>> step.update(-grad, step.init(x), x, value=f(x), grad=grad, value_fn=f)[0]
    Array([3.], dtype=float32)
    """
    count_of("max_linesearch_steps", max_linesearch_steps, least=1)
    check_numbers(tol=tol, increase_factor=increase_factor, slope_rtol=slope_rtol)
    check_numbers(curv_rtol=curv_rtol, stepsize_precision=stepsize_precision)
    choice("initial_guess_strategy", initial_guess_strategy, ("keep", "one"))
    rules = Rules(
        max_linesearch_steps,
        max_learning_rate,
        tol,
        increase_factor,
        slope_rtol,
        curv_rtol,
        approx_dec_rtol,
        stepsize_precision,
        initial_guess_strategy == "keep",
    )
    update: Any = functools.partial(_update, rules)
    update.__qualname__ = "scale_by_zoom_linesearch"
    return Optimizer(_unsearched, update)


def _unsearched(params: Any) -> ZoomState:
    """The state before the first search."""
    trained = pytree.without_state(params)
    zero = zero_beside(trained)
    one, far = zero + 1, zero + float("inf")
    return ZoomState(one, far, zeros_like(trained), first_step(trained), far + 0, far + 0)


def _update(
    rules: Rules,
    updates: Any,
    state: ZoomState,
    params: Any = None,
    *,
    value: Any = None,
    grad: Any = None,
    value_fn: Callable[..., Any] | None = None,
    **more: Any,
) -> tuple[Any, ZoomState]:
    params, last = needs_params("a line search", params), of_kind(state, ZoomState)
    if value is None or grad is None or value_fn is None:
        raise ArgumentError(
            "a line search needs the value, the gradient and the function",
            fix="call optimizer.update(grads, state, params, value=, grad=, value_fn=)",
        )
    start, way = pytree.without_state(params), pytree.without_state(updates)
    dtype = last.value.dtype

    def on_line(step: Any) -> tuple[Point, Any]:
        there = pytree.map(lambda p, u: p + step.astype(u.dtype) * u, start, way)
        found, grads = value_and_grad(
            lambda trained: value_fn(pytree.restore_state(trained, params), **more)
        )(there)
        return Point(step, found.astype(dtype), dot(grads, way).astype(dtype)), grads

    guess = last.learning_rate if rules.is_last_kept else rnp.ones_like(last.learning_rate)
    grad = pytree.without_state(grad)
    first = Point(guess * 0, rnp.asarray(value).astype(dtype), dot(grad, way).astype(dtype))
    end = _searched(rules, on_line, guess, first, grad)
    changed = pytree.map(lambda u: end.safe.step.astype(u.dtype) * u, way)
    after = ZoomState(*end.safe, end.count, end.decrease_error, end.curvature_error)
    return pytree.restore_state(changed, updates), after


def _searched(
    rules: Rules, on_line: Callable[[Any], tuple[Point, Any]], guess: Any, first: Point, grad: Any
) -> Search:
    """The end of a search, whose `safe` point is the one to take."""
    no, far = rnp.asarray(False), rnp.full_like(first.value, float("inf"))
    safe = Safe(first.step, first.value, grad)
    count = rnp.zeros_like(first.value, "int32")
    start = Search(count, no, no, no, first, grad, first, first, first, safe, far, far)

    def step(search: Search) -> Search:
        longer = rnp.where(search.count == 0, guess, rules.increase_factor * search.at.step)
        if rules.longest is not None:
            longer = rnp.minimum(longer, rules.longest)
        at, grads = on_line(rnp.where(search.is_found, _middle(search), longer))
        return _judged(rules, search, at, grads, first)

    end: Search = while_loop(lambda search: ~(search.is_done | search.is_failed), step, start)
    is_outside = rnp.isinf(end.decrease_error)
    is_safe = end.is_failed & ((end.safe.step > 0) | is_outside)
    last = Safe(end.at.step, end.at.value, end.grad)
    return end._replace(safe=choose(is_safe, end.safe, last))


def _judged(rules: Rules, search: Search, at: Point, grads: Any, first: Point) -> Search:
    """The search after a new point."""
    decrease, curvature = _errors(rules, at, first)
    is_good = rnp.maximum(decrease, curvature) <= rules.tol
    is_safe = (decrease <= rules.tol) & (~search.is_found | (at.value < search.safe.value))
    safe = choose(is_safe, Safe(at.step, at.value, grads), search.safe)
    count = search.count + 1

    begun, bounds = _bounded(search, at, decrease)
    is_begun = begun | is_good
    is_at_end = False if rules.longest is None else at.step >= rules.longest
    is_short = rnp.abs(search.high.step - search.low.step) <= rules.stepsize_precision
    is_done = is_good | (~search.is_found & is_at_end & ~is_begun)
    is_over = (count >= rules.most) | (search.is_found & is_short & (safe.step > 0))

    low, high, third = choose(search.is_found, _zoomed(search, at, decrease), bounds)
    return Search(
        count=count,
        is_found=search.is_found | is_begun,
        is_done=is_done,
        is_failed=is_over & ~is_done,
        at=at,
        grad=grads,
        low=low,
        high=high,
        third=third,
        safe=safe,
        decrease_error=decrease,
        curvature_error=curvature,
    )


def _bounded(search: Search, at: Point, decrease: Any) -> tuple[Any, tuple[Point, Point, Point]]:
    """Whether the new point and the last bound a good step; the interval."""
    before = search.at
    is_high = (decrease > 0) | ((at.value >= before.value) & (search.count > 0))
    is_low = (at.slope >= 0) & ~is_high
    low, high = choose(is_low, (at, before), (before, at))
    return is_high | is_low, (low, high, low)


def _zoomed(search: Search, at: Point, decrease: Any) -> tuple[Point, Point, Point]:
    """A smaller interval with the new point for an end, and an end of the one before."""
    low, high = search.low, search.high
    is_high = (decrease > 0) | (at.value >= low.value)
    is_turned = (at.slope * (high.step - low.step) >= 0) & ~is_high
    upper = choose(is_high, at, choose(is_turned, low, high))
    return choose(is_high, low, at), upper, choose(is_high | is_turned, high, low)


def _errors(rules: Rules, at: Point, first: Point) -> tuple[Any, Any]:
    """By how much a point misses the decrease and the flatness that are wanted."""
    decrease = at.value - first.value - rules.slope_rtol * at.step * first.slope
    if rules.approx_dec_rtol is not None:
        by_slope = at.slope - (2 * rules.slope_rtol - 1.0) * first.slope
        change = at.value - first.value - rules.approx_dec_rtol * rnp.abs(first.value)
        decrease = rnp.minimum(rnp.maximum(by_slope, change), decrease)
    curvature = rnp.abs(at.slope) - rules.curv_rtol * rnp.abs(first.slope)

    def positive(x: Any) -> Any:
        return rnp.where(rnp.isnan(x), float("inf"), rnp.maximum(x, 0.0))

    return positive(decrease), positive(curvature)


def _middle(search: Search) -> Any:
    """A point inside the interval: the least of a cubic or a parabola, or the middle."""
    low, high, third = search.low, search.high, search.third
    width = rnp.abs(high.step - low.step)
    left, right = rnp.minimum(low.step, high.step), rnp.maximum(low.step, high.step)

    far, other = high.step - low.step, third.step - low.step
    over_far = high.value - low.value - low.slope * far
    over_other = third.value - low.value - low.slope * other
    scale = (far * other) ** 2 * (far - other)
    a = (other**2 * over_far - far**2 * over_other) / scale
    b = (far**3 * over_other - other**3 * over_far) / scale
    cubic = low.step + (-b + rnp.sqrt(b * b - 3.0 * a * low.slope)) / (3.0 * a)
    parabola = low.step - low.slope / (2.0 * over_far / far**2)

    def is_inside(x: Any, margin: float) -> Any:
        return (x > left + margin * width) & (x < right - margin * width)

    half = (low.step + high.step) / 2
    return rnp.where(
        is_inside(cubic, 0.2), cubic, rnp.where(is_inside(parabola, 0.1), parabola, half)
    )


def value_and_grad_from_state(value_fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """The value and gradient of a function, from a line search that has left them.

    Returns a function like `rlx.value_and_grad(value_fn)`, which takes `state` by keyword, too.
    Where the state has none yet they are computed; a state without a line search is an
    `ArgumentError`.

    >>> from rlx.optim import lbfgs
    >>> def f(x):
    ...     return (x**2).sum()
    >>> optimizer, x = lbfgs(), rnp.array([3.0])
    >>> value, grad = value_and_grad_from_state(f)(x, state=optimizer.init(x))
    >>> value.item(), grad.item()
    (9.0, 6.0)
    """

    def read(params: Any, *args: Any, state: Any, **more: Any) -> tuple[Any, Any]:
        parts = pytree.leaves(state, is_leaf=lambda x: isinstance(x, ZoomState))
        known = [part for part in parts if isinstance(part, ZoomState)]
        if not known:
            raise ArgumentError(
                "value_and_grad_from_state: the state has no value and no gradient",
                fix="use it with a line search, such as that of optim.lbfgs()",
            )
        last = known[0]

        def stored() -> tuple[Any, Any]:
            return last.value, pytree.restore_state(last.grad, zeros_like(params))

        def computed() -> tuple[Any, Any]:
            value, grad = value_and_grad(value_fn)(params, *args, **more)
            return value.astype(last.value.dtype), grad

        return cond(rnp.isfinite(last.value), stored, computed)

    return read
