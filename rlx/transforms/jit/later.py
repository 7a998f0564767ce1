"""Asynchronous calls of a jitted function, and many calls at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ir.tracebacks import hide_frames
from ...runtime.queue import Pending, failing, given_calls, run_all

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .compiled import Compiled

# what is compiled for arguments, and their leaves
Find: TypeAlias = "Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[Compiled, Sequence[Any]]]"


def run_async(find: Find, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pending:
    """Start a call; all errors come out where its result is asked for."""
    try:
        entry, leaves = find("run_async", args, kwargs)
    except Exception as error:
        hide_frames(error)
        return Pending.failed(error)
    return entry.start(lambda: leaves)


def submit(find: Find, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
    """Start a call whose arguments are checked now."""
    entry, leaves = find("submit", args, kwargs)
    return entry.submit_leaves(leaves)


def run_many(find: Find, calls: Iterable[Any], return_errors: bool) -> list[Any]:
    """Run several calls, and give their results in order."""
    jobs: list[Callable[[], Any]] = []
    is_on_host = True
    for call in given_calls("run_many", calls):
        try:
            entry, leaves = find("run_many", call if isinstance(call, tuple) else (call,), {})
        except Exception as error:
            jobs.append(failing(error))
        else:
            jobs.append(entry.planned(leaves))
            is_on_host = is_on_host and entry.compiled.executable.memory is None
    return run_all(jobs, is_on_host, return_errors)
