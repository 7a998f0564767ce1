"""Memory that is too little for a process to begin: how much would be enough.

Whoever gets no memory ends in many ways: an abort of C++, an error of the linker, a `MemoryError`
that somebody else caught. None says what it lacked, so what tells is that more memory helps.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.errors import WorkerLostError

MOST_TRIED = 1 << 30  # bytes; of more it is tried whether four times as many are enough


def shortage(memory: int | None, begins: Callable[[int], bool]) -> WorkerLostError | None:
    """The error of a process that cannot begin with `memory` bytes, but with more.

    `begins` tries whether one begins with so many. None if more would not help.
    """
    if memory is None:
        return None
    most = max(MOST_TRIED, 4 * memory)
    if not begins(most):
        return None
    enough = 2 * memory
    while enough < most and not begins(enough):
        enough *= 2
    enough = min(enough, most)
    return WorkerLostError(
        f"memory is {memory} bytes, too little for a worker to begin: "
        f"it takes {enough / 2e6:.0f} to {enough / 1e6:.0f} MB",
        fix=f'give memory="{enough >> 19}M" or so, since what it computes takes some, too; '
        "or leave it out",
    )
