"""Convolutions in any number of axes: conv_general_dilated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import AttributeValueError, ShapeError
from ...graph import Value
from ...op import define
from ...rules import batch_size
from ...types import Type, promote
from ..constant import full, like
from ..contract import check_sum_dtype, codes_of
from ..convert import in_one_dtype, narrowed, widened
from ..families import NUMBERS, check_dtypes, check_kind, linear_in_each
from ..movement import flip, reshape
from .products import (
    MOST,
    by_group,
    convolved_by_phase,
    last_axis_in_memory,
    merged,
    moved,
    split,
    summed_products,
    window_products,
)
from .windows import (
    Pads,
    all_windows,
    check_pads,
    check_steps,
    padded,
    pads_of_transpose,
    spread_size,
    window_count,
    windows_of_padded,
)


@define
def conv_general_dilated(
    x: Type,
    kernel: Type,
    *,
    window_strides: tuple[int, ...],
    padding: Pads,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    dtype: np.dtype | None = None,
) -> Type:
    """Sums of products of a kernel with the windows of x it slides over.

    `f32[batch, in, ...], f32[out, in, ...] → f32[batch, out, ...]`. The kernel is not flipped.
    Along each axis from the third on, the elements of x first are spread `lhs_dilation` places
    apart, and `padding` (before, after) zeros put around, or elements cut off where it is negative.
    The elements of the kernel stand `rhs_dilation` places apart, and it moves on by
    `window_strides`. With feature groups, group i of the outputs sees group i of the inputs alone;
    with batch groups, it sees group i of the batch alone, and the groups' results share their
    batch. `dtype` is that of the sum and the result, the operands' if not given; half-size floats
    are summed in float32.
    """
    _check(x, kernel, dtype)
    count = x.rank - 2
    check_steps(
        count, window_strides=window_strides, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation
    )
    check_pads(count, padding)
    _check_groups(x, kernel, feature_group_count, batch_group_count)
    shape = []
    for i, n in enumerate(x.shape[2:]):
        size = kernel.shape[i + 2]
        if not isinstance(size, int):
            raise ShapeError(f"the kernel is {kernel}", fix="use a kernel of static sizes")
        steps = window_strides[i], rhs_dilation[i], lhs_dilation[i]
        shape.append(window_count(n, size, *steps, padding[i]))
    batch: Any = x.shape[0]
    batch = batch if batch_group_count == 1 else batch // batch_group_count
    return Type(dtype or x.dtype, (batch, kernel.shape[0], *shape))


def _check(x: Type, kernel: Type, dtype: np.dtype | None) -> None:
    check_kind(x, NUMBERS)
    check_dtypes(x, kernel, "one: kernel")
    check_sum_dtype(x, dtype)
    if x.rank < 2 or x.rank != kernel.rank:
        raise ShapeError(
            f"x has {x.rank} axes, the kernel {kernel.rank}",
            fix="give (batch, in, ...) and (out, in, ...) with equally many axes",
        )


def _check_groups(x: Type, kernel: Type, features: int, batches: int) -> None:
    check_steps(2, group_counts=(features, batches))
    if features > 1 and batches > 1:
        raise AttributeValueError(
            f"there are {features} feature groups and {batches} batch groups",
            fix="use one kind of groups",
        )
    counted = [
        ("the batch", x.shape[0], batches),
        ("the inputs", x.shape[1], features),
        ("the outputs", kernel.shape[0], features * batches),
    ]
    for what, size, groups in counted:
        if groups > 1 and (not isinstance(size, int) or size % groups):
            raise ShapeError(
                f"{what}, {size}, do not part in {groups} groups",
                fix=f"make their number a multiple of {groups}",
            )
    inputs: Any = x.shape[1]
    inputs = inputs if features == 1 else inputs // features
    if kernel.shape[1] != inputs:
        raise ShapeError(
            f"the kernel {kernel} takes {kernel.shape[1]} inputs, a group of {x} has {inputs}",
            fix=f"make axis 1 of the kernel {inputs} long",
        )


conv_general_dilated.work("contractions")


@conv_general_dilated.reference
def conv_general_dilated_reference(x: np.ndarray, kernel: np.ndarray, **attrs: Any) -> np.ndarray:
    wide = promote(x.dtype, x.dtype if attrs["dtype"] is None else attrs["dtype"])
    x, kernel = widened(x.astype(wide)), widened(kernel.astype(wide))
    steps = [attrs[name] for name in ("window_strides", "lhs_dilation", "rhs_dilation")]
    x = windows_of_padded(x, 0, attrs["padding"], kernel.shape[2:], *steps)
    (n, _, *rest), (o, inputs, *sizes) = x.shape, kernel.shape
    f, b = attrs["feature_group_count"], attrs["batch_group_count"]
    places, depth = rest[: len(sizes)], inputs * math.prod(sizes)
    # (batch group, batch, feature group, inputs, places, window)
    x = x.reshape(b, n // b, f, inputs, math.prod(places), math.prod(sizes))
    x = x.transpose(0, 2, 3, 5, 1, 4).reshape(b * f, depth, n // b * math.prod(places))
    out = kernel.reshape(b * f, o // (b * f), depth) @ x
    return np.moveaxis(out.reshape(o, n // b, *places), 0, 1)


@conv_general_dilated.expand
def conv_general_dilated_expand(
    x: Value,
    kernel: Value,
    *,
    window_strides: Sequence[int],
    padding: Pads,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    dtype: np.dtype | None,
) -> Value:
    groups = feature_group_count * batch_group_count
    if _has_phases(x, kernel, window_strides, lhs_dilation):
        groups_of = {
            "feature_group_count": feature_group_count,
            "batch_group_count": batch_group_count,
        }

        def convolve(x: Value, part: Value, pads: Pads, dilation: tuple[int, ...]) -> Value:
            ones = (1,) * len(dilation)
            return conv_general_dilated(
                x, part, window_strides=ones, padding=pads, lhs_dilation=ones,
                rhs_dilation=dilation, dtype=dtype, **groups_of,
            )  # fmt: skip

        return convolved_by_phase(x, kernel, padding, lhs_dilation, rhs_dilation, convolve)
    last = last_axis_in_memory(x)
    is_alone = kernel.shape[0] == groups
    has_groups = groups > 1 or is_alone
    weights = split(kernel, 0, groups) if has_groups else kernel
    wide = padded(x, padding, lhs_dilation, 0)
    sizes: Any = kernel.shape[2:]
    seen = all_windows(wide, range(2, x.rank), sizes, window_strides, rhs_dilation)
    seen = by_group(seen, feature_group_count, batch_group_count) if has_groups else seen
    if is_alone:
        return summed_products(seen, weights, last, dtype)
    made = window_products(seen, weights, last, dtype)
    return merged(made, 1) if groups > 1 else made


def _has_phases(
    x: Value, kernel: Value, strides: Sequence[int], lhs_dilation: Sequence[int]
) -> bool:
    """Whether x is spread apart, and each phase of it worth a convolution of its own."""
    if any(n != 1 for n in strides) or not 1 < math.prod(lhs_dilation) <= MOST:
        return False
    sizes = (*x.shape, *kernel.shape)
    return all(isinstance(n, int) for n in sizes) and 0 not in sizes


def _kept(types: Sequence[Type], operand: int, **attrs: Any) -> dict[int, int]:
    if operand:
        return {0: 1}
    return {0: 0} if attrs["batch_group_count"] == 1 else {}


def _padded(x: Value, number: Value, **attrs: Any) -> tuple[Value, dict[str, Any]]:
    made = padded(x, attrs["padding"], attrs["lhs_dilation"], number)
    count = len(attrs["padding"])
    return made, {**attrs, "padding": ((0, 0),) * count, "lhs_dilation": (1,) * count}


conv_general_dilated.product(_kept, _padded)


# -- rules ----------------------------------------------------------------------------------------


conv_general_dilated.jvp(
    [
        lambda t, out, x, kernel, **attrs: conv_general_dilated(t, kernel, **attrs),
        lambda t, out, x, kernel, **attrs: conv_general_dilated(x, t, **attrs),
    ]
)


def _pads_back(x: Any, kernel: Any, ct: Value, attrs: dict[str, Any]) -> list[tuple[int, int]]:
    """The pads with which windows of the cotangents give those of x."""
    steps = zip(attrs["lhs_dilation"], attrs["window_strides"], attrs["rhs_dilation"], strict=True)
    lines = zip(x.shape[2:], kernel.shape[2:], ct.shape[2:], attrs["padding"], steps, strict=True)
    return [pads_of_transpose(*line) for line in lines]


def _pads_of_kernel(x: Any, kernel: Any, ct: Value, attrs: dict[str, Any]) -> list[tuple]:
    """The pads with which windows of x as large as ct are as many as kernel places."""
    pads = []
    for i, (low, _) in enumerate(attrs["padding"]):
        length = spread_size(x.shape[i + 2], attrs["lhs_dilation"][i])
        seen = spread_size(ct.shape[i + 2], attrs["window_strides"][i])
        places = spread_size(kernel.shape[i + 2], attrs["rhs_dilation"][i])
        pads.append((low, seen + places - 1 - length - low))
    return pads


def _transpose_x(ct: Value, x: Any, kernel: Value, **attrs: Any) -> Value:
    """The convolution of ct with the kernel flipped.

    Inputs stand for outputs, strides for dilations.
    """
    if 0 in (*ct.shape, *kernel.shape, *x.shape):
        return like(x, 0)
    features, batches = attrs["feature_group_count"], attrs["batch_group_count"]
    groups = features * batches
    back = merged(moved(split(kernel, 0, groups), 2, 1), 0)
    made = conv_general_dilated(
        *in_one_dtype(ct, flip(back, axes=tuple(range(2, back.rank)))),
        window_strides=attrs["lhs_dilation"],
        padding=_pads_back(x, kernel, ct, attrs),
        lhs_dilation=attrs["window_strides"],
        rhs_dilation=attrs["rhs_dilation"],
        feature_group_count=groups,
    )
    if batches > 1:  # each group of the batch had the outputs of one group
        made = merged(moved(split(made, 1, batches), 1, 0), 0)
    return narrowed(made, x.dtype)


def _transpose_kernel(ct: Value, x: Value, kernel: Any, **attrs: Any) -> Value:
    """The convolution of x with ct, the batch for inputs; dilation for stride.

    If x is spread apart, that of ct with x: then no element has zeros between.
    """
    if 0 in (*ct.shape, *kernel.shape, *x.shape):
        return like(kernel, 0)
    is_spread = any(n > 1 for n in attrs["lhs_dilation"])
    if is_spread and max(attrs["window_strides"]) == 1 and attrs["batch_group_count"] == 1:
        return _windows_of_ct(ct, x, kernel, **attrs)
    made = conv_general_dilated(
        *in_one_dtype(moved(x, 0, 1), moved(ct, 0, 1)),
        window_strides=attrs["rhs_dilation"],
        padding=_pads_of_kernel(x, kernel, ct, attrs),
        lhs_dilation=attrs["lhs_dilation"],
        rhs_dilation=attrs["window_strides"],
        feature_group_count=attrs["batch_group_count"],
        batch_group_count=attrs["feature_group_count"],
    )
    return narrowed(moved(made, 0, 1), kernel.dtype)


def _windows_of_ct(ct: Value, x: Value, kernel: Any, **attrs: Any) -> Value:
    """The cotangent of the kernel where its windows move by one place: ct's windows with x.

    Element i of x meets place k of the kernel in result o = i·base - k·dilation + low.
    """
    pads = []
    lines = zip(x.shape[2:], kernel.shape[2:], ct.shape[2:], attrs["padding"], strict=True)
    for i, (length, size, places, (low, _)) in enumerate(lines):
        reach: Any = spread_size(size, attrs["rhs_dilation"][i]) - 1
        seen: Any = spread_size(length, attrs["lhs_dilation"][i])
        pads.append((reach - low, seen + low - places))
    features = attrs["feature_group_count"]
    made = conv_general_dilated(
        *in_one_dtype(moved(ct, 0, 1), moved(x, 0, 1)),
        window_strides=attrs["rhs_dilation"],
        padding=pads,
        lhs_dilation=attrs["window_strides"],
        rhs_dilation=attrs["lhs_dilation"],
        feature_group_count=1,
        batch_group_count=features,
    )
    if features > 1:
        made = merged(moved(split(made, 1, features), 1, 0), 0)
    return narrowed(flip(made, axes=tuple(range(2, made.rank))), kernel.dtype)


conv_general_dilated.transpose(linear_in_each(_transpose_x, _transpose_kernel))


@conv_general_dilated.batch
def conv_general_dilated_batch(
    args: Sequence[Value],
    batched: Sequence[bool],
    *,
    feature_group_count: int,
    batch_group_count: int,
    **attrs: Any,
) -> Value:
    (x, kernel), size = args, batch_size(args, batched)
    groups: dict[str, Any] = {
        "feature_group_count": feature_group_count,
        "batch_group_count": batch_group_count,
    }
    if size == 0 and all(batched):  # no member sees a kernel
        kernel, batched = full(shape=kernel.shape[1:], value=0, dtype=kernel.dtype), (True, False)
    if not batched[1]:
        made = conv_general_dilated(_with_members(x, batch_group_count), kernel, **groups, **attrs)
        inner: Any = x.shape[1]
        inner = inner if batch_group_count == 1 else inner // batch_group_count
        return reshape(made, shape=(size, inner, *made.shape[1:]))
    if not batched[0]:
        count = feature_group_count * batch_group_count
        made = conv_general_dilated(x, _with_members(kernel, count), **groups, **attrs)
        outer: Any = kernel.shape[1]
        shape = (made.shape[0], count, size, outer // count, *made.shape[2:])
        return merged(moved(reshape(made, shape=shape), 2, 0), 2)
    # the members are groups: of the batch where there are groups of it, else of the features
    kind = "batch_group_count" if batch_group_count > 1 else "feature_group_count"
    groups[kind] = groups[kind] * size
    x = merged(x, 0) if batch_group_count > 1 else merged(moved(x, 0, 1), 1)
    made = conv_general_dilated(x, merged(kernel, 0), **groups, **attrs)
    outer = kernel.shape[1]
    return moved(reshape(made, shape=(made.shape[0], size, outer, *made.shape[2:])), 1, 0)


def _with_members(x: Value, groups: int) -> Value:
    """Axis 0, of members, and axis 1 as one, each group of which has all members."""
    return merged(merged(moved(split(x, 1, groups), 0, 1), 0), 0)


conv_general_dilated.scheme(codes_of)


_PLAIN: dict[str, Any] = dict(
    window_strides=(1,), padding=((0, 0),), lhs_dilation=(1,), rhs_dilation=(1,)
)
_SPREAD: dict[str, Any] = dict(
    window_strides=(2, 1), padding=((1, 2), (2, -1)), lhs_dilation=(1, 2), rhs_dilation=(2, 1)
)
conv_general_dilated.samples((2, 3, 5), (4, 3, 2), **_PLAIN)
conv_general_dilated.samples((2, 2, 4, 3), (3, 2, 2, 3), **_SPREAD)
conv_general_dilated.samples((2, 4, 4, 3), (4, 2, 2, 2), **_SPREAD, feature_group_count=2)
conv_general_dilated.samples((4, 2, 4), (4, 2, 2), **_PLAIN, batch_group_count=2)
# numbers, not shapes: a zero between elements times infinity may be 0 or NaN
_SPREAD_INPUT = np.linspace(-2, 2, 24).reshape(2, 4, 3), np.linspace(2, -1, 24).reshape(4, 2, 3)
conv_general_dilated.samples(
    *_SPREAD_INPUT, **{**_PLAIN, "lhs_dilation": (3,)}, feature_group_count=2
)
conv_general_dilated.samples((2, 2, 4), (2, 1, 3), **_PLAIN, feature_group_count=2)
conv_general_dilated.samples((2, 2, 2), (3, 2, 4), **_PLAIN)
conv_general_dilated.samples(
    [[[1.0, 2.0, 3.0, 4.0]]],
    [[[1.0, 10.0]]],
    **{**_PLAIN, "window_strides": (2,), "padding": ((1, 1),)},
    expect=[[[10.0, 32.0, 4.0]]],
)
conv_general_dilated.samples(
    np.array([[[100, 100, 1]]], np.int8),
    np.array([[[2, 1]]], np.int8),
    **_PLAIN,
    dtype="int32",
    expect=[[[300, 201]]],
)
_HALF = np.full((1, 1, 512), 0.1, "float16")  # summed in halves the total is 2 % off
conv_general_dilated.samples(_HALF, _HALF, **_PLAIN)
