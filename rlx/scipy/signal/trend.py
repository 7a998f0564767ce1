"""What remains of lines without their trend: detrend."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import numpy as rnp
from ...ir.errors import ArgumentError
from ...trace.apply import as_tensor
from ...trace.arguments import choice, members
from ...trace.axes import integer, one_axis
from ...trace.promotion import promote_operands
from ..operands import Tensor


def detrend(
    data: Tensor,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Any:
    """Lines less their mean, or less the straight line that fits them best.

    Between the places `bp` each part gets a straight line of its own.

    >>> detrend([1.0, 2.0, 6.0]).round(3).tolist()
    [0.5, -1.0, 0.5]
    """
    choice("detrend: type", type, ("constant", "linear"))
    if overwrite_data is not None:
        raise ArgumentError(
            "detrend: no array is overwritten",
            fix="leave out overwrite_data",
        )
    x = as_tensor(promote_operands(data, inexact=True)[0])
    place = one_axis("detrend", axis, x.ndim)
    if type == "constant":
        return x - rnp.mean(x, place, keepdims=True)
    count = x.shape[place]
    ends = np.unique([0, *_places(bp), count]).tolist()
    if ends[0] < 0 or ends[-1] > count:
        raise ArgumentError(
            f"detrend: the parts end at {ends}, the line at {count}",
            fix=f"pick places bp from 0 to {count}",
        )
    lines = rnp.moveaxis(x, place, -1)
    parts = [_less_line(lines[..., i:j]) for i, j in itertools.pairwise(ends)]
    return rnp.moveaxis(rnp.concatenate(parts, axis=-1), -1, place)


def _less_line(x: Any) -> Any:
    """The lines less the straight line that fits best."""
    count = x.shape[-1]
    places = (np.arange(count) - (count - 1) / 2).astype(rnp.real(x).dtype)
    rest = x - rnp.mean(x, -1, keepdims=True)
    if count == 1:
        return rest
    slope = rnp.sum(rest * places, -1, keepdims=True) / np.sum(places * places)
    return rest - slope * places


def _places(bp: Any) -> list[int]:
    given = (bp,) if isinstance(bp, int | np.integer) else members("detrend: bp", bp)
    return [integer("detrend: a place of bp", n) for n in given]
