"""The allocator of results: aligned blocks that are kept for reuse.

A fresh block from the system costs a page fault per 4 KiB, often more than the kernel that fills
it. Freed blocks therefore wait in bins by size (four bins per power of two, so at most a quarter
is wasted) until `KEPT_BYTES` are waiting; past that they go back to the system. NumPy arrays over
such blocks give them back through NumPy's memory handler protocol (NEP 49).
"""

from __future__ import annotations

import ctypes
import os
from typing import NoReturn

from rlx.ir.errors import DeviceMemoryError

from ..llvm.text import Function, Module

ALIGNMENT = 64
HUGE_BYTES = 4 << 20  # from here on blocks start on a huge page and ask for huge pages
HUGE_ALIGNMENT = 2 << 20
ADVICE_HUGE_PAGES = 14  # MADV_HUGEPAGE
BINS = 256
TRIES = 100  # to get the lock of the bins, which nobody has for long


def kept_bytes() -> int:
    """The limit of freed bytes: a sixteenth of the machine's memory, at most 1 GiB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 4 << 30
    return min(total // 16, 1 << 30)


def no_memory(nbytes: int) -> NoReturn:
    """The error that so many bytes cannot be allocated."""
    raise DeviceMemoryError(
        f"cpu has not enough memory for an array or temporaries of {nbytes:,} bytes",
        fix="use smaller arrays, or drop arrays that are no longer needed",
    )


def emit_memory(module: Module, *, locked: bool) -> None:
    """Add the memory functions and NumPy's handler to `module`.

    They are `allocate(i64) -> ptr`, `release(ptr, i64)` and `handler`. Callers hold the GIL; where
    there is none, `locked` puts a spin lock around the bins.
    """
    module.globals += [
        f"@bins = internal global [{BINS} x ptr] zeroinitializer, align 64",
        "@kept = global i64 0",
        "@made = global i64 0",
        "@bin_lock = internal global i32 0",
    ]
    module.declarations |= {
        "declare i32 @posix_memalign(ptr, i64, i64)",
        "declare i32 @madvise(ptr, i64, i32)",
        "declare void @free(ptr)",
        "declare i64 @llvm.ctlz.i64(i64, i1)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    }
    _emit_bin(module)
    _emit_fresh(module)
    _emit_allocate(module, locked)
    _emit_release(module, locked)
    _emit_handler(module)


def _emit_bin(module: Module) -> None:
    """`bin(size) -> {number, block}`: the bin of a size and the bytes of its blocks.

    The two bits after the leading one of (size rounded up to 64) - 1 choose the quarter.
    """
    f = module.internal("bin", "i64 %size", "{ i64, i64 }")
    f.lines.append("""\
  %none = icmp eq i64 %size, 0
  %some = select i1 %none, i64 1, i64 %size
  %up = add i64 %some, 63
  %rounded = and i64 %up, -64
  %last = sub i64 %rounded, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %exponent = sub i64 63, %zeros
  %shift = sub i64 %exponent, 2
  %top = lshr i64 %last, %shift
  %next = add i64 %top, 1
  %block = shl i64 %next, %shift
  %quarter = and i64 %top, 3
  %four = shl i64 %exponent, 2
  %number = or i64 %four, %quarter
  %pair0 = insertvalue { i64, i64 } poison, i64 %number, 0
  %pair1 = insertvalue { i64, i64 } %pair0, i64 %block, 1
  ret { i64, i64 } %pair1""")


def _emit_fresh(module: Module) -> None:
    """`fresh(block) -> ptr`: a block from the system, or null; `made` counts."""
    f = module.internal("fresh", "i64 %block", "ptr", "noinline nounwind")
    place = f.emit("alloca ptr")
    f.emit("atomicrmw add ptr @made, i64 1 monotonic")
    huge = f.emit(f"icmp uge i64 %block, {HUGE_BYTES}")
    alignment = f.emit(f"select i1 {huge}, i64 {HUGE_ALIGNMENT}, i64 {ALIGNMENT}")
    status = f.emit(f"call i32 @posix_memalign(ptr {place}, i64 {alignment}, i64 %block)")
    failed = f.emit(f"icmp ne i32 {status}, 0")
    with f.when(failed):
        f.do(f"store ptr null, ptr {place}")
    made = f.emit(f"load ptr, ptr {place}")
    advise = f.emit(f"xor i1 {failed}, true")
    with f.when(f.emit(f"and i1 {huge}, {advise}")):
        f.emit(f"call i32 @madvise(ptr {made}, i64 %block, i32 {ADVICE_HUGE_PAGES})")
    f.do(f"ret ptr {made}")


def _lock(f: Function, locked: bool) -> None:
    if not locked:
        return
    f.declarations.add("declare i32 @sched_yield()")
    spin, taken, rest, again, done = map(f.label, ("spin", "taken", "rest", "again", "locked"))
    start, tries, more = f.block, f.fresh("tries"), f.fresh("more")
    f.go_on(spin)
    f.do(f"{tries} = phi i32 [ 0, %{start} ], [ {more}, %{again} ]")
    before = f.emit("atomicrmw xchg ptr @bin_lock, i32 1 acquire")
    free = f.emit(f"icmp eq i32 {before}, 0")
    f.do(f"br i1 {free}, label %{done}, label %{taken}")
    f.start_block(taken)
    f.do(f"{more} = add i32 {tries}, 1")
    f.do(f"br i1 {f.emit(f'icmp ult i32 {more}, {TRIES}')}, label %{again}, label %{rest}")
    f.start_block(rest)  # who has it may wait for this processor
    f.emit("call i32 @sched_yield()")
    f.go_on(again)
    f.do(f"br label %{spin}")
    f.start_block(done)


def _unlock(f: Function, locked: bool) -> None:
    if locked:
        f.do("store atomic i32 0, ptr @bin_lock release, align 4")


def _locked_bin(f: Function, locked: bool) -> tuple[str, str]:
    """The slot of the bin for `%size`, which is locked, and the bytes of its blocks."""
    pair = f.emit("call { i64, i64 } @bin(i64 %size)")
    number, block = (f.emit(f"extractvalue {{ i64, i64 }} {pair}, {i}") for i in range(2))
    head = f.offset("@bins", "ptr", number)
    _lock(f, locked)
    return head, block


def _emit_allocate(module: Module, locked: bool) -> None:
    """`allocate(size) -> ptr`: the last freed block of the size's bin, or a new one."""
    f = module.function("allocate", [("i64", "%size")], "ptr")
    head, block = _locked_bin(f, locked)
    first = f.emit(f"load ptr, ptr {head}")
    empty = f.emit(f"icmp eq ptr {first}, null")
    f.do(f"br i1 {empty}, label %system, label %waiting")
    f.start_block("waiting")
    second = f.emit(f"load ptr, ptr {first}")
    f.do(f"store ptr {second}, ptr {head}")
    kept = f.emit("load i64, ptr @kept")
    f.do(f"store i64 {f.emit(f'sub i64 {kept}, {block}')}, ptr @kept")
    _unlock(f, locked)
    f.do(f"ret ptr {first}")
    f.start_block("system")
    _unlock(f, locked)
    f.do(f"ret ptr {f.emit(f'call ptr @fresh(i64 {block})')}")


