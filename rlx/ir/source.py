"""Source locations: the user's line, and named scopes around it."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .record import record

HOUSE = __name__.split(".")[0] + "."
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + "/"
# what calls rlx for the user, who did not write these lines
LIBRARIES = frozenset(
    "concurrent importlib jax jaxlib ml_dtypes numpy optree runpy threading torch".split()
)


@record(slots=True)
class Source:
    """A line of the user's code."""

    file: str
    line: int
    function: str
    scope: str = ""  # names of scopes, as `encoder/attention`

    @property
    def place(self) -> str:
        """File, line, function and scope, as `model.py:12 in loss [encoder/attention]`."""
        scope = f" [{self.scope}]" if self.scope else ""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line} in {self.function}{scope}"

    @property
    def text(self) -> str:
        """The source text of the line; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.place}      {self.text}" if self.text else self.place


class _Lines(threading.local):
    def __init__(self) -> None:
        self.scope = ""
        self.source: Source | None = None  # what `at` set


lines = _Lines()


@contextmanager
def in_scope(name: str) -> Iterator[None]:
    """Name a scope for the block, inside of the open scopes."""
    before = lines.scope
    lines.scope = f"{before}/{name}" if before else name
    try:
        yield
    finally:
        lines.scope = before


def nearest_frames() -> tuple[FrameType | None, FrameType | None]:
    """The nearest frame of the user (see `is_between`), and the frame that it called."""
    entry, frame = None, sys._getframe(1)
    while frame is not None and is_between(frame):
        entry, frame = frame, frame.f_back
    return entry, frame


def is_between(frame: FrameType) -> bool:
    """Whether a frame stands between the user's line and rlx, or is of rlx.

    It may be of a library, of code made for rlx, as the `__init__` of a record, or enter the
    `with` blocks of rlx.
    """
    file = frame.f_code.co_filename
    if file.startswith(PACKAGE):
        return True
    module = frame.f_globals.get("__name__", "")
    is_made = file == "<string>" and module.startswith(HOUSE)
    return is_made or file == contextlib.__file__ or module.partition(".")[0] in LIBRARIES


def source_of(frame: FrameType) -> Source:
    """The line at which a frame is."""
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, lines.scope)


def user_source() -> Source | None:
    """The user's line: the one set by `at`, else the nearest frame outside rlx."""
    if lines.source is not None:
        return lines.source
    _, frame = nearest_frames()
    return None if frame is None else source_of(frame)


@contextmanager
def at(source: Source | None) -> Iterator[None]:
    """Set the user's line for a block; None leaves it as it is."""
    before = lines.source
    lines.source = source or before
    try:
        yield
    finally:
        lines.source = before
