"""What the lowering must know about a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..ir.types import DTYPES, NAMES, as_dtype

NATIVE, EXPANDED, LIBRARY = "native", "expanded", "library"  # what becomes of an op
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
HALVES = {"float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True)
class Target:
    """A device as the lowering sees it.

    `wants` are composites it takes whole. `stored` dtypes may lie in its memory, `native` ones it
    computes with; arithmetic on the keys of `widened` is done in another dtype, rounded after
    each instruction. Matrix products are done in the `contracted` ones. If `has_library`, an op
    it cannot render runs as its NumPy reference. `local_bytes` is the most memory that a thread
    can have for one row of a `Rows` step; 0 means that the renderer knows no local buffers.
    `most_ranked` is how many of the greatest numbers of a row it finds without the library,
    `has_sort` says that it puts rows in order without it.
    `in_place_carries` says that it knows `Carry.in_place`, `has_symbolic_sizes` that one program
    runs for all sizes, `computes_operands` that a matrix product may read windows and other views
    of its operands without a copy of them. It `has_chains` if it knows the step `Chain`, which so
    many `threads` share, and loops in parts.
    If it `sums_alike`, the order of a sum must not depend on how many such sums there are. The
    `tier` says how long machine code may take to make: `fast`, `auto` or `max`.
    """

    name: str
    wants: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset(DTYPES)
    native: frozenset[str] = frozenset((*NUMBERS, *FLOATS))
    widened: Mapping[str, str] = field(default_factory=lambda: dict(HALVES))
    has_library: bool = True
    contracted: frozenset[str] = frozenset((*FLOATS, "int32", "int64", "uint32", "uint64"))
    lanes: int = 16
    local_bytes: int = 0
    most_ranked: int = 0
    has_sort: bool = False
    in_place_carries: bool = False
    has_symbolic_sizes: bool = True
    computes_operands: bool = True
    has_chains: bool = False
    sums_alike: bool = False
    tier: str = "auto"
    threads: int = 1

    def computes(self, dtype: np.dtype) -> bool:
        """Whether kernels may load, compute with and store this dtype."""
        return dtype in self._native_dtypes

    @cached_property
    def _native_dtypes(self) -> frozenset[np.dtype]:
        return frozenset(map(as_dtype, self.native))  # a dtype's name takes long to make

    def contracts(self, dtype: np.dtype) -> bool:
        """Whether it has matrix products in this dtype."""
        return NAMES[dtype] in self.contracted

    def arithmetic(self, dtype: np.dtype) -> np.dtype:
        """The dtype in which it does arithmetic on this one."""
        return self._wide_dtypes.get(dtype, dtype)

    @cached_property
    def _wide_dtypes(self) -> dict[np.dtype, np.dtype]:
        return {as_dtype(small): as_dtype(wide) for small, wide in self.widened.items()}
