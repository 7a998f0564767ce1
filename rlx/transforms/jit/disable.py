"""`disable_jit`: run jitted functions op by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ir.config import config
from ...trace import pytree
from ...trace.apply import as_tensor
from ...trace.array import Array
from ...trace.index.items import as_compiled
from ...trace.make_graph import function_name
from ...trace.placement import run_here
from ...trace.tensor import TracedTensor


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Run jitted functions op by op in a block, on concrete arrays.

    So `print` and debuggers see numbers, and Python may branch on them. With `disable=False` they
    are compiled in the block. What is differentiated, batched or repeated (by `scan`) is recorded
    still. It is a setting, `rlx.config.disable_jit`, which holds for all threads. Returns a context
    manager.

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


def run_at_once(fn: Callable[..., Any], args: Any, kwargs: Any, device: str | None) -> Any:
    """Call a jitted function as plain Python, on copies of its arguments.

    Results are arrays, on its device if it has one.
    """
    if device is not None:
        run_here(function_name(fn), device)
    args, kwargs = pytree.map(lambda x: _own(x, device), (args, kwargs))
    with as_compiled():
        return pytree.map(as_tensor, fn(*args, **kwargs))


def _own(x: Any, device: str | None) -> Any:
    """A copy that the function may assign to without changing the caller's arrays."""
    if not isinstance(x, Array | TracedTensor | np.ndarray | np.generic):
        return x
    own = as_tensor(x).copy()
    return own if device is None else own.to_device(device)
