"""Quantization to few bits, and products with block scales.

A number q of few bits stands for (q - zero_point) * scale. Scales and zero points are single
numbers, or one for each place along an axis. `fake_quantize` keeps floats and has a derivative; see
its op.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .. import numpy as rnp
from ..ir.errors import AttributeValueError, DtypeError, ShapeError
from ..ir.record import record
from ..ir.types import as_dtype, is_float, is_integer
from ..trace.apply import apply, as_operand, as_tensor, operand_type
from ..trace.arguments import choice, flag, members, pair, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.axes import one_axis, some_axes
from ..trace.promotion import convert, result_dtype
from ..trace.tensor import TracedTensor

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
) -> Array:
    """Quantize floats: `round(x / scale) + zero_point`, clipped to a range.

    Returns the shape of `x`. `scale` and `zero_point` are numbers, or vectors along `axis`. `dtype`
    is an integer one, or a float of 8 bits. `bounds` is a smaller range, (-8, 7) for 4 bits.

    >>> quantize([0.5, -0.1, 9.0], 0.25, bounds=(-8, 7)).tolist()
    [2, 0, 7]
    """
    x = as_tensor(x)
    scale, zero_point, axis = _parameters("quantize", x, scale, zero_point, axis)
    settings = {"dtype": as_dtype(dtype), "axis": axis, "bounds": bounds}
    return apply("quantize", x, scale, zero_point, **settings)


def dequantize(
    x: Any, scale: Any, zero_point: Any = 0, *, dtype: Any = "float32", axis: Axis = None
) -> Array:
    """Dequantize integers to floats: `(x - zero_point) * scale`.

    `scale`, `zero_point` and `axis` are as for `quantize`; `dtype` is that of the result.

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
) -> Array:
    """Fake quantization: quantize floats and dequantize them again.

    `scale`, `zero_point`, `dtype`, `axis` and `bounds` are as for `quantize`. Its derivative takes
    rounding for the identity; it has one in the scale and the zero point too.

    >>> fake_quantize([0.55, -0.1, 9.0], 0.25, bounds=(-8, 7)).tolist()
    [0.5, 0.0, 1.75]
    """
    x = as_tensor(x)
    scale, zero_point, axis = _parameters("fake_quantize", x, scale, zero_point, axis)
    settings = {"dtype": as_dtype(dtype), "axis": axis, "bounds": bounds}
    return apply("fake_quantize", x, scale, zero_point, **settings)


def quantization_scale(
    x: Any, *, dtype: Any = "int8", axis: Axis = None, bounds: Bounds = None, symmetric: bool = True
) -> tuple[Array, Array]:
    """A quantization scale and zero point whose range covers the numbers, and 0.

    `dtype`, `axis` and `bounds` are as for `quantize`; returns two numbers, or with `axis` two
    vectors. With `symmetric` the zero point is 0, else the range reaches from the least to the
    greatest. A dtype that is no integer and no float is a `DtypeError`.

    >>> scale, zero_point = quantization_scale([-1.0, 2.54])
    >>> scale, zero_point
    (Array(0.02, dtype=float32), Array(0., dtype=float32))
    """
    x, target = as_tensor(x), as_dtype(dtype)
    place = None if axis is None else one_axis("quantization_scale", axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i != place)
    wide = rnp.astype(x, result_dtype(x, np.float32(0)))
    if not (is_integer(target) or is_float(target)):
        raise DtypeError(
            f"quantization_scale: there is no quantizing to {target.name}",
            fix="use an integer dtype, or a float one of 8 bits",
        )
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
    _check_positive(name, scale)
    dtype = operand_type(scale).dtype
    if not is_float(dtype):
        dtype = result_dtype(scale, inexact=True)
    place = None if axis is None else one_axis(name, axis, x.ndim)
    scale, zero_point = (as_tensor(convert(v, dtype)) for v in (scale, zero_point))
    if place is not None:
        zero_point = rnp.broadcast_to(zero_point, scale.shape)
    return scale, zero_point, place


