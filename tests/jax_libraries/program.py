"""A program of a library: one function and its arguments, run by JAX and by rlx."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import rlx
from rlx.interop.containers import Keys

Made = tuple[Callable[..., Any], tuple[Any, ...]]
ROUNDINGS = 256  # of the greatest number of a leaf: dozens of layers and steps
# a leaf whose terms cancel is compared with this part of the greatest number of all leaves
PART = 1e-3


class Program(NamedTuple):
    """What makes a function of JAX arrays, and its arguments."""

    library: str
    name: str
    make: Callable[[], Made]
    is_double: bool  # compared in float64, where small roundings grow too fast for float32


class Outcome(NamedTuple):
    """How a program ran: the greatest error in roundings, and times against those of JAX."""

    error: float
    first: float
    each: float


PROGRAMS: list[Program] = []


def program(library: str, *, is_double: bool = False) -> Callable[[Callable[[], Made]], Any]:
    """Enter what makes a function and its arguments as a program of a library."""

    def enter(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS.append(Program(library, make.__name__.replace("_", " "), make, is_double))
        return make

    return enter


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """The same random numbers each time."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(one: Program, repeats: int = 5) -> Outcome:
    """Run a program both ways; raise AssertionError if the results are not the same."""
    with jax.enable_x64(one.is_double):
        function, args = one.make()
        if one.is_double:
            args = jax.tree.map(_double, args)
        of_jax, own = jax.jit(function), rlx.jit(rlx.from_jax(function))
        wanted, jax_first = _timed(of_jax, args)
        found, own_first = _timed(own, args)
        error = _error(found, wanted)
        # later calls take what each library's own results are
        ours, theirs = _with_arrays(args, rlx.asarray), _with_arrays(args, jax.numpy.asarray)
        pairs = [(_timed(own, ours)[1], _timed(of_jax, theirs)[1]) for _ in range(repeats + 1)]
        pairs = pairs[1:]  # the first prepares for arrays of this kind
    own_each, jax_each = map(min, zip(*pairs, strict=True))
    return Outcome(error, own_first / jax_first, own_each / jax_each)


def _double(x: Any) -> Any:
    return np.asarray(x, np.float64) if getattr(x, "dtype", None) == np.float32 else x


def _with_arrays(args: Any, made: Callable[[Any], Any]) -> Any:
    """The arguments with all arrays but keys in a library's own form."""

    def own(x: Any) -> Any:
        is_array = isinstance(x, (jax.Array, np.ndarray, np.generic))
        return (
            made(x) if is_array and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        )

    return jax.tree.map(own, args)


def _timed(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = jax.block_until_ready(function(*args))
    return found, time.perf_counter() - start


def _error(found: Any, wanted: Any) -> float:
    """The greatest difference, in roundings of the greatest number of its leaf."""
    ours, theirs = (list(map(_plain, jax.tree.leaves(tree))) for tree in (found, wanted))
    types = [[(x.shape, x.dtype) for x in leaves] for leaves in (ours, theirs)]
    assert types[0] == types[1], f"other types: {types[0]}, not {types[1]}"
    floor = PART * max(map(_greatest, theirs), default=0.0)
    errors = [_leaf_error(x, y, floor) for x, y in zip(ours, theirs, strict=True)]
    worst = max(errors, default=0.0)
    assert worst <= ROUNDINGS, f"{worst:.3g} roundings off"
    return worst


def _plain(x: Any) -> np.ndarray:
    if isinstance(x, Keys):
        return np.asarray(x.data)
    is_key = isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def _greatest(x: np.ndarray) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0)) if x.dtype.kind in "fc" else 0.0


def _leaf_error(x: np.ndarray, y: np.ndarray, floor: float) -> float:
    if y.dtype.kind not in "fc":
        assert (x == y).all(), "other integers or keys"
        return 0.0
    assert (np.isfinite(x) == np.isfinite(y)).all(), "numbers are not finite at other places"
    both = np.isfinite(y)
    assert (np.nan_to_num(x[~both]) == np.nan_to_num(y[~both])).all(), "other infinities"
    size = max(_greatest(y), floor)
    error = np.abs(x[both] - y[both]).max(initial=0)
    return float(error / size / np.finfo(y.dtype).eps) if error else 0.0
