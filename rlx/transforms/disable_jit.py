"""Run jitted functions line by line, as if they were not jitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..ir.config import config
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.array import Array
from ..trace.tensor import TracedTensor


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Run jitted functions at once in a block, with the numbers of their arguments.

    So `print` and debuggers see numbers, and Python may branch on them. What is differentiated,
    batched or repeated (by `scan`) is recorded still. It is a setting, `rlx.config.disable_jit`,
    which holds for all threads.

    >>> import rlx
    >>> @rlx.jit
    ... def f(x):
    ...     print(x)
    ...     return x + 1
    >>> with rlx.disable_jit():
    ...     f(rlx.array([1.0, 2.0]))
    [1. 2.]
    Array([2., 3.], dtype=float32)
    """
    with config.using(disable_jit=disable):
        yield


def run_at_once(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a jitted function as Python does, on arrays of its own, and give arrays."""
    args, kwargs = pytree.map(_own, (args, kwargs))
    return pytree.map(as_tensor, fn(*args, **kwargs))


def _own(x: Any) -> Any:
    """What the function may assign to without changing what the caller has."""
    is_array = isinstance(x, Array | TracedTensor | np.ndarray | np.generic)
    return as_tensor(x).copy() if is_array else x
