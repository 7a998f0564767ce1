"""Sample a Bayesian regression of known posterior by Hamiltonian Monte Carlo, 16 chains by vmap."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import rlx
import rlx.numpy as rnp

CHAINS, LEAPS, SIZE, WARMUP, NOISE = 16, 40, 0.012, 100, 0.7
NAMES = "age sex bmi bp s1 s2 s3 s4 s5 s6".split()  # what was measured of 442 diabetics


def log_density(weights, x, y):
    """The log posterior, but for a constant: a standard normal prior, noise of known size."""
    return -rnp.sum(((x @ weights - y) / NOISE) ** 2) / 2 - rnp.sum(weights**2) / 2


def exact(x, y):
    """The posterior in closed form: its mean and its covariance."""
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(x.shape[1]))
    return covariance @ x.T @ y / NOISE**2, covariance


@rlx.jit(static_argnames="draws")
def sample(x, y, key, draws):
    """Give `f32[chains, draws, weights]` and the acceptance, after Neal, arXiv:1206.1901."""
    slope = rlx.grad(log_density)

    def leapfrog(_, state):
        weights, momentum, size = state
        momentum = momentum + size / 2 * slope(weights, x, y)
        weights = weights + size * momentum
        return weights, momentum + size / 2 * slope(weights, x, y), size

    def energy(weights, momentum):
        return rnp.sum(momentum**2) / 2 - log_density(weights, x, y)

    def draw(weights, key):
        keys = rlx.random.split(key, 3)
        momentum = rlx.random.normal(keys[0], weights.shape)
        size = SIZE * rlx.random.uniform(keys[1], minval=0.8, maxval=1.2)  # no orbit returns
        proposal, ahead, _ = rlx.fori_loop(0, LEAPS, leapfrog, (weights, momentum, size))
        chance = rnp.exp(energy(weights, momentum) - energy(proposal, ahead))
        weights = rnp.where(rlx.random.uniform(keys[2]) < chance, proposal, weights)
        return weights, (weights, rnp.minimum(chance, 1))

    def chain(key):
        keys = rlx.random.split(key, WARMUP + draws + 1)
        start = rlx.random.normal(keys[0], x.shape[1:])
        _, (weights, chances) = rlx.scan(draw, start, keys[1:])
        return weights[WARMUP:], rnp.mean(chances)

    return rlx.vmap(chain)(rlx.random.split(key, CHAINS))


def r_hat(samples):
    """How much the chains differ: near 1 once all of them have seen the same posterior."""
    between = np.var(samples.mean(1), axis=0, ddof=1)
    within = np.var(samples, axis=1, ddof=1).mean(0)
    return np.sqrt((samples.shape[1] - 1) / samples.shape[1] + between / within)


def draw_weights(samples, mean, deviation, names, file):
    """Draw a histogram of the samples of each weight, with the exact density."""
    figure, grid = plt.subplots(2, 5, figsize=(13, 5), layout="constrained")
    for i, axes in enumerate(grid.flat):
        axes.hist(samples[..., i].ravel(), 60, density=True, color="lightsteelblue")
        at = mean[i] + deviation[i] * np.linspace(-4, 4, 200)
        density = np.exp(-(((at - mean[i]) / deviation[i]) ** 2) / 2)
        axes.plot(at, density / deviation[i] / np.sqrt(2 * np.pi), color="crimson")
        axes.axvline(0, color="gray", ls=":")
        axes.set(title=names[i], yticks=[])
    figure.suptitle("posterior of the weights: samples of 16 chains, and the exact density")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="samples of each chain")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    x, y = map(np.asarray, load_diabetes(return_X_y=True))
    x = (x / x.std(0)).astype(np.float32)
    y = ((y - y.mean()) / y.std()).astype(np.float32)
    samples, chances = map(np.asarray, sample(x, y, rlx.random.key(0), asked.draws))
    mean, covariance = exact(x, y)
    deviation = np.sqrt(np.diag(covariance))
    print(f"accepted: {chances.mean():.0%}   greatest R-hat: {r_hat(samples).max():.3f}")
    off = (samples.mean((0, 1)) - mean) / deviation
    print(f"means are at most {abs(off).max():.3f} standard deviations off")
    ratio = samples.std((0, 1)) / deviation
    print(f"standard deviations are {ratio.min():.3f} to {ratio.max():.3f} of the exact ones")
    draw_weights(samples, mean, deviation, NAMES, asked.out / "hmc.png")
