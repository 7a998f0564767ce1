"""Packing: lines of blocks, as files have them, to tiles of 16 lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.ops.blocks import Bits, Codes
from ....ir.types import as_dtype
from ..llvm.text import KERNEL, Function, Module, Vector
from .layout import BLOCK, LINES, Packed

BYTE, INT, SINGLE = Vector("uint8"), Vector("int32"), Vector("float32")
PARAMETERS = "ptr %source, ptr %target, i64 %count, i64 %depth, i64 %first, i64 %last"


def pack_function(module: Module, packed: Packed) -> str:
    """The function that packs tiles `first` to `last` of `count` lines."""
    name = f"pack_{packed.name}"
    if name in module.functions:
        return name
    source = packed.source
    blocks = source.size // BLOCK
    f = module.internal(name, PARAMETERS, attributes=KERNEL)
    whole = f.emit(f"udiv i64 %depth, {blocks}")  # blocks of the file
    line_bytes = f.emit(f"mul i64 {whole}, {source.nbytes}")
    most = f.emit("sub i64 %count, 1")
    with f.loop("%first", "%last") as tiles:
        start = f.emit(f"sub i64 {tiles.index}, %first")
        tile_bytes = f.emit(f"mul i64 %depth, {packed.nbytes}")
        tile = f.offset("%target", "i8", f.emit(f"mul i64 {start}, {tile_bytes}"))
        with f.loop("0", str(LINES)) as lines:
            number = f.emit(f"add i64 {f.emit(f'mul i64 {tiles.index}, {LINES}')}, {lines.index}")
            number = f.intrinsic("umin", Vector("int64"), number, most)
            line = f.offset("%source", "i8", f.emit(f"mul i64 {number}, {line_bytes}"))
            with f.loop("0", whole) as places:
                begin = f.offset(line, "i8", f.emit(f"mul i64 {places.index}, {source.nbytes}"))
                step = f.emit(f"mul i64 {places.index}, {blocks * packed.nbytes}")
                end = f.offset(tile, "i8", step)
                for block in range(blocks):
                    target = f.offset(end, "i8", str(block * packed.nbytes))
                    _pack_codes(f, packed, begin, target, lines.index, block)
                _pack_scales(f, packed, begin, end, lines.index)
    f.do("ret void")
    return name


# -- codes -----------------------------------------------------------------------------------------


def _pack_codes(
    f: Function, packed: Packed, source: str, target: str, line: str, block: int
) -> None:
    """Pack the codes of 32 numbers of one line."""
    codes, vector = packed.source.codes, Vector("uint8", BLOCK)
    parts = [
        _run(f, bits, source, slice(BLOCK * block, BLOCK * (block + 1))) for bits in codes.bits
    ]
    found = _joined(f, vector, parts)
    if packed.bits == 4:
        half = Vector("uint8", BLOCK // 2)
        low, high = (
            f.shuffle(vector, found, found, range(i, i + half.lanes)) for i in (0, half.lanes)
        )
        high = f.emit(f"shl {half.text} {high}, {f.constant(half, 4)}")
        found, vector = f.emit(f"or {half.text} {low}, {high}"), half
    elif codes.values:
        found = _valued(f, vector, found, codes.values)
    elif codes.zero:
        found = f.emit(f"sub {vector.text} {found}, {f.constant(vector, codes.zero)}")
    words = Vector("int32", packed.words)
    words_found = f.emit(f"bitcast {vector.text} {found} to {words.text}")
    for z in range(packed.words):
        word = f.emit(f"extractelement {words.text} {words_found}, i32 {z}")
        place = f.offset(f.offset(target, "i8", str(4 * LINES * z)), "i32", line)
        f.do(f"store i32 {word}, ptr {place}, align 4")


def _run(f: Function, bits: Bits, source: str, which: slice) -> str:
    """Some bits of 32 codes, at their place."""
    places, shifts = bits.places[which], bits.shifts[which]
    first, count = int(places.min()), int(places.max() - places.min()) + 1
    vector, start = Vector("uint8", len(places)), f.offset(source, "i8", str(int(places.min())))
    given = Vector("uint8", count)
    bytes_ = f.emit(f"load {given.text}, ptr {start}, align 1")
    if not np.array_equal(places, first + np.arange(count)):
        if count == 1:
            bytes_ = f.splat(bytes_, vector)
        else:
            bytes_ = f.shuffle(given, bytes_, "poison", [int(place) for place in places - first])
    if shifts.any():
        by = ", ".join(f"i8 {shift}" for shift in shifts)
        bytes_ = f.emit(f"lshr {vector.text} {bytes_}, <{by}>")
    if bits.count < 8:
        mask = f.constant(vector, (1 << bits.count) - 1)
        bytes_ = f.emit(f"and {vector.text} {bytes_}, {mask}")
    return _raised(f, vector, bytes_, bits.above)


def _raised(f: Function, vector: Vector, x: str, by: int) -> str:
    return f.emit(f"shl {vector.text} {x}, {f.constant(vector, by)}") if by else x


def _joined(f: Function, vector: Vector, parts: Sequence[str]) -> str:
    found = parts[0]
    for part in parts[1:]:
        found = f.emit(f"or {vector.text} {found}, {part}")
    return found


def _valued(f: Function, vector: Vector, codes: str, values: Sequence[int]) -> str:
    """What codes stand for, as bytes."""
    found = f.constant(vector, values[0])
    for code, value in enumerate(values[1:], 1):
        is_it = f.emit(f"icmp eq {vector.text} {codes}, {f.constant(vector, code)}")
        found = f.select(vector, is_it, f.constant(vector, value), found)
    return found


# -- scales ----------------------------------------------------------------------------------------


def _pack_scales(f: Function, packed: Packed, source: str, target: str, line: str) -> None:
    """Pack the scales and minima of one line in a block of the file."""
    layout = packed.source
    kind, size = Vector(packed.scale), as_dtype(packed.scale).itemsize
    rows = [(layout.scale, layout.scales, packed.scale_place)]
    if layout.minimum is not None:
        rows.append((layout.minimum, layout.minima, packed.minimum_place))
    for is_minimum, (unit_place, codes, place_of) in enumerate(rows):
        unit = _unit(f, packed, source, unit_place)
        for group in range(layout.size // packed.group):
            found = unit
            if codes is not None:
                found = f.emit(f"fmul float {unit}, {_number(f, codes, source, group)}")
                found = f.emit(f"fneg float {found}") if is_minimum else found
            block, rest = divmod(group, packed.groups)
            start = f.offset(target, "i8", str(block * packed.nbytes + place_of(rest)))
            f.store(kind, found, f.offset(start, kind.element, line), size)


def _unit(f: Function, packed: Packed, source: str, place: int) -> str:
    """The scale or minimum of a block."""
    if packed.source.is_power:
        return _power(f, source, place)
    start = f.offset(source, "i8", str(place))
    if packed.scale == "float16":
        return f.emit(f"load half, ptr {start}, align 1")
    return _widened(f, f.emit(f"load i16, ptr {start}, align 1"))


def _widened(f: Function, bits: str) -> str:
    """The float32 of a float16's bits, by instructions that all processors have."""
    bits = f.emit(f"zext i16 {bits} to i32")
    size = f.emit(f"shl i32 {f.emit(f'and i32 {bits}, 32767')}, 13")
    number = f.emit(f"bitcast i32 {size} to float")
    scaled = f.emit(f"fmul float {number}, {f.constant(SINGLE, 2.0**112)}")  # of subnormals, too
    is_finite = f.emit(f"icmp ult i32 {size}, {0x7C00 << 13}")
    odd = f.emit(f"bitcast i32 {f.emit(f'or i32 {size}, {0x7F800000}')} to float")
    found = f.select(SINGLE, is_finite, scaled, odd)
    is_negative = f.emit(f"icmp ugt i32 {bits}, 32767")
    return f.select(SINGLE, is_negative, f.emit(f"fneg float {found}"), found)


