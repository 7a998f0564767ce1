"""The user's line."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's code."""

    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """The source text of the line; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line} in {self.function}"
        return f"{place}      {self.text}" if self.text else place


def nearest_frames() -> tuple[FrameType | None, FrameType | None]:
    """The nearest frame outside of rlx, after the frame of rlx that it called."""
    entry, frame = None, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        entry, frame = frame, frame.f_back
    return entry, frame


def source_of(frame: FrameType) -> Source:
    """The line at which a frame is."""
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def nearest_source() -> Source | None:
    """The line of the nearest frame outside of rlx."""
    _, frame = nearest_frames()
    return None if frame is None else source_of(frame)
