"""The thread pool of this process: native threads that share a kernel's parts.

The caller works with them. `parallel` writes the call; the code behind it is compiled once per
process. One job runs at a time. A job's parts are numbered, and every part is a fixed piece of the
work, so the result does not depend on who takes which part: the caller starts with part 0, then it
and all workers that are awake take the next part until none is left. Nobody waits for a sleeping
worker.

A second caller while a job runs (another Python thread, or a kernel inside a job) does all its
parts itself. Idle workers look out for work for some microseconds, then sleep. They know nothing
of Python and never hold the GIL.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from functools import cache

from ..llvm import machine
from ..llvm.compiling import load_cached
from ..llvm.host import host
from ..llvm.text import Function
from . import polls

# Looks for work before going to sleep, of 15 to 50 ns each: about as long as waking up may take,
# so that waiting costs at most twice what the best choice would.
SPINS = 4000
SYMBOL = "rlx_parallel"


def parallel(f: Function, kernel: str, context: str, parts: str) -> None:
    """Emit a parallel call of `void kernel(ptr context, i64 part, i64 parts)`.

    The operands are LLVM text: `@name`, `%name`, a number. The call returns when all parts are
    done. A module with such calls is loaded with the symbols of `symbols()`.
    """
    f.declarations.add(f"declare void @{SYMBOL}(ptr, ptr, i64)")
    f.do(f"call void @{SYMBOL}(ptr {kernel}, ptr {context}, i64 {parts})")


def symbols(*, can_stop: bool = True) -> dict[str, int]:
    """The symbols for modules that call `parallel` or poll; no thread starts yet."""
    names = {SYMBOL: SYMBOL, polls.POLL: polls.POLL if can_stop else polls.NO_POLL}
    names |= {name: name for name in (polls.FLAG, polls.RAISE, polls.CALL)}
    return {name: _library().address(target) for name, target in names.items()}


def raise_stopped() -> None:
    """Raise what a signal's handler raised when it ended a program of this thread."""
    ctypes.PYFUNCTYPE(None)(_library().address(polls.RAISE))()


@cache
def _library() -> machine.Library:
    """The pool's code, never freed: workers sleep in it until the process ends."""
    library = load_cached(text(), symbols=polls.symbols())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    empty = ctypes.CFUNCTYPE(None)(library.address("reset"))
    main = ctypes.c_int64.from_address(library.address("main_thread"))

    def reset() -> None:
        empty()
        main.value = threading.main_thread().ident or 0

    reset()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)  # a child has none of its parent's workers
    return library


def text() -> str:
    """The LLVM text of the pool of this process."""
    count = host().cores  # threads of a job, the caller included
    is_arm = platform.machine().lower() in ("arm64", "aarch64")
    is_linux = sys.platform.startswith("linux")
    names = {
        "PAUSE": "@llvm.aarch64.hint(i32 1)" if is_arm else "@llvm.x86.sse2.pause()",
        "SET_MASK": 2 if is_linux else 3,  # SIG_SETMASK
        "CALL": 98 if is_arm else 202,  # SYS_futex
        "WORKERS": count - 1,
        "PLACES": max(count - 1, 1),
        "SPINS": SPINS,
    }
    # With more threads than processors somebody has to share.
    places = _PLACES if is_linux and count <= len(os.sched_getaffinity(0)) else _NO_PLACES
    text = (_FUTEX if is_linux else _PTHREAD) + places + _POOL + polls.TEXT
    for name, value in names.items():
        text = text.replace(f"${name}", str(value))
    return f"declare void {'@llvm.aarch64.hint(i32)' if is_arm else names['PAUSE']}\n{text}"


# A thread sleeps on an event: a counter that `wake` raises. `wait(event, moment)` returns when the
# counter is no longer `moment`; sooner does no harm. Linux has this as system call "futex".
_FUTEX = """
declare i64 @syscall(i64, ...)

define internal void @wait(ptr %event, i32 %moment) {
  call i64 (i64, ...) @syscall(i64 $CALL, ptr %event, i32 128, i32 %moment, ptr null)
  ret void
}

define internal void @wake(ptr %event) {
  atomicrmw add ptr %event, i32 1 seq_cst
  call i64 (i64, ...) @syscall(i64 $CALL, ptr %event, i32 129, i32 2147483647)
  ret void
}

define internal void @reset_waiting() {
  ret void
}
"""

