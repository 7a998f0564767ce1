"""Statistics of samples: mode, rankdata, sem."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import numpy as rnp
from ...ir.errors import ArgumentError
from ...trace.apply import as_tensor
from ...trace.axes import integer, one_axis
from ..operands import Tensor, floats

METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The most frequent numbers, and how often they occur."""

    mode: Any
    count: Any


def mode(
    a: Tensor, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent number along an axis, the least of several, and its count.

    >>> mode([3, 1, 3, 1, 2])
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_policy("mode", nan_policy, ("propagate",))
    x = rnp.atleast_1d(as_tensor(a))
    rank = x.ndim
    place = 0 if axis is None else one_axis("mode", axis, rank)
    x = rnp.ravel(x) if axis is None else x
    last = rnp.sort(rnp.moveaxis(x, place, -1), axis=-1)
    ends = _run_starts(last)
    places = rnp.broadcast_to(np.arange(last.shape[-1], dtype="int32"), last.shape)
    # the length so far of the run of equal numbers; the first longest one is of the least
    lengths = places - rnp.cummax(rnp.where(ends, places, 0), axis=-1) + 1
    best = rnp.expand_dims(rnp.argmax(lengths, axis=-1), -1)
    found = [rnp.take_along_axis(each, best, axis=-1) for each in (last, lengths)]
    if not keepdims:
        return ModeResult(*(rnp.squeeze(each, -1) for each in found))
    if axis is None:
        return ModeResult(*(rnp.reshape(each, (1,) * rank) for each in found))
    return ModeResult(*(rnp.moveaxis(each, -1, place) for each in found))


def _run_starts(x: Any) -> Any:
    """Where sorted lines have another number than before; NaNs count as equal."""
    is_other = x[..., 1:] != x[..., :-1]
    if x.dtype.kind not in "biu":
        is_other = is_other & ~(rnp.isnan(x[..., 1:]) & rnp.isnan(x[..., :-1]))
    return rnp.concatenate([rnp.ones((*x.shape[:-1], 1), dtype=bool), is_other], axis=-1)


def rankdata(
    a: Tensor, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Any:
    """The places from 1 on that numbers take when sorted along an axis.

    Equal ones share the average of their places, the least or the greatest; "dense" counts only
    different numbers, with "ordinal" the first comes first. A NaN makes its whole line NaN.

    >>> rankdata([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _check_policy("rankdata", nan_policy, ("propagate",))
    if method not in METHODS:
        raise ArgumentError(
            f"rankdata: there is no method {method!r}",
            fix=f"use one of {', '.join(METHODS)}",
        )
    x = as_tensor(a)
    place = 0 if axis is None else one_axis("rankdata", axis, x.ndim)
    x = rnp.ravel(x) if axis is None else x
    lines = rnp.moveaxis(x, place, -1)
    order = rnp.argsort(lines, axis=-1)
    ranks = _ranks(rnp.take_along_axis(lines, order, axis=-1), method)
    ranks = rnp.take_along_axis(ranks, rnp.argsort(order, axis=-1), axis=-1)
    ranks = rnp.astype(ranks, "float32")
    if x.dtype.kind not in "biu":
        ranks = rnp.where(rnp.any(rnp.isnan(lines), axis=-1, keepdims=True), rnp.nan, ranks)
    return rnp.moveaxis(ranks, -1, place)


def _ranks(x: Any, method: str) -> Any:
    """The ranks of sorted lines."""
    starts, count = _run_starts(x), x.shape[-1]
    places = rnp.broadcast_to(np.arange(1, count + 1, dtype="int32"), x.shape)
    if method == "ordinal":
        return places
    if method == "dense":
        return rnp.cumsum(rnp.astype(starts, "int32"), axis=-1)
    least = rnp.cummax(rnp.where(starts, places, 0), axis=-1)
    if method == "min":
        return least
    ends = rnp.concatenate([starts[..., 1:], rnp.ones_like(starts[..., :1])], axis=-1)
    # the end of a run is the least end from here on
    greatest = rnp.flip(rnp.cummin(rnp.flip(rnp.where(ends, places, count), -1), axis=-1), -1)
    return greatest if method == "max" else 0.5 * rnp.astype(least + greatest, "float32")


def sem(
    a: Tensor,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The standard error of the mean along an axis.

    NaNs do not count with the policy "omit".

    >>> sem([1.0, 3.0, 5.0])
    Array(1.1547005, dtype=float32)
    """
    _check_policy("sem", nan_policy, ("propagate", "omit"))
    (x,) = floats("sem", a)
    ddof = integer("sem: ddof", ddof)
    if nan_policy == "omit":
        count = rnp.astype(rnp.sum(~rnp.isnan(x), axis, keepdims=keepdims), x.dtype)
        return rnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / rnp.sqrt(count)
    size = x.size if axis is None else x.shape[one_axis("sem", axis, x.ndim)]
    return rnp.std(x, axis, ddof=ddof, keepdims=keepdims) / rnp.sqrt(rnp.asarray(size, x.dtype))


def _check_policy(name: str, policy: str, valid: tuple[str, ...]) -> None:
    if policy not in valid:
        raise ArgumentError(
            f"{name}: the nan_policy {policy!r} is not known",
            fix=f"use {' or '.join(map(repr, valid))}",
        )
