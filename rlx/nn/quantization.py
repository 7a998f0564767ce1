"""Numbers in few bits, to compute with and to train with.

A number q of few bits stands for (q - zero_point) * scale. Enters: arrays of floats, a scale and a
zero point, single ones or one for each place along an axis. Leaves: arrays. `fake_quantize` keeps
floats and has a derivative; see its op.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .. import numpy as rnp
from ..ir.types import as_dtype, is_float, is_integer
from ..trace.apply import apply, as_operand, as_tensor, operand_type
from ..trace.arguments import flag, pair, wrong
from ..trace.array_arguments import known_real
from ..trace.axes import one_axis
from ..trace.promotion import convert, result_dtype

Bounds = tuple[float, float] | None
Axis = int | None


def quantize(
    x: Any,
    scale: Any,
    zero_point: Any = 0,
    *,
    dtype: Any = "int8",
    axis: Axis = None,
    bounds: Bounds = None,
) -> Any:
    """Floats as numbers of few bits: round(x / scale) + zero_point, cut to a range.

    `dtype` is an integer one, or a float of 8 bits. `bounds` is a smaller range, (-8, 7) for 4
    bits.

    >>> quantize([0.5, -0.1, 9.0], 0.25, bounds=(-8, 7)).tolist()
    [2, 0, 7]
    """
    x = as_tensor(x)
    scale, zero_point, axis = _parameters("quantize", x, scale, zero_point, axis)
    settings = {"dtype": as_dtype(dtype), "axis": axis, "bounds": bounds}
    return apply("quantize", x, scale, zero_point, **settings)


def dequantize(
    x: Any, scale: Any, zero_point: Any = 0, *, dtype: Any = "float32", axis: Axis = None
) -> Any:
    """The floats that numbers of few bits stand for: (x - zero_point) * scale.

    >>> import numpy as np
    >>> dequantize(np.array([2, 0, 7], "int8"), 0.25).tolist()
    [0.5, 0.0, 1.75]
    """
    x = as_tensor(x)
    scale, zero_point, axis = _parameters("dequantize", x, scale, zero_point, axis)
    return apply("dequantize", x, scale, zero_point, dtype=as_dtype(dtype), axis=axis)


def fake_quantize(
    x: Any,
    scale: Any,
    zero_point: Any = 0,
    *,
    dtype: Any = "int8",
    axis: Axis = None,
    bounds: Bounds = None,
) -> Any:
    """What is left of floats that are quantized and brought back.

    Its derivative takes rounding for the identity; it has one in the scale and the zero point too.

    >>> fake_quantize([0.55, -0.1, 9.0], 0.25, bounds=(-8, 7)).tolist()
    [0.5, 0.0, 1.75]
    """
    x = as_tensor(x)
    scale, zero_point, axis = _parameters("fake_quantize", x, scale, zero_point, axis)
    settings = {"dtype": as_dtype(dtype), "axis": axis, "bounds": bounds}
    return apply("fake_quantize", x, scale, zero_point, **settings)


def quantization_scale(
    x: Any,
    *,
    dtype: Any = "int8",
    axis: Axis = None,
    bounds: Bounds = None,
    symmetric: bool = True,
) -> tuple[Any, Any]:
    """A scale and a zero point whose range covers the numbers, and 0.

    With `symmetric` the zero point is 0, else the range reaches from the least to the greatest.

    >>> scale, zero_point = quantization_scale([-1.0, 2.54])
    >>> scale, zero_point
    (Array(0.02, dtype=float32), Array(0., dtype=float32))
    """
    x, target = as_tensor(x), as_dtype(dtype)
    place = None if axis is None else one_axis("quantization_scale", axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i != place)
    wide = rnp.astype(x, result_dtype(x, np.float32(0)))
    info = np.iinfo(target) if is_integer(target) else ml_dtypes.finfo(target)
    low, high = (float(info.min), float(info.max)) if bounds is None else _ends(bounds)
    symmetric = flag("quantization_scale: symmetric", symmetric)
    least = rnp.minimum(rnp.min(wide, others, initial=0), 0)
    greatest = rnp.maximum(rnp.max(wide, others, initial=0), 0)
    if symmetric:
        reach = min(high, -low) if low < 0 else high
        scale = rnp.maximum(greatest, -least) / reach
    else:
        scale = (greatest - least) / (high - low)
    scale = rnp.where(scale > 0, scale, 1.0)
    zero_point = 0 * scale if symmetric else rnp.round(low - least / scale)
    return scale, zero_point


def _parameters(
    name: str, x: Any, scale: Any, zero_point: Any, axis: Axis
) -> tuple[Any, Any, Axis]:
    """The scale and the zero point in one float dtype and shape, the axis counted from 0."""
    scale, zero_point = as_operand(scale), as_operand(zero_point)
    dtype = operand_type(scale).dtype
    if not is_float(dtype):
        dtype = result_dtype(scale, inexact=True)
    place = None if axis is None else one_axis(name, axis, x.ndim)
    scale, zero_point = (as_tensor(convert(v, dtype)) for v in (scale, zero_point))
    if place is not None:
        zero_point = rnp.broadcast_to(zero_point, scale.shape)
    return scale, zero_point, place


def _ends(bounds: Any) -> tuple[float, float]:
    low, high = pair("quantization_scale: bounds", bounds)
    low, high = known_real("bounds", low), known_real("bounds", high)
    if not low < high:
        raise wrong("quantization_scale: bounds", bounds, "a range", "give the lower end first")
    return low, high
