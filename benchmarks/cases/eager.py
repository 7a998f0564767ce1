"""Operations one by one, without a compiler: what experiments and debugging are made of."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..case import Case
from ..libraries import Laid, Library
from ..models.numbers import normal
from .arrays import shuffled

MILLION, STEPS = 10**6, 32
Inputs = Callable[[], tuple[Any, ...]]
Program = Callable[[Library], Callable[..., Any]]


def eager(name: str, title: str, inputs: Inputs, program: Program, **more: Any) -> Case:
    """A case whose program is called as it is written."""
    return Case(f"eager-{name}", "eager", title, inputs, program, kind="eager", **more)


def vectors(count: int, *shape: int) -> Inputs:
    """Arrays of one shape."""
    return lambda: tuple(normal(*shape, seed=i) for i in range(count))


def choice(library: Library) -> Callable[..., Any]:
    """Numbers of one array where they are positive, of another elsewhere."""
    return lambda x, y: library.xp.where(x > 0, x, y)


def images(batch: int, channels: int, side: int, made: int) -> Inputs:
    """Images, and a kernel that makes so many channels of theirs."""
    return lambda: (
        Laid(normal(batch, channels, side, side), "image"),
        Laid(normal(made, channels, 3, 3, seed=1), "kernel"),
    )


def heads() -> tuple[Any, ...]:
    """Queries, keys and values of 8 heads of attention, each of 64 numbers at 128 times."""
    return tuple(Laid(normal(1, 8, 128, 64, seed=i), "heads") for i in range(3))


def network() -> tuple[Any, ...]:
    """Two layers, what they read and what they should give."""
    p = {
        "first": normal(32, 64, seed=1, scale=32**-0.5),
        "second": normal(64, 10, seed=2, scale=0.125),
    }
    return p, normal(16, 32, seed=3), normal(16, 10, seed=4)


def gradient(library: Library) -> Callable[..., Any]:
    """The gradient of a small network's squared error."""
    xp = library.xp

    def loss(p: Any, x: Any, y: Any) -> Any:
        return xp.mean((xp.tanh(x @ p["first"]) @ p["second"] - y) ** 2)

    return library.gradient(loss, alone=True)


def members(library: Library) -> Callable[..., Any]:
    """A layer of one example, for a batch of them."""
    xp = library.xp
    return library.vmap(lambda w, x: xp.tanh(x @ w), (None, 0))


def steps(library: Library) -> Callable[..., Any]:
    """A loop of 32 steps whose body is the same function in all calls."""
    xp = library.xp

    def step(carry: Any, x: Any) -> Any:
        carry = xp.tanh(carry * 0.9 + x)
        return carry, carry

    return lambda first, xs: library.scan(step, first, xs)


CASES = [
    eager("add", "add(a, b), 8", vectors(2, 8), lambda lib: lib.xp.add, is_small=True,
          in_readme=True),
    eager("plus", "a + b, 8", vectors(2, 8), lambda lib: operator.add, is_small=True),
    eager("twice", "a * 2 + 1, 8", vectors(1, 8), lambda lib: lambda x: x * 2 + 1, is_small=True),
    eager("sin", "sin, 8", vectors(1, 8), lambda lib: lib.xp.sin, is_small=True),
    eager("sum", "sum, 8", vectors(1, 8), lambda lib: lib.xp.sum),
    eager("matmul-small", "matmul 32", vectors(2, 32, 32), lambda lib: lib.xp.matmul),
    eager("slice", "x[2:5], 8", vectors(1, 8), lambda lib: lambda x: x[2:5]),
    eager("set", "x[2] = 1 in a copy, 8", vectors(1, 8),
          lambda lib: lambda x: lib.with_element(x, 2, 1.0)),
    eager("reshape", "reshape, 8", vectors(1, 8), lambda lib: lambda x: x.reshape(2, 4)),
    eager("where", "where(x > 0, x, y), 8", vectors(2, 8), choice, is_small=True),
    eager("mean", "mean over axis 0, (8, 8)", vectors(1, 8, 8),
          lambda lib: lambda x: lib.xp.mean(x, 0)),
    eager("add-1M", "add(a, b), 1M", vectors(2, MILLION), lambda lib: lib.xp.add),
    eager("tanh-1M", "tanh, 1M", vectors(1, MILLION), lambda lib: lib.xp.tanh),
    eager("matmul", "matmul 1024", vectors(2, 1024, 1024), lambda lib: lib.xp.matmul,
          flops=2.0 * 1024**3),
    eager("softmax", "softmax, (1024, 1024)", vectors(1, 1024, 1024), lambda lib: lib.softmax),
    eager("variance", "variance of rows, (1024, 1024)", vectors(1, 1024, 1024),
          lambda lib: lib.variance),
    eager("conv-small", "convolution 3x3, 8->16, 16x16",
          images(1, 8, 16, 16), lambda lib: lib.conv, outputs=("image",)),
    eager("conv", "convolution 3x3, 32->64, 8x56x56",
          images(8, 32, 56, 64), lambda lib: lib.conv, outputs=("image",)),
    eager("attention", "attention, 8 heads, 128x64", heads, lambda lib: lib.attention,
          outputs=("heads",)),
    eager("sort", "sort, 100k", lambda: (shuffled(100_000),), lambda lib: lib.sort),
    eager("cumsum", "running sum, 1M", vectors(1, MILLION),
          lambda lib: lambda x: lib.xp.cumsum(x, 0)),
    eager("grad", "gradient of a small network", network, gradient, in_readme=True),
    eager("vmap", "vmap of a layer, batch of 8",
          lambda: (normal(32, 64, scale=0.2), normal(8, 32, seed=1)), members),
    eager("scan", "scan of 32 steps", lambda: (normal(8), normal(STEPS, 8, seed=1)), steps),
]  # fmt: skip
