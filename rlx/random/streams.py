"""Where keys come from, if a function is given none."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..ir import builder
from ..ir.errors import ArgumentError
from .keys import check_key, fold_in, key
from .reuse import drawing_from, takes_key


class stream:
    """Keys for the functions of `rlx.random` that get None for a key.

    It is made from a seed or from a key, and gives keys in the block of a `with`; of nested ones
    the innermost gives. In a compiled function or a loop open it inside, from a key: what is
    recorded once would draw the same numbers in each run.

    >>> import rlx
    >>> with rlx.random.stream(0):
    ...     x, y = rlx.random.normal(None), rlx.random.normal(None)
    >>> bool(x == y)
    False
    """

    def __init__(self, seed: Any) -> None:
        is_seed = isinstance(seed, int | np.integer)
        self._key = key(seed) if is_seed else _taken(seed)
        self._numbers = itertools.count()  # threads may share the stream
        self._place = builder.current()
        self._blocks: list[AbstractContextManager[None]] = []

    def __enter__(self) -> stream:
        self._blocks.append(drawing_from(self))
        self._blocks[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._blocks.pop().__exit__(*error)

    def key(self, name: str = "stream.key") -> Any:
        """The next key; `name` is the function that wants it, for an error."""
        recorders = builder.open_builders()
        inside = recorders[recorders.index(self._place) + 1 :] if self._place else recorders
        for recorder in inside:
            if not recorder.runs_once:
                raise ArgumentError(
                    f"{name}: the stream was opened outside of {recorder.graph.name}, which is "
                    "recorded once and would draw the same numbers in each run",
                    fix="pass a key to the function, and open a stream from it inside",
                )
        return fold_in(self._key, next(self._numbers))


@takes_key
def _taken(key: Any) -> Any:
    return check_key("stream", key)