def _check_positive(name: str, scale: Any) -> None:
    """Raise unless the scales are above 0, where their numbers are in the host's memory."""
    if isinstance(scale, TracedTensor) or (isinstance(scale, Array) and scale._device):
        return
    numbers = scale.host() if isinstance(scale, Array) else np.asarray(scale)
    if numbers.size and not (numbers > 0).all():
        raise AttributeValueError(
            f"{name}: the scale {'is' if numbers.ndim == 0 else 'has'} {numbers.min()}",
            fix="use scales above 0, such as those of rlx.nn.quantization_scale",
        )


def _ends(bounds: Any) -> tuple[float, float]:
    low, high = pair("quantization_scale: bounds", bounds)
    low, high = known_real("bounds", low), known_real("bounds", high)
    if not low < high:
        raise wrong("quantization_scale: bounds", bounds, "a range", "give the lower end first")
    return low, high


# -- products of numbers in few bits that share a scale in blocks ----------------------------------
#
# Enters and leaves: arrays. The formats are mxfp8, 8-bit floats in blocks of 32 with powers of
# two as scales, and nvfp4, 4-bit floats in blocks of 16 with 8-bit floats as scales.


FLOAT = as_dtype("float32")
TOP_OF_EIGHT, TOP_OF_FOUR = 448.0, 6.0