# Some kernels wake a worker on the processor where its caller computes, though others are idle, and
# leave it there. Such a worker moves away by forbidding itself that processor for a moment.
_PLACES = """
@allowed = internal global [128 x i8] zeroinitializer, align 8
declare i32 @sched_getcpu()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i32 @here() {
  %processor = call i32 @sched_getcpu()
  ret i32 %processor
}

define internal void @leave(i32 %processor) noinline {
  %known = icmp ult i32 %processor, 1024
  br i1 %known, label %move, label %done
move:
  %mask = alloca [128 x i8], align 8
  call i32 @sched_getaffinity(i32 0, i64 128, ptr @allowed)
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr @allowed, i64 128, i1 false)
  %index = lshr i32 %processor, 3
  %bit = and i32 %processor, 7
  %place = getelementptr i8, ptr %mask, i32 %index
  %set = shl i32 1, %bit
  %clear = xor i32 %set, -1
  %keep = trunc i32 %clear to i8
  %old = load i8, ptr %place
  %new = and i8 %old, %keep
  store i8 %new, ptr %place
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  call i32 @sched_setaffinity(i32 0, i64 128, ptr @allowed)
  br label %done
done:
  ret void
}
"""

_NO_PLACES = """
define internal i32 @here() {
  ret i32 -1
}

define internal void @leave(i32 %processor) {
  ret void
}
"""

_PTHREAD = """
@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @wait(ptr %event, i32 %moment) {
  call i32 @pthread_mutex_lock(ptr @mutex)
  br label %check
check:
  %now = load atomic i32, ptr %event seq_cst, align 4
  %same = icmp eq i32 %now, %moment
  br i1 %same, label %sleep, label %done
sleep:
  call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %check
done:
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal void @wake(ptr %event) {
  call i32 @pthread_mutex_lock(ptr @mutex)
  atomicrmw add ptr %event, i32 1 seq_cst
  call i32 @pthread_cond_broadcast(ptr @condition)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal void @reset_waiting() {
  call void @llvm.memset.p0.i64(ptr @mutex, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @condition, i8 0, i64 128, i1 false)
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @condition, ptr null)
  ret void
}
"""

