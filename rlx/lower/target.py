"""Targets: what lowering must know about a device."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ..ir.record import field, record
from ..ir.types import DTYPES, NAMES, as_dtype

NATIVE, EXPANDED, LIBRARY = "native", "expanded", "library"  # what becomes of an op
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
# kinds of fusion: operations into the kernels that read them, into products, kernels of equal
# loops into one, kernels into rows that stay in a cache, products into chains that do
FUSIONS = ("producers", "epilogues", "kernels", "rows", "chains")
HALVES = {"float16": "float32", "bfloat16": "float32"}


@record
class Target:
    """The capabilities of a device that lowering depends on."""

    name: str
    wants: frozenset[str] = frozenset()  # composite ops that it takes whole
    stored: frozenset[str] = frozenset(DTYPES)  # dtypes that its memory can hold
    native: frozenset[str] = frozenset((*NUMBERS, *FLOATS))  # dtypes that it computes with
    # dtypes with arithmetic in a wider one, rounded after each instruction
    widened: Mapping[str, str] = field(default_factory=lambda: dict(HALVES))
    has_library: bool = True  # whether ops that it cannot render run as their NumPy references
    # dtypes of matrix products
    contracted: frozenset[str] = frozenset((*FLOATS, "int32", "int64", "uint32", "uint64"))
    lanes: int = 16  # of a float32 vector register
    local_bytes: int = 0  # for the local buffers of a `RowGroup`; 0 if it has no such memory
    most_ranked: int = 0  # the largest k of a top k that needs no library
    has_sort: bool = False  # whether sorts need no library
    in_place_carries: bool = False  # whether it knows `Carry.in_place`
    has_symbolic_sizes: bool = True  # whether one program runs for all sizes
    computes_operands: bool = True  # whether products read windows of operands without a copy
    # a product computes an operand itself, where that has twice the bytes of what it is made of and
    # the product uses each of its numbers no more often than this
    most_uses: int = 0
    copied: frozenset[str] = frozenset()  # but for these dtypes, whose fast products need matrices
    has_chains: bool = False  # whether it knows the step `Chain`, and loops in parts
    packs_lanes: bool = False  # whether vectors run along the last loop of a kernel
    batch_invariant: bool = False  # whether the order of a sum is the same for any batch size
    adds_in_turn: bool = False  # whether such an order may be `IN_TURN`
    tier: str = "auto"  # how long code generation may take: "fast", "auto" or "max"
    threads: int = 1  # that share a chain or a loop
    folds: bool = True  # whether constants are computed while compiling
    fuses: frozenset[str] = frozenset(FUSIONS)  # the kinds of fusion that are wanted
    asserts_fused: bool = False  # whether an operation that could not be fused is an error
    timed: bool = False  # whether programs measure the time of each of their steps

    def computes(self, dtype: np.dtype) -> bool:
        """Whether kernels may load, compute with and store this dtype."""
        return dtype in self._native_dtypes

    @cached_property
    def _native_dtypes(self) -> frozenset[np.dtype]:
        return frozenset(map(as_dtype, self.native))  # a dtype's name takes long to make

    def contracts(self, dtype: np.dtype) -> bool:
        """Whether the target has matrix products in this dtype."""
        return NAMES[dtype] in self.contracted

    def arithmetic(self, dtype: np.dtype) -> np.dtype:
        """The dtype in which arithmetic on this one is done."""
        return self._wide_dtypes.get(dtype, dtype)

    @cached_property
    def _wide_dtypes(self) -> dict[np.dtype, np.dtype]:
        return {as_dtype(small): as_dtype(wide) for small, wide in self.widened.items()}
