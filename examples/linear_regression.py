"""Fit a line to noisy points by gradient descent: the smallest program that learns."""

import argparse

import rlx
import rlx.numpy as rnp


def predict(params, x):
    """The line at x."""
    return params["slope"] * x + params["offset"]


def loss(params, x, y):
    """The mean square of what the line misses."""
    return rnp.mean((predict(params, x) - y) ** 2)


@rlx.jit
def step(params, x, y, rate):
    """Go down the slope of the loss a little."""
    grads = rlx.grad(loss)(params, x, y)
    return rlx.tree.map(lambda p, g: p - rate * g, params, grads)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="how often to go down")
    asked = parser.parse_args()

    keys = rlx.random.split(rlx.random.key(0))
    x = rlx.random.uniform(keys[0], (100,), minval=-1.0)
    y = 3.0 * x + 0.5 + 0.1 * rlx.random.normal(keys[1], (100,))
    params = {"slope": rnp.array(0.0), "offset": rnp.array(0.0)}
    for i in range(asked.steps + 1):
        if i % 50 == 0:
            print(f"step {i:4d}   loss {float(loss(params, x, y)):.5f}")
        params = step(params, x, y, 0.1)
    print(f"y = {float(params['slope']):.2f} x + {float(params['offset']):.2f}   (true: 3 x + 0.5)")


if __name__ == "__main__":
    main()
