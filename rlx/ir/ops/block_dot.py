"""Products with numbers in blocks of few bits, which stay packed: block_dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import likely
from ..errors import AttributeValueError, ShapeError
from ..graph import Value
from ..op import define
from ..types import Type, promote
from .arithmetic import abs, div, mul, round
from .blocks import (
    COMPUTES,
    FLOAT,
    FORMATS,
    GREATEST,
    ROUNDED,
    dequantize_blocks,
    dequantize_blocks_reference,
    some_blocks,
)
from .compare import clamp, eq, select
from .constant import like
from .contract import dot_general
from .convert import narrowed
from .families import check_kind
from .movement import reshape, transpose
from .reduce import reduce_max, spread_back


@define
def block_dot(x: Type, w: Type, *, format: str, compute: str = "exact") -> Type:
    """The product of lines with the numbers that lines of blocks stand for.

    `f[..., k], u8[n, bytes] → f[..., n]`, summed in float32 or longer floats. `compute` tells what
    x is taken for: "exact" as it is; rounded with "int8", each 16 numbers to multiples of their
    greatest size / 127, or with "int16", each 32 to those of theirs / 32512, halves to even; those
    of which one is not finite are NaN then. (ggml rounds 32 numbers together, to 8 bits, which errs
    half as much again.) The derivative in x is that of the exact product.
    """
    check_kind(x, ["float"])
    if compute not in COMPUTES:
        raise AttributeValueError(
            f"`compute` is {compute!r}", fix=f"use one of {', '.join(COMPUTES)}"
        )
    if w.rank != 2:
        raise ShapeError(f"the blocks are {w}", fix="give lines of bytes, an array of rank 2")
    lines = dequantize_blocks.infer([w], {"format": format})[0]
    if not x.rank or x.shape[-1] != lines.shape[-1]:
        raise ShapeError(
            f"x is {x}, the blocks stand for {lines}",
            fix=f"give x a last axis of {lines.shape[-1]}",
        )
    return x.with_shape((*x.shape[:-1], lines.shape[0]))


def _in_long(x: Any) -> np.dtype:
    return promote(x.dtype, FLOAT)


@block_dot.reference
def block_dot_reference(x: np.ndarray, w: np.ndarray, *, format: str, compute: str) -> np.ndarray:
    lines = x.astype(_in_long(x))
    if compute in GREATEST:
        most, together = lines.dtype.type(GREATEST[compute]), ROUNDED[compute]
        blocks = lines.reshape(*x.shape[:-1], x.shape[-1] // together, together)
        step = np.max(np.abs(blocks), -1, keepdims=True, initial=0) / most
        units = np.where(step == 0, 0, blocks / step)
        lines = (np.rint(units).clip(-most, most) * step).reshape(x.shape)
    return lines @ dequantize_blocks_reference(w, format=format).astype(lines.dtype).T


@block_dot.expand
def block_dot_expand(x: Value, w: Value, *, format: str, compute: str) -> Value:
    lines = narrowed(x, _in_long(x))
    numbers = narrowed(dequantize_blocks(w, format=format), lines.dtype)
    lines = _rounded(lines, compute)
    sums = dot_general(lines, numbers, contract=((x.rank - 1,), (numbers.rank - 1,)))
    return narrowed(sums, x.dtype)


def _rounded(x: Value, compute: str) -> Value:
    """x rounded to few multiples, as the reference does, if it is to be."""
    if compute not in GREATEST:
        return x
    most, together = GREATEST[compute], ROUNDED[compute]
    blocks = reshape(x, shape=(*x.shape[:-1], x.shape[-1] // together, together))
    axes = (blocks.rank - 1,)
    step = div(reduce_max(abs(blocks), axes=axes), float(most))
    step = spread_back(step, blocks, axes)
    zero = like(step, 0)
    units = select(eq(step, zero), zero, div(blocks, step))
    whole = clamp(like(units, -most), round(units), like(units, most))
    return reshape(mul(whole, step), shape=x.shape)


block_dot.jvp([lambda t, out, x, w, format, compute: block_dot(t, w, format=format), None])


@block_dot.transpose
def block_dot_transpose(
    ct: Value, x: Any, w: Value, *, format: str, compute: str
) -> list[Value | None]:
    long = narrowed(ct, _in_long(ct))
    numbers = narrowed(dequantize_blocks(w, format=format), long.dtype)
    return [narrowed(dot_general(long, numbers, contract=((ct.rank - 1,), (0,))), ct.dtype), None]


@block_dot.batch
def block_dot_batch(
    args: Sequence[Value], batched: Sequence[bool], *, format: str, compute: str
) -> Value:
    x, w = args
    if not batched[1]:
        return block_dot(x, w, format=format, compute=compute)
    lines = narrowed(x, _in_long(x))
    numbers = narrowed(dequantize_blocks(w, format=format), lines.dtype)
    lines = _rounded(lines, compute)
    contract = ((x.rank - 1,), (2,))
    if batched[0]:
        return narrowed(dot_general(lines, numbers, contract=contract, batch=((0,), (0,))), x.dtype)
    sums = dot_general(lines, numbers, contract=contract)  # [..., batch, n]
    order = (sums.rank - 2, *range(sums.rank - 2), sums.rank - 1)
    return narrowed(transpose(sums, axes=order), x.dtype)


@block_dot.fold
def block_dot_fold(x: Value, w: Value, *, format: str, compute: str) -> Value | None:
    """Other floats are multiplied as float32, or longer ones after all."""
    if x.dtype == FLOAT:
        return None
    if _in_long(x) == FLOAT:
        return narrowed(block_dot(narrowed(x, FLOAT), w, format=format, compute=compute), x.dtype)
    return block_dot_expand(x, w, format=format, compute=compute)


block_dot.work("exact")  # what is rounded is the user's choice already
block_dot.library_work("direct", lambda x, w, **attrs: 2.0 * likely(x.size) * likely(w.shape[0]))


@block_dot.scheme
def block_dot_scheme(x: Type, w: Type, *, format: str, compute: str) -> Sequence[str | None]:
    rounded = f"{compute} for each {ROUNDED[compute]}" if compute in GREATEST else None
    return [rounded, f"blocks of {format}"]


block_dot.samples((3, 64), some_blocks(FORMATS["q4_1"]), format="q4_1")
block_dot.samples((512,), some_blocks(FORMATS["q6_k"]), format="q6_k", low=-1e-3, high=1e-3)
block_dot.samples(
    Type(FLOAT, (2, 1, 64)),
    some_blocks(FORMATS["q8_0"]),
    format="q8_0",
    compute="int8",
    low=-1e-3,
    high=1e-3,
)
block_dot.samples(
    np.array([[127.0, 0.5, 1.5, -2.25, *[0.0] * 28]], np.float32),  # 1 * w[0] is the greatest
    np.array([[0, 0x38, *range(1, 33)]], np.uint8),  # 0.5 times 1 to 32
    format="q8_0",
    compute="int8",
    expect=[[0.5 * (127 * 1 + 0 * 2 + 2 * 3 - 2 * 4)]],
)
