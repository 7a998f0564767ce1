"""Segment reductions: over rows of an array that have the same segment id."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ConcretizationError, ShapeError
from ..ir.types import is_bool, is_float
from ..trace.apply import as_tensor
from ..trace.arguments import choice, flag
from ..trace.axes import integer
from ..trace.tensor import TracedTensor

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Any:
    """The sums of the rows of each segment; 0 for a segment without rows.

    `segment_ids` gives each row of `data` the number of its segment. `num_segments` must be known
    where the function is recorded; else it is one more than the largest number. Numbers outside
    drop their rows. The hints of order change no result.

    >>> segment_sum(rnp.array([1.0, 2.0, 4.0]), rnp.array([0, 1, 0]), 3).tolist()
    [5.0, 2.0, 0.0]
    """
    return _reduced("add", 0, data, segment_ids, num_segments, mode)


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Any:
    """The products of the rows of each segment; 1 for a segment without rows.

    >>> segment_prod(rnp.array([3.0, 2.0, 4.0]), rnp.array([0, 1, 0]), 3).tolist()
    [12.0, 2.0, 1.0]
    """
    return _reduced("multiply", 1, data, segment_ids, num_segments, mode)


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Any:
    """The largest numbers of each segment; the least there is for one without rows.

    >>> segment_max(rnp.array([3, 2, 4]), rnp.array([0, 1, 0]), 2).tolist()
    [4, 2]
    """
    return _reduced("max", _bound(data, False), data, segment_ids, num_segments, mode)


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Any:
    """The smallest numbers of each segment; the largest there is for one without rows.

    >>> segment_min(rnp.array([3, 2, 4]), rnp.array([0, 1, 0]), 2).tolist()
    [3, 2]
    """
    return _reduced("min", _bound(data, True), data, segment_ids, num_segments, mode)


def _reduced(combine: str, start: Any, data: Any, ids: Any, count: Any, mode: str | None) -> Any:
    data, ids = as_tensor(data), as_tensor(ids)
    if data.shape[: ids.ndim] != ids.shape:
        raise ShapeError(
            f"segment_{combine}: the rows of {data.type} do not have the numbers {ids.type}",
            fix="give one number for each row of the data",
        )
    total = _count(ids) if count is None else integer("num_segments", count)
    result = rnp.full((total, *data.shape[ids.ndim :]), start, data.dtype)
    if ids.dtype.itemsize < 4:
        ids = ids.astype("int32")  # `total` may be larger than the small integers
    choice("mode", mode, (None, "clip", "drop", "fill", "promise_in_bounds"))
    # a negative number is outside, not counted from the end
    ids = rnp.where(ids < 0, 0 if mode == "clip" else total, ids)
    return getattr(result.at[ids], combine)(data, mode=mode or "drop") if total else result


def _count(ids: Any) -> int:
    known = ids.concrete if isinstance(ids, TracedTensor) else ids.host()
    if known is None:
        raise ConcretizationError(
            "the number of segments is not known while the function is recorded",
            notes=[f"segment_ids: {ids.type}"],
            fix="pass num_segments",
        )
    return int(known.max()) + 1 if known.size else 0


def _bound(data: Any, largest: bool) -> Any:
    dtype = as_tensor(data).dtype
    if is_bool(dtype):
        return largest
    if is_float(dtype):
        return np.inf if largest else -np.inf
    return rnp.iinfo(dtype).max if largest else rnp.iinfo(dtype).min
