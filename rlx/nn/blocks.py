"""Weights in blocks of few bits: arrays that stay packed until they are used.

The formats are those of ggml; their layouts are in `rlx/ir/ops/blocks.py`.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.ops.blocks import COMPUTES, FORMATS, BlockFormat, Codes, block_format, numbers_of
from ..ir.types import is_float, promote
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice
from ..trace.array import Array, new_array
from ..trace.host import to_numpy
from ..trace.promotion import FLOAT, convert
from .module import Module, field

MOST_HALF = 65520.0  # what is less is rounded to a finite float16


def dequantize_blocks(x: Any, format: str) -> Any:
    """Dequantize blocks of few bits: `u8[..., bytes] → f32[..., numbers]`.

    `format` is one of ggml's: q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl and mxfp4 have blocks of 32
    numbers, q2_k, q3_k, q4_k, q5_k and q6_k of 256. Raises a `ShapeError` if the last axis of x
    holds no whole blocks.

    >>> w = quantize_blocks(np.arange(32.0) * 8, "q8_0")
    >>> dequantize_blocks(w.data, "q8_0")[:3].tolist()
    [0.0, 7.8125, 15.625]
    """
    choice("dequantize_blocks: format", format, FORMATS)
    return apply("dequantize_blocks", as_tensor(x), format=format)


@final
class BlockArray(Module):
    """An array that is quantized to few bits, in blocks along its last axis.

    `data` has the bytes of the blocks, `format` is one of those of `dequantize_blocks`.

    >>> w = quantize_blocks(np.ones((2, 64), "float32"), "q4_0")
    >>> w.shape, w.data.shape, w.dequantize().shape
    ((2, 64), (2, 36), (2, 64))
    """

    data: Array
    format: str = field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of numbers."""
        layout = block_format(self.format)
        return (*self.data.shape[:-1], self.data.shape[-1] // layout.nbytes * layout.size)

    def dequantize(self) -> Any:
        """The numbers, `f32[...]` of the array's shape."""
        return dequantize_blocks(self.data, self.format)

    def __getitem__(self, index: Any) -> BlockArray:
        """The blocks at places of the axes before the last one, still packed.

        `w[ids].dequantize()` reads the rows `ids` of a table. Raises an `ArgumentError` for an
        index that reaches the last axis.

        >>> quantize_blocks(np.ones((9, 64), "float32"), "q4_0")[np.array([7, 0, 2])].shape
        (3, 64)
        """
        data = self.data[index]
        is_same = data.ndim and data.shape[-1] == self.data.shape[-1]
        if not is_same or _reaches_last(index, self.data.ndim):
            raise ArgumentError(
                f"the index {index!r} reaches the last axis of blocks of {self.format}",
                fix="index the axes before it, or the numbers: w.dequantize()[index]",
            )
        return BlockArray(data, self.format)


def _reaches_last(index: Any, count: int) -> bool:
    """Whether an index of so many axes says anything of the last one but that it is whole."""
    items = index if isinstance(index, tuple) else (index,)
    axes = 0
    for x in items:
        is_mask = getattr(x, "dtype", None) == np.bool_
        axes += x.ndim if is_mask else x is not None and x is not Ellipsis
    is_reached = axes >= count or any(x is Ellipsis for x in items[:-1])
    return is_reached and not (isinstance(items[-1], slice) and items[-1] == slice(None))


def linear(x: Any, w: Any, b: Any = None, *, compute: str = "exact") -> Any:
    """Multiply by a matrix of rows, packed or not, and add a bias: x @ w.T + b.

    `f32[..., in] → f32[..., out]`, in the dtype of x. `w` is an array or a `BlockArray` of shape
    (out, in), `b` of shape (out,). With `compute="int8"` packed numbers are multiplied by x rounded
    to 8 bits, 16 numbers to multiples of their greatest size / 127, which is the fastest; with
    "int16" by x rounded to 16 bits, 32 together, which errs some 200 times less; with "exact" by x
    itself. Raises a `ShapeError` if the sizes differ, an `ArgumentError` for a rounded x and `w`
    that is not packed.

    >>> w = quantize_blocks(np.ones((3, 64), "float32"), "q8_0")
    >>> linear(np.ones((2, 64), "float32"), w, compute="int8").shape
    (2, 3)
    """
    choice("linear: compute", compute, COMPUTES)
    if isinstance(w, BlockArray):
        y = _product(as_tensor(x), w, compute)
    elif compute == "exact":
        y = rnp.matmul(x, rnp.matrix_transpose(w))
    else:
        raise ArgumentError(
            f"linear: w is not packed, so there is no product in {compute}",
            fix="give rlx.nn.quantize_blocks(w, 'q8_0'), or compute='exact'",
        )
    return y if b is None else convert(y + b, as_tensor(y).dtype)


def _product(x: Any, w: BlockArray, compute: str) -> Any:
    if len(w.shape) != 2:
        raise ShapeError(f"linear: w has the shape {w.shape}", fix="give a matrix (out, in)")
    if not is_float(x.dtype):
        x = convert(x, promote(x.dtype, FLOAT))
    return apply("block_dot", x, w.data, format=w.format, compute=compute)


# -- packing ---------------------------------------------------------------------------------------


def quantize_blocks(x: Any, format: str) -> BlockArray:
    """Quantize floats to blocks of few bits: `f[..., numbers]` gives a `BlockArray`.

    `format` is one of those of `dequantize_blocks`. q4_0, q4_1, q5_0, q5_1 and q8_0 have the bits
    that ggml's reference gives; those of 256 numbers find scales and minima by least squares. It
    runs on the host, in float32. Raises a `ShapeError` if the last axis does not part in blocks, a
    `DtypeError` if x holds no floats, or numbers that are not finite or too great for their scales
    of float16.

    >>> quantize_blocks(np.arange(64) / 2.0, "q4_1").dequantize()[[0, 16, 63]].tolist()
    [0.0, 8.265625, 31.498046875]
    """
    layout = FORMATS[choice("quantize_blocks: format", format, FORMATS)]
    numbers = to_numpy(x)
    if not is_float(numbers.dtype):
        raise DtypeError(
            f"quantize_blocks: x holds {numbers.dtype.name}", fix="convert it to a float dtype"
        )
    if not numbers.ndim or numbers.shape[-1] % layout.size:
        raise ShapeError(
            f"quantize_blocks: the shape {numbers.shape} does not part in blocks of {format}",
            fix=f"give a last axis of a multiple of {layout.size}",
        )
    numbers = numbers.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise DtypeError("quantize_blocks: x has numbers that are not finite", fix="remove them")
    with np.errstate(over="ignore", invalid="ignore"):  # scales that overflow are refused
        blocks = _packed(numbers.reshape(-1, layout.size), layout)
    shape = (*numbers.shape[:-1], numbers.shape[-1] // layout.size * layout.nbytes)
    return BlockArray(new_array(blocks.reshape(shape)), format)


def packed_blocks(
    x: np.ndarray, format: str, step: np.ndarray, least: np.ndarray | None = None
) -> np.ndarray:
    """The bytes of blocks of 32 with given steps: `f32[n, 32], f32[n] → u8[n, bytes]`.

    `format` is q4_0 or q8_0, or q4_1, whose blocks have a `least` number, too. Codes are the
    nearest for the steps that float16 can tell.
    """
    layout = FORMATS[format]
    blocks = np.zeros((len(x), layout.nbytes), np.uint8)
    step = _put_half(blocks, layout.scale, step)
    least = np.zeros_like(step) if least is None else least
    if layout.minimum is not None:
        least = _put_half(blocks, layout.minimum, least)
    codes = _codes(x[:, None], step[:, None], least[:, None], layout.codes)
    _put_codes(blocks, layout.codes, codes[:, 0])
    return blocks


def _packed(x: np.ndarray, layout: BlockFormat) -> np.ndarray:
    """The bytes of blocks: `f32[n, numbers]` gives `u8[n, bytes]`."""
    blocks = np.zeros((len(x), layout.nbytes), np.uint8)
    groups = 1 if layout.scales is None else layout.scales.bits[0].places.size
    x = x.reshape(len(x), groups, layout.size // groups)
    step, least = _scales(x, layout)
    if layout.scales is not None:
        step, least = _fitted(x, step, least, layout)
        step = _put_groups(blocks, step, layout.scales, layout.scale)
        if layout.minima is not None and layout.minimum is not None:
            least = -_put_groups(blocks, -least, layout.minima, layout.minimum)
    elif layout.is_power:
        blocks[:, layout.scale] = np.log2(step[:, 0]) + 128
    else:
        _put_half(blocks, layout.scale, step[:, 0])
        if layout.minimum is not None:
            _put_half(blocks, layout.minimum, least[:, 0])
    codes = _codes(x, step, least, layout.codes)
    _put_codes(blocks, layout.codes, codes.reshape(len(x), layout.size))
    return blocks


def _greatest(codes: Codes) -> int:
    return (1 << sum(bits.count for bits in codes.bits)) - 1


def _scales(x: np.ndarray, layout: BlockFormat) -> tuple[np.ndarray, np.ndarray]:
    """A step and a least number for each group, such that all its numbers have a code."""
    codes, none = layout.codes, np.zeros(x.shape[:-1], np.float32)
    if layout.minimum is not None:
        least = x.min(-1)
        least = least if layout.minima is None else np.minimum(least, 0)
        return (x.max(-1) - least) / _greatest(codes), least
    farthest = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0]
    if layout.is_power:  # the greatest number has the exponent of the greatest code
        power = np.frexp(farthest)[1] - np.frexp(np.float32(max(codes.values)))[1]
        return np.ldexp(np.float32(1), power.clip(-128, 127)), none
    if codes.is_signed:
        return np.abs(farthest) / 127, none
    return farthest / (min(codes.values) if codes.values else -codes.zero), none


def _codes(x: np.ndarray, step: np.ndarray, least: np.ndarray, codes: Codes) -> np.ndarray:
    """The codes of numbers, as unsigned integers."""
    with np.errstate(divide="ignore"):
        inverse = np.where(step == 0, 0, 1 / step)[..., None]
    units = (x - least[..., None]) * inverse
    if codes.values:
        order = np.argsort(codes.values, kind="stable")
        values = np.array(codes.values, np.float32)[order]
        return order[np.searchsorted((values[1:] + values[:-1]) / 2, units)]
    if codes.is_signed:
        whole = np.copysign(np.floor(np.abs(units) + np.float32(0.5)), units)
        return whole.clip(-128, 127).astype(np.int32) & 0xFF
    whole = np.floor(units + np.float32(codes.zero + 0.5))
    return whole.clip(0, _greatest(codes)).astype(np.int32)


def _fitted(
    x: np.ndarray, step: np.ndarray, least: np.ndarray, layout: BlockFormat
) -> tuple[np.ndarray, np.ndarray]:
    """Steps and least numbers nearer to the numbers of each group, by least squares."""
    with_least = layout.minimum is not None
    for _ in range(4):
        units = _codes(x, step, least, layout.codes) - np.float32(layout.codes.zero)
        mean = units.mean(-1, keepdims=True) * with_least
        level = x.mean(-1, keepdims=True) * with_least
        spread = ((units - mean) ** 2).sum(-1)
        slope = ((units - mean) * (x - level)).sum(-1) / np.where(spread > 0, spread, 1)
        slope = np.where((spread > 0) & (slope != 0), slope, step)
        low = np.minimum((level - slope[..., None] * mean)[..., 0], 0)
        better = _error(x, slope, low, layout) < _error(x, step, least, layout)
        step, least = np.where(better, slope, step), np.where(better, low, least)
    return step, least


def _error(x: np.ndarray, step: np.ndarray, least: np.ndarray, layout: BlockFormat) -> np.ndarray:
    units = _codes(x, step, least, layout.codes) - np.float32(layout.codes.zero)
    return ((units * step[..., None] + least[..., None] - x) ** 2).sum(-1)


def _put_half(blocks: np.ndarray, place: int, numbers: np.ndarray) -> np.ndarray:
    """Write a float16 into each block; the float32 that it is."""
    if not (np.abs(numbers) < MOST_HALF).all():
        raise DtypeError(
            "quantize_blocks: x has numbers that are too great for the float16 scales of blocks",
            fix="divide it by a number, and multiply by that later",
        )
    halves = numbers.astype("<f2")
    blocks[:, place : place + 2] = halves[:, None].view(np.uint8)
    return halves.astype(np.float32)


def _put_groups(blocks: np.ndarray, steps: np.ndarray, codes: Codes, place: int) -> np.ndarray:
    """Write the scales or minima of groups, and their common unit; what they are then."""
    top = 127 if codes.is_signed else _greatest(codes) - codes.zero
    unit = _put_half(blocks, place, np.abs(steps).max(-1) / top)[:, None]
    found = _codes(steps[..., None], np.broadcast_to(unit, steps.shape), 0 * steps, codes)[..., 0]
    _put_codes(blocks, codes, found)
    return unit * numbers_of(codes, blocks)


def _put_codes(blocks: np.ndarray, codes: Codes, found: np.ndarray) -> None:
    for bits in codes.bits:
        few = (found >> bits.above & ((1 << bits.count) - 1)) << bits.shifts
        for i, place in enumerate(bits.places):
            blocks[:, place] |= few[:, i].astype(np.uint8)
