"""Segment reductions: over rows of an array that have the same segment id.

`f32[n, ...], i32[n] → f32[num_segments, ...]`: `segment_ids` gives each row of `data` the number of
its segment; ids of another shape are a `ShapeError`. `num_segments` must be known where the
function is traced; the default is one more than the largest id. Rows with ids out of bounds are
dropped, or with `mode="clip"` taken to the first or last segment. The hints `indices_are_sorted`,
`unique_indices` and `bucket_size` are taken for JAX's sake and have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ConcretizationError as ConcretizationError, ShapeError as ShapeError
from ..ir.lazy import listed as listed
from ..ir.types import is_bool as is_bool, is_float as is_float
from ..numpy.elementwise import named as named
from ..trace.apply import as_tensor as as_tensor
from ..trace.arguments import choice as choice
from ..trace.array import Array
from ..trace.axes import integer as integer
from ..trace.tensor import TracedTensor as TracedTensor

__dir__ = listed(__name__)

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _reduction(name: str, combine: str, neutral: Callable[[np.dtype], Any], doc: str):
    """A reduction of segments; `neutral` gives the result of a segment without rows."""

    def function(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: str | None = None,
    ) -> Array:
        rows, ids = as_tensor(data), as_tensor(segment_ids)
        if rows.shape[: ids.ndim] != ids.shape:
            raise ShapeError(
                f"{name}: the rows of {rows.type} do not have the numbers {ids.type}",
                fix="give one number for each row of the data",
            )
        total = _count(ids) if num_segments is None else integer("num_segments", num_segments)
        result = rnp.full((total, *rows.shape[ids.ndim :]), neutral(rows.dtype), rows.dtype)
        if ids.dtype.itemsize < 4:
            ids = ids.astype("int32")  # `total` may be larger than the small integers
        choice("mode", mode, (None, "clip", "drop", "fill", "promise_in_bounds"))
        # a negative number is outside, not counted from the end
        ids = rnp.where(ids < 0, 0 if mode == "clip" else total, ids)
        return getattr(result.at[ids], combine)(rows, mode=mode or "drop") if total else result

    return named(function, name, doc)


def _count(ids: Any) -> int:
    known = ids.concrete if isinstance(ids, TracedTensor) else ids.host()
    if known is None:
        raise ConcretizationError(
            "the number of segments is not known while the function is recorded",
            notes=[f"segment_ids: {ids.type}"],
            fix="pass num_segments",
        )
    return int(known.max()) + 1 if known.size else 0


def _bound(dtype: np.dtype, largest: bool) -> Any:
    if is_bool(dtype):
        return largest
    if is_float(dtype):
        return np.inf if largest else -np.inf
    return rnp.iinfo(dtype).max if largest else rnp.iinfo(dtype).min


segment_sum = _reduction(
    "segment_sum",
    "add",
    lambda dtype: 0,
    """Sum the rows of each segment; 0 for a segment without rows.

    `segment_ids` gives each row of `data` the number of its segment. `num_segments` must be known
    where the function is traced; the default is one more than the largest number. Rows with
    numbers out of bounds are dropped. The hints of order have no effect.

    >>> segment_sum(rnp.array([1.0, 2.0, 4.0]), rnp.array([0, 1, 0]), 3).tolist()
    [5.0, 2.0, 0.0]
    """,
)
segment_prod = _reduction(
    "segment_prod",
    "multiply",
    lambda dtype: 1,
    "The products of the rows of each segment, 1 without rows; see `segment_sum`.",
)
segment_max = _reduction(
    "segment_max",
    "max",
    lambda dtype: _bound(dtype, False),
    "The maxima of each segment, the least number without rows; see `segment_sum`.",
)
segment_min = _reduction(
    "segment_min",
    "min",
    lambda dtype: _bound(dtype, True),
    "The minima of each segment, the greatest number without rows; see `segment_sum`.",
)
