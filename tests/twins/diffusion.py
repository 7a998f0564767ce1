"""`examples/diffusion.py` in JAX, Flax and Optax."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

TIMES, BATCH, COPIES = 100, 128, 10


class Velocity(nnx.Module):
    """A network for the derivative of a noisy image of a known class by the angle t."""

    def __init__(self, rngs):
        self.net = nnx.Sequential(
            nnx.Linear(64 + 10 + 16, 256, rngs=rngs),
            nnx.gelu,
            nnx.Linear(256, 256, rngs=rngs),
            nnx.gelu,
            nnx.Linear(256, 256, rngs=rngs),
            nnx.gelu,
            nnx.Linear(256, 64, rngs=rngs),
        )

    def __call__(self, images, labels, t):
        waves = t[:, None] * jnp.arange(1, 9)
        known = jax.nn.one_hot(labels, 10), jnp.cos(waves), jnp.sin(waves)
        return self.net(jnp.concatenate([images, *known], axis=-1))


def loss_of(model, images, labels, key):
    """The mean square error of the velocity at random angles."""
    keys = jax.random.split(key)
    t = jax.random.uniform(keys[0], labels.shape, maxval=np.pi / 2)
    noise = jax.random.normal(keys[1], images.shape)
    cos, sin = jnp.cos(t)[:, None], jnp.sin(t)[:, None]
    found = model(cos * images + sin * noise, labels, t)
    return jnp.mean(optax.squared_error(found, cos * noise - sin * images))


@jax.jit(static_argnames="steps")
def train(model, images, labels, steps, key):
    """Give the trained model, and the loss of each step: all steps are one program."""
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, steps))

    def step(carry, key):
        model, state = carry
        keys = jax.random.split(key)
        rows = jax.random.randint(keys[0], (BATCH,), 0, len(images))
        loss, grads = jax.value_and_grad(loss_of)(model, images[rows], labels[rows], keys[1])
        updates, state = optimizer.update(grads, state, model)
        return (optax.apply_updates(model, updates), state), loss

    carry = model, optimizer.init(model)
    (model, _), losses = jax.lax.scan(step, carry, jax.random.split(key, steps))
    return model, losses


@jax.jit
def sample(model, labels, key):
    """Draw an image of each label; gives the images at all times, pure noise first."""
    turn = np.pi / 2 / TIMES

    def step(x, t):
        back = model(x, labels, jnp.full(labels.shape, t))
        return jnp.cos(turn) * x - jnp.sin(turn) * back, x

    noise = jax.random.normal(key, (len(labels), 64))
    images, path = jax.lax.scan(step, noise, jnp.linspace(np.pi / 2, turn, TIMES))
    return jnp.concatenate([path, images[None]])


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
    keys = jax.random.split(jax.random.key(0), 3)
    model, losses = train(Velocity(nnx.Rngs(0)), images, labels, asked.steps, keys[1])
    print(f"loss {float(losses[0]):.3f} -> {float(jnp.mean(losses[-20:])):.3f}")
    wanted = np.repeat(np.arange(10, dtype=np.int32), COPIES)
    path = np.asarray(sample(model, wanted, keys[2]))
    read = KNeighborsClassifier(5).fit(images, labels).predict(path[-1])
    print(f"read as the class that was asked for: {np.mean(read == wanted):.0%}")
    draw(path, asked.out / "diffusion.png")