# The ticket is the heart: the job's number in the upper half, the next free part in the lower.
# Taking a part is one compare-and-swap of the whole word, so it fails if the job has changed
# since its fields were read. Between jobs the lower half is all ones: no part is free.
_POOL = """
@ticket = global i64 4294967295, align 64
@remaining = global i64 0, align 64
@kernel = global ptr null, align 64
@context = global ptr null
@parts = global i64 0
@caller_place = global i32 -1
@busy = global i32 0, align 64
@started = global i32 0
@sleepers = global i32 0, align 64
@caller_sleeps = global i32 0
@work = global i32 0, align 64
@finished = global i32 0, align 64
@workers = internal global [$PLACES x i64] zeroinitializer
@is_of_main = internal global i32 0

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)

; The state of a process without workers.
define void @reset() {
  store i64 4294967295, ptr @ticket
  store i32 0, ptr @busy
  store i32 0, ptr @started
  store i32 0, ptr @sleepers
  store i32 0, ptr @caller_sleeps
  call void @forget_signals()
  call void @reset_waiting()
  ret void
}

; Whether a part is free.
define internal i1 @is_work() alwaysinline {
  %ticket = load atomic i64, ptr @ticket seq_cst, align 8
  %next = and i64 %ticket, 4294967295
  %parts = load atomic i64, ptr @parts monotonic, align 8
  %free = icmp ult i64 %next, %parts
  ret i1 %free
}

; Take and do free parts until there is none; gives how many parts of the last job are not done,
; or -1 when none was taken.
define internal i64 @do_parts() {
entry:
  br label %look
look:
  %left = phi i64 [ -1, %entry ], [ %left, %lost ], [ %after, %took ]
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %kernel = load atomic ptr, ptr @kernel monotonic, align 8
  %context = load atomic ptr, ptr @context monotonic, align 8
  %parts = load atomic i64, ptr @parts monotonic, align 8
  %part = and i64 %ticket, 4294967295
  %free = icmp ult i64 %part, %parts
  br i1 %free, label %try, label %none
try:
  %following = add i64 %ticket, 1
  %swap = cmpxchg ptr @ticket, i64 %ticket, i64 %following acq_rel monotonic
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %took, label %lost
lost:
  br label %look
took:
  call void %kernel(ptr %context, i64 %part, i64 %parts)
  %before = atomicrmw sub ptr @remaining, i64 1 seq_cst
  %after = sub i64 %before, 1
  br label %look
none:
  ret i64 %left
}

define internal ptr @worker(ptr %unused) {
entry:
  br label %busy
busy:
  %place = call i32 @here()
  %other = load atomic i32, ptr @caller_place monotonic, align 4
  %shared = icmp eq i32 %place, %other
  br i1 %shared, label %move, label %do
move:
  call void @leave(i32 %other)
  br label %do
do:
  %left = call i64 @do_parts()
  %last = icmp eq i64 %left, 0
  br i1 %last, label %tell, label %idle
tell:
  %asleep = load atomic i32, ptr @caller_sleeps seq_cst, align 4
  %wake = icmp ne i32 %asleep, 0
  br i1 %wake, label %signal, label %idle
signal:
  call void @wake(ptr @finished)
  br label %idle
idle:
  br label %look
look:
  %spin = phi i32 [ 0, %idle ], [ %more, %again ]
  %seen = call i1 @is_work()
  br i1 %seen, label %busy, label %again
again:
  call void $PAUSE
  %more = add i32 %spin, 1
  %tired = icmp eq i32 %more, $SPINS
  br i1 %tired, label %sleep, label %look
sleep:
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %check
check:
  %moment = load atomic i32, ptr @work seq_cst, align 4
  %called = call i1 @is_work()
  br i1 %called, label %awake, label %wait
wait:
  call void @wait(ptr @work, i32 %moment)
  br label %check
awake:
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %busy
}

; Start the missing workers, with all signals left to Python's threads.
define internal void @start() noinline {
entry:
  %thread = alloca ptr
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  call i32 @sigfillset(ptr %all)
  call i32 @pthread_sigmask(i32 $SET_MASK, ptr %all, ptr %old)
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %more, %made ]
  %enough = icmp eq i32 %i, $WORKERS
  br i1 %enough, label %done, label %make
make:
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %made, label %done
made:
  %id = load ptr, ptr %thread
  %number = ptrtoint ptr %id to i64
  %own = getelementptr i64, ptr @workers, i32 %i
  store atomic i64 %number, ptr %own monotonic, align 8
  call i32 @pthread_detach(ptr %id)
  %more = add i32 %i, 1
  br label %next
done:
  call i32 @pthread_sigmask(i32 $SET_MASK, ptr %old, ptr null)
  store i32 1, ptr @started
  ret void
}

define internal void @serial(ptr %kernel, ptr %context, i64 %parts) {
entry:
  br label %head
head:
  %part = phi i64 [ 0, %entry ], [ %following, %body ]
  %more = icmp slt i64 %part, %parts
  br i1 %more, label %body, label %done
body:
  call void %kernel(ptr %context, i64 %part, i64 %parts)
  %following = add i64 %part, 1
  br label %head
done:
  ret void
}

define void @rlx_parallel(ptr %kernel, ptr %context, i64 %parts) {
entry:
  %several = icmp sgt i64 %parts, 1
  %workers = icmp ne i32 $WORKERS, 0
  %both = and i1 %several, %workers
  br i1 %both, label %ask, label %alone
ask:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %have, label %alone
alone:
  call void @serial(ptr %kernel, ptr %context, i64 %parts)
  ret void
have:
  %begun = load i32, ptr @started
  %fresh = icmp eq i32 %begun, 0
  br i1 %fresh, label %begin, label %publish
begin:
  call void @start()
  br label %publish
publish:
  %place = call i32 @here()
  store atomic i32 %place, ptr @caller_place monotonic, align 4
  %caller = call i64 @pthread_self()
  %signaled = load i64, ptr @main_thread
  %is_main = icmp eq i64 %caller, %signaled
  %of_main = zext i1 %is_main to i32
  store atomic i32 %of_main, ptr @is_of_main monotonic, align 4
  store atomic ptr %kernel, ptr @kernel monotonic, align 8
  store atomic ptr %context, ptr @context monotonic, align 8
  store atomic i64 %parts, ptr @parts monotonic, align 8
  store atomic i64 %parts, ptr @remaining monotonic, align 8
  %closed = load atomic i64, ptr @ticket monotonic, align 8
  %open = add i64 %closed, 2
  store atomic i64 %open, ptr @ticket seq_cst, align 8
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %first
wake:
  call void @wake(ptr @work)
  br label %first
first:
  call void %kernel(ptr %context, i64 0, i64 %parts)
  atomicrmw sub ptr @remaining, i64 1 seq_cst
  call i64 @do_parts()
  br label %look
look:
  %spin = phi i32 [ 0, %first ], [ %more, %again ]
  %left = load atomic i64, ptr @remaining acquire, align 8
  %over = icmp eq i64 %left, 0
  br i1 %over, label %close, label %again
again:
  call void $PAUSE
  %more = add i32 %spin, 1
  %tired = icmp eq i32 %more, $SPINS
  br i1 %tired, label %sleep, label %look
sleep:
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 4
  br label %check
check:
  %moment = load atomic i32, ptr @finished seq_cst, align 4
  %still = load atomic i64, ptr @remaining seq_cst, align 8
  %ready = icmp eq i64 %still, 0
  br i1 %ready, label %awake, label %wait
wait:
  call void @wait(ptr @finished, i32 %moment)
  br label %check
awake:
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 4
  br label %close
close:
  %spent = load atomic i64, ptr @ticket monotonic, align 8
  %shut = or i64 %spent, 4294967295
  store atomic i64 %shut, ptr @ticket seq_cst, align 8
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
"""
