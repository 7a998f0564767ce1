"""Windows of an image as a matrix that the kernel reads in place.

A line of such a matrix (a pixel of the result) and its depth (what the window sees) are flat
numbers. Their digits have strides: of a line those of the batch, the image's line and the place in
it, of the depth those of the window's line and what follows in it. The lines of a register tile are
one step of the last digit apart, so a tile must not go over the end of an image's line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ir.record import record
from ..llvm.text import Function


@record
class Digit:
    """A digit of a number: what its step is worth, its count of values, its stride."""

    worth: int
    count: int
    stride: int


@record
class Windows:
    """Where the elements of a matrix lie, by digits of both numbers, slowest first."""

    lines: tuple[Digit, ...]
    depths: tuple[Digit, ...]

    def piece_near(self, depth: int) -> int:
        """How deep a piece is best for it to be about as deep as given.

        Within a piece only one digit does not go over all of its values, and it ends with the
        depth: each piece is like any other then, but for the place where it begins.
        """
        every = {
            digit.worth * count
            for digit in self.depths
            for count in range(1, digit.count + 1)
            if digit.count % count == 0
        }
        return min(every, key=lambda n: abs(math.log(n / depth)))

    def within(self, piece: int) -> tuple[Digit, ...]:
        """The digits that change within a piece, but for the last one."""
        return tuple(d for d in self.depths[:-1] if d.worth < piece)


def joined(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """Merge digits that step through memory as one would."""
    made = [digits[-1]]
    for digit in reversed(digits[:-1]):
        last = made[-1]
        if digit.stride == last.count * last.stride:
            made[-1] = Digit(last.worth, digit.count * last.count, last.stride)
        else:
            made.append(digit)
    return tuple(reversed(made))


def place_of(f: Function, digits: Sequence[Digit], number: str) -> str:
    """Where the element with this number lies; the slowest digit is all that is left."""
    total = "0"
    for digit in digits:
        value = number if digit.worth == 1 else f.emit(f"udiv i64 {number}, {digit.worth}")
        if digit is not digits[0]:
            value = f.emit(f"urem i64 {value}, {digit.count}")
        place = f.emit(f"mul i64 {value}, {digit.stride}")
        total = place if total == "0" else f.emit(f"add i64 {total}, {place}")
    return total
