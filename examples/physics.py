"""Gradient descent through simulations: a closed path of three bodies, the source of waves."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import rlx
import rlx.numpy as rnp
from rlx import optim

BODIES = np.array([[0.970, -0.243], [-0.970, 0.243], [0, 0]], np.float32)  # Moore, 1993
PERIOD, FRAMES, LEAPS = 6.3259, 60, 8
TIMES, COURANT = 120, 0.5


def accelerations(x):
    """Newton's law of gravitation, for bodies of mass 1 at `x`."""
    between = x[None, :] - x[:, None]
    cubes = (rnp.sum(between**2, axis=-1, keepdims=True) + 1e-4) ** 1.5  # never zero
    return rnp.sum(between / cubes, axis=1)


def fly(velocity, frames):
    """Two bodies start with `velocity`, the third with -2 times it: `f32[frames, bodies, 2]`."""
    dt = PERIOD / FRAMES / LEAPS

    def leapfrog(_, state):
        x, v = state
        v = v + dt / 2 * accelerations(x)
        x = x + dt * v
        return x, v + dt / 2 * accelerations(x)

    def frame(state, _):
        return rlx.fori_loop(0, LEAPS, leapfrog, state), state[0]

    start = rnp.asarray(BODIES), rnp.stack([velocity, velocity, -2 * velocity])
    return rlx.scan(frame, start, length=frames)[1]


def third(velocity):
    """Where the bodies of a figure of eight are after a third of its period: where one began."""
    return fly(velocity, FRAMES // 3 + 1)[-1]


def ripple(pond):
    """Let go a raised surface; what the edges feel by the wave equation: `f32[times, 4, size]`."""

    def step(state, _):
        now, before = state
        wide = rnp.pad(now, 1)
        around = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        after = 2 * now - before + COURANT**2 * (around - 4 * now)
        return (after, now), rnp.stack([now[0], now[-1], now[:, 0], now[:, -1]])

    return rlx.scan(step, (pond, pond), length=TIMES)[1]


@rlx.jit(static_argnames=("simulate", "steps", "rate"))
def recover(simulate, seen, guess, steps, rate):
    """Find what `simulate` makes into what was seen, by Adam; gives it and the losses."""
    optimizer = optim.adam(optim.schedules.cosine(rate, steps))

    def step(carry, _):
        guess, state = carry
        loss, grad = rlx.value_and_grad(lambda x: rnp.mean((simulate(x) - seen) ** 2))(guess)
        update, state = optimizer.update(grad, state, guess)
        return (guess + update, state), loss

    (found, _), losses = rlx.scan(step, (guess, optimizer.init(guess)), length=steps)
    return found, losses


def draw(pictures, paths, file):
    """Draw three pictures with a row of paths of bodies above."""
    figure, rows = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for axes, (name, path) in zip(rows[0], paths.items(), strict=True):
        axes.plot(path[..., 0], path[..., 1], lw=2)
        axes.plot(*path[0].T, "o", color="black")
        axes.set(title=f"three bodies: {name}", xlim=(-1.6, 1.6), ylim=(-1.1, 1.1), aspect="equal")
    for axes, (name, picture) in zip(rows[1], pictures.items(), strict=True):
        limit = abs(picture).max()
        axes.imshow(picture, cmap="RdBu", aspect="auto", vmin=-limit, vmax=limit)
        axes.set(title=name, xticks=[], yticks=[])
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="steps of the optimizer")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    guess = rnp.array([0.3, 0.5])
    found, losses = recover(third, BODIES[[2, 0, 1]], guess, asked.steps, 0.02)
    print(f"three bodies: loss {float(losses[0]):.5f} -> {float(losses[-1]):.1e}")
    print(f"velocity: {found[0]:.4f}, {found[1]:.4f}   (known: 0.4662, 0.4324)")
    digits, _ = load_digits(return_X_y=True)
    digit = np.pad(digits[3].reshape(8, 8).astype("float32") / 16, 1)
    pond = rnp.pad(rlx.image.resize(digit, (50, 50), "linear"), 7)
    felt = ripple(pond)
    source, losses = recover(ripple, felt, rnp.zeros_like(pond), asked.steps, 0.05)
    print(f"waves: loss {float(losses[0]):.5f} -> {float(losses[-1]):.1e}")
    print(f"the source is off by {float(rnp.mean(rnp.abs(source - pond))):.4f} on average")
    flown = {"first guess": guess, "halfway": (guess + found) / 2, "found": found}
    paths = {name: np.asarray(fly(v, FRAMES + 1)) for name, v in flown.items()}
    pictures = {"digit in a pond": pond, "felt at its edges, over time": felt.reshape(TIMES, -1)}
    pictures["digit found from what was felt"] = source
    draw({k: np.asarray(v) for k, v in pictures.items()}, paths, asked.out / "physics.png")
