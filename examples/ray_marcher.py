"""A ray marcher with gradients through it finds the balls that are seen on a picture.

Rays walk as far as the nearest surface is away (sphere tracing, Hart, 1996). Normals are gradients
of the distance, so that of the picture is a second derivative. Near misses count a little.
"""

import argparse
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import optim

STEPS, CLOSE, SOFT = 32, 1e-3, 0.06  # of a ray; what counts as hit; how far a near miss reaches
CAMERA, LIGHT = np.array([0.0, 1.6, 4.0], "f4"), np.array([0.55, 0.75, 0.37], "f4")
COLORS = np.array([[0.9, 0.25, 0.2], [0.2, 0.6, 0.3], [0.25, 0.4, 0.9]], "f4")
WANTED = {"place": [[-0.9, 0.5, 0.3], [0.2, 0.4, 0.9], [0.7, 0.7, -0.3]], "radius": [0.5, 0.4, 0.6]}
GUESS = {"place": [[-0.4, 0.7, 0.0], [0.1, 0.8, 0.5], [0.4, 1.1, -0.6]], "radius": [0.4, 0.4, 0.4]}


def apart(balls, point):
    """How far each ball is from a point: `f32[3] → f32[balls]`."""
    return rnp.linalg.norm(point - balls["place"], axis=-1) - balls["radius"]


def distance(balls, point):
    """The distance to the balls, which melt into each other where they meet."""
    return -rlx.nn.logsumexp(-30 * apart(balls, point)) / 30


def nearest(balls, start, way):
    """How far along a ray it comes nearest to the balls: nobody asks for its derivative."""

    def step(_, state):
        now, best, least = state
        gap = distance(balls, start + now * way)
        return now + gap, rnp.where(gap < least, now, best), rnp.minimum(gap, least)

    return rlx.fori_loop(0, STEPS, step, (0.0, 0.0, 1e3))[1]


def seen(balls, start, way):
    """How much of a ray the balls stop, and the point and the normal where they do."""
    along = nearest(rlx.stop_gradient(balls), start, way)
    gap, normal = rlx.value_and_grad(distance, argnums=1)(balls, start + along * way)
    moved = (gap - rlx.stop_gradient(gap)) / rnp.minimum(normal @ way, -0.1)  # as the balls move
    point = start + (along - rnp.where(gap < CLOSE, moved, 0.0)) * way
    return rnp.exp(-rnp.maximum(gap - CLOSE, 0) / SOFT), point, normal


def trace(balls, way):
    """The color that comes along a ray from the camera: `f32[3] → f32[3]`."""
    stopped, point, normal = seen(balls, CAMERA, way)
    paint = rlx.nn.softmax(-20 * apart(balls, point)) @ COLORS
    lit = 1 - seen(balls, point + 0.05 * normal, LIGHT)[0]
    bright = 0.25 + 0.75 * lit * rnp.maximum(normal @ LIGHT, 0)
    floor = CAMERA + way * (-CAMERA[1] / rnp.minimum(way[1], -1e-3))
    lit = 1 - 0.7 * seen(balls, floor, LIGHT)[0]
    sky = rnp.array([0.75, 0.85, 1.0]) * (1 - 0.5 * way[1])
    ground = 0.9 * lit * rnp.exp(-0.06 * rnp.sum(floor**2) ** 0.5)
    behind = rnp.where(way[1] < 0, ground + 0.1 * sky, sky)
    return stopped * bright * paint + (1 - stopped) * behind


@partial(rlx.jit, static_argnames=("width", "height"))
def render(balls, width, height):
    """The picture of the balls: `f32[height, width, 3]`."""
    x = rnp.linspace(-0.5, 0.5, width) * width / height
    x, y = rnp.meshgrid(x, rnp.linspace(0.25, -0.75, height))
    ways = rnp.stack([x, y, -rnp.ones((height, width))], axis=-1)
    ways = ways / rnp.linalg.norm(ways, axis=-1, keepdims=True)
    return rlx.vmap(rlx.vmap(partial(trace, balls)))(ways)


@partial(rlx.jit, static_argnames="steps")
def recover(picture, guess, steps):
    """Move balls until they look like the picture, by Adam; gives them and the losses."""
    optimizer = optim.adam(optim.schedules.cosine(0.03, steps))

    def miss(balls):
        return rnp.mean((render(balls, *picture.shape[1::-1]) - picture) ** 2)

    def step(carry, _):
        balls, state = carry
        loss, grads = rlx.value_and_grad(miss)(balls)
        updates, state = optimizer.update(grads, state, balls)
        return (optim.apply_updates(balls, updates), state), loss

    (found, _), losses = rlx.scan(step, (guess, optimizer.init(guess)), length=steps)
    return found, losses


def draw(scenes, height, file):
    """Draw pictures of balls side by side."""
    figure, rows = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    for axes, (name, balls) in zip(rows, scenes.items(), strict=True):
        axes.imshow(np.clip(render(balls, height * 4 // 3, height), 0, 1))
        axes.set(title=name, xticks=[], yticks=[])
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="steps of the optimizer")
    parser.add_argument("--size", type=int, default=64, help="height of the picture")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    wanted, guess = ({k: rnp.array(v) for k, v in x.items()} for x in (WANTED, GUESS))
    found, losses = recover(render(wanted, asked.size * 4 // 3, asked.size), guess, asked.steps)
    off = float(rnp.abs(found["place"] - wanted["place"]).max())
    print(f"loss {float(losses[0]):.4f} -> {float(losses[-1]):.1e}; off by at most {off:.3f}")
    scenes = {"first guess": guess, "found": found, "wanted": wanted}
    draw(scenes, 4 * asked.size, asked.out / "ray_marcher.png")