def _byte(f: Function, source: str, place: int) -> str:
    byte = f.emit(f"load i8, ptr {f.offset(source, 'i8', str(place))}, align 1")
    return f.emit(f"zext i8 {byte} to i32")


def _power(f: Function, source: str, place: int) -> str:
    """The power of two whose exponent, from -128 on, a byte holds."""
    exponent = _byte(f, source, place)
    normal = f.emit(f"shl i32 {f.emit(f'sub i32 {exponent}, 1')}, 23")
    small = f.emit(f"shl i32 {1 << 21}, {exponent}")  # of 0 and 1: below the normal floats
    is_small = f.emit(f"icmp ult i32 {exponent}, 2")
    return f.emit(f"bitcast i32 {f.select(INT, is_small, small, normal)} to float")


def _number(f: Function, codes: Codes, source: str, group: int) -> str:
    """The number that the code of a group stands for."""
    parts = []
    for bits in codes.bits:
        byte = _byte(f, source, int(bits.places[group]))
        byte = f.emit(f"lshr i32 {byte}, {int(bits.shifts[group])}")
        byte = f.emit(f"and i32 {byte}, {(1 << bits.count) - 1}")
        parts.append(_raised(f, INT, byte, bits.above))
    found = _joined(f, INT, parts)
    if codes.is_signed:
        found = f.emit(f"sub i32 {f.emit(f'xor i32 {found}, 128')}, 128")
    elif codes.zero:
        found = f.emit(f"sub i32 {found}, {codes.zero}")
    return f.emit(f"sitofp i32 {found} to float")
