"""Numbers in blocks of few bits, as model files hold them: dequantize_blocks.

A block has a scale, codes of 2 to 8 bits, and in some formats a minimum; blocks of 256 have scales
and minima of their groups, in few bits too. A number is scale * code + minimum. The formats are
those of ggml, https://github.com/ggml-org/ggml (`ggml-common.h` has the layouts, `ggml-quants.c`
the arithmetic). `FORMATS` says for each where the bits of a block lie: the reference, the
expansion and what packs numbers read it there.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from ..errors import AttributeValueError, DtypeError, ShapeError
from ..graph import OPS, Constant, Value
from ..op import ALIGNED, define
from ..record import record
from ..types import Type, as_dtype
from .arithmetic import add, mul, sub
from .compare import (
    bit_and,
    bit_or,
    bit_xor,
    lt,
    select,
    shift_left,
    shift_right_logical,
)
from .constant import constant, like
from .convert import bitcast, convert
from .index import gather
from .movement import broadcast, reshape
from .pad_slice import part_along

ROUNDED = {"int16": 32, "int8": 16}  # numbers that `block_dot` may round together
GREATEST = {"int16": 127 << 8, "int8": 127}  # what it rounds the greatest of them to
COMPUTES = ("exact", *GREATEST)
INT, FLOAT = as_dtype("int32"), as_dtype("float32")


@record
class Bits:
    """Some bits of each code: `count` from bit `shifts` of byte `places` of a block."""

    places: np.ndarray
    shifts: np.ndarray
    count: int
    above: int = 0  # where they stand in the code


@record
class Codes:
    """Whole numbers in a block, each put together from one or two runs of bits."""

    bits: tuple[Bits, ...]
    zero: int = 0  # the code that stands for 0
    is_signed: bool = False  # eight bits in two's complement
    values: tuple[int, ...] = ()  # what the codes stand for, where that is not their own number


@record
class BlockFormat:
    """How a block of numbers lies in bytes."""

    size: int  # numbers in a block
    nbytes: int
    codes: Codes
    scale: int  # byte of the scale
    minimum: int | None = None  # byte of the minimum
    scales: Codes | None = None  # of groups, in units of the scale
    minima: Codes | None = None  # of groups, in units of the minimum, which is subtracted
    is_power: bool = False  # the scale is a power of two in one byte, else a float16


def _bits(count: int, places: Any, shifts: Any = 0, above: int = 0) -> Bits:
    places, shifts = np.broadcast_arrays(places, shifts)
    return Bits(places.astype(np.int32), shifts.astype(np.int32), count, above)


_I, _J = np.arange(32), np.arange(256)  # numbers of a block
_E, _S = np.arange(8), np.arange(16)  # groups of a block
_FLOATS = (0, 1, 2, 3, 4, 6, 8, 12)  # twice the 4-bit floats e2m1
_NORMAL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _halves(start: int) -> Bits:
    """16 bytes: the first 16 codes in the low halves, the others in the high ones."""
    return _bits(4, start + _I % 16, 4 * (_I // 16))


def _fifths(start: int) -> Bits:
    """4 bytes with the top bit of each code of 5."""
    return _bits(1, start + _I // 8, _I % 8, above=4)


def _quarters(start: int) -> Bits:
    """64 bytes: of each 32, the first 32 codes in the lowest two bits, and so on."""
    return _bits(2, start + 32 * (_J // 128) + _J % 32, 2 * (_J % 128 // 32))


def _nibbles(start: int) -> Bits:
    """128 bytes: of each 32, the first 32 codes in the low halves, 32 others in the high ones."""
    return _bits(4, start + 32 * (_J // 64) + _J % 32, 4 * (_J % 64 // 32))


def _sixths(is_minimum: bool) -> Codes:
    """Eight codes of 6 bits for scales, and eight for minima, together in bytes 4 to 15."""
    low = 4 + np.where(_E < 4, _E + 4 * is_minimum, _E + 4)
    high = 4 + np.where(_E < 4, _E + 4 * is_minimum, _E - 4 + 4 * is_minimum)
    return Codes(
        (
            _bits(4, low, np.where(_E < 4, 0, 4 * is_minimum)),
            _bits(2, high, np.where(_E < 4, 4, 6), above=4),
        )
    )


FORMATS = {
    "q4_0": BlockFormat(32, 18, Codes((_halves(2),), zero=8), 0),
    "q4_1": BlockFormat(32, 20, Codes((_halves(4),)), 0, minimum=2),
    "q5_0": BlockFormat(32, 22, Codes((_halves(6), _fifths(2)), zero=16), 0),
    "q5_1": BlockFormat(32, 24, Codes((_halves(8), _fifths(4))), 0, minimum=2),
    "q8_0": BlockFormat(32, 34, Codes((_bits(8, 2 + _I),), is_signed=True), 0),
    "iq4_nl": BlockFormat(32, 18, Codes((_halves(2),), values=_NORMAL), 0),
    "mxfp4": BlockFormat(
        32, 17, Codes((_halves(1),), values=(*_FLOATS, *(-n for n in _FLOATS))), 0, is_power=True
    ),
    "q2_k": BlockFormat(
        256,
        84,
        Codes((_quarters(16),)),
        80,
        minimum=82,
        scales=Codes((_bits(4, _S),)),
        minima=Codes((_bits(4, _S, 4),)),
    ),
    "q3_k": BlockFormat(
        256,
        110,
        Codes((_quarters(32), _bits(1, _J % 32, _J // 32, above=2)), zero=4),
        108,
        scales=Codes(
            (
                _bits(4, 96 + _S % 8, 4 * (_S // 8)),
                _bits(2, 104 + _S % 4, 2 * (_S // 4), above=4),
            ),
            zero=32,
        ),
    ),
    "q4_k": BlockFormat(
        256, 144, Codes((_nibbles(16),)), 0, minimum=2, scales=_sixths(False), minima=_sixths(True)
    ),
    "q5_k": BlockFormat(
        256,
        176,
        Codes((_nibbles(48), _bits(1, 16 + _J % 32, _J // 32, above=4))),
        0,
        minimum=2,
        scales=_sixths(False),
        minima=_sixths(True),
    ),
    "q6_k": BlockFormat(
        256,
        210,
        Codes(
            (
                _bits(4, 64 * (_J // 128) + _J % 64, 4 * (_J % 128 // 64)),
                _bits(2, 128 + 32 * (_J // 128) + _J % 32, 2 * (_J % 128 // 32), above=4),
            ),
            zero=32,
        ),
        208,
        scales=Codes((_bits(8, 192 + _S),), is_signed=True),
    ),
}


def block_format(name: str) -> BlockFormat:
    """The format of this name; raise an `AttributeValueError` if there is none."""
    if name not in [*FORMATS]:
        raise AttributeValueError(
            f"there is no block format {name!r}", fix=f"use one of {', '.join(FORMATS)}"
        )
    return FORMATS[name]


@define
def dequantize_blocks(x: Type, *, format: str) -> Type:
    """The float32 numbers that the blocks along the last axis, bytes, stand for."""
    layout = block_format(format)
    if x.dtype.name != "uint8":
        raise DtypeError(f"the blocks are {x}", fix="give their bytes, a uint8 array")
    if not x.rank:
        raise ShapeError("the blocks are one byte", fix="give an axis of bytes, the last one")
    count, rest = divmod(operator.index(x.shape[-1]), layout.nbytes)
    if rest:
        raise ShapeError(
            f"the last axis of {x} holds no whole blocks of {format}",
            fix=f"give a multiple of {layout.nbytes} bytes along it",
        )
    return Type(FLOAT, (*x.shape[:-1], count * layout.size))


def numbers_of(codes: Codes, blocks: np.ndarray) -> np.ndarray:
    """The numbers that the codes in blocks stand for.

    `u8[..., nbytes] → f32[..., codes]`.
    """
    parts = [
        ((blocks[..., b.places].astype(INT) >> b.shifts) & ((1 << b.count) - 1)) << b.above
        for b in codes.bits
    ]
    found = sum(parts[1:], parts[0])
    if codes.values:
        return np.array(codes.values, FLOAT)[found]
    return ((found ^ 128) - 128 if codes.is_signed else found - codes.zero).astype(FLOAT)


@dequantize_blocks.reference
def dequantize_blocks_reference(x: np.ndarray, *, format: str) -> np.ndarray:
    layout = FORMATS[format]
    count = x.shape[-1] // layout.nbytes
    blocks = x.reshape(*x.shape[:-1], count, layout.nbytes)

    def half(start: int) -> np.ndarray:
        return blocks[..., start : start + 2].copy().view("<f2").astype(FLOAT)

    def spread(groups: np.ndarray) -> np.ndarray:
        return np.repeat(groups, layout.size // groups.shape[-1], -1)

    if layout.is_power:
        power = blocks[..., layout.scale : layout.scale + 1].astype(INT) - 128
        scale = np.ldexp(np.float32(1), power)
    else:
        scale = half(layout.scale)
    if layout.scales is not None:
        scale = spread(scale * numbers_of(layout.scales, blocks))
    found = scale * numbers_of(layout.codes, blocks)
    if layout.minimum is not None and layout.minima is not None:
        found -= spread(half(layout.minimum) * numbers_of(layout.minima, blocks))
    elif layout.minimum is not None:
        found += half(layout.minimum)
    return found.reshape(*x.shape[:-1], count * layout.size)


@dequantize_blocks.expand
def dequantize_blocks_expand(x: Value, *, format: str) -> Value:
    layout = FORMATS[format]
    count = x.shape[-1] // layout.nbytes
    blocks = reshape(x, shape=(*x.shape[:-1], count, layout.nbytes))
    groups = layout.scales.bits[0].places.size if layout.scales is not None else 1
    shape = (*blocks.shape[:-1], groups, layout.size // groups)

    def spread(v: Value) -> Value:
        return broadcast(v, shape=shape, axes=tuple(range(v.rank)))

    scale = _power(blocks, layout.scale) if layout.is_power else _half(blocks, layout.scale)
    if layout.scales is not None:
        scale = _times(scale, _numbers(layout.scales, blocks))
    found = mul(spread(scale), reshape(_numbers(layout.codes, blocks), shape=shape))
    if layout.minimum is not None:
        minimum = _half(blocks, layout.minimum)
        if layout.minima is None:
            found = add(found, spread(minimum))
        else:
            found = sub(found, spread(_times(minimum, _numbers(layout.minima, blocks))))
    return reshape(found, shape=(*x.shape[:-1], count * layout.size))


def _numbers(codes: Codes, blocks: Value) -> Value:
    """What `numbers_of` gives."""
    parts = [_run(bits, convert(blocks, dtype=INT)) for bits in codes.bits]
    found = functools.reduce(bit_or, parts)
    if codes.values:
        table = constant(value=Constant(np.array(codes.values, FLOAT)))
        return _taken(table, found)
    if codes.is_signed:
        found = sub(bit_xor(found, like(found, 128)), like(found, 128))
    return convert(found if not codes.zero else sub(found, like(found, codes.zero)), dtype=FLOAT)


def _run(bits: Bits, blocks: Value) -> Value:
    """Some bits of each code, at their place."""
    places = constant(value=Constant(bits.places))
    bytes_ = _taken(blocks, places)
    shifts = constant(value=Constant(bits.shifts))
    shifts = broadcast(shifts, shape=bytes_.shape, axes=(bytes_.rank - 1,))
    few = bit_and(shift_right_logical(bytes_, shifts), like(bytes_, (1 << bits.count) - 1))
    return shift_left(few, like(few, bits.above))


def _taken(x: Value, places: Value) -> Value:
    """The elements of each line of x at these places."""
    others = x.rank - 1
    return gather(
        x,
        reshape(places, shape=(*places.shape, 1)),
        offset_axes=tuple(range(others)),
        collapsed_axes=(others,),
        start_axes=(others,),
        sizes=(*x.shape[:-1], 1),
        mode="promise",
    )


def _times(scale: Value, numbers: Value) -> Value:
    """The scales or minima of groups, which are in units of that of the block."""
    return mul(broadcast(scale, shape=numbers.shape, axes=tuple(range(scale.rank))), numbers)


def _byte(blocks: Value, place: int) -> Value:
    return reshape(part_along(blocks, blocks.rank - 1, place, place + 1), shape=blocks.shape[:-1])


def _half(blocks: Value, place: int) -> Value:
    """The float16 in two bytes of each block."""
    bits = as_dtype("uint16")
    low, high = (convert(_byte(blocks, place + i), dtype=bits) for i in (0, 1))
    whole = bit_or(low, shift_left(high, like(high, 8)))
    return convert(bitcast(whole, dtype=as_dtype("float16")), dtype=FLOAT)


def _power(blocks: Value, place: int) -> Value:
    """The power of two whose exponent, from -128 on, a byte of each block holds."""
    exponent = convert(_byte(blocks, place), dtype=INT)
    normal = shift_left(sub(exponent, like(exponent, 1)), like(exponent, 23))
    small = shift_left(like(exponent, 1 << 21), exponent)  # of 0 and 1: below the normal floats
    bits = select(lt(exponent, like(exponent, 2)), small, normal)
    return bitcast(bits, dtype=FLOAT)


dequantize_blocks.nondifferentiable("bytes of blocks are no numbers; what they multiply has one")
dequantize_blocks.batch(ALIGNED)
dequantize_blocks.multiplied(
    lambda x, w, format: (
        OPS["block_dot"](x, w, format=format) if w.rank == 2 and x.dtype == FLOAT else None
    )
)
dequantize_blocks.scheme(lambda x, format: [f"blocks of {format}"])


def some_blocks(layout: BlockFormat) -> np.ndarray:
    """Two lines of two blocks with all kinds of bytes; their float16s are finite."""
    blocks = (np.arange(4 * layout.nbytes) * 37 % 256).astype("uint8").reshape(4, -1)
    halves = [] if layout.is_power else [layout.scale]
    for place in (*halves, *([] if layout.minimum is None else [layout.minimum])):
        blocks[:, place : place + 2] = np.array([0.5, -1.0, 0.25, 3.0], "<f2")[:, None].view("u1")
    if layout.is_power:
        blocks[:, layout.scale] = (1, 127, 128, 130)
    return blocks.reshape(2, -1)


for _name, _layout in FORMATS.items():
    dequantize_blocks.samples(some_blocks(_layout), format=_name)
dequantize_blocks.samples(
    np.array([0, 0x38, 0, 0xBC, *(j | (15 - j) << 4 for j in range(16))], np.uint8),
    format="q4_1",  # 0.5 times a code, and -1
    expect=[*(0.5 * j - 1 for j in range(16)), *(0.5 * (15 - j) - 1 for j in range(16))],
)
