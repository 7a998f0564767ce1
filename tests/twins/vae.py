"""`examples/vae.py` in JAX, Flax and Optax."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

BATCH, GRID = 128, 16


class VAE(nnx.Module):
    """An encoder to the mean and log variance of a code, and a decoder to logits of pixels."""

    def __init__(self, rngs):
        self.encoder = nnx.Sequential(
            nnx.Linear(64, 256, rngs=rngs),
            nnx.gelu,
            nnx.Linear(256, 128, rngs=rngs),
            nnx.gelu,
            nnx.Linear(128, 4, rngs=rngs),
        )
        self.decoder = nnx.Sequential(
            nnx.Linear(2, 128, rngs=rngs),
            nnx.gelu,
            nnx.Linear(128, 256, rngs=rngs),
            nnx.gelu,
            nnx.Linear(256, 64, rngs=rngs),
        )

    def __call__(self, images, key):
        mean, logvar = jnp.split(self.encoder(images), 2, axis=-1)
        code = mean + jnp.exp(logvar / 2) * jax.random.normal(key, mean.shape)
        return self.decoder(code), mean, logvar


def loss_of(model, images, key):
    """The negative evidence lower bound in nats per image."""
    logits, mean, logvar = model(images, key)
    pixels = jnp.sum(optax.sigmoid_binary_cross_entropy(logits, images))
    divergence = jnp.sum(jnp.exp(logvar) + mean**2 - 1 - logvar) / 2  # from a standard normal
    return (pixels + divergence) / len(images)


@jax.jit(static_argnames="steps")
def train(model, images, steps, key):
    """Give the trained model, and the loss of each step: all steps are one program."""
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, steps))

    def step(carry, key):
        model, state = carry
        keys = jax.random.split(key)
        batch = images[jax.random.randint(keys[0], (BATCH,), 0, len(images))]
        loss, grads = jax.value_and_grad(loss_of)(model, batch, keys[1])
        updates, state = optimizer.update(grads, state, model)
        return (optax.apply_updates(model, updates), state), loss

    carry = model, optimizer.init(model)
    (model, _), losses = jax.lax.scan(step, carry, jax.random.split(key, steps))
    return model, losses


def draw(model, images, labels, file):
    """Draw the codes of the digits, and the images of a grid of codes."""
    figure, (codes, grid) = plt.subplots(1, 2, figsize=(12, 5.6), layout="constrained")
    x, y = np.asarray(model.encoder(images)[:, :2]).T
    dots = codes.scatter(x, y, c=labels, cmap="tab10", vmin=-0.5, vmax=9.5, s=8)
    codes.set(title="where the encoder puts the digits", aspect="equal", xlim=(-4, 4), ylim=(-4, 4))
    figure.colorbar(dots, ticks=range(10), shrink=0.8)
    side = np.linspace(-2.5, 2.5, GRID, dtype=np.float32)
    drawn = nnx.sigmoid(model.decoder(np.stack(np.meshgrid(side, -side), -1)))
    tiles = np.pad(drawn.reshape(GRID, GRID, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
    sheet = tiles.swapaxes(1, 2).reshape(10 * GRID, 10 * GRID)
    grid.imshow(sheet, cmap="gray_r", extent=(-2.5, 2.5, -2.5, 2.5))
    grid.set(title="what the decoder draws there")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000, help="steps of the optimizer")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    images = jnp.asarray(images / 16, dtype="float32")
    keys = jax.random.split(jax.random.key(0))
    model, losses = train(VAE(nnx.Rngs(0)), images, asked.steps, keys[1])
    print(f"loss {float(losses[0]):.2f} -> {float(jnp.mean(losses[-20:])):.2f} nats per image")
    draw(model, images, labels, asked.out / "vae.png")
