"""Polls for signals in compiled code: Ctrl-C ends it within a second.

Python's handlers run between bytecodes only, and a program is none. So loops and what takes long
call `rlx_poll` every 20 microseconds or more. On the main thread it takes the interpreter lock five
times a second and runs the handlers of signals that came. If one raises, every poll of that program
gives `STOPPED` from then on: loops and kernels are left, functions return the status, and the entry
raises the exception. On other threads, which handle no signals, it lets others have the interpreter
lock at times, if the program holds it. Workers stop when the program of the main thread does.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from rlx.ir.dims import Size, likely

from ..llvm.text import Function, Vector

POLL, NO_POLL, RAISE, FLAG = "rlx_poll", "rlx_no_poll", "rlx_raise", "rlx_stopped"
CALL = "rlx_call"
STOPPED = -2  # the status of a program that a handler ended
RAISED = -3  # of one that a Python function ended: its exception is set
LONG = 5e6  # nanoseconds on one thread, from which on a step has polls inside
PART = 2e7  # nanoseconds of a part of long loops
SPARSE = 20_000  # nanoseconds between polls, at least: a thousand times what one takes
MOST_ROUNDS = 1024  # between polls, for estimates may be far too high

_api = ctypes.pythonapi
_CURRENT = "PyThreadState_GetUnchecked" if sys.version_info >= (3, 13) else (
    "_PyThreadState_UncheckedGet"
)  # fmt: skip


def poll(f: Function) -> str:
    """Call the poll, which gives 0, or STOPPED if the program must end."""
    f.declarations.add(f"declare i32 @{POLL}()")
    return f"call i32 @{POLL}()"


def checked(f: Function, call: str) -> None:
    """End a program with the status of a call if it is not 0."""
    status = f.emit(call)
    with f.when(f.emit(f"icmp ne i32 {status}, 0")):
        f.do(f"ret i32 {status}")
        f.start_block(f.label("unreachable"))


def call_python(f: Function, function: str, pointers: str) -> str:
    """Call the Python function that a symbol names with an address; gives a status.

    No handler of a signal raises between compiled code and the function: a callback of ctypes would
    lose the exception.
    """
    f.declarations.add(f"declare i32 @{CALL}(ptr, ptr)")
    f.declarations.add(f"@{function} = external global i8")
    return f"call i32 @{CALL}(ptr @{function}, ptr {pointers})"


def leave_if_stopped(f: Function) -> None:
    """Return from a function that gives nothing if the program must end."""
    with f.when(f.emit(f"icmp ne i32 {f.emit(poll(f))}, 0")):
        f.do("ret void")
        f.start_block(f.label("unreachable"))


def goes_on(f: Function) -> str:
    """Whether the program need not end."""
    return f.emit(f"icmp eq i32 {f.emit(poll(f))}, 0")


def is_due(f: Function, number: str, nanoseconds: float) -> str:
    """Whether a round of a loop, of so many nanoseconds, is to poll."""
    rounds = 1
    while rounds < MOST_ROUNDS and rounds * nanoseconds < SPARSE:
        rounds *= 2
    if rounds == 1:
        return "true"
    low = f.emit(f"and i64 {number}, {rounds - 1}")
    return f.emit(f"icmp eq i64 {low}, {rounds - 1}")


def finer(f: Function, parts: int | str, nanoseconds: float, extents: Sequence[Size]) -> int | str:
    """The number of parts of loops, more where they are long.

    `nanoseconds` is how long they take on one thread. Where sizes are symbolic it is decided at run
    time.
    """
    if isinstance(parts, int):
        return parts if nanoseconds < 2 * PART else max(parts, int(nanoseconds / PART))
    trips: Any = math.prod(extents, start=1)  # type: ignore[type-var]
    per_part = max(1, int(PART * likely(trips) / max(nanoseconds, 1e-3)))
    wanted = f.emit(f"udiv i64 {f.number(trips)}, {per_part}")
    return f.intrinsic("umax", Vector("int64"), wanted, parts)


def begin_part(f: Function, parts: int | str, cores: int) -> None:
    """Write the poll of a part, where there are more parts than threads."""
    if isinstance(parts, str):
        with f.when(f.emit(f"icmp ugt i64 %parts, {cores}")):
            leave_if_stopped(f)
    elif parts > cores:
        leave_if_stopped(f)


def stops(f: Function) -> str:
    """Whether some program must end, perhaps this one: a poll tells."""
    f.declarations.add(f"@{FLAG} = external global i32")
    flag = f.emit(f"load atomic i32, ptr @{FLAG} monotonic, align 4")
    return f.emit(f"icmp ne i32 {flag}, 0")


def symbols() -> dict[str, int]:
    """The addresses of Python's functions that the code below calls."""
    names = re.findall(r"declare .*@(Py\w+)", TEXT)
    found = {name: getattr(_api, name) for name in names}
    found["rlx_current_thread"] = getattr(_api, _CURRENT)
    return {name: ctypes.cast(each, ctypes.c_void_p).value or 0 for name, each in found.items()}


