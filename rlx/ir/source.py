"""The user's line."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path

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


def nearest_source() -> Source | None:
    """The line of the nearest frame outside of rlx."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    if frame is None:
        return None
    return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
