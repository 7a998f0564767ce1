"""Timers of compiled code: each step, and each thread's part of it, as it ran.

Programs with timers (`Target.timed`) call `rlx_step` after each of their steps: it adds to the
totals of the program, and appends an event to the log while somebody records. `rlx_parallel` of
such programs is linked to `rlx_timed_parallel`, which does that for each part. An event is six
words: the address of the totals, or 0 for a part; the number of the step; begin and end in
nanoseconds, as `time.perf_counter_ns` counts; the thread that ran it, and the one that called.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np

from ..llvm import machine
from ..llvm.compiling import load_cached
from ..llvm.text import Function
from . import pool

MOMENT, STEP, PARALLEL, TOTALS = "rlx_moment", "rlx_step", "rlx_timed_parallel", "rlx_totals"
WORDS = 6  # of an event
MOST_EVENTS = 1 << 20  # memory for them is taken as they come


def start(f: Function) -> str:
    """Read the clock before the first step of a program."""
    f.declarations.add(f"declare i64 @{MOMENT}()")
    return f.emit(f"call i64 @{MOMENT}()")


def end(f: Function, number: int, since: str) -> str:
    """End a step that began at a moment, and give the moment: the next one begins."""
    f.declarations |= {
        f"declare i64 @{STEP}(ptr, i64, i64)",
        f"@{TOTALS} = external global i8",
    }
    return f.emit(f"call i64 @{STEP}(ptr @{TOTALS}, i64 {number}, i64 {since})")


def symbols(totals: np.ndarray) -> dict[str, int]:
    """The symbols of a program with timers, which adds to these totals."""
    library = _library()
    found = {name: library.address(name) for name in (MOMENT, STEP)}
    return {**found, pool.SYMBOL: library.address(PARALLEL), TOTALS: totals.ctypes.data}


class Log:
    """The events of this process, in memory that lasts, for threads may be late."""

    def __init__(self) -> None:
        self._events = np.empty((MOST_EVENTS, WORDS), np.int64)
        library = _library()
        self._next, self._size, events = (
            ctypes.c_int64.from_address(library.address(name))
            for name in ("log_next", "log_size", "log_events")
        )
        events.value = self._events.ctypes.data

    def start(self) -> None:
        """Begin to record, without the events there were."""
        self._next.value = 0
        self._size.value = MOST_EVENTS

    def stop(self) -> tuple[np.ndarray, int]:
        """Record no more; gives the events, and how many found no room."""
        self._size.value = 0
        count = self._next.value
        return self._events[: min(count, MOST_EVENTS)].copy(), max(count - MOST_EVENTS, 0)


@cache
def log() -> Log:
    """The log of this process."""
    return Log()


@cache
def _library() -> machine.Library:
    """The code, never freed: threads may be in it."""
    # of the clock that Python reads: CLOCK_UPTIME_RAW on macOS, else CLOCK_MONOTONIC
    text = _TEXT.replace("$CLOCK", "8" if sys.platform == "darwin" else "1")
    library = load_cached(text, symbols={pool.SYMBOL: pool.symbols()[pool.SYMBOL]})
    api: Any = ctypes.pythonapi
    api.Py_IncRef(ctypes.py_object(library))
    return library


_TEXT = """
@log_next = global i64 0, align 64
@log_size = global i64 0, align 64
@log_events = global ptr null

declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()
declare void @rlx_parallel(ptr, ptr, i64)

define i64 @rlx_moment() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 $CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

define internal void @keep(ptr %totals, i64 %number, i64 %since, i64 %now, i64 %caller) {
  %size = load atomic i64, ptr @log_size monotonic, align 8
  %on = icmp ne i64 %size, 0
  br i1 %on, label %take, label %done
take:
  %event = atomicrmw add ptr @log_next, i64 1 monotonic
  %fits = icmp slt i64 %event, %size
  br i1 %fits, label %write, label %done
write:
  %events = load ptr, ptr @log_events
  %at = getelementptr [6 x i64], ptr %events, i64 %event
  %program = ptrtoint ptr %totals to i64
  store i64 %program, ptr %at
  %at1 = getelementptr i64, ptr %at, i64 1
  store i64 %number, ptr %at1
  %at2 = getelementptr i64, ptr %at, i64 2
  store i64 %since, ptr %at2
  %at3 = getelementptr i64, ptr %at, i64 3
  store i64 %now, ptr %at3
  %thread = call i64 @pthread_self()
  %at4 = getelementptr i64, ptr %at, i64 4
  store i64 %thread, ptr %at4
  %at5 = getelementptr i64, ptr %at, i64 5
  store i64 %caller, ptr %at5
  br label %done
done:
  ret void
}

; Ends step %number, which began at %since; gives the moment.
define i64 @rlx_step(ptr %totals, i64 %number, i64 %since) {
  %now = call i64 @rlx_moment()
  %spent = sub i64 %now, %since
  %at = getelementptr [2 x i64], ptr %totals, i64 %number
  atomicrmw add ptr %at, i64 %spent monotonic
  %count = getelementptr i64, ptr %at, i64 1
  atomicrmw add ptr %count, i64 1 monotonic
  %caller = call i64 @pthread_self()
  call void @keep(ptr %totals, i64 %number, i64 %since, i64 %now, i64 %caller)
  ret i64 %now
}

define internal void @timed_part(ptr %job, i64 %part, i64 %parts) {
  %since = call i64 @rlx_moment()
  %kernel = load ptr, ptr %job
  %at1 = getelementptr ptr, ptr %job, i64 1
  %context = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %job, i64 2
  %caller = load i64, ptr %at2
  call void %kernel(ptr %context, i64 %part, i64 %parts)
  %now = call i64 @rlx_moment()
  call void @keep(ptr null, i64 %part, i64 %since, i64 %now, i64 %caller)
  ret void
}

; As `rlx_parallel`, with an event for each part.
define void @rlx_timed_parallel(ptr %kernel, ptr %context, i64 %parts) {
  %job = alloca [3 x ptr]
  store ptr %kernel, ptr %job
  %at1 = getelementptr ptr, ptr %job, i64 1
  store ptr %context, ptr %at1
  %caller = call i64 @pthread_self()
  %at2 = getelementptr ptr, ptr %job, i64 2
  store i64 %caller, ptr %at2
  call void @rlx_parallel(ptr @timed_part, ptr %job, i64 %parts)
  ret void
}
"""
