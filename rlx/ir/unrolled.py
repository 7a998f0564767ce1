"""Notice Python loops that record one line again and again.

Each call of rlx from the user's code is one frame of rlx right above the user's. The same line with
another such frame has been reached again; ops that one call records count once. Whose loop it is
tells the innermost frame that two rounds share.
"""

from __future__ import annotations

import warnings
from types import FrameType

from .config import config
from .errors import UnrolledLoopWarning
from .source import PACKAGE, Source

NEVER = -(1 << 60)
_told: set[tuple[str, int]] = set()  # a line is told of once in a process


class Repeats:
    """How often each place in the user's code has recorded something in one graph."""

    def __init__(self) -> None:
        self.limit = config.settings.unroll_limit
        self._counts: dict[tuple[str, int, str, int], int] = {}
        self._entry: FrameType | None = None  # kept, so that no later frame has its identity
        self._before: list[FrameType] = []  # the frames of the round at the limit

    def note(self, entry: FrameType | None, frame: FrameType) -> None:
        """Count a call from the user's frame into rlx."""
        if entry is self._entry or not self.limit:
            return
        self._entry = entry
        code = frame.f_code
        key = (code.co_filename, frame.f_lineno, code.co_name, frame.f_lasti)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == self.limit:
            self._before = _frames(frame)
        elif count == self.limit + 1 and not _is_users_loop(self._before, _frames(frame)):
            self._counts[key] = NEVER

    def tell(self, name: str, is_silent: bool) -> None:
        """Warn of the line repeated most, if it is more often than the limit."""
        most = max(self._counts, key=lambda key: self._counts[key], default=None)
        self._entry, self._before = None, []
        if most is None or is_silent or not 0 < self.limit < self._counts[most]:
            return
        file, line, function, _ = most
        if (file, line) in _told:
            return
        _told.add((file, line))
        warnings.warn_explicit(
            f"{name} records a line {self._counts[most]} times: a Python loop is unrolled\n"
            f"  where  {Source(file, line, function)}\n"
            "  fix    rlx.scan or rlx.fori_loop compiles one round; a larger "
            "rlx.config.unroll_limit (0: none) silences this",
            UnrolledLoopWarning,
            file,
            line,
        )


def _frames(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _is_users_loop(before: list[FrameType], now: list[FrameType]) -> bool:
    """Whether the innermost frame that two rounds share is the user's."""
    known = set(map(id, before))
    shared = next((frame for frame in now if id(frame) in known), None)
    return shared is not None and not shared.f_code.co_filename.startswith(PACKAGE)
