"""Programs of science: filters, bodies, prices, clusters, neighbors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import Case
from ..libraries import Library
from ..models.numbers import integers, normal

MILLION, STEPS, BODIES = 10**6, 1000, 1024


def tracked() -> tuple[Any, ...]:
    """The matrices of a body in the plane that is seen with noise, and where it was seen."""
    turn = np.eye(4) + 0.1 * np.eye(4, k=2)
    seen = np.eye(2, 4)
    path = np.cumsum(normal(STEPS, 2) * 0.1, 0)
    arrays = turn, seen, 0.01 * np.eye(4), 0.1 * np.eye(2), np.zeros(4), np.eye(4), path
    return tuple(np.asarray(x, np.float64) for x in arrays)


def kalman(library: Library) -> Callable[..., Any]:
    """Where the body is thought to be, at each step."""

    def f(turn: Any, seen: Any, drift: Any, noise: Any, mean: Any, spread: Any, path: Any) -> Any:
        def step(carry: Any, z: Any) -> Any:
            mean, spread = carry
            mean, spread = turn @ mean, turn @ spread @ turn.T + drift
            surprise = seen @ spread @ seen.T + noise
            gain = library.xp.linalg.solve(surprise, seen @ spread).T
            mean = mean + gain @ (z - seen @ mean)
            return (mean, spread - gain @ seen @ spread), mean

        return library.scan(step, (mean, spread), path)[1]

    return f


def bodies(library: Library) -> Callable[..., Any]:
    """One step of bodies that attract each other."""

    def f(places: Any, speeds: Any, masses: Any) -> Any:
        apart = places[None] - places[:, None]
        squares = library.sum(apart * apart, -1) + 0.01
        pull = masses / (squares * library.xp.sqrt(squares))
        speeds = speeds + 0.01 * library.sum(apart * pull[..., None], 1)
        return places + 0.01 * speeds, speeds

    return f


def prices(library: Library) -> Callable[..., Any]:
    """Calls and puts after Black and Scholes."""
    xp = library.xp

    def below(x: Any) -> Any:
        return 0.5 * (1 + library.erf(x * 0.7071067811865476))

    def f(spot: Any, strike: Any, years: Any) -> Any:
        rate, spread = 0.03, 0.2 * xp.sqrt(years)
        d1 = (xp.log(spot / strike) + (rate + 0.02) * years) / spread
        d2, later = d1 - spread, strike * xp.exp(-rate * years)
        call = spot * below(d1) - later * below(d2)
        return call, call - spot + later

    return f


def clusters(library: Library) -> Callable[..., Any]:
    """Points go to the nearest center, centers to the mean of their points."""

    def f(points: Any, centers: Any) -> Any:
        apart = library.sum(centers * centers, 1) - 2 * (points @ centers.T)
        nearest = library.xp.argmin(apart, 1)
        sums = library.segment_sum(points, nearest, 50)
        counts = library.segment_sum(library.xp.ones_like(points[:, 0]), nearest, 50)
        return sums / (counts[:, None] + 1e-9)

    return f


def neighbors(library: Library) -> Callable[..., Any]:
    """The squared distances to the 15 nearest points, and which they are."""

    def f(points: Any) -> Any:
        squares = library.sum(points * points, 1)
        apart = squares[:, None] + squares[None] - 2 * (points @ points.T)
        near, which = library.smallest(apart, 15)
        return library.relu(near), which

    return f


def options() -> tuple[Any, ...]:
    """Prices today, prices agreed on, years until then."""
    made = np.random.default_rng(0)
    pairs = [(50, 150), (50, 150), (0.2, 2)]
    return tuple(made.uniform(low, high, MILLION).astype(np.float32) for low, high in pairs)


def clouds() -> tuple[Any, ...]:
    """Points around 50 centers, and a first guess at these."""
    centers = normal(50, 64, seed=1) * 5
    return centers[integers(50, 10_000)] + normal(10_000, 64), centers + normal(50, 64, seed=2)


def masses() -> tuple[Any, ...]:
    """Places, speeds and masses of bodies."""
    return normal(BODIES, 3), normal(BODIES, 3, seed=1), np.abs(normal(BODIES, seed=2))


CASES = [
    Case(
        "kalman", "science", "Kalman filter, 1000 steps, float64", tracked, kalman,
        dtype="float64", ulps=1e4, loops=True, in_readme=True,
    ),
    Case(
        "bodies", "science", "N-body step, 1024 bodies", masses, bodies,
        flops=20.0 * BODIES**2,
    ),
    Case(
        "prices", "science", "Black-Scholes, 1M", options, prices, nbytes=20.0 * MILLION,
        starts=True, in_readme=True,
    ),
    Case(
        "clusters", "science", "k-means step, 10k points, k = 50", clouds, clusters,
        flops=2.0 * 10_000 * 64 * 50,
    ),
    Case(
        "neighbors", "science", "15 nearest of 4096 points", lambda: (normal(4096, 64),), neighbors,
        flops=2.0 * 4096**2 * 64, nbytes=4.0 * 4096 * 64, compared=1, in_readme=True,
    ),
]  # fmt: skip
