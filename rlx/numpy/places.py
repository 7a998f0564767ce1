"""Indices as users write them, checked and counted from the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, BoundsError, DtypeError
from ..ir.types import DTYPES, is_integer
from ..trace.apply import as_tensor
from ..trace.arguments import choice, members
from ..trace.array import Array
from ..trace.axes import as_shape
from ..trace.index.items import index_dtype
from ..trace.promotion import convert
from ..trace.tensor import TracedTensor
from .arithmetic import clip
from .division import remainder
from .elementwise import Tensor, add, less, multiply
from .logic import where as either

INT32 = DTYPES["int32"]
MODES = {"fill": "fill", "clip": "clip", "wrap": "promise", "promise_in_bounds": "promise"}


def integers(name: str, x: Tensor) -> Array:
    """Indices as integers of 32 bits at least; `name` is the function for the error."""
    tensor = as_tensor(x)
    if tensor.size == 0 and isinstance(x, list | tuple):
        tensor = convert(tensor, INT32)
    if not is_integer(tensor.dtype):
        raise DtypeError(
            f"{name}: the indices are {tensor.type}, not integers",
            fix='convert them: indices.astype("int32")',
        )
    return convert(tensor, INT32) if tensor.dtype.itemsize < 4 else tensor


def mode_of(name: str, mode: str | None) -> str:
    """The mode for indices out of bounds, "fill" by default."""
    return choice(f"{name}: mode", mode, (None, *MODES)) or "fill"


def from_start(indices: Any, size: Any, mode: str) -> Array:
    """Nonnegative indices; those out of bounds are treated as the mode says."""
    indices = convert(indices, index_dtype(indices.dtype, size))
    if mode == "wrap":
        return remainder(indices, size)
    if mode == "clip":
        return clip(indices, 0, size - 1)
    if indices.dtype.kind == "u":
        return indices
    return either(less(indices, 0), add(indices, size), indices)


def check_inside(name: str, indices: Tensor, size: Any, mode: str) -> None:
    """Raise `BoundsError` for known indices out of bounds, if the mode is "raise"."""
    choice(f"{name}: mode", mode, ("raise", "clip", "wrap"))
    given = as_tensor(indices)
    known = given.concrete if isinstance(given, TracedTensor) else given.host()
    if mode == "raise" and known is not None and known.size:
        low, high = int(known.min()), int(known.max())
        if low < 0 or high >= size:
            raise BoundsError(
                f"{name}: the index {low if low < 0 else high} names none of {size} places",
                fix='write mode="clip" or mode="wrap"',
            )


# -- places -------------------------------------------------------------------------------------


def unravel_index(indices: Tensor, shape: Any) -> tuple[Array, ...]:
    """Convert flat `indices` to one index array for each axis of a shape.

    Returns a tuple.
    """
    left, sizes = integers("unravel_index", indices), as_shape(shape)
    for n in sizes:
        left = convert(left, index_dtype(left.dtype, n))
    found = []
    for n in reversed(sizes):
        found.append(remainder(left, n))
        left = left // n
    # what is left tells the indices outside: they stand for the last or the first element
    found = [either(left > 0, n - 1, i) for n, i in zip(reversed(sizes), found, strict=True)]
    if left.dtype.kind == "i":
        found = [either(left < -1, 0, i) for i in found]
    return tuple(reversed(found))


def ravel_multi_index(
    multi_index: Sequence[Tensor],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Convert one index array for each axis to flat indices.

    `multi_index` are the arrays, `dims` the sizes of the axes. Indices out of bounds raise
    `BoundsError` where they are known, unless `mode` is "clip" or "wrap".
    """
    result: Any = Array(np.zeros((), INT32))
    indices = members("ravel_multi_index: multi_index", multi_index)
    sizes = as_shape(dims)
    if len(indices) != len(sizes):
        raise ArgumentError(
            f"ravel_multi_index: {len(indices)} indices, {len(sizes)} dims",
            fix="give an index for each axis",
        )
    choice("ravel_multi_index: order", order, ("C", "F"))
    pairs = list(zip(indices, sizes, strict=True))
    for index, n in pairs if order == "C" else reversed(pairs):
        index = integers("ravel_multi_index", index)
        check_inside("ravel_multi_index", index, n, mode)
        index = from_start(index, n, mode) if mode != "raise" else index
        result = add(multiply(result, n), index)
    return result if dtype is None else result.astype(dtype)
