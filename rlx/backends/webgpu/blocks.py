"""Blocks of a device's memory: given out, kept when free, and given out again."""

from __future__ import annotations

from collections import deque
from typing import Any

LEAST = 256  # bytes of a block, and what the places in it are multiples of
KEPT_BYTES = 256 << 20  # of free blocks


def block_size(nbytes: int) -> int:
    """The bytes of a block that holds so many: four sizes for each power of two.

    >>> [block_size(n) for n in (0, 256, 257, 1000, 1100)]
    [256, 256, 512, 1024, 1280]
    """
    step = max(LEAST, 1 << max((nbytes - 1).bit_length() - 3, 0))
    return max(-(-nbytes // step) * step, LEAST)


class Block:
    """Memory of a device; it goes back to its pool when nobody has it any more."""

    __slots__ = ("_returned", "buffer", "size")

    def __init__(self, buffer: Any, size: int, returned: deque[tuple[int, Any]]) -> None:
        self.buffer, self.size, self._returned = buffer, size, returned

    def __del__(self) -> None:
        # at any time, in any thread: so the pool takes it later
        self._returned.append((self.size, self.buffer))


class Pool:
    """The free blocks of a device by their size.

    Work is done in the order in which it is handed in. So a block may be given out again while
    work on what lay there before is still under way.
    """

    def __init__(self, make: Any) -> None:
        self._make = make
        self._free: dict[int, list[Any]] = {}
        self._kept = 0
        self.made = 0  # buffers ever made
        # the collector must not finalize a buffer together with the block that gives it back
        self._living: set[Any] = set()
        self._returned: deque[tuple[int, Any]] = deque()

    def reuse(self, nbytes: int) -> Block | None:
        """A free block of at least so many bytes, of which nobody knows what they hold."""
        self._collect()
        size = block_size(nbytes)
        waiting = self._free.get(size)
        if not waiting:
            return None
        self._kept -= size
        return Block(waiting.pop(), size, self._returned)

    def make(self, nbytes: int) -> Block:
        """A new block of at least so many bytes."""
        size = block_size(nbytes)
        buffer = self._make(size)
        self.made += 1
        self._living.add(buffer)
        return Block(buffer, size, self._returned)

    def _collect(self) -> None:
        """Put what came back among the free ones, or let it go if too much is kept."""
        while self._returned:
            size, buffer = self._returned.popleft()
            if self._kept + size > KEPT_BYTES:
                self._destroy(buffer)
                continue
            self._free.setdefault(size, []).append(buffer)
            self._kept += size

    def trim(self) -> None:
        """Let all free blocks go."""
        self._collect()
        for buffers in self._free.values():
            for buffer in buffers:
                self._destroy(buffer)
        self._free.clear()
        self._kept = 0

    def _destroy(self, buffer: Any) -> None:
        self._living.discard(buffer)
        buffer.destroy()
