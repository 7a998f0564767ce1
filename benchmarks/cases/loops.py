"""Loops over time: recurrent networks, and recurrences of small matrices.

PyTorch and MLX have no compiled loop: theirs is Python's around a compiled body, and PyTorch brings
recurrent networks of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import Case
from ..libraries import Library
from ..models.numbers import normal

TIMES, BATCH, WIDTH, STEPS = 100, 8, 128, 10_000


def recurrent(gates: int) -> tuple[Any, ...]:
    """The numbers of a network, and what it reads."""
    p = {
        "input": normal(gates * WIDTH, WIDTH, seed=1, scale=WIDTH**-0.5),
        "hidden": normal(gates * WIDTH, WIDTH, seed=2, scale=WIDTH**-0.5),
        "bias": normal(gates * WIDTH, seed=3, scale=0.1),
    }
    return p, normal(TIMES, BATCH, WIDTH)


def lstm_gradient(library: Library) -> Callable[..., Any]:
    """The gradient of a mean of the states."""

    def loss(p: Any, xs: Any) -> Any:
        return library.xp.mean(library.lstm(p, xs) ** 2)

    return library.gradient(loss)


def matrices() -> tuple[Any, ...]:
    """Three matrices of a recurrence whose numbers stay small, and a number for each step."""
    turn = np.array([[0.8, -0.59, 0.0], [0.59, 0.8, 0.0], [0.1, 0.0, 0.9]])
    noise = np.diag([0.1, 0.2, 0.3])
    return turn, noise, np.eye(3), normal(STEPS).astype(np.float64)


def recurrence(library: Library) -> Callable[..., Any]:
    """The covariance of a filter, step by step: products, sums and a division of 3x3."""

    def f(turn: Any, noise: Any, first: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            spread = turn @ carry @ turn.T + noise
            gain = spread[:, :1] / (spread[0, 0] + 0.5)
            return spread - gain @ spread[:1] + 0.01 * x * noise, spread[0, 0]

        return library.scan(step, first, xs)

    return f


NETWORK = 2.0 * TIMES * BATCH * WIDTH * 2 * WIDTH
CASES = [
    Case(
        "scan-matrices", "loops", "scan of 10000 steps, 3x3 float64", matrices, recurrence,
        dtype="float64", ulps=1e5, loops=True, in_readme=True,
    ),
    Case(
        "rnn", "loops", "RNN, 100 steps of (8, 128)", lambda: recurrent(1),
        lambda library: library.rnn, flops=NETWORK, loops=True,
    ),
    Case(
        "lstm", "loops", "LSTM, 100 steps of (8, 128)", lambda: recurrent(4),
        lambda library: library.lstm, flops=4 * NETWORK, loops=True, in_readme=True, starts=True,
    ),
    Case(
        "lstm-gradient", "loops", "gradient of the LSTM", lambda: recurrent(4), lstm_gradient,
        flops=12 * NETWORK, loops=True,
        without={"torch-compiled": "inductor fails on the gradient of torch.lstm"},
    ),
]  # fmt: skip
