"""Checks of results for NaN and infinities, for `debug_nans` and `debug_infs`.

An operation, checked with its operands and results as arrays, is wrong if a result holds a bad
number though no operand does; numbers written by the user are as meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .config import config
from .errors import NanError
from .types import type_of

IsBad = Callable[[Any], Any]  # of an array: which numbers are bad


def is_bad(nans: bool, infs: bool) -> IsBad | None:
    """The test for bad numbers that finds some in an array, or None."""
    if nans and infs:
        return lambda x: ~np.isfinite(x)
    if nans:
        return np.isnan
    return np.isinf if infs else None


_looks_for_nans: ContextVar[bool] = ContextVar("looks_for_nans", default=False)


@contextmanager
def looking(nans: bool) -> Iterator[None]:
    """Look for NaN in the block, if so, whatever the setting says."""
    token = _looks_for_nans.set(nans or _looks_for_nans.get())
    try:
        yield
    finally:
        _looks_for_nans.reset(token)


def asked() -> IsBad | None:
    """The numbers that the settings, or a function that is run, look for."""
    settings = config.settings
    return is_bad(settings.debug_nans or _looks_for_nans.get(), settings.debug_infs)


def check_results(
    name: str,
    source: Callable[[], object],
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    bad: IsBad,
) -> None:
    """Raise an error if a result of the op `name` is bad though no operand is."""
    places = [place_of(x, bad) for x in results]
    if not operands or not any(p is not None for p in places):
        return
    if any(place_of(x, bad) is not None for x in operands):
        return
    result, place = next((r, p) for r, p in zip(results, places, strict=True) if p is not None)
    raise NanError(
        f"{name} gives {result[place]!s}{at(place)} of {type_of(result)}",
        where=str(source()),
        notes=[described(i, x, result.shape, place) for i, x in enumerate(operands)],
        fix=f"keep the operands where {name} is defined; choose them by `where` before "
        "it, not the result after it",
    )


def place_of(array: np.ndarray, bad: IsBad) -> tuple[int, ...] | None:
    """The place of the first bad number."""
    if np.dtype(array.dtype).kind in "biu":
        return None
    places = np.argwhere(bad(array))
    return tuple(map(int, places[0])) if len(places) else None


def at(place: tuple[int, ...]) -> str:
    """A place as text; empty for the only one of a scalar."""
    return f" at {list(place)}" if place else ""


def described(i: int, array: np.ndarray, shape: tuple[int, ...], place: tuple[int, ...]) -> str:
    """A line about an operand: its type, its number at a place, its range."""
    parts = [f"operand {i}: {type_of(array)}"]
    if array.shape == shape:
        parts.append(f"{array[place]!s}{at(place)}")
    if array.size > 1 and np.dtype(array.dtype).kind not in "bc":
        parts.append(f"from {array.min()!s} to {array.max()!s}")
    return ", ".join(parts)
