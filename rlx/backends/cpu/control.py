"""Code of loops: double-buffered carries, rows, and blocks of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dims import Size, quotient
from ...ir.record import record
from ...lower.lir.program import Buffer, Carry, RepeatStep
from .llvm.text import Function, Module
from .loops.kernels import Layout
from .runtime.polls import checked, is_due, leave_if_stopped, poll


def put_pointer(f: Function, table: str, number: int, pointer: str) -> None:
    """Store a pointer in a table."""
    f.do(f"store ptr {pointer}, ptr {f.offset(table, 'ptr', str(number))}, align 8")


def write_table(f: Function, pointers: Sequence[str]) -> str:
    """Write pointers into a table on the stack."""
    table = f.reserve(f"[{len(pointers)} x ptr]", 8)
    for i, pointer in enumerate(pointers):
        put_pointer(f, table, i, pointer)
    return table


@record
class Part:
    """The blocks of a thread in a divided loop."""

    count: int
    scratch: int  # bytes of the matrix kernels' memory for each

    def block(self, f: Function, pointer: str, nbytes: Any) -> str:
        """The thread's block of an array."""
        return self.after(f, pointer, nbytes // self.count)

    def after(self, f: Function, pointer: str, nbytes: int) -> str:
        """The address after so many bytes for each earlier thread."""
        return f.offset(pointer, "i8", f.emit(f"mul i64 %part, {nbytes}"))


@record(frozen=False)
class Targets:
    """Targets of a loop's rounds, double-buffered: `even` and `odd` in turn."""

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
        """What the first round reads; arrays carried in place are copied first."""
        initial = [point(c.initial) for c in carries]
        for i, carry in enumerate(carries):
            if carry.in_place:
                with f.when(f.emit(f"icmp ne ptr {initial[i]}, {self.even[i]}")):
                    count = f.number(quotient(carry.result.nbytes, parts))
                    copy_bytes(f, self.even[i], initial[i], count)
                initial[i] = self.even[i]
        return initial

    def write(self, f: Function, round_name: str, table: str, first: int) -> list[str]:
        """Store this round's targets in the table, and give their pointers."""
        is_odd = f.emit(f"trunc i64 {round_name} to i1")
        chosen = []
        for i, (even, odd) in enumerate(zip(self.even, self.odd, strict=True)):
            pointer = f.emit(f"select i1 {is_odd}, ptr {odd}, ptr {even}")
            put_pointer(f, table, first + i, pointer)
            chosen.append(pointer)
        return chosen

    def settle(
        self, f: Function, carries: Sequence[Carry], table: str, first: int, parts: int = 1
    ) -> None:
        """Copy the final carries into the results, unless they are there."""
        for i, carry in enumerate(carries):
            last = f.emit(f"load ptr, ptr {f.offset(table, 'ptr', str(first + i))}, align 8")
            with f.when(f.emit(f"icmp ne ptr {last}, {self.even[i]}")):
                copy_bytes(f, self.even[i], last, f.number(quotient(carry.result.nbytes, parts)))


def write_rows(
    f: Function, k: str, arrays: Sequence[tuple[str, Any]], table: str, first: int
) -> None:
    """Store pointers to row k of arrays, given with their bytes per row, in the table."""
    for i, (pointer, nbytes) in enumerate(arrays):
        row = f.offset(pointer, "i8", f.emit(f"mul i64 {k}, {f.number(nbytes)}"))
        put_pointer(f, table, first + i, row)


def copy_bytes(f: Function, target: str, origin: str, count: str) -> None:
    """Copy as many bytes from one place to another."""
    if count != "0":
        f.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {origin}, i64 {count}, i1 false)")


def emit_rounds(
    f: Function,
    step: RepeatStep,
    layout: Layout,
    body: str,
    cost: float,
    write_table: Callable[[Sequence[str]], str],
    sizes: int,
    part: Part | None = None,
) -> None:
    """Emit all iterations of a loop, or those of a thread's part, as calls of `body`.

    An iteration takes `cost` nanoseconds. `write_table` writes the pointer table of the body, which
    begins with so many `sizes`.
    """

    def point(buffer: Buffer, count: Size = 1) -> str:
        """The pointer to a buffer, or to the thread's block of it."""
        pointer = layout.pointer(f, buffer)
        return part.block(f, pointer, quotient(buffer.nbytes, count)) if part else pointer

    n_constants, n = len(step.constants) + sizes, len(step.carries)
    flags = step.divided_constants or [False] * len(step.constants)
    constants = [
        point(b) if is_cut else layout.pointer(f, b)
        for b, is_cut in zip(step.constants, flags, strict=True)
    ]
    targets = Targets.of(step.carries, point)
    initial = targets.start(f, step.carries, point, step.parts)
    rows = step.length or 1
    cut = step.divided_slices or [False] * len(step.slices)
    sliced = [
        (point(b, rows) if is_cut else layout.pointer(f, b), quotient(b.nbytes, rows))
        for b, is_cut in zip(step.slices, cut, strict=True)
    ]
    stacked = [(point(b, rows), quotient(b.nbytes, rows)) for b in step.stacks]
    pointers = [*constants, *initial, *(p for p, _ in sliced), *targets.even]
    pointers += [p for p, _ in stacked]
    table = write_table(pointers)
    last = f.number(step.length - 1)
    with f.loop("0", f.number(step.length)) as loop:
        k = loop.index
        with f.when(is_due(f, k, cost)):
            leave_if_stopped(f) if part else checked(f, poll(f))
        if step.reverse:
            k = f.emit(f"sub i64 {last}, {k}")
        write_rows(f, k, sliced, table, n_constants + n)
        write_rows(f, k, stacked, table, n_constants + 2 * n + len(sliced))
        left = f.emit(f"sub i64 {last}, {loop.index}")
        written = targets.write(f, left, table, n_constants + n + len(sliced))
        if part:
            f.do(f"call i32 @{body}(ptr {table})")  # it calls nothing that could fail
        else:
            checked(f, f"call i32 @{body}(ptr {table})")
        for i, pointer in enumerate(written):
            put_pointer(f, table, n_constants + i, pointer)
    targets.settle(f, step.carries, table, n_constants, step.parts)


def emit_sized_main(module: Module, count: int, attributes: str) -> None:
    """Write `main`, which calls `sized` with the array of sizes moved to the front.

    In the table of `main` the array follows `count` pointers and precedes one.
    """
    f = module.function("main", [("ptr", "%given")], "i32", attributes)
    table = f.emit(f"alloca [{count + 2} x ptr], align 8")
    for i in range(count + 2):
        origin = count if i == 0 else i - 1 if i <= count else i
        pointer = f.emit(f"load ptr, ptr {f.offset('%given', 'ptr', str(origin))}, align 8")
        put_pointer(f, table, i, pointer)
    f.do(f"ret i32 {f.emit(f'call i32 @sized(ptr {table})')}")
