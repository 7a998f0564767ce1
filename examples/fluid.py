"""A fluid with gradients through it finds the wind that blows smoke into a digit.

Stable fluids (Stam, 1999) on a torus: smoke and velocity are carried along by the velocity, which
is then made free of sources by a Fourier transform. The first velocity is found by Adam, through
all steps of the simulation.
"""

import argparse
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import rlx
import rlx.numpy as rnp
from rlx import optim
from rlx.scipy.ndimage import map_coordinates

DIGIT = 3


def carry(field, velocity):
    """The field a step later: each place has what was upstream. `f32[n, n] → f32[n, n]`."""
    places = rnp.stack(rnp.meshgrid(*map(rnp.arange, field.shape), indexing="ij"))
    return map_coordinates(field, list(places - velocity), order=1, mode="wrap")


def without_sources(velocity):
    """The part of a velocity that neither comes from anywhere nor ends: `f32[2, n, n]`."""
    n = velocity.shape[-1]
    waves = np.stack(np.meshgrid(np.fft.fftfreq(n), np.fft.rfftfreq(n), indexing="ij"))
    lengths = np.maximum((waves**2).sum(0), 1e-9).astype("f4")
    waves = waves.astype("f4")
    spectrum = rnp.fft.rfft2(velocity)
    along = (waves * spectrum).sum(0) / lengths
    return rnp.fft.irfft2(spectrum - waves * along, s=(n, n))


def blow(velocity, smoke, steps):
    """The smoke at each step: `f32[steps, n, n]`."""

    def step(state, _):
        velocity, smoke = state
        smoke = carry(smoke, velocity)
        velocity = without_sources(rlx.vmap(carry, in_axes=(0, None))(velocity, velocity))
        return (velocity, smoke), smoke

    return rlx.scan(step, (without_sources(velocity), smoke), length=steps)[1]


@partial(rlx.jit, static_argnames=("steps", "times"))
def recover(smoke, wanted, steps, times):
    """Find the velocity that blows the smoke into the wanted picture; gives it and the losses."""
    optimizer = optim.adam(optim.schedules.cosine(0.1, steps))

    def miss(velocity):
        return rnp.mean((blow(velocity, smoke, times)[-1] - wanted) ** 2)

    def step(state, _):
        velocity, opt_state = state
        loss, slope = rlx.value_and_grad(miss)(velocity)
        update, opt_state = optimizer.update(slope, opt_state, velocity)
        return (velocity + update, opt_state), loss

    still = rnp.zeros((2, *smoke.shape))
    (velocity, _), losses = rlx.scan(step, (still, optimizer.init(still)), length=steps)
    return velocity, losses


def draw(smokes, losses, file):
    """Draw the smoke at six times, and the losses."""
    figure, rows = plt.subplots(1, 7, figsize=(14, 2.3), layout="constrained")
    for axes, time in zip(
        rows, np.linspace(0, len(smokes) - 1, 6).round().astype(int), strict=False
    ):
        axes.imshow(smokes[time], cmap="magma", vmin=0, vmax=1)
        axes.set(title=f"step {time}", xticks=[], yticks=[])
    rows[-1].semilogy(losses)
    rows[-1].set(title="loss")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="steps of the optimizer")
    parser.add_argument("--size", type=int, default=64, help="points along a side")
    parser.add_argument("--times", type=int, default=20, help="steps of the simulation")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    n = asked.size
    digits, _ = load_digits(return_X_y=True)
    digit = rlx.image.resize(
        digits[DIGIT].reshape(8, 8).astype("f4") / 16, (n * 5 // 8,) * 2, "linear"
    )
    wanted = rnp.pad(digit, ((n - len(digit)) // 2, n - len(digit) - (n - len(digit)) // 2))
    y, x = np.mgrid[:n, :n].astype("f4") / n - 0.5
    disc = 1 / (1 + np.exp(60 * (np.hypot(x, y) - 0.25)))
    smoke = rnp.asarray((disc * float(wanted.sum()) / disc.sum()).clip(0, 1).astype("f4"))
    velocity, losses = recover(smoke, wanted, asked.steps, asked.times)
    print(f"loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f}")
    smokes = np.concatenate(
        [smoke[None], rlx.jit(blow, static_argnames="steps")(velocity, smoke, asked.times)]
    )
    draw(smokes, np.asarray(losses), asked.out / "fluid.png")
