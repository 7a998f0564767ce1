"""The cases: the same work for rlx, JAX and NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import rlx
import rlx.numpy as rnp

from .harness import Candidate, Case
from .train_step import jax_step, new_model, rlx_step

Function = Callable[..., Any]
MANY = 4 * 2**20
COUNTER = itertools.count(1)


def chain(np: ModuleType, x: Any, factor: float = 1.5) -> Any:
    """Ten operations, number by number."""
    y = x * factor + 0.5
    y = np.tanh(y) * np.exp(-x) + np.sin(y)
    return np.sqrt(np.abs(y)) + y


def on_arrays(name: str, function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> Case:
    """A case of `function(library, *arrays)`, compiled where the library compiles."""
    names = [f"x{i}" for i in range(len(arrays))]
    call = f"f({', '.join(names)})"

    def candidate(statement: str, f: Function, convert: Function) -> Candidate:
        return Candidate(statement, {"f": f, **dict(zip(names, map(convert, arrays), strict=True))})

    return Case(
        name,
        {
            "rlx": candidate(call, rlx.jit(lambda *xs: function(rnp, *xs)), rlx.array),
            "jax": candidate(
                f"{call}.block_until_ready()", jax.jit(lambda *xs: function(jnp, *xs)), jnp.asarray
            ),
            "numpy": candidate(call, lambda *xs: function(np, *xs), np.asarray),
        },
        **options,
    )


def fresh_compile(name: str, function: Callable[..., Any], *arrays: np.ndarray) -> Case:
    """The first call of a function never seen before: record, compile, run.

    A new constant each time keeps every cache from knowing it, so only shapes are compared.
    """

    def first_call(library: ModuleType, compiler: Function, xs: list[Any]) -> Any:
        constant = 1.0 + next(COUNTER) / 2**20
        result = compiler(lambda *xs: function(library, *xs, constant))(*xs)
        return result.block_until_ready().shape

    ours, theirs = [rlx.array(x) for x in arrays], [jnp.asarray(x) for x in arrays]
    return Case(
        name,
        {
            "rlx": Candidate("f()", {"f": lambda: first_call(rnp, rlx.jit, ours)}),
            "jax": Candidate("f()", {"f": lambda: first_call(jnp, jax.jit, theirs)}),
        },
        once=True,
    )


def random(*shape: int) -> np.ndarray:
    """Normal numbers, the same in every run."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


# -- what is measured -----------------------------------------------------------------------------


def dispatch() -> Case:
    """The cost of a call that does next to nothing."""
    return on_arrays("x*2+1, 8 floats", lambda np, x: x * 2 + 1, random(8))


def pointwise() -> Case:
    """Ten operations that fuse into one loop over memory."""
    x = random(MANY)
    return on_arrays("10-op chain, 4M floats", chain, x, nbytes=2 * x.nbytes, tolerance=1e-4)


def sum_axis(axis: int) -> Case:
    """A sum, which reads memory once."""
    x = random(2048, 2048)
    name = f"sum axis {axis}, 2048²"
    return on_arrays(name, lambda np, x: np.sum(x, axis), x, nbytes=x.nbytes, tolerance=1e-3)


def matmul(size: int) -> Case:
    """A product of square matrices."""
    x, y = random(size, size), random(2, size, size)[1].copy()
    return on_arrays(
        f"matmul {size}", lambda np, x, y: np.matmul(x, y), x, y, flops=2 * size**3, tolerance=1e-3
    )


def train_step() -> Case:
    """One step of the digits demo: loss, gradients, AdamW."""
    model = new_model()
    ours, theirs = rlx_step(model), jax_step(model)
    return Case(
        "train step of the demo",
        {
            "rlx": Candidate("f(*x)[2]", {"f": ours.step, "x": ours.arguments}),
            "jax": Candidate(
                "f(*x)[2].block_until_ready()", {"f": theirs.step, "x": theirs.arguments}
            ),
        },
        tolerance=1e-4,
    )


def compile_train_step() -> Case:
    """Recording and compiling that step."""

    model = new_model()

    def first_call(make: Callable[..., Any]) -> Any:
        made = make(model, 1e-3 + next(COUNTER) / 2**30)
        return made.step(*made.arguments)[2].block_until_ready().shape

    return Case(
        "compile: train step",
        {
            "rlx": Candidate("f()", {"f": lambda: first_call(rlx_step)}),
            "jax": Candidate("f()", {"f": lambda: first_call(jax_step)}),
        },
        once=True,
    )


CASES: dict[str, Callable[[], Case]] = {
    "dispatch": dispatch,
    "pointwise": pointwise,
    "sum0": lambda: sum_axis(0),
    "sum1": lambda: sum_axis(1),
    "matmul128": lambda: matmul(128),
    "matmul512": lambda: matmul(512),
    "matmul1024": lambda: matmul(1024),
    "train": train_step,
    "compile-dispatch": lambda: fresh_compile(
        "compile: x*2+1", lambda np, x, c: x * c + 1, random(8)
    ),
    "compile-pointwise": lambda: fresh_compile("compile: 10-op chain", chain, random(1024)),
    "compile-sum": lambda: fresh_compile(
        "compile: sum", lambda np, x, c: np.sum(x * c, 0), random(64, 64)
    ),
    "compile-matmul": lambda: fresh_compile(
        "compile: matmul 512", lambda np, x, c: np.matmul(x, x) * c, random(512, 512)
    ),
    "compile-train": compile_train_step,
}