@record
class BlockScaleConfig:
    """How blocks of numbers are brought to few bits.

    `data_type` is that of the numbers, `scale_type` that of the blocks' scales.
    """

    mode: str
    block_size: int
    data_type: str
    scale_type: str
    global_scale: Any = None
    infer_only: bool = False


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """The settings of the `mode` "mxfp8" or "nvfp4".

    The latter has `global_scale`, a scale for all blocks, 1 if not given, as well.
    """
    choice("get_scaled_dot_general_config: mode", mode, ("mxfp8", "nvfp4"))
    if mode == "nvfp4":
        whole = rnp.ones((1,), FLOAT) if global_scale is None else as_tensor(global_scale)
        return BlockScaleConfig(mode, 16, "float4_e2m1fn", "float8_e4m3fn", whole)
    return BlockScaleConfig(mode, 32, "float8_e4m3fn", "float8_e8m0fnu")


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Any:
    """The products of matrices whose rows are multiplied by scales, block by block.

    `lhs`, `rhs`, `lhs_scales`, `rhs_scales`: `f8[B, M, K], f8[B, N, K], f8[B, M, K / block], f8[B,
    N, K / block] → f32[B, M, N]`; other shapes are a `ShapeError`. Sums are float32, the result has
    `preferred_element_type`.
    """
    parts = [as_tensor(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    a, b, a_scales, b_scales = parts
    is_fit = all(x.ndim == 3 for x in parts) and (
        (a.shape[0], a.shape[2]) == (b.shape[0], b.shape[2])
        and (a_scales.shape[0], a_scales.shape[2]) == (b_scales.shape[0], b_scales.shape[2])
        and a.shape[:2] == a_scales.shape[:2]
        and b.shape[:2] == b_scales.shape[:2]
        and a.shape[2] % max(a_scales.shape[2], 1) == 0
    )
    if not is_fit:
        raise ShapeError(
            "scaled_matmul: the matrices and scales do not fit",
            notes=[str(x.type) for x in parts],
            fix="give shapes (B, M, K), (B, N, K), (B, M, K / block) and (B, N, K / block)",
        )
    wide = [_times_scales(x, s) for x, s in ((a, a_scales), (b, b_scales))]
    made = apply("dot_general", *wide, contract=((2,), (2,)), batch=((0,), (0,)))
    return convert(made, as_dtype(preferred_element_type))


def _times_scales(x: Any, scales: Any) -> Any:
    """The numbers that numbers and the scales of their blocks stand for, in float32."""
    blocks = scales.shape[-1]
    parts = rnp.reshape(convert(x, FLOAT), (*x.shape[:-1], blocks, -1))
    return rnp.reshape(parts * convert(scales, FLOAT)[..., None], x.shape)


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Any:
    """Products summed over axes, of numbers that are brought to few bits before.

    `lhs`, `rhs` and `dimension_numbers` are those of `rlx.lax.dot_general`,
    `preferred_element_type` is the result's dtype. `configs` are the settings for lhs, rhs and
    cotangents; without them nothing is rounded. The derivative takes the rounding of each operand
    for the identity; cotangents are not rounded. `implementation` has no effect.
    """
    x, y = as_tensor(lhs), as_tensor(rhs)
    what = "scaled_dot_general: dimension_numbers"
    parts = [pair(what, part) for part in pair(what, dimension_numbers)]
    (left, right), (left_batch, right_batch) = parts
    name, dtype = "scaled_dot_general", as_dtype(preferred_element_type)
    contract = (
        some_axes(name, members(what, left), x.ndim),
        some_axes(name, members(what, right), y.ndim),
    )
    batch = (
        some_axes(name, members(what, left_batch), x.ndim),
        some_axes(name, members(what, right_batch), y.ndim),
    )
    if configs is not None:
        x = _rounded(x, contract[0], batch[0], configs[0])
        y = _rounded(y, contract[1], batch[1], configs[1])
        made = apply("dot_general", x, y, contract=contract, batch=batch, dtype=FLOAT)
        return convert(made, dtype)
    return apply("dot_general", x, y, contract=contract, batch=batch, dtype=dtype)


def _rounded(x: Any, contract: tuple[int, ...], batch: tuple[int, ...], config: Any) -> Any:
    """The float32 numbers that are left of x in few bits, with the derivative of x."""
    free = [i for i in range(x.ndim) if i not in contract and i not in batch]
    order = [*sorted(batch), *free, *sorted(contract)]
    lines = rnp.transpose(convert(x, FLOAT), order)
    length = math.prod(x.shape[i] for i in contract)
    if length % config.block_size:
        raise ShapeError(
            f"scaled_dot_general: {length} numbers do not part in blocks of {config.block_size}",
            fix=f"contract over a multiple of {config.block_size} numbers",
        )
    blocks = rnp.reshape(lines, (-1, config.block_size))
    few = {"mxfp8": _in_eight_bits, "nvfp4": _in_four_bits}[config.mode](blocks, config)
    few = rnp.transpose(rnp.reshape(few, lines.shape), np.argsort(order).tolist())
    wide = convert(x, FLOAT)
    return wide + apply("stop_gradient", few - wide)


def _greatest(blocks: Any) -> Any:
    return rnp.max(rnp.abs(blocks), axis=-1, keepdims=True)


def _in_eight_bits(blocks: Any, config: BlockScaleConfig) -> Any:
    """8-bit floats times a power of two for each block."""
    bits = apply("bitcast", _greatest(blocks) / TOP_OF_EIGHT, dtype=as_dtype("uint32"))
    # the bits of the exponent alone, rounded up
    power = apply("shift_right_logical", apply("add", bits, 0x7FFFFF), 23)
    power = apply("shift_left", rnp.clip(power, 1, 254), 23)
    scale = apply("bitcast", convert(power, as_dtype("uint32")), dtype=FLOAT)
    few = rnp.clip(blocks / scale, -TOP_OF_EIGHT, TOP_OF_EIGHT)
    return convert(convert(few, as_dtype("float8_e4m3fn")), FLOAT) * scale


def _in_four_bits(blocks: Any, config: BlockScaleConfig) -> Any:
    """4-bit floats times an 8-bit one for each block, and the scale for all."""
    whole = rnp.reshape(as_tensor(config.global_scale), ())
    blocks = blocks / whole
    scale = rnp.clip(_greatest(blocks) / TOP_OF_FOUR, 0, TOP_OF_EIGHT)
    scale = convert(convert(scale, as_dtype("float8_e4m3fn")), FLOAT)
    units = blocks / rnp.where(scale > 0, scale, 1.0)
    # one bit of mantissa: steps of a half up to 2, of 1 up to 4, of 2 up to 6
    size = rnp.abs(units)
    step = rnp.where(size < 2, 0.5, rnp.where(size < 4, 1.0, 2.0))
    few = rnp.clip(rnp.round(units / step) * step, -TOP_OF_FOUR, TOP_OF_FOUR)
    return few * scale * whole