def _emit_release(module: Module, locked: bool) -> None:
    """`release(pointer, size)`: let the block wait in its bin, or free it."""
    f = module.function("release", [("ptr", "%pointer"), ("i64", "%size")])
    head, block = _locked_bin(f, locked)
    kept = f.emit(f"add i64 {f.emit('load i64, ptr @kept')}, {block}")
    full = f.emit(f"icmp ugt i64 {kept}, {kept_bytes()}")
    f.do(f"br i1 {full}, label %system, label %wait")
    f.start_block("wait")
    f.do(f"store i64 {kept}, ptr @kept")
    f.do(f"store ptr {f.emit(f'load ptr, ptr {head}')}, ptr %pointer")
    f.do(f"store ptr %pointer, ptr {head}")
    _unlock(f, locked)
    f.do("ret void")
    f.start_block("system")
    _unlock(f, locked)
    f.do("call void @free(ptr %pointer)")
    f.do("ret void")


def _emit_handler(module: Module) -> None:
    """NumPy's malloc, calloc, realloc and free, which take a context first."""
    f = module.function("handler_malloc", [("ptr", "%context"), ("i64", "%size")], "ptr")
    f.do(f"ret ptr {f.emit('call ptr @allocate(i64 %size)')}")

    f = module.function(
        "handler_calloc", [("ptr", "%context"), ("i64", "%count"), ("i64", "%each")], "ptr"
    )
    size = f.emit("mul i64 %count, %each")
    made = f.emit(f"call ptr @allocate(i64 {size})")
    with f.when(f.emit(f"icmp ne ptr {made}, null")):
        f.do(f"call void @llvm.memset.p0.i64(ptr {made}, i8 0, i64 {size}, i1 false)")
    f.do(f"ret ptr {made}")

    # The old size is not told, so a block cannot be moved; NumPy reports "out of memory". Only
    # ndarray.resize asks, and results are read-only.
    f = module.function(
        "handler_realloc", [("ptr", "%context"), ("ptr", "%old"), ("i64", "%size")], "ptr"
    )
    f.do("ret ptr null")

    f = module.function(
        "handler_free", [("ptr", "%context"), ("ptr", "%pointer"), ("i64", "%size")]
    )
    f.do("call void @release(ptr %pointer, i64 %size)")
    f.do("ret void")


class Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )
