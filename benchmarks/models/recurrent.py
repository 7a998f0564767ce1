"""Recurrent networks, written as loops over time: (time, batch, width) to all states."""

from __future__ import annotations

from typing import Any


def lstm_by_scan(library: Any, p: Any, xs: Any) -> Any:
    """All states of an LSTM; gates stand as input, forget, new, output in (4 width, inputs)."""
    width = p["hidden"].shape[1]
    given = xs @ p["input"].T + p["bias"]  # of all times at once

    def step(carry: Any, x: Any) -> Any:
        state, cell = carry
        gates = x + state @ p["hidden"].T
        entry, kept = (
            library.sigmoid(gates[:, :width]),
            library.sigmoid(gates[:, width : 2 * width]),
        )
        new = library.xp.tanh(gates[:, 2 * width : 3 * width])
        out = library.sigmoid(gates[:, 3 * width :])
        cell = kept * cell + entry * new
        state = out * library.xp.tanh(cell)
        return (state, cell), state

    zeros = library.xp.zeros_like(given[0, :, :width])
    return library.scan(step, (zeros, zeros), given)[1]


def rnn_by_scan(library: Any, p: Any, xs: Any) -> Any:
    """All states of a network of tanh, with weights (width, inputs)."""
    given = xs @ p["input"].T + p["bias"]

    def step(state: Any, x: Any) -> Any:
        state = library.xp.tanh(x + state @ p["hidden"].T)
        return state, state

    return library.scan(step, library.xp.zeros_like(given[0]), given)[1]
