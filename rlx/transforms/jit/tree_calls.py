"""Calls of functions of trees that nobody waits for, and many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ir.tracebacks import boundary, hide_frames
from ...runtime.compiled import CompiledCode
from ...runtime.queue import Pending, failing, given_calls, later, run_all

if TYPE_CHECKING:
    from concurrent.futures import Future

# a call to make: the code, the arrays it takes, and what makes a tree of its results
Ready: TypeAlias = tuple[CompiledCode, Sequence[Any], Callable[[Any], Any]]


class TreeCalls(ABC):
    """Calls of a function of trees that nobody waits for, and many calls at once."""

    @abstractmethod
    def _ready(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ready:
        """A call to make; errors say that a method of this `name` was called."""

    def run_async(self, *args: Any, **kwargs: Any) -> Pending:
        """Run on the session's thread, and give a result to wait for, or to await.

        It compiles now, if it must, checks arguments, and copies memory of NumPy arrays, so the
        caller may change it at once. Calls run in the order they came. In a block of a
        `rlx.Stream` they run on its thread. An argument may be what another such call gave: then
        all of that happens when it is there. All errors come out where the result is asked for:
        `p.result()` or `await p`.

        >>> import rlx
        >>> double = rlx.jit(lambda x: x * 2)
        >>> pending = [double.run_async(rlx.array([float(i)])) for i in range(3)]
        >>> [p.result().item() for p in pending]
        [0.0, 2.0, 4.0]
        """
        made = later(self._now, args, kwargs)
        if made is not None:
            return made
        try:
            code, arrays, unflatten = self._ready("run_async", args, kwargs)
        except Exception as error:
            hide_frames(error)
            return Pending.failed(error)
        return code.start(lambda: arrays, then=unflatten)

    def _now(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call at once."""
        code, arrays, unflatten = self._ready("run_async", args, kwargs)
        return code.planned(tuple(arrays), unflatten)()

    @boundary
    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Like `run_async`, but give a future, and check arguments at once."""
        code, arrays, unflatten = self._ready("submit", args, kwargs)
        return code.submit_then(arrays, then=unflatten)

    @boundary
    def run_many(self, calls: Iterable[Any], *, return_errors: bool = False) -> list[Any]:
        """Run several calls, some of them concurrently, with results in order.

        Each is a tuple of arguments, or the one argument. All of them run, also where one fails:
        then the error of the first that failed is raised, or with `return_errors` each stands
        where its result would.

        >>> import rlx
        >>> [y.item() for y in rlx.jit(lambda x, y: x * y).run_many([(1, 2), (3, 4)])]
        [2, 12]
        """
        jobs: list[Callable[[], Any]] = []
        is_on_host = True
        for call in given_calls("run_many", calls):
            try:
                args = call if isinstance(call, tuple) else (call,)
                code, arrays, unflatten = self._ready("run_many", args, {})
            except Exception as error:
                jobs.append(failing(error))
            else:
                jobs.append(code.planned(tuple(arrays), unflatten))
                is_on_host = is_on_host and code.executable.memory is None
        return run_all(jobs, is_on_host, return_errors)
