"""Numbers of arrays in registers of one dtype, whatever theirs is; integers."""

from __future__ import annotations

import numpy as np

from ....ir.record import record
from ..llvm.text import Function, Vector
from .scalar import HALVES, convert, narrow, widen
from .scope import memory_vector
from .vectors import first_lanes, lane_mask

I64 = Vector("int64")


@record
class Numbers:
    """Loads and stores of `lanes` neighbors, of the dtype `wide` in registers."""

    f: Function
    wide: str
    lanes: int

    def load(
        self,
        pointer: str,
        place: str,
        dtype: str,
        mask: str | None = None,
        lanes: int | None = None,
    ) -> str:
        """Load numbers of a dtype from a place; 0 where a mask does not hold."""
        f, lanes = self.f, lanes or self.lanes
        kind = memory_vector(dtype, lanes)
        address = f.offset(pointer, kind.element, place)
        x = f.load(kind, address, np.dtype(kind.dtype).itemsize, mask)
        if dtype in HALVES:
            half = Vector(dtype, lanes)
            if kind.element != half.element:
                x = f.emit(f"bitcast {kind.text} {x} to {half.text}")
            x, dtype = widen(f, dtype, lanes, x), "float32"
        return convert(f, dtype, self.wide, lanes, x)

    def store(self, x: str, pointer: str, place: str, dtype: str, mask: str | None = None) -> None:
        """Store numbers, rounded to a dtype; none where a mask does not hold."""
        f, kind = self.f, memory_vector(dtype, self.lanes)
        x = convert(f, self.wide, dtype, self.lanes, x)
        if dtype in HALVES:
            x, half = narrow(f, dtype, self.lanes, x), Vector(dtype, self.lanes)
            if kind.element != half.element:
                x = f.emit(f"bitcast {half.text} {x} to {kind.text}")
        if mask == lane_mask(self.lanes, 1):
            mask = first_lanes(f, self.lanes, "1")  # LLVM may not know it
        address = f.offset(pointer, kind.element, place)
        f.store(kind, x, address, np.dtype(kind.dtype).itemsize, mask)

    def mask(self, chunk: int, width: int) -> str | None:
        """The lanes of a vector of a line that are in it; None if all are."""
        left = width - chunk * self.lanes
        return None if left >= self.lanes else lane_mask(self.lanes, left)

    def integer(self, pointer: str, place: str) -> str:
        """An int32 of an array as an i64."""
        f = self.f
        x = f.emit(f"load i32, ptr {f.offset(pointer, 'i32', place)}, align 4")
        return f.emit(f"sext i32 {x} to i64")

    def extreme(self, which: str, x: str, y: str) -> str:
        """The lesser (`smin`) or greater (`smax`) of two i64."""
        return self.f.intrinsic(which, I64, x, y)

    def clamped(self, x: str, last: str) -> str:
        """An i64 at least 0 and at most `last`; 0 if that is less."""
        return self.extreme("smax", self.extreme("smin", x, last), "0")
