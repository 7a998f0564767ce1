"""Learn to balance a pole on a cart by REINFORCE: simulation, gradient and Adam are one program.

An episode is a while loop that ends when the pole falls; vmap plays 32 of them at once. After
Barto, Sutton and Anderson, 1983 (the cart) and Williams, 1992 (the gradient).
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.progress import track

import rlx
import rlx.numpy as rnp
from rlx import nn, optim

EPISODES, LONGEST, DISCOUNT = 32, 500, 0.99
GRAVITY, CART, POLE, HALF, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


def move(state, action):
    """Push the cart left (0) or right (1) for a moment: the equations of Gym's CartPole-v1."""
    x, speed, angle, spin = state
    sin, cos = rnp.sin(angle), rnp.cos(angle)
    push = (FORCE * (2 * action - 1) + POLE * HALF * spin**2 * sin) / (CART + POLE)
    turn = (GRAVITY * sin - cos * push) / (HALF * (4 / 3 - POLE * cos**2 / (CART + POLE)))
    pull = push - POLE * HALF * turn * cos / (CART + POLE)
    return rnp.stack([x + DT * speed, speed + DT * pull, angle + DT * spin, spin + DT * turn])


def play(policy, key):
    """Play until the pole falls: the states, the actions, and how many steps it stood."""

    def stands(carry):
        i, state, _, _ = carry
        return (i < LONGEST) & (rnp.abs(state[0]) < 2.4) & (rnp.abs(state[2]) < np.pi / 15)

    def step(carry):
        i, state, states, actions = carry
        action = rlx.random.categorical(rlx.random.fold_in(key, i), policy(state))
        states[i], actions[i] = state, action
        return i + 1, move(state, action), states, actions

    start = rlx.random.uniform(rlx.random.fold_in(key, LONGEST), (4,), minval=-0.05, maxval=0.05)
    empty = rnp.zeros((LONGEST, 4)), rnp.zeros(LONGEST, "int32")
    length, _, states, actions = rlx.while_loop(stands, step, (0, start, *empty))
    return states, actions, length


def loss_of(policy, states, actions, lengths):
    """What has the gradient of REINFORCE, with returns normalized over all episodes."""
    left = lengths[:, None] - rnp.arange(LONGEST)  # each step earns 1 until the pole falls
    played = left > 0
    returns = (1 - DISCOUNT ** rnp.maximum(left, 0)) / (1 - DISCOUNT)
    advantage = returns - rnp.mean(returns, where=played)
    advantage = advantage / rnp.std(returns, where=played)
    surprise = nn.losses.cross_entropy(policy(states), actions, reduction="none")
    return rnp.mean(surprise * advantage, where=played)


optimizer = optim.adam(1e-2)


@rlx.jit
def improve(policy, state, key):
    """Play a batch of episodes and make a step; gives the mean number of steps played, too."""
    keys = rlx.random.split(key, EPISODES)
    played = rlx.vmap(play, in_axes=(None, 0))(policy, keys)
    grads = rlx.grad(loss_of)(policy, *played)
    updates, state = optimizer.update(grads, state, policy)
    return optim.apply_updates(policy, updates), state, rnp.mean(played[2])


def draw(returns, before, after, file):
    """Draw the return over the training, and an episode before and after it."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    axes[0].plot(returns)
    axes[0].set(title=f"mean return of {EPISODES} episodes", xlabel="step", ylim=(0, LONGEST + 20))
    episodes = {"before": before, "after": after}
    for plot, (name, (states, _, length)) in zip(axes[1:], episodes.items(), strict=True):
        x, _, angle, _ = np.asarray(states[: int(length) : 8]).T
        times = 8 * DT * np.arange(len(x))
        tip = x + np.sin(angle), times + np.cos(angle)
        plot.plot([x, tip[0]], [times, tip[1]], color="chocolate", lw=1.5, alpha=0.7)
        plot.plot(x, times, "s", color="black", ms=4)
        plot.set(
            title=f"{name}: it stood {DT * int(length):.1f} s", xlim=(-2.4, 2.4), ylim=(-0.2, 11.2)
        )
        plot.set(xlabel="position of the cart", ylabel="time in seconds")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    print(f"wrote {file}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150, help="steps of the optimizer")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    keys = rlx.random.split(rlx.random.key(0), 4)
    policy = first = nn.MLP([4, 32, 2], key=keys[0], activation=nn.tanh)
    state, returns = optimizer.init(policy), []
    for i in track(range(asked.steps), description="playing"):
        policy, state, mean = improve(policy, state, rlx.random.fold_in(keys[1], i))
        returns.append(float(mean))
    print(f"mean return: {returns[0]:.1f} -> {np.mean(returns[-10:]):.1f} of {LONGEST}")
    draw(returns, play(first, keys[2]), play(policy, keys[3]), asked.out / "policy_gradient.png")
