"""A pool of processes for functions of a user, which survives what these do."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar, final

from ..ir.errors import ArgumentError, TaskTimeoutError, WorkerLostError
from ..trace.arguments import bytes_of, callable_of, count_of, members, wrong
from ..trace.axes import number
from .process import ENDED, LATE, Life, Process, check_memory, is_orphan
from .shortage import shortage

MOST_KILLS = 2  # workers that a task may kill
MOST_STARTS = 3  # times that a worker may end before it begins
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds between a worker's death and the next one's start
BEATS = 4  # signs of life in the time after which a silent worker is killed
READY = b"ready"
P = ParamSpec("P")
T = TypeVar("T")
MAIN = 'put what starts the program under `if __name__ == "__main__":`'
SYSTEM = "see what ended them: the system, which was out of memory, or somebody's signal"


def advice(how: str) -> str:
    """What to do where processes ended before they began, by `how` the last one did."""
    return MAIN if how.startswith("ended") else SYSTEM


@final
class _Task:
    """A call that waits for its turn: its name, and what is sent to a worker."""

    def __init__(self, name: str, payload: bytes) -> None:
        self.name, self.payload = name, payload
        self.future: Future[Any] = Future()


class WorkerPool(Executor):
    """Processes that run functions, and are replaced when they die.

    An executor as those of `concurrent.futures`, whose `submit` gives a `Future`, whose `map` gives
    results in order, and whose `as_completed` and `wait` take its futures. It has up to `workers`
    processes, started when there is work (None: as many as there are processors). Functions and
    arguments must be such that pickle takes them; functions of modules and scripts are.

    - `memory`: bytes, or a text such as "512M", that a worker may take beyond those it begins with.
      A function that asks for more gets a `MemoryError`.
    - `timeout`: seconds that a call may take; then its worker is killed, and the call raises a
      `TaskTimeoutError`.
    - `heartbeat`: seconds without a sign of life after which a worker is taken for dead, as one
      that was stopped, or hangs in native code that holds the interpreter's lock.
    - `initializer(*initargs)` is called in each worker when it begins.

    What a function raises is raised by `Future.result`, with the worker's traceback in a note. A
    call whose worker dies is given to another one, so it may run twice; one that kills two workers
    raises a `WorkerLostError`. So do all if three workers in a row die before they begin, and if
    `memory` is too little for that.
    A `with` block waits for all calls; if it is left by an error, what still runs is killed.
    Arguments of the wrong kind are an `ArgumentError` or `AttributeValueError`.

    >>> import math
    >>> import rlx
    >>> with rlx.WorkerPool(2) as pool:
    ...     list(pool.map(math.factorial, [3, 4, 5]))
    [6, 24, 120]
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        memory: int | str | None = None,
        timeout: float | None = None,
        heartbeat: float = 30.0,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        every = processors()
        count = every if workers is None else count_of("WorkerPool: workers", workers, 1, 4096)
        bound = None if memory is None else bytes_of("WorkerPool: memory", memory)
        check_memory(bound)
        first = nothing if initializer is None else initializer
        callable_of("WorkerPool: initializer", first)
        arguments = members("WorkerPool: initargs", initargs)
        silence = seconds("WorkerPool: heartbeat", heartbeat)
        threads = max(1, every // count)
        limit = None if timeout is None else seconds("WorkerPool: timeout", timeout)
        self._shared = _Shared(limit)
        given = silence, pickled((first, arguments, {}), "the initializer")

        def start(memory: int | None) -> Process:
            return Process(work, *given, memory=memory, threads=threads)

        places = [_Place(self._shared, start, bound) for _ in range(count)]
        self._threads = [
            threading.Thread(target=x.run, name="rlx.WorkerPool", daemon=True) for x in places
        ]
        for thread in self._threads:
            thread.start()
        self._owner = os.getpid()
        self._close = weakref.finalize(self, self._shared.close, count)
        self._close.atexit = False  # processes are killed then

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a worker call `fn(*args, **kwargs)`; returns a `Future` of its result.

        Raises an `ArgumentError` for what pickle does not take, and a `WorkerLostError` if the pool
        was shut down or has no workers.
        """
        name = getattr(callable_of("submit: fn", fn), "__qualname__", None) or repr(fn)
        task = _Task(name, pickled((fn, args, kwargs), name))
        if not self._close.alive or self._owner != os.getpid():
            raise WorkerLostError(
                "the pool was shut down" if not self._close.alive else "the pool is another's",
                fix="submit while it is open, in the process that made it",
            )
        self._shared.add(task)
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the workers when all are done.

        With `wait` it returns after that. With `cancel_futures` calls that have not begun are
        cancelled.
        """
        if cancel_futures:
            self._shared.cancel()
        self._close()
        if wait:
            for thread in self._threads:
                thread.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if error is not None:
            self._shared.cancel()
            self._shared.kill_all()
        self.shutdown()


def processors() -> int:
    """How many processors this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return found or 1


def seconds(what: str, given: Any) -> float:
    """Convert to a number of seconds above 0."""
    found = float(number(what, given))
    if found > 0:  # nor is NaN
        return found
    raise wrong(what, given, "a number of seconds above 0", "give some")


def pickled(x: Any, name: str) -> bytes:
    """What is sent to a worker for a function of a `name`, or its call."""
    try:
        return pickle.dumps(x, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # whatever `__reduce__` of an argument raises
        raise ArgumentError(
            f"{name} or its arguments cannot be sent to a worker: {error}",
            fix="give a function of a module, and arguments that pickle takes",
        ) from None


# -- the threads that have a worker each -----------------------------------------------------------


@final
class _Shared:
    """What the threads of a pool share: the calls that wait, the workers, and the end."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self.processes: set[Process] = set()
        self.ends = threading.Event()  # no worker starts any more
        self._error: WorkerLostError | None = None  # why
        self._is_closed = False
        self._lock = threading.RLock()  # no task comes after the end
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()

    def add(self, task: _Task) -> None:
        """Let a task wait for its turn."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._is_closed:  # since `submit` looked
                raise WorkerLostError("the pool was shut down", fix="submit while it is open")
            self._tasks.put(task)

    def take(self) -> _Task | None:
        """The next task; None if there will be no more."""
        while (task := self._tasks.get()) is not None:
            if task.future.set_running_or_notify_cancel():
                return task
        return None

    def cancel(self) -> None:
        """Cancel what has not begun."""
        closed = 0
        with suppress(queue.Empty):
            while True:
                task = self._tasks.get_nowait()
                closed += task is None
                if task is not None and task.future.cancel():
                    task.future.set_running_or_notify_cancel()
        self.close(closed)

    def close(self, count: int) -> None:
        """Let so many threads end when all tasks are done."""
        with self._lock:
            self._is_closed = True
            for _ in range(count):
                self._tasks.put(None)

    def kill_all(self) -> None:
        """Kill the workers, and start none again."""
        self.ends.set()
        for process in list(self.processes):
            process.kill(ENDED)

    def fail(self, error: WorkerLostError) -> None:
        """Start no worker again; what waits gets this error."""
        with self._lock:
            self._error = error
        with suppress(queue.Empty):
            while (task := self._tasks.get_nowait()) is not None:
                if task.future.set_running_or_notify_cancel():
                    task.future.set_exception(error)
            self._tasks.put(None)


@final
class _Place:
    """A thread's worker: replaced when it dies, each time after a longer pause."""

    def __init__(
        self, shared: _Shared, start: Callable[[int | None], Process], memory: int | None
    ) -> None:
        self._shared, self._start, self._memory = shared, start, memory
        self._process: Process | None = None
        self._deaths = 0  # in a row

    def run(self) -> None:
        """Compute tasks until there are no more."""
        while (task := self._shared.take()) is not None:
            try:
                result = self._result(task)
            except BaseException as error:
                task.future.set_exception(error)
            else:
                task.future.set_result(result)
                del result
            del task  # while it waits, it keeps nothing
        if self._process is not None:
            self._lost(self._process)

    def _result(self, task: _Task) -> Any:
        """What the function of a task returns; what it raises is raised."""
        how = ""
        for _ in range(MOST_KILLS):
            process = self._ready()
            process.expect(self._shared.timeout)
            try:
                process.connection.send_bytes(task.payload)
                answer = process.connection.recv_bytes()
            except (EOFError, OSError):
                how = self._lost(process)
                if how == LATE:
                    raise TaskTimeoutError(
                        f"{task.name} took more than {self._shared.timeout:g} seconds",
                        fix="give the pool a longer timeout, or the function less to do",
                    ) from None
                continue
            process.expect(None)
            self._deaths = 0
            return _value(answer)
        more = "" if self._memory is None else f", nor take over {self._memory} bytes"
        raise WorkerLostError(
            f"{task.name} killed {MOST_KILLS} workers: the last one {how}",
            fix=f"call it in this process to see why; it must not end its process{more}",
        )

    def _ready(self) -> Process:
        """The worker, which has begun."""
        if self._process is not None and self._process.is_alive:
            return self._process
        if self._process is not None:
            self._lost(self._process)
        how = ""
        for _ in range(MOST_STARTS):
            process = self._begun(self._memory)
            try:
                answer = process.connection.recv_bytes()
            except (EOFError, OSError):
                how = self._lost(process)
                continue
            if answer != READY:
                self._lost(process)
                self._fail("the initializer failed", "mend it: its error is the cause", answer)
            return process
        what = f"{MOST_STARTS} workers ended before they began: the last one {how}"
        return self._fail(what, advice(how))

    def _fail(self, what: str, fix: str, answer: bytes | None = None) -> NoReturn:
        cause = None if answer is None else _unpacked(answer)[1]
        self._deaths = 0  # no pause before what is tried
        error = shortage(self._memory, self._begins) or WorkerLostError(what, fix=fix)
        self._shared.fail(error)
        raise error from cause

    def _begins(self, memory: int) -> bool:
        """Whether a worker begins that may take so many bytes."""
        try:
            return self._begun(memory).connection.recv_bytes() == READY
        except (EOFError, OSError):  # it has ended, or there is no place for a process
            return False
        finally:
            if self._process is not None:
                self._lost(self._process)

    def _begun(self, memory: int | None) -> Process:
        """A new worker, after a pause if others died."""
        pause = FIRST_PAUSE * 2.0 ** min(self._deaths - 1, 9) if self._deaths else 0
        if self._shared.ends.wait(min(pause, LONGEST_PAUSE)):
            raise WorkerLostError("the pool was left by an error", fix="make another one")
        self._process = process = self._start(memory)
        self._shared.processes.add(process)
        if self._shared.ends.is_set():
            process.kill(ENDED)
        return process

    def _lost(self, process: Process) -> str:
        """Be rid of a worker; how it ended."""
        self._deaths += 1
        self._shared.processes.discard(process)
        self._process = None
        return process.end()


# -- in a worker, and what comes from it -----------------------------------------------------------


def work(connection: Any, life: Life, silence: float, begin: bytes) -> None:
    """Call functions until there are no more.

    They come over a `connection`; `life` is told that this process is alive, more often than every
    `silence` seconds. `begin` is the initializer and its arguments, pickled.
    """
    threading.Thread(target=_beat, args=(life, silence), daemon=True).start()
    with suppress(EOFError, OSError):  # who asked has ended, or needs nothing more
        began = _answer(begin)
        is_right, value = _unpacked(began)[:2]
        connection.send_bytes(READY if is_right else began)
        del value
        while is_right:
            connection.send_bytes(_answer(connection.recv_bytes()))


def nothing() -> None:
    """What a worker does when it begins, if nothing else was given."""


def _beat(life: Life, silence: float) -> None:
    while not is_orphan():
        life.beat(silence)
        time.sleep(min(silence / BEATS, 1.0))
    os._exit(1)


def _answer(payload: bytes) -> bytes:
    """What a call returns or raises, pickled."""
    try:
        fn, args, kwargs = pickle.loads(payload)
        return pickle.dumps((True, fn(*args, **kwargs), ""), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        text = "".join(traceback.format_exception(error))
        try:
            answer = pickle.dumps((False, error, text), pickle.HIGHEST_PROTOCOL)
            pickle.loads(answer)
        except Exception:  # an error that cannot be sent, or cannot be made again
            plain = RuntimeError(f"{type(error).__name__}: {error}")
            return pickle.dumps((False, plain, text), pickle.HIGHEST_PROTOCOL)
        return answer


def _unpacked(answer: bytes) -> tuple[bool, Any, str]:
    """Whether a call returned, what it returned or raised, and where."""
    is_right, value, text = pickle.loads(answer)
    if not is_right:
        value.add_note(f"in a worker of the pool:\n{text}")
    return is_right, value, text


def _value(answer: bytes) -> Any:
    """What a call returned; what it raised is raised."""
    is_right, value, _ = _unpacked(answer)
    if is_right:
        return value
    raise value
