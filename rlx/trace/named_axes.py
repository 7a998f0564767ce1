"""The named batches around the function being traced, with their sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..ir.errors import ArgumentError
from ..ir.types import Size

_axes: ContextVar[dict[str, Size] | None] = ContextVar("named_axes", default=None)


@contextmanager
def named_axis(name: Any, size: Size) -> Iterator[None]:
    """Name a batch of a size for the block; None names nothing."""
    if name is None:
        yield
        return
    token = _axes.set({**(_axes.get() or {}), name: size})
    try:
        yield
    finally:
        _axes.reset(token)


_asked: ContextVar[list[Any] | None] = ContextVar("asked", default=None)


@contextmanager
def asked_axes() -> Iterator[list[Any]]:
    """Collect the names of batches around the block that are asked for in it.

    What is recorded there holds for these batches only.
    """
    around = _axes.get() or {}
    names: list[Any] = []
    token = _asked.set(names)
    try:
        yield names
    finally:
        _asked.reset(token)
        names[:] = [name for name in names if name in around]
        outer = _asked.get()
        if outer is not None:
            outer += names


def size_of_axis(name: Any) -> Size:
    """The number of members of the batch with a name."""
    bound: dict[Any, Size] = dict(_axes.get() or {})
    if not any(type(name) is type(known) and name == known for known in bound):
        raise ArgumentError(
            f"there is no batch named {name!r} around this",
            fix=f"call the function under rlx.vmap(f, axis_name={name!r})"
            + (f"; the names here are {', '.join(map(repr, bound))}" if bound else ""),
        )
    names = _asked.get()
    if names is not None:
        names.append(name)
    return bound[name]
