"""Programs of symbolic sizes."""

from __future__ import annotations

from .llvm.text import Module


def emit_sized_main(module: Module, count: int, attributes: str) -> None:
    """Write `main`, which calls `sized` with the array of sizes moved to the front.

    It comes after `count` pointers; one more follows.
    """
    f = module.function("main", [("ptr", "%given")], "i32", attributes)
    table = f.emit(f"alloca [{count + 2} x ptr], align 8")
    for i in range(count + 2):
        origin = count if i == 0 else i - 1 if i <= count else i
        pointer = f.emit(f"load ptr, ptr {f.offset('%given', 'ptr', str(origin))}, align 8")
        f.do(f"store ptr {pointer}, ptr {f.offset(table, 'ptr', str(i))}, align 8")
    f.do(f"ret i32 {f.emit(f'call i32 @sized(ptr {table})')}")
