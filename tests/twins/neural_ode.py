"""`examples/neural_ode.py` in JAX, Flax and Optax."""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx

TIME, POINTS, WINDOW, BATCH, NOISE = 0.1, 200, 20, 64, 0.05


def pendulum(y):
    """The velocity at an angle and its rate, which the network is to find."""
    angle, rate = y
    return jnp.stack([rate, -2 * jnp.sin(angle) - 0.2 * rate])


def solve(velocity, start, steps):
    """Follow a velocity field by the classical Runge-Kutta method: `f32[steps + 1, ...]`."""

    def step(y, _):
        k1 = velocity(y)
        k2 = velocity(y + TIME / 2 * k1)
        k3 = velocity(y + TIME / 2 * k2)
        k4 = velocity(y + TIME * k3)
        return y + TIME / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

    return jax.lax.scan(step, start, length=steps + 1)[1]


def loss_of(model, windows):
    """The mean square distance of each window from the solution that starts where it does."""
    solved = jax.vmap(lambda window: solve(model, window[0], WINDOW))(windows)
    return jnp.mean((solved - windows) ** 2)


@jax.jit(static_argnames="steps")
def train(model, path, steps, key):
    """Give the trained model, and the loss of each step: all steps are one program."""
    windows = path[np.arange(POINTS - WINDOW)[:, None] + np.arange(WINDOW + 1)]
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-2, steps))

    def step(carry, key):
        model, state = carry
        some = windows[jax.random.randint(key, (BATCH,), 0, len(windows))]
        loss, grads = jax.value_and_grad(loss_of)(model, some)
        updates, state = optimizer.update(grads, state, model)
        return (optax.apply_updates(model, updates), state), loss

    carry = model, optimizer.init(model)
    (model, _), losses = jax.lax.scan(step, carry, jax.random.split(key, steps))
    return model, losses


def draw(path, solved, model, losses, file):
    """Draw the learned field with the points and the learned path, and the loss."""
    figure, (plane, curve) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    x, y = np.meshgrid(np.linspace(-3, 3, 40), np.linspace(-3.5, 3.5, 40))
    u, v = np.moveaxis(np.asarray(model(np.stack([x, y], -1, dtype=np.float32))), -1, 0)
    plane.streamplot(x, y, u, v, color=np.hypot(u, v) ** 0.5, cmap="Blues", density=1.3)
    plane.plot(*solved.T, color="crimson", lw=2, label="the neural ODE, from the first point")
    plane.plot(*path.T, ".", color="black", ms=4, label="noisy points it was fitted to")
    plane.set(title="learned velocity field", xlabel="angle", ylabel="rate of the angle")
    plane.legend(loc="upper right")
    curve.semilogy(losses)
    curve.axhline(2 * NOISE**2, color="gray", ls="--", label="of the noise alone")
    curve.set(title="mean square distance", xlabel="step")
    curve.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="steps of the optimizer")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    keys = jax.random.split(jax.random.key(0), 3)
    true = solve(pendulum, jnp.array([2.8, 0.0]), POINTS - 1)
    path = true + NOISE * jax.random.normal(keys[0], true.shape)
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(
        nnx.Linear(2, 32, rngs=rngs),
        nnx.tanh,
        nnx.Linear(32, 32, rngs=rngs),
        nnx.tanh,
        nnx.Linear(32, 2, rngs=rngs),
    )
    model, losses = train(model, path, asked.steps, keys[2])
    solved = solve(model, true[0], POINTS - 1)
    far = jnp.max(jnp.linalg.norm(solved - true, axis=-1))
    print(f"loss {float(losses[0]):.5f} -> {float(losses[-1]):.5f}")
    print(f"the path of {POINTS} points stays within {float(far):.3f} of the true one")
    draw(np.asarray(path), np.asarray(solved), model, losses, asked.out / "neural_ode.png")
