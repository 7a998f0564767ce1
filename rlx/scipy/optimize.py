"""Minimization of functions by gradients, under the names of `jax.scipy.optimize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..trace.apply import as_tensor
from ..trace.arguments import callable_of, wrong
from ..trace.array import Array
from ..trace.array_arguments import scalar
from ..trace.control import while_loop
from ..trace.promotion import promote_operands
from ..transforms.grad import value_and_grad
from .operands import Tensor

__all__ = ["OptimizeResults", "minimize"]

# -- how far to go along a direction: the strong conditions of Wolfe -------------------------------


DECREASE, CURVATURE = 1e-4, 0.9  # how much of the first slope must be gained, and may be left


class Point(NamedTuple):
    """A point on the line: its distance, and the value, slope and gradient there."""

    distance: Any
    value: Any
    slope: Any
    gradient: Any


class Search(NamedTuple):
    """The bracket of a line search, its best end first, and the next trial."""

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
    """Search along a direction for a step that satisfies the strong Wolfe conditions.

    It starts at the step `first` and tries at most `most` steps: outwards until a minimum is
    bracketed, then inside of the bracket. Nocedal and Wright, "Numerical Optimization", algorithms
    3.5 and 3.6.
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


def _between(low: Point, high: Point) -> Array:
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


LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
OPTIONS = {
    "bfgs": {"maxiter": None, "norm": np.inf, "gtol": 1e-5, "line_search_maxiter": 10},
    LIMITED: {
        "maxiter": None,
        "norm": np.inf,
        "maxcor": 10,
        "ftol": 2.220446049250313e-09,
        "gtol": 1e-5,
        "maxfun": None,
        "maxgrad": None,
        "maxls": 20,
    },
}


class OptimizeResults(NamedTuple):
    """The result of `minimize`."""

    x: Any  # the vector
    success: Any  # whether it converged
    status: Any  # 0: success, 1: too many steps, greater: a line search failed
    fun: Any  # the value there
    jac: Any  # the gradient there
    hess_inv: Any  # the estimated inverse of the Hessian, or None
    nfev: Any  # calls of the function
    njev: Any  # calls of the gradient
    nit: Any  # steps


class State(NamedTuple):
    """The iterate, its value and gradient, the curvature estimate, and counts."""

    x: Any
    value: Any
    gradient: Any
    before: Any  # the value one step before
    curvature: Any
    calls: Any
    steps: Any
    is_done: Any
    status: Any


