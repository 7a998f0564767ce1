"""Reductions of windows, and the padding of windows by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.dims import Dim
from ..ir.errors import ArgumentError, AttributeValueError, ShapeError
from ..trace.apply import apply, as_tensor
from ..trace.arguments import count_of, wrong
from ..trace.axes import integer
from ..trace.promotion import broadcast_to, convert
from .operands import Tensor, integers, scalar, sequence, strict_dtype
from .reductions import is_neutral, monoid_of

Padding = Any  # "SAME", "VALID", "SAME_LOWER", or (before, after) for each axis
PADDINGS = ("SAME", "VALID", "SAME_LOWER")


def dilated_size(size: int, dilation: int) -> int:
    """How many places `size` elements take that stand `dilation` places apart."""
    return max((size - 1) * dilation + 1, 0)


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """The (before, after) of each axis that a padding by name means.

    "VALID" pads nothing. "SAME" pads so that there are as many windows as elements, divided by the
    stride and rounded up; what is odd goes behind, with "SAME_LOWER" before.

    >>> padtype_to_pads((5, 6), (3, 3), (1, 2), "SAME")
    [(1, 1), (0, 1)]
    """
    name = str(getattr(padding, "name", padding)).upper()
    if name not in PADDINGS:
        raise AttributeValueError(
            f"there is no padding {padding!r}",
            fix=f"use one of {', '.join(PADDINGS)}, or (before, after) for each axis",
        )
    pads = []
    windows = integers("padtype_to_pads: window_shape", window_shape)
    strides = integers("padtype_to_pads: window_strides", window_strides, len(windows))
    sizes = sequence("padtype_to_pads: in_shape", in_shape)
    if len(sizes) != len(windows):
        fix = "give a size for each axis of the window"
        raise wrong("padtype_to_pads: in_shape", sizes, f"of {len(windows)} sizes", fix)
    sizes = [n if isinstance(n, Dim) else integer("padtype_to_pads: a size", n) for n in sizes]
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        if name == "VALID":
            pads.append((0, 0))
            continue
        if not isinstance(size, int) and stride != 1:
            raise ShapeError(
                f"{name} padding of the size {size} needs its number",
                fix="use a static size, or give (before, after) for each axis",
            )
        count = size if stride == 1 else -(-size // max(stride, 1))
        total = max((count - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if name == "SAME" else (more, less))
    return pads


def pads_of(
    name: str,
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
) -> tuple[tuple[int, int], ...]:
    """The (before, after) of each axis, by name or as they are given."""
    if isinstance(padding, str):
        return tuple(padtype_to_pads(shape, window, strides, padding))
    if not isinstance(padding, Sequence) or len(padding) != len(shape):
        raise ArgumentError(
            f"{name}: the padding {padding!r} has not a pair for each of {len(shape)} axes",
            fix=f"use one of {', '.join(PADDINGS)}, or (before, after) for each axis",
        )
    pairs = [integers(f"{name}: the padding of an axis", p, 2) for p in padding]
    return tuple((low, high) for low, high in pairs)


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of the result of `reduce_window`.

    >>> reduce_window_shape_tuple((5, 6), (3, 3), (1, 2), [(0, 0), (1, 1)])
    (3, 3)
    """
    name = "reduce_window_shape_tuple"
    shape = integers(f"{name}: operand_shape", operand_shape)
    rank, ones = len(shape), (1,) * len(shape)
    base = (
        ones if base_dilation is None else integers(f"{name}: base_dilation", base_dilation, rank)
    )
    spread = ones
    if window_dilation is not None:
        spread = integers(f"{name}: window_dilation", window_dilation, rank)
    sizes = map(dilated_size, shape, base)
    windows = map(
        dilated_size, integers(f"{name}: window_dimensions", window_dimensions, rank), spread
    )
    steps = integers(f"{name}: window_strides", window_strides, rank)
    for step in steps:
        count_of(f"{name}: a stride", step, 1)
    pairs = sequence(f"{name}: padding", padding)
    if len(pairs) != rank:
        raise wrong(f"{name}: padding", padding, f"for {rank} axes", "give a pair for each axis")
    pads = [integers(f"{name}: the padding of an axis", pair, 2) for pair in pairs]
    lines = zip(sizes, windows, steps, pads, strict=True)
    return tuple(
        max((n + low + high - window) // stride + 1, 0) for n, window, stride, (low, high) in lines
    )


def reduce_window(
    operand: Tensor,
    init_value: Tensor,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements of each window by add, mul, max or min.

    So is the initial value, once. There is a number for each axis of the operand. Padding and the
    places between elements spread by `base_dilation` count for nothing, and "SAME" pads as if there
    were no such places.
    """
    x, start = as_tensor(operand), scalar("reduce_window", init_value)
    start = convert(start, strict_dtype("reduce_window", [x, start]))
    window = integers("reduce_window: window_dimensions", window_dimensions, x.ndim)
    strides, spread, dilation = (
        (1,) * x.ndim if steps is None else integers(f"reduce_window: {word}", steps, x.ndim)
        for word, steps in (
            ("window_strides", window_strides),
            ("base_dilation", base_dilation),
            ("window_dilation", window_dilation),
        )
    )
    monoid = monoid_of(computation, x.dtype)
    if monoid is None or monoid.windows is None:
        raise ArgumentError(
            "reduce_window: the computation is none of add, mul, max and min",
            fix="use lax.add, lax.mul, lax.max or lax.min, or reduce rlx.lax's "
            "conv_general_dilated_patches, which has the elements of a window as an axis",
        )
    seen = [dilated_size(n, d) for n, d in zip(window, dilation, strict=True)]
    made = apply(
        monoid.windows,
        x,
        window=window,
        strides=strides,
        padding=pads_of("reduce_window", x.shape, seen, strides, padding),
        base_dilation=spread,
        window_dilation=dilation,
    )
    if is_neutral(monoid, init_value, x.dtype):
        return made
    return apply(monoid.op, broadcast_to(start, made.shape), made)
