"""A training that saves each step and goes on where it stopped, for who kills it.

    python tests/killed_training.py directory steps

prints each step; the weights at the end are in `directory/final.npz`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rlx
import rlx.numpy as rnp
from rlx import nn, optim

optimizer = optim.adamw(1e-2)


def loss(model: nn.MLP, x: rlx.Array, y: rlx.Array) -> rlx.Array:
    """The mean squared error."""
    return nn.losses.mean_squared_error(model(x), y)


@rlx.jit
def train_step(state: dict) -> dict:
    """One step on numbers drawn with the state's key."""
    key, at = rlx.random.split(state["key"])
    x = rlx.random.normal(at, (16, 64))
    gradient = rlx.grad(loss)(state["model"], x, rnp.sin(x[:, :4]))
    updates, memory = optimizer.update(gradient, state["optimizer"], state["model"])
    model = optim.apply_updates(state["model"], updates)
    return {"model": model, "optimizer": memory, "key": key}


def start() -> dict:
    """The state before the first step."""
    model = nn.MLP([64, 50, 4], key=rlx.random.key(0))
    made = {"model": model, "optimizer": optimizer.init(model), "key": rlx.random.key(1)}
    return {**made, "step": 0}


def main(directory: Path, steps: int) -> None:
    """Train up to a step, from the last checkpoint on."""
    state = start()
    with rlx.io.Checkpoints(directory, keep=2) as checkpoints:
        if checkpoints.latest() is not None:
            state = checkpoints.restore(like=state)
        for step in range(state["step"], steps):
            arrays = {name: x for name, x in state.items() if name != "step"}
            state = {**train_step(arrays), "step": step + 1}
            checkpoints.save(step + 1, state)
            print(step + 1, flush=True)
    rlx.save(directory / "final.npz", state)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