def minimize(
    fun: Callable[..., Any],
    x0: Tensor,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Minimize a scalar function `fun(x, *args)` of a vector x, starting at `x0`.

    Returns `OptimizeResults`. `method` is "BFGS", or for many variables
    "l-bfgs-experimental-do-not-rely-on-this". It stops when the `norm` of the gradient is below
    `gtol` (`tol` if given). `options` of the first are maxiter, norm, gtol, line_search_maxiter; of
    the second maxiter, norm, maxcor, ftol, gtol, maxfun, maxgrad, maxls.

    >>> minimize(lambda x: ((x - 3.0) ** 2).sum(), [0.0, 1.0], method="BFGS").x.round(3).tolist()
    [3.0, 3.0]
    """
    callable_of("minimize: fun", fun)
    if not isinstance(options, Mapping | None):
        raise wrong("minimize: options", options, "a dict", 'write options={"maxiter": 100}')
    kind = method.lower() if isinstance(method, str) else ""
    if kind not in OPTIONS or not isinstance(args, tuple):
        raise ArgumentError(
            f"minimize: the method is {method!r}, args are {type(args).__name__}",
            fix=f'use the method "BFGS" or "{LIMITED}", and a tuple of args',
        )
    known, given = OPTIONS[kind], dict(options or {})
    if unknown := set(given) - set(known):
        raise ArgumentError(
            f"minimize: there is no option {', '.join(sorted(unknown))}",
            fix=f"use {', '.join(known)}",
        )
    if tol is not None:
        given.setdefault("gtol", scalar("minimize: tol", tol))
    x = as_tensor(promote_operands(as_tensor(x0), inexact=True)[0])
    if x.ndim != 1:
        raise ShapeError(f"minimize: x0 is {x.type}", fix="give a vector")
    settings = {**known, **given}
    if settings["maxiter"] is None:
        settings["maxiter"] = 200 * x.shape[0]
    slopes = value_and_grad(lambda x: fun(x, *args))
    return (_bfgs if kind == "bfgs" else _limited)(slopes, x, settings)


def _descend(
    slopes: Callable[[Any], Any],
    x: Any,
    settings: Mapping[str, Any],
    curvature: Any,
    direction_of: Callable[[Any, Any], Any],
    learned: Callable[..., Any],
    most_trials: int,
) -> OptimizeResults:
    """Take steps along directions from the curvature, of which each step tells more."""
    value, gradient = slopes(x)
    before = value + rnp.linalg.norm(gradient) / 2

    def is_small(gradient: Any) -> Any:
        return rnp.linalg.norm(gradient, ord=settings["norm"]) < settings["gtol"]

    def step(s: State) -> State:
        direction = direction_of(s.curvature, s.gradient)
        guess = 2.02 * (s.value - s.before) / rnp.dot(s.gradient, direction)
        first = rnp.where((guess > 0) & (guess < 1), guess, 1.0)
        found = line_search(
            slopes, s.x, direction, s.value, s.gradient, rnp.astype(first, s.x.dtype), most_trials
        )
        low = found.low
        move = low.distance * direction
        curvature = learned(s.curvature, move, low.gradient - s.gradient, s.steps)
        is_done = is_small(low.gradient)
        calls, steps = s.calls + found.count, s.steps + 1
        status = _status(s, found, low.value, calls, steps, settings)
        status = rnp.where(is_done, 0, status)
        return State(
            s.x + move, low.value, low.gradient, s.value, curvature, calls, steps, is_done, status
        )

    zero = rnp.asarray(0)
    start = State(x, value, gradient, before, curvature, zero + 1, zero, is_small(gradient), zero)
    s = while_loop(lambda s: ~s.is_done & (s.status == 0), step, start)
    counts = s.calls, s.calls, s.steps
    return OptimizeResults(s.x, s.is_done, s.status, s.value, s.gradient, s.curvature, *counts)


def _status(
    s: State, found: Any, value: Any, calls: Any, steps: Any, settings: Mapping[str, Any]
) -> Array:
    """0 as long as it is worth to go on."""
    is_limited = "ftol" in settings
    status = rnp.where(steps >= settings["maxiter"], 1, 0)
    if is_limited:
        for number, name in ((2, "maxfun"), (3, "maxgrad")):
            if settings[name] is not None:
                status = rnp.where(calls >= settings[name], number, status)
        status = rnp.where((s.value - value < settings["ftol"]) & found.is_done, 4, status)
    return rnp.where(found.is_done, status, 5 if is_limited else 3)


def _bfgs(slopes: Callable[[Any], Any], x: Any, settings: Mapping[str, Any]) -> OptimizeResults:
    unit = rnp.eye(x.shape[0], dtype=x.dtype)

    def learned(inverse: Any, move: Any, change: Any, steps: Any) -> Any:
        product = rnp.dot(change, move)
        rho = 1 / rnp.where(product == 0, 1.0, product)
        turn = unit - rho * rnp.outer(move, change)
        better = turn @ inverse @ turn.T + rho * rnp.outer(move, move)
        return rnp.where((product != 0) & rnp.isfinite(rho), better, inverse)

    trials = settings["line_search_maxiter"]
    return _descend(slopes, x, settings, unit, lambda h, g: -(h @ g), learned, trials)


def _limited(slopes: Callable[[Any], Any], x: Any, settings: Mapping[str, Any]) -> OptimizeResults:
    """BFGS with the last `maxcor` steps in place of a matrix."""
    kept = settings["maxcor"]
    none = rnp.zeros((kept, x.shape[0]), x.dtype)

    def learned(history: Any, move: Any, change: Any, steps: Any) -> Any:
        moves, changes, rhos, _ = history
        product = rnp.dot(change, move)
        rho = rnp.where(product == 0, 0.0, 1 / rnp.where(product == 0, 1.0, product))
        size = rnp.dot(change, change)
        gamma = rnp.where(size > 0, product / rnp.where(size > 0, size, 1.0), 1.0)
        rows = [rnp.concatenate([a[1:], b[None]]) for a, b in ((moves, move), (changes, change))]
        return (*rows, rnp.concatenate([rhos[1:], rho[None]]), gamma)

    def direction(history: Any, gradient: Any) -> Any:
        # Nocedal and Wright, algorithm 7.4; rows that are not there yet are 0
        moves, changes, rhos, gamma = history
        q, shares = -gradient, []
        for i in reversed(range(kept)):
            shares.append(rhos[i] * rnp.dot(moves[i], q))
            q = q - shares[-1] * changes[i]
        q = gamma * q
        for i, share in enumerate(reversed(shares)):
            q = q + moves[i] * (share - rhos[i] * rnp.dot(changes[i], q))
        return q

    history = (none, none, none[:, 0], rnp.ones((), x.dtype))
    made = _descend(slopes, x, settings, history, direction, learned, settings["maxls"])
    return made._replace(hess_inv=None)
