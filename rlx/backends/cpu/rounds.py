"""What rounds of a loop read and write: arrays in turn, a thread's own blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.dims import quotient
from ...lower.lir.program import Buffer, Carry
from .code import Function


@dataclass(frozen=True)
class Part:
    """What belongs to a thread of a divided loop, in the function with its number."""

    count: int
    scratch: int  # bytes of the matrix kernels' memory for each

    def block(self, f: Function, pointer: str, nbytes: Any) -> str:
        """The thread's block of an array."""
        return self.after(f, pointer, nbytes // self.count)

    def after(self, f: Function, pointer: str, nbytes: int) -> str:
        """The place behind as many bytes for each thread before this one."""
        return f.offset(pointer, "i8", f.emit(f"mul i64 %part, {nbytes}"))


@dataclass
class Targets:
    """Where the rounds of a loop write: to `even` and `odd` in turn."""

    even: list[str]
    odd: list[str]

    @classmethod
    def of(cls, carries: Sequence[Carry], point: Callable[[Buffer], str]) -> Targets:
        """The pointers of carried arrays."""
        even = [point(c.result) for c in carries]
        odd = [p if c.spare is None else point(c.spare) for c, p in zip(carries, even, strict=True)]
        return cls(even, odd)

    def start(
        self, f: Function, carries: Sequence[Carry], point: Callable[[Buffer], str], parts: int = 1
    ) -> list[str]:
        """What the first round reads; an array that is changed in place is copied there."""
        initial = [point(c.initial) for c in carries]
        for i, carry in enumerate(carries):
            if carry.in_place:
                with f.when(f.emit(f"icmp ne ptr {initial[i]}, {self.even[i]}")):
                    count = f.number(quotient(carry.result.nbytes, parts))
                    copy_bytes(f, self.even[i], initial[i], count)
                initial[i] = self.even[i]
        return initial

    def write(self, f: Function, round_name: str, table: str, first: int) -> list[str]:
        """Put this round's targets in the table; gives their pointers."""
        is_odd = f.emit(f"trunc i64 {round_name} to i1")
        chosen = []
        for i, (even, odd) in enumerate(zip(self.even, self.odd, strict=True)):
            pointer = f.emit(f"select i1 {is_odd}, ptr {odd}, ptr {even}")
            f.do(f"store ptr {pointer}, ptr {f.offset(table, 'ptr', str(first + i))}, align 8")
            chosen.append(pointer)
        return chosen

    def settle(
        self, f: Function, carries: Sequence[Carry], table: str, first: int, parts: int = 1
    ) -> None:
        """Copy what was carried last into the results, unless it lies there."""
        for i, carry in enumerate(carries):
            last = f.emit(f"load ptr, ptr {f.offset(table, 'ptr', str(first + i))}, align 8")
            with f.when(f.emit(f"icmp ne ptr {last}, {self.even[i]}")):
                copy_bytes(f, self.even[i], last, f.number(quotient(carry.result.nbytes, parts)))


def write_rows(
    f: Function, k: str, arrays: Sequence[tuple[str, Any]], table: str, first: int
) -> None:
    """Put pointers to row k of arrays, given with the bytes of a row, in the table."""
    for i, (pointer, nbytes) in enumerate(arrays):
        row = f.offset(pointer, "i8", f.emit(f"mul i64 {k}, {f.number(nbytes)}"))
        f.do(f"store ptr {row}, ptr {f.offset(table, 'ptr', str(first + i))}, align 8")


def copy_bytes(f: Function, target: str, origin: str, count: str) -> None:
    """Copy as many bytes from one place to another."""
    if count != "0":
        f.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {origin}, i64 {count}, i1 false)")
