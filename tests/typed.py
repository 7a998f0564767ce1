"""What type checkers find in calls of rlx; `make lint` reads this file, and nothing runs it."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import Array, lax, nn, optim


def arrays(x: Array, y: np.ndarray) -> None:
    assert_type(rnp.sum(x, axis=0), Array)
    assert_type(rnp.exp(y), Array)
    assert_type(rnp.add(x, 1), Array)
    assert_type(rnp.zeros((2, 3)), Array)
    assert_type(rnp.linalg.inv(x), Array)
    assert_type(rnp.where(x > 0, x, 0.0), Array)
    assert_type(rnp.where(x > 0), tuple[Array, ...])
    assert_type(lax.exp(x), Array)
    assert_type(nn.relu(x), Array)
    rnp.sum("text")  # pyright: ignore[reportArgumentType]  # (text is no array)


def operators(x: Array) -> None:
    assert_type(x + 1, Array)
    assert_type(2.0 * x, Array)
    assert_type(x @ x.T, Array)
    assert_type(-x / x, Array)
    assert_type(x == 0, Array)
    assert_type(divmod(x, 2), tuple[Array, Array])
    assert_type(x[0], Array)
    assert_type(x[1:, None, ..., x > 0], Array)
    assert_type(x.at[0].set(1.0), Array)
    assert_type([row for row in x], list[Array])
    assert_type(x.sum(axis=0).reshape(-1), Array)
    assert_type(x.shape, tuple[int, ...])
    x["weight"]  # pyright: ignore[reportArgumentType]  # (an array is no dict)
    x.sum(axes=0)  # pyright: ignore[reportCallIssue]  # (the argument is called axis)


def loss(w: dict[str, Array], x: Array) -> Array:
    return rnp.mean((x @ w["w"]) ** 2)


def with_sizes(w: dict[str, Array], x: Array) -> tuple[Array, int]:
    return loss(w, x), x.size


@rlx.jit
def decorated(x: Array) -> Array:
    return x + 1


@rlx.jit(static_argnames="count")
def decorated_with_options(x: Array, count: int) -> Array:
    return x * count


def transforms(w: dict[str, Array], x: Array) -> None:
    assert_type(rlx.jit(loss)(w, x), Array)
    assert_type(rlx.grad(loss)(w, x), dict[str, Array])
    assert_type(rlx.grad(with_sizes, has_aux=True)(w, x), tuple[dict[str, Array], int])
    assert_type(rlx.grad(loss, argnums=(0, 1))(w, x), Any)
    assert_type(rlx.value_and_grad(loss)(w, x), tuple[Array, dict[str, Array]])
    assert_type(rlx.jit(rlx.value_and_grad(loss))(w, x), tuple[Array, dict[str, Array]])
    rlx.grad(rlx.grad(lambda x: x**3))(2.0).item()
    rlx.grad(lambda w: w["w"].sum())(w)["w"]
    assert_type(rlx.jvp(loss, (w, x), (w, x)), tuple[Array, Array])
    assert_type(rlx.jvp(with_sizes, (w, x), (w, x), has_aux=True), tuple[Array, Array, int])
    assert_type(rlx.vjp(loss, w, x)[0], Array)
    assert_type(rlx.linearize(loss, w, x)[1](w, x), Array)
    rlx.jacrev(loss)(w)  # pyright: ignore[reportCallIssue]  # (an argument is missing)
    assert_type(rlx.vmap(loss)(w, x), Array)
    assert_type(decorated(x), Array)
    assert_type(decorated_with_options(x, 2), Array)
    rlx.jit(loss)(w)  # pyright: ignore[reportCallIssue]  # (an argument is missing)
    rlx.grad(loss)(x, x)  # pyright: ignore[reportArgumentType]  # (the first one is a dict)
    decorated(x, x)  # pyright: ignore[reportCallIssue]  # (an argument too many)


def step(total: Array, x: Array) -> tuple[Array, Array]:
    return total + x, total


def loops(x: Array) -> None:
    assert_type(rlx.scan(step, x[0], x), tuple[Array, Array])
    assert_type(lax.scan(step, x[0], x), tuple[Array, Array])
    assert_type(rlx.while_loop(lambda x: x.sum() < 9, lambda x: 2 * x, x), Array)
    assert_type(lax.fori_loop(0, 3, lambda i, x: x + i, x), Array)
    assert_type(rlx.cond(x.sum() > 0, decorated, decorated, x), Array)
    assert_type(rlx.tree.leaves(x), list[Any])
    rlx.scan(decorated, x, x)  # pyright: ignore[reportArgumentType]  # (it gives no pair)


class Affine(nn.Module):
    weight: Array
    scale: float = nn.field(static=True, default=1.0)


def modules(x: Array) -> None:
    key = rlx.random.key(0)
    assert_type(rlx.random.normal(key, (3,)), Array)
    assert_type(nn.Linear(3, 2, key=key)(x), Array)
    assert_type(Affine(x, scale=2.0).weight, Array)
    assert_type(Affine(x).replace(weight=x), Affine)
    assert_type(optim.adam(1e-3), optim.Optimizer)
    nn.Linear(3)  # pyright: ignore[reportCallIssue]  # (the size of the result and a key)
    Affine()  # pyright: ignore[reportCallIssue]  # (the weight)
    nn.Conv2d(3, 4, 3)  # pyright: ignore[reportAttributeAccessIssue]  # (it is nn.Conv)
    optim.Adam(1e-3)  # pyright: ignore[reportAttributeAccessIssue]  # (it is optim.adam)
