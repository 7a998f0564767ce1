"""Weights in few bits: arrays of codes with scales, or blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.graph import Node
from ..ir.record import record
from ..nn.blocks import BlockArray, packed_blocks
from ..nn.module import Module
from ..trace.array import Array, new_array
from .ranges import Codes, check_halves, row_ranges
from .scheme import Scheme

BLOCK = 32


@record
class Layout:
    """How a weight lies in a product: what is summed over, and where the rest goes."""

    shape: tuple[int, ...]
    kept: tuple[int, ...]  # the axes that are not summed, in the order of the result
    summed: tuple[int, ...]
    places: tuple[int, ...]  # the axes of the result where the kept ones are

    @classmethod
    def of(cls, node: Node, operand: int) -> Layout:
        """That of an operand of a product."""
        kept = node.op.rules.product([a.type for a in node.args], operand, **node.attrs)  # type: ignore[misc]
        order = tuple(sorted(kept, key=kept.__getitem__))
        shape = node.args[operand].shape
        summed = tuple(i for i in range(len(shape)) if i not in kept)
        return cls(shape, order, summed, tuple(kept[i] for i in order))  # type: ignore[arg-type]

    @property
    def kept_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes that are not summed."""
        return tuple(self.shape[i] for i in self.kept)

    @property
    def depth(self) -> int:
        """How many numbers are summed."""
        return math.prod(self.shape[i] for i in self.summed)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes as lines have them: the kept ones, then the summed."""
        return (*self.kept, *self.summed)

    @property
    def back(self) -> tuple[int, ...]:
        """The order that undoes `order`."""
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape in the order of lines."""
        return tuple(self.shape[i] for i in self.order)

    def lines(self, w: np.ndarray) -> np.ndarray:
        """A weight as `f32[lines, depth]`."""
        lines = w.astype(np.float32).transpose(self.order)
        return np.ascontiguousarray(lines).reshape(math.prod(self.kept_sizes), self.depth)

    def whole(self, lines: np.ndarray) -> np.ndarray:
        """Lines as the weight that they are of."""
        return np.ascontiguousarray(lines.reshape(self.sizes).transpose(self.back))


@final
class CodeArray(Module):
    """A weight as int8 codes: (codes - zero) * scale.

    `codes` has the shape of the weight before it is transposed, if it is; `scale` and `zero` have
    the sizes of the axes that a product does not sum over, in the order of its result. `sums` are
    those of the codes over the others, for products with inputs whose code for 0 is another number.
    """

    codes: Array
    scale: Array
    zero: Array | None = None
    sums: Array | None = None


def group_of(scheme: Scheme, layout: Layout) -> int:
    """How many inputs share a scale in blocks; 0 for a scale for each channel."""
    if not scheme.has_groups or layout.depth % scheme.granularity:
        return 0
    return scheme.granularity


def pack(
    w: np.ndarray, layout: Layout, scheme: Scheme, needs_sums: bool, turned: tuple[int, ...]
) -> CodeArray | BlockArray:
    """Bring a weight to few bits; it is `turned` from how its codes shall lie."""
    group, lines = group_of(scheme, layout), layout.lines(w)
    if group:
        return _in_blocks(lines, group, layout, scheme)
    codes = Codes.of(8, scheme.symmetric_weights)
    rows = lines.reshape(1, -1) if scheme.granularity == "tensor" else lines
    with np.errstate(over="ignore", invalid="ignore"):
        scale, zero = codes.scales(*row_ranges(rows, scheme, codes))
    if not np.isfinite(scale).all():
        raise ArgumentError(
            "quantize: weights are so large that their range is over float32's",
            fix="name the layer in skip=..., or make the weights smaller",
        )
    scale, zero = (np.broadcast_to(n, len(lines)) for n in (scale, zero))
    found = codes.rounded(lines, scale[:, None], zero[:, None])
    kept = layout.kept_sizes
    whole = layout.whole(found).astype(np.int8)
    if turned:
        whole = whole.transpose(np.argsort(turned).tolist())
    sums = found.sum(1, dtype=np.int64).astype(np.int32)
    return CodeArray(
        codes=new_array(np.ascontiguousarray(whole)),
        scale=new_array(scale.reshape(kept).astype(np.float32)),
        zero=None if codes.is_symmetric else new_array(zero.reshape(kept).astype(np.float32)),
        sums=new_array(sums.reshape(kept)) if needs_sums else None,
    )


def format_of(scheme: Scheme) -> str:
    """The block format with the numbers of a scheme."""
    if scheme.weights == 8:
        return "q8_0"
    return "q4_0" if scheme.symmetric_weights else "q4_1"


def _in_blocks(lines: np.ndarray, group: int, layout: Layout, scheme: Scheme) -> BlockArray:
    """The codes nearest to the numbers of each group."""
    codes = Codes.of(scheme.weights, scheme.symmetric_weights)
    least, greatest = row_ranges(lines.reshape(-1, group), scheme, codes)
    if codes.is_symmetric:
        step = codes.scales(least, greatest)[0]
    else:
        step = (greatest - least) / (codes.high - codes.low)
    return in_blocks(lines, step, least, group, layout, scheme)


def in_blocks(
    lines: np.ndarray,
    step: np.ndarray,
    least: np.ndarray,
    group: int,
    layout: Layout,
    scheme: Scheme,
) -> BlockArray:
    """Blocks of 32 with the steps of groups, and least numbers if they have any."""
    step, least = (np.repeat(x.ravel(), group // BLOCK) for x in (step, least))
    check_halves(step, 0 * least if scheme.symmetric_weights else least)
    given = None if scheme.symmetric_weights else least
    blocks = packed_blocks(lines.reshape(-1, BLOCK), format_of(scheme), step, given)
    return BlockArray(new_array(blocks.reshape(*layout.kept_sizes, -1)), format_of(scheme))


def nbytes(arrays: Sequence[Any]) -> int:
    """The bytes of arrays."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays)
