"""A line that shows how far a loop has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any, TypeVar

from ..trace.arguments import count_of, flag, wrong

T = TypeVar("T")
SECONDS = 5.0  # between two plain lines


def progress(
    iterable: Iterable[T],
    *,
    total: int | None = None,
    description: str = "",
    enabled: bool | None = None,
    file: IO[str] | None = None,
) -> Iterator[T]:
    """Iterate with a progress bar, which is shown on `file`.

    On a terminal it is a bar, if `rich` is installed (`pip install "rlx[train]"`), else a line
    every few seconds. Elsewhere nothing is written, unless `enabled=True` asks for the lines;
    `enabled=False` writes nothing anywhere. `total` is `len(iterable)` if it has one,
    `description` a word before the numbers. `file` is `sys.stderr` if not given.

    >>> import sys
    >>> sum(progress(range(4), description="adding", enabled=True, file=sys.stdout))
    adding 4/4, ... s
    6
    """
    if not isinstance(iterable, Iterable):
        raise wrong("progress: iterable", iterable, "an iterable", "pass a list or batches")
    if not isinstance(description, str):
        raise wrong("progress: description", description, "a text", "give a text")
    count = _length(iterable) if total is None else count_of("progress: total", total)
    out: Any = sys.stderr if file is None else file
    if not callable(getattr(out, "write", None)):
        raise wrong("progress: file", file, "a text file", "pass sys.stdout, or leave it out")
    is_terminal = getattr(out, "isatty", lambda: False)()
    if enabled is None and not is_terminal:
        return iter(iterable)
    if enabled is not None and not flag("progress: enabled", enabled):
        return iter(iterable)
    bar = _bar(iterable, count, description, out) if is_terminal else None
    return _lines(iterable, count, description, out) if bar is None else bar


def _length(iterable: Any) -> int | None:
    try:
        return len(iterable)
    except TypeError:  # it has none
        return None


def _bar(
    iterable: Iterable[T], total: int | None, description: str, out: IO[str]
) -> Iterator[T] | None:
    """The items under a bar of rich; None where it is not installed."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import track
    except ImportError:
        return None
    return iter(track(iterable, escape(description), total, console=Console(file=out)))


def _lines(iterable: Iterable[T], total: int | None, description: str, out: IO[str]) -> Iterator[T]:
    start = shown = time.monotonic()
    count = 0

    def write(now: float, left: str = "") -> None:
        of = "" if total is None else f"/{total}"
        text = f"{description} {count}{of}, {now - start:.1f} s{left}"
        print(text.lstrip(), file=out, flush=True)

    for count, item in enumerate(iterable, 1):
        yield item
        now = time.monotonic()
        if now - shown >= SECONDS and count != total:
            shown = now
            seconds = 0.0 if total is None else (now - start) / count * (total - count)
            write(now, "" if total is None else f", {seconds:.0f} s left")
    write(time.monotonic())
