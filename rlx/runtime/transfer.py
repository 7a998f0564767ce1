"""Trees of arrays between the host and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.array import Array
from ..trace.tensor import TracedTensor


def device_put(x: Any, device: Any = None) -> Any:
    """A tree of arrays on a device; without one, on the host.

    Traced arrays stay as they are.

    >>> device_put({"x": [1.0, 2.0]})["x"][1].item()
    2.0
    """

    def put(leaf: Any) -> Any:
        array = as_tensor(leaf)
        return array.to(device) if isinstance(array, Array) and device is not None else array

    return pytree.map(put, x)


def device_get(x: Any) -> Any:
    """A tree of arrays as NumPy arrays; tensors of a trace stay as they are.

    >>> device_get((as_tensor(1.5),))
    (array(1.5, dtype=float32),)
    """
    return pytree.map(_to_numpy, x)


def _to_numpy(leaf: Any) -> Any:
    if isinstance(leaf, TracedTensor):
        return leaf
    return leaf.host() if isinstance(leaf, Array) else np.asarray(leaf)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a tree are computed; gives the tree back.

    >>> block_until_ready([as_tensor(1.5)])[0].item()
    1.5
    """
    for leaf in pytree.leaves(x):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return x
