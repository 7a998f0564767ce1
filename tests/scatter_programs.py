"""Reads and writes at places inside and outside of an array, against JAX; one per seed.

A program is one function of (x, indices, values) that holds for JAX's arrays and for those of rlx.
`check(seed)` compares values and gradients: compiled by rlx, converted from JAX and differentiated
by rlx, and converted from JAX's derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import rlx

MODES = ("clip", "fill", "drop", "promise_in_bounds", None)
WRITES = ("set", "add", "subtract", "multiply", "min", "max")


class Program(NamedTuple):
    """A function for a library's lax module, its arguments, and what it can be compared in."""

    text: str
    function: Callable[[Any], Callable[..., Any]]
    args: tuple[np.ndarray, ...]
    moving: tuple[int, ...]  # the arguments that JAX differentiates rightly
    is_alike: bool  # whether the same words mean the same in rlx, derivatives included


def made(seed: int) -> Program:
    """The program of a seed."""
    random = np.random.default_rng(seed)
    return _one(random, [_read, _write, _windows])(random)


def _one(random: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[random.integers(len(options))]


def _places(random: np.random.Generator, size: int, count: int) -> np.ndarray:
    return random.integers(-size - 3, size + 4, size=count).astype(np.int32)


def _array(random: np.random.Generator) -> np.ndarray:
    return random.normal(size=_one(random, [(4,), (3, 4)])).astype(np.float32)


def _read(random: np.random.Generator) -> Program:
    x, mode = _array(random), _one(random, MODES)
    places = _places(random, x.shape[0], 5)

    def function(lax: Any) -> Any:
        return lambda x, i, v: x.at[i].get(mode=mode)

    # without a mode JAX promises, so that its derivatives drop; those of rlx follow the clamp
    return Program(f"get, {mode}", function, (x, places, x), (0,), mode is not None)


def _write(random: np.random.Generator) -> Program:
    x, mode, method = _array(random), _one(random, MODES), _one(random, WRITES)
    places = _places(random, x.shape[0], 5)
    values = random.normal(size=(5, *x.shape[1:])).astype(np.float32)

    def function(lax: Any) -> Any:
        return lambda x, i, v: getattr(x.at[i], method)(v, mode=mode)

    return Program(f"{method}, {mode}", function, (x, places, values), _moving(method, mode), True)


def _moving(method: str, mode: str | None) -> tuple[int, ...]:
    if method in ("min", "max") and mode == "clip":
        return ()  # NaN and infinity in JAX
    return (0,) if method == "multiply" else (0, 2)


def _windows(random: np.random.Generator) -> Program:
    """Windows that may lie inside in part."""
    mode, method = _one(random, MODES[:-1]), _one(random, ["", "_add", "_mul", "_min", "_max"])
    x = random.normal(size=(5, 3)).astype(np.float32)
    places = random.integers(-4, 8, size=(4, 1)).astype(np.int32)
    values = random.normal(size=(4, 2, 3)).astype(np.float32)

    def function(lax: Any) -> Any:
        numbers = lax.ScatterDimensionNumbers((1, 2), (), (0,))
        write = getattr(lax, f"scatter{method}")
        return lambda x, i, v: write(x, i, v, numbers, mode=mode)

    words = {"": "set", "_mul": "multiply"}
    moving = _moving(words.get(method, method[1:]), mode)
    return Program(f"scatter{method}, {mode}", function, (x, places, values), moving, True)


def check(seed: int) -> None:
    """Assert that a program means the same in rlx and in JAX."""
    program = made(seed)
    of_jax, own = program.function(jax.lax), program.function(rlx.lax)
    converted = rlx.from_jax(of_jax)
    wanted = np.asarray(jax.jit(of_jax)(*program.args))
    for name, function in (("rlx", own), ("from_jax", converted)):
        _agree(seed, f"{program.text}: {name}", rlx.jit(function)(*program.args), wanted)
    if not program.moving:
        return
    weights = np.random.default_rng(seed).normal(size=wanted.shape).astype(np.float32)

    def loss(function: Any) -> Any:
        return lambda *args: (function(*args) * weights).sum()

    pulled = jax.grad(loss(of_jax), program.moving)
    slopes = jax.jit(pulled)(*program.args)
    ways = [
        ("from_jax of grad", rlx.from_jax(pulled)),
        ("grad of from_jax", rlx.grad(loss(converted), program.moving)),
    ]
    if program.is_alike:
        ways.append(("grad", rlx.grad(loss(own), program.moving)))
    for name, function in ways:
        found = rlx.jit(function)(*program.args)
        for x, y in zip(found, slopes, strict=True):
            _agree(seed, f"{program.text}: {name}", x, y)


def _agree(seed: int, text: str, found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(
        np.asarray(found), np.asarray(wanted), 1e-5, 1e-6, err_msg=f"seed {seed}, {text}"
    )
