"""Calls, chains of pointwise operations, sums, order, and moving numbers in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import Case
from ..libraries import Library
from ..models.numbers import integers, normal
from ..trees import tree_map

SIDE = 2048
MILLION = 10**6
Program = Callable[[Library], Callable[..., Any]]


def dispatch(count: int) -> Case:
    """The cost of a call that does next to nothing, on a dict of arrays."""

    def inputs() -> tuple[Any, ...]:
        return ({f"x{i}": normal(8, seed=i) for i in range(count)},)

    def program(library: Library) -> Callable[..., Any]:
        return lambda tree: tree_map(lambda x: x * 2 + 1, tree)

    title = f"call with a dict of {count} array{'s' if count > 1 else ''} of 8"
    return Case(
        f"dispatch{count}",
        "calls",
        title,
        inputs,
        program,
        in_readme=count == 50,
        without={"onnxruntime": "ONNX Runtime has no trees of inputs"},
    )


def chain(library: Library) -> Callable[..., Any]:
    """Ten operations, number by number."""
    xp = library.xp

    def f(x: Any) -> Any:
        y = x * 1.5 + 0.5
        y = xp.tanh(y) * xp.exp(-x) + xp.sin(y)
        return xp.sqrt(xp.abs(y)) + y

    return f


def pointwise(name: str, count: int, in_readme: bool = False) -> Case:
    """A chain that fuses into one loop over memory."""
    return Case(
        f"chain-{name}",
        "pointwise",
        f"chain of 10 operations, {name}",
        lambda: (normal(count),),
        chain,
        nbytes=8.0 * count,
        starts=name == "1k",
        in_readme=in_readme,
    )


def on_square(name: str, title: str, f: Callable[..., Any], moved: float, **more: Any) -> Case:
    """A case of `f(library, x)` on a square of numbers; `moved` counts bytes by its size."""
    return Case(
        name,
        "memory",
        f"{title}, 2048x2048",
        lambda: (normal(SIDE, SIDE),),
        lambda library: lambda x: f(library, x),
        nbytes=moved * SIDE * SIDE,
        **more,
    )


def on_many(name: str, title: str, inputs: Any, f: Callable[..., Any], **more: Any) -> Case:
    """A case of `f(library, *inputs)`."""

    def program(library: Library) -> Callable[..., Any]:
        return lambda *xs: f(library, *xs)

    return Case(name, "memory", title, inputs, program, **more)


def shuffled(count: int) -> np.ndarray:
    """Different numbers in no order, so that their order is one."""
    return np.random.default_rng(0).permutation(count).astype(np.float32)


def complex_numbers(*shape: int) -> np.ndarray:
    """Normal complex numbers."""
    return (normal(*shape) + 1j * normal(*shape, seed=1)).astype(np.complex64)


def bins() -> tuple[Any, ...]:
    """Zeros, and numbers to add at places that repeat."""
    return np.zeros(100_000, np.float32), integers(100_000, MILLION), normal(MILLION)


def groups() -> tuple[Any, ...]:
    """Numbers and the number of the group of each."""
    return normal(MILLION), integers(1000, MILLION)


CASES = [
    Case(
        "dispatch", "calls", "call with an array of 8", lambda: (normal(8),),
        lambda library: lambda x: x * 2 + 1, starts=True, in_readme=True,
    ),
    *(dispatch(count) for count in (1, 4, 50, 500)),
    pointwise("1k", 1024),
    pointwise("1M", 2**20),
    pointwise("4M", 2**22, in_readme=True),
    on_square("sum0", "sum over axis 0", lambda lib, x: lib.sum(x, 0), 4, in_readme=True),
    on_square("sum1", "sum over axis 1", lambda lib, x: lib.sum(x, 1), 4),
    on_square("sum", "sum of all", lambda lib, x: lib.sum(x), 4, norms=True),
    on_square("transpose", "transposition", lambda lib, x: lib.transposed(x), 8),
    on_many(
        "cumsum", "running sum, 4M", lambda: (normal(2**22),),
        lambda lib, x: lib.xp.cumsum(x, 0), nbytes=2**25,
    ),
    on_many("sort", "sort, 400k", lambda: (shuffled(400_000),), lambda lib, x: lib.sort(x),
            in_readme=True),
    on_many("argsort", "argsort, 400k", lambda: (shuffled(400_000),),
            lambda lib, x: lib.xp.argsort(x)),
    on_many(
        "gather", "gather 1M of 1M", lambda: (normal(MILLION), integers(MILLION, MILLION)),
        lambda lib, x, places: x[places], nbytes=12.0 * MILLION, in_readme=True,
    ),
    on_many(
        "scatter", "scatter-add 1M to 100k", bins,
        lambda lib, x, places, values: lib.scatter_add(x, places, values),
        nbytes=8.0 * MILLION,
    ),
    on_many(
        "segments", "sum over 1000 segments, 1M", groups,
        lambda lib, x, ids: lib.segment_sum(x, ids, 1000), nbytes=8.0 * MILLION,
    ),
    on_many(
        "fft", "FFT, 65536", lambda: (complex_numbers(2**16),),
        lambda lib, x: lib.xp.fft.fft(x), nbytes=2.0**20, in_readme=True,
    ),
    on_many(
        "fft2", "2-D FFT, 512x512", lambda: (complex_numbers(512, 512),),
        lambda lib, x: lib.xp.fft.fft2(x), nbytes=2.0**22,
    ),
]  # fmt: skip
