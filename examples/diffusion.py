"""Train a diffusion model on handwritten digits, and draw new ones of each class.

A digit x and noise e are mixed as cos(t) x + sin(t) e, with an angle t from 0 to pi/2. A network
learns the derivative by t, and following it back turns noise into digits. After Salimans and Ho,
2022, https://arxiv.org/abs/2202.00512
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import rlx
import rlx.numpy as rnp
from rlx import nn, optim

TIMES, BATCH, COPIES = 100, 128, 10


class Velocity(nn.Module):
    """A network for the derivative of a noisy image of a known class by the angle t."""

    net: nn.MLP

    def __init__(self, key):
        self.net = nn.MLP([64 + 10 + 16, 256, 256, 256, 64], key=key, activation=nn.gelu)

    def __call__(self, images, labels, t):
        waves = t[:, None] * rnp.arange(1, 9)
        known = nn.one_hot(labels, 10), rnp.cos(waves), rnp.sin(waves)
        return self.net(rnp.concatenate([images, *known], axis=-1))


def loss_of(model, images, labels, key):
    """The mean square error of the velocity at random angles."""
    keys = rlx.random.split(key)
    t = rlx.random.uniform(keys[0], labels.shape, maxval=np.pi / 2)
    noise = rlx.random.normal(keys[1], images.shape)
    cos, sin = rnp.cos(t)[:, None], rnp.sin(t)[:, None]
    found = model(cos * images + sin * noise, labels, t)
    return nn.losses.mean_squared_error(found, cos * noise - sin * images)


@rlx.jit(static_argnames="steps")
def train(model, images, labels, steps, key):
    """Give the trained model, and the loss of each step: all steps are one program."""
    optimizer = optim.adam(optim.schedules.cosine(2e-3, steps))

    def step(carry, key):
        model, state = carry
        keys = rlx.random.split(key)
        rows = rlx.random.randint(keys[0], (BATCH,), 0, len(images))
        loss, grads = rlx.value_and_grad(loss_of)(model, images[rows], labels[rows], keys[1])
        updates, state = optimizer.update(grads, state, model)
        return (optim.apply_updates(model, updates), state), loss

    carry = model, optimizer.init(model)
    (model, _), losses = rlx.scan(step, carry, rlx.random.split(key, steps))
    return model, losses


@rlx.jit
def sample(model, labels, key):
    """Draw an image of each label; gives the images at all times, pure noise first."""
    turn = np.pi / 2 / TIMES

    def step(x, t):
        back = model(x, labels, rnp.full(labels.shape, t))
        return rnp.cos(turn) * x - rnp.sin(turn) * back, x

    noise = rlx.random.normal(key, (len(labels), 64))
    images, path = rlx.scan(step, noise, rnp.linspace(np.pi / 2, turn, TIMES))
    return rnp.concatenate([path, images[None]])


def draw(path, file):
    """Draw the samples, a row for each class, beside how the first of them came to be."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 6.2), layout="constrained")
    times = np.linspace(0, TIMES, COPIES).astype(int)
    for axes, rows in ((left, path[times, ::COPIES].swapaxes(0, 1)), (right, path[-1])):
        tiles = np.pad(
            rows.reshape(10, COPIES, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-1
        )
        axes.imshow(tiles.swapaxes(1, 2).reshape(100, 10 * COPIES), "gray_r", vmin=-1, vmax=1)
        axes.axis("off")
    left.set_title("from noise to a digit")
    right.set_title("new digits of each class")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000, help="steps of the optimizer")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    data, labels = load_digits(return_X_y=True)
    images, labels = (data / 8 - 1).astype(np.float32), labels.astype(np.int32)
    keys = rlx.random.split(rlx.random.key(0), 3)
    model, losses = train(Velocity(keys[0]), images, labels, asked.steps, keys[1])
    print(f"loss {float(losses[0]):.3f} -> {float(rnp.mean(losses[-20:])):.3f}")
    wanted = np.repeat(np.arange(10, dtype=np.int32), COPIES)
    path = np.asarray(sample(model, wanted, keys[2]))
    read = KNeighborsClassifier(5).fit(images, labels).predict(path[-1])
    print(f"read as the class that was asked for: {np.mean(read == wanted):.0%}")
    draw(path, asked.out / "diffusion.png")