# `@workers` and `@is_of_main` are the pool's. 6 is a clock that is cheap to read: coarse on Linux,
# plain on macOS. A handler may call compiled code, in which polls do nothing.
TEXT = """
@main_thread = global i64 0
@rlx_stopped = global i32 0, align 64
@asking = internal global i32 0
@due = internal global i64 0, align 64
@turn = internal global i64 0, align 64
@raised = internal global [3 x ptr] zeroinitializer

declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)
declare ptr @rlx_current_thread()
declare ptr @PyGILState_GetThisThreadState()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare void @Py_DecRef(ptr)

define internal void @forget_signals() {
  store i32 0, ptr @rlx_stopped
  store i32 0, ptr @asking
  ret void
}

define internal i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 6, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %place
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; Whether a moment has come; then it is put off by a fifth of a second.
define internal i1 @has_come(ptr %moment) {
  %now = call i64 @now()
  %then = load atomic i64, ptr %moment monotonic, align 8
  %come = icmp uge i64 %now, %then
  br i1 %come, label %put_off, label %done
put_off:
  %later = add i64 %now, 200000000
  store atomic i64 %later, ptr %moment monotonic, align 8
  br label %done
done:
  ret i1 %come
}

define internal void @let_others() {
  %thread = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}

; Run the handlers of signals that came.
define internal void @ask() noinline {
entry:
  store i32 1, ptr @asking
  %held = call i32 @PyGILState_Ensure()
  %answer = call i32 @PyErr_CheckSignals()
  %bad = icmp ne i32 %answer, 0
  br i1 %bad, label %stop, label %go
stop:
  %second = getelementptr ptr, ptr @raised, i64 1
  %third = getelementptr ptr, ptr @raised, i64 2
  call void @PyErr_Fetch(ptr @raised, ptr %second, ptr %third)
  store atomic i32 $STOPPED, ptr @rlx_stopped monotonic, align 4
  br label %done
go:
  %was_held = icmp eq i32 %held, 0
  br i1 %was_held, label %others, label %done
others:
  call void @let_others()
  br label %done
done:
  call void @PyGILState_Release(i32 %held)
  store i32 0, ptr @asking
  ret void
}

define internal i32 @poll_of_other(i64 %self) {
entry:
  %stop = load atomic i32, ptr @rlx_stopped monotonic, align 4
  %quiet = icmp eq i32 %stop, 0
  br i1 %quiet, label %holder, label %look
look:
  %i = phi i64 [ 0, %entry ], [ %more, %next ]
  %enough = icmp eq i64 %i, $WORKERS
  br i1 %enough, label %holder, label %next
next:
  %place = getelementptr i64, ptr @workers, i64 %i
  %id = load i64, ptr %place
  %same = icmp eq i64 %id, %self
  %more = add i64 %i, 1
  br i1 %same, label %worker, label %look
worker:
  %of_main = load atomic i32, ptr @is_of_main monotonic, align 4
  %mine = icmp ne i32 %of_main, 0
  %status = select i1 %mine, i32 %stop, i32 0
  ret i32 %status
holder:
  %own = call ptr @PyGILState_GetThisThreadState()
  %current = call ptr @rlx_current_thread()
  %python = icmp ne ptr %own, null
  %equal = icmp eq ptr %own, %current
  %holds = and i1 %python, %equal
  br i1 %holds, label %ask_turn, label %done
ask_turn:
  %long = call i1 @has_come(ptr @turn)
  br i1 %long, label %others, label %done
others:
  call void @let_others()
  br label %done
done:
  ret i32 0
}

define i32 @rlx_poll() {
entry:
  %self = call i64 @pthread_self()
  %main = load i64, ptr @main_thread
  %is_main = icmp eq i64 %self, %main
  br i1 %is_main, label %look, label %other
other:
  %status = call i32 @poll_of_other(i64 %self)
  ret i32 %status
look:
  %asking = load i32, ptr @asking
  %asks = icmp ne i32 %asking, 0
  br i1 %asks, label %go, label %known
go:
  ret i32 0
known:
  %stop = load atomic i32, ptr @rlx_stopped monotonic, align 4
  %quiet = icmp eq i32 %stop, 0
  br i1 %quiet, label %time, label %done
time:
  %long = call i1 @has_come(ptr @due)
  br i1 %long, label %ask, label %done
ask:
  call void @ask()
  br label %done
done:
  %final = load atomic i32, ptr @rlx_stopped monotonic, align 4
  ret i32 %final
}

; Call a Python function with an address; its exception stays set.
define i32 @rlx_call(ptr %function, ptr %pointers) {
entry:
  %held = call i32 @PyGILState_Ensure()
  %number = call ptr @PyLong_FromVoidPtr(ptr %pointers)
  %made = icmp ne ptr %number, null
  br i1 %made, label %go, label %done
go:
  %answer = call ptr @PyObject_CallOneArg(ptr %function, ptr %number)
  call void @Py_DecRef(ptr %number)
  %good = icmp ne ptr %answer, null
  br i1 %good, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %answer)
  br label %done
done:
  %status = phi i32 [ $RAISED, %entry ], [ $RAISED, %go ], [ 0, %drop ]
  call void @PyGILState_Release(i32 %held)
  ret i32 %status
}

; Raise what a handler raised. The caller holds the interpreter lock.
define void @rlx_raise() {
  %second = getelementptr ptr, ptr @raised, i64 1
  %third = getelementptr ptr, ptr @raised, i64 2
  %kind = load ptr, ptr @raised
  %value = load ptr, ptr %second
  %trace = load ptr, ptr %third
  store ptr null, ptr @raised
  store ptr null, ptr %second
  store ptr null, ptr %third
  store atomic i32 0, ptr @rlx_stopped monotonic, align 4
  call void @PyErr_Restore(ptr %kind, ptr %value, ptr %trace)
  ret void
}

; What code that is only measured calls in the place of `rlx_poll`.
define i32 @rlx_no_poll() {
  ret i32 0
}
""".replace("$STOPPED", str(STOPPED)).replace("$RAISED", str(RAISED))
