"""A partial function that is a pytree of the arguments it holds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..trace import pytree


class Partial(functools.partial):
    """`functools.partial` as a pytree: the arguments are leaves.

    >>> import rlx
    >>> add = Partial(lambda x, y: x + y, 2.0)
    >>> rlx.jit(lambda f, y: f(y))(add, 3.0).item()
    5.0
    """


def _flatten(partial: Partial) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
    return (partial.args, partial.keywords), partial.func, ("args", "keywords")


def _unflatten(func: Any, children: Sequence[Any]) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


pytree.register_class(Partial, _flatten, _unflatten)
