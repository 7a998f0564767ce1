"""Sums of products of bfloat16 in the order of the processor, which adds pairs.

`vdpbf16ps` (AVX512-BF16) adds to each sum the second product of a pair, then the first, each as a
fused multiply-add in float32 that takes subnormal numbers, those below 1.2e-38, for zeros, in its
operands and in its result (measured on Zen 4, and the pseudocode of Intel's manual). Where pairs
begin at even places of the depth, and a pair that the depth ends in has one product only, that is
one order for all tiles: with two numbers in each word of an operand, or here with one, whose
neighbor adds nothing. A product of nothing is minus zero, for a sum plus it is the sum.
"""

from __future__ import annotations

from ..llvm.host import Host
from ..llvm.text import Function, Vector

IN_PAIRS = "add in pairs"  # a sum of products of bfloat16 in this order
LEAST, MOST = 4, 16  # lanes of the instruction
MINUS_ZERO = 0x8000  # of bfloat16


def adds_pairs(host: Host) -> bool:
    """Whether kernels add products of bfloat16 in this order.

    Tile registers have another one, which depends on their own size.
    """
    return "bfloat16" in host.grouped and not host.has_tiles


def beside_nothing(f: Function, vector: Vector, x: str) -> str:
    """Numbers of bfloat16 in registers of float32, each with minus zero beside it."""
    bits = Vector("int32", vector.lanes)
    whole = f.emit(f"bitcast {vector.text} {x} to {bits.text}")
    made = f.emit(f"or {bits.text} {whole}, {f.constant(bits, MINUS_ZERO)}")
    return f.emit(f"bitcast {bits.text} {made} to {vector.text}")


def pair_of(f: Function, vector: Vector, first: str, second: str) -> str:
    """Words of two numbers of bfloat16, which are in registers of float32."""
    bits = Vector("int32", vector.lanes)
    low, high = (f.emit(f"bitcast {vector.text} {x} to {bits.text}") for x in (first, second))
    low = f.emit(f"lshr {bits.text} {low}, {f.constant(bits, 16)}")
    made = f.emit(f"or {bits.text} {low}, {high}")
    return f.emit(f"bitcast {bits.text} {made} to {vector.text}")


def add_pairs(f: Function, vector: Vector, x: str, y: str, total: str) -> str:
    """Add the products of pairs, which are the words of registers of float32."""
    if vector.lanes < LEAST:
        wide = Vector(vector.dtype, LEAST)
        x, y, total = (_widened(f, vector, z) for z in (x, y, total))
        return _narrowed(f, vector, add_pairs(f, wide, x, y, total))
    if vector.lanes > MOST:
        half = Vector(vector.dtype, vector.lanes // 2)
        low, high = (
            add_pairs(f, half, *(f.shuffle(vector, z, "poison", places) for z in (x, y, total)))
            for places in (range(half.lanes), range(half.lanes, vector.lanes))
        )
        return f.shuffle(half, low, high, range(vector.lanes))
    pairs = Vector("bfloat16", 2 * vector.lanes).text
    x, y = (f.emit(f"bitcast {vector.text} {z} to {pairs}") for z in (x, y))
    name = f"@llvm.x86.avx512bf16.dpbf16ps.{32 * vector.lanes}"
    return f.call(vector.text, name, (vector.text, total), (pairs, x), (pairs, y))


def add_alone(f: Function, vector: Vector, x: str, y: str, total: str) -> str:
    """Add products of numbers of bfloat16, in registers of float32."""
    return add_pairs(f, vector, x, beside_nothing(f, vector, y), total)


def _widened(f: Function, vector: Vector, x: str) -> str:
    if vector.lanes > 1:
        return f.shuffle(vector, x, "poison", [i % vector.lanes for i in range(LEAST)])
    return f.splat(f.emit(f"freeze {vector.text} {x}"), Vector(vector.dtype, LEAST))


def _narrowed(f: Function, vector: Vector, x: str) -> str:
    wide = Vector(vector.dtype, LEAST)
    return f.shuffle(wide, x, "poison", range(vector.lanes))
