"""Streams: calls in order that nobody waits for, beside those of other streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, final

from ..ir.errors import ArgumentError
from ..trace.arguments import callable_of, wrong
from .queue import Queue, entered, seconds

if TYPE_CHECKING:
    from concurrent.futures import Future


@final
class Stream:
    """Makes calls in the order they came, at the same time as other streams do.

    In a block `with stream:` the calls by `run_async` and `submit` of compiled functions go to it;
    each returns at once, and what it gives may be an argument of further calls, in this stream or
    another. Calls without a stream share that of the session. On the host, calls of several streams
    share the processors; on a device that runs one program at a time they take turns.

    >>> import rlx
    >>> double, stream = rlx.jit(lambda x: x * 2), rlx.Stream()
    >>> with stream:
    ...     y = double.run_async(rlx.array([1.0, 2.0]))
    ...     z = double.run_async(y)
    >>> z.result().tolist()
    [4.0, 8.0]
    """

    def __init__(self) -> None:
        self._queue = Queue()

    def __enter__(self) -> Self:
        entered.set((*entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        *before, last = entered.get() or (None,)
        if last is not self:
            raise ArgumentError("streams are left in another order", fix="use `with stream:`")
        entered.set(tuple(before))

    def record(self) -> Event:
        """The moment when all calls that the stream has by now have ended, as an `Event`.

        >>> import rlx
        >>> event = rlx.Stream().record()
        >>> event.wait()
        >>> event.done()
        True
        """
        return Event(self.submit(_nothing))

    def wait(self, event: Event) -> None:
        """Let calls that come begin only when an `event` is reached.

        Returns at once. What is no event is an `ArgumentError`.

        >>> import rlx
        >>> first, second = rlx.Stream(), rlx.Stream()
        >>> second.wait(first.record())
        """
        if not isinstance(event, Event):
            raise wrong("wait: event", event, "an event", "give stream.record()")
        self.submit(event.wait)

    def synchronize(self, timeout: float | None = None) -> None:
        """Wait until all calls that the stream has by now have ended.

        If that takes more than `timeout` seconds it is a `TimeoutError`. Errors of calls come out
        where their results are asked for, not here.
        """
        self.record().wait(seconds("synchronize: timeout", timeout))

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Call `job`, a function without arguments; gives a future of its result.

        What is no function is an `ArgumentError`.

        >>> import rlx
        >>> rlx.Stream().submit(lambda: 2 + 3).result()
        5
        """
        return self._queue.submit(callable_of("submit: job", job))

    def __repr__(self) -> str:
        return f"<Stream at {id(self):#x}>"


@final
class Event:
    """A moment in a stream: all calls before it have ended.

    `Stream.record` makes it, with the `future` of a call of its own.
    """

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether it is reached."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is reached; more than `timeout` seconds are a `TimeoutError`."""
        self._future.result(seconds("wait: timeout", timeout))

    def __repr__(self) -> str:
        return f"<Event, {'reached' if self.done() else 'not reached'}>"


def _nothing() -> None:
    pass
