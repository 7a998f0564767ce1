"""Messages between two processes, in rings of memory that both map.

For each message a byte goes through a pipe: it wakes who waits, the system puts in order by it what
both see of the memory, and it ends with a process, in whatever way that dies. So a message that was
not finished is never looked at. In the ring a message has its number, length and checksum; it is
copied first and checked then. What cannot be the next one is `Torn`: the memory is not what its
writer meant, and nothing of it is believed.

A long message, and one for which the ring has no room, is sent over a socket, where its writer
waits until it is read, or the other side is dead. The memory has no name: the system frees it with
the last of its processes.
"""

from __future__ import annotations

import os
import select
import struct
import sys
import zlib
from multiprocessing.connection import Pipe
from multiprocessing.heap import Arena
from typing import Any, Self, final

SIZE = 1 << 16  # bytes of a ring
MOST = 1 << 13  # bytes of a short message; for others a checksum takes longer than a socket
LINE = 64  # bytes that processors move at once: each side writes to some of its own
HEAD = struct.Struct("<IIII")  # number, bytes, checksum of both and of the bytes, nothing
IN_RING, IN_SOCKET = b"r", b"s"  # what a byte of the pipe says of the next message
AT_ONCE = 4096  # bytes of the pipe
NUMBERS = 1 << 32  # of messages, then they begin again


class Torn(ConnectionError):
    """What its writer cannot have meant."""


@final
class _Ring:
    """One direction, as one of its sides sees it."""

    def __init__(self, memory: memoryview) -> None:
        self._done = memory[:LINE].cast("Q")  # how many bytes were read so far
        self._bytes = memory[LINE:]
        self._place = self._least = self._number = 0

    def write(self, message: bytes) -> bool:
        """Write a message if it is short and there is room."""
        count, done = len(message), self._done[0]
        if not self._least <= done <= self._place:
            raise Torn("the place up to which a ring was read cannot be true")
        self._least = done
        if count > MOST or self._place + _taken(count) > done + SIZE:
            return False
        first = self._place % SIZE
        check = zlib.crc32(message, self._number ^ count)
        HEAD.pack_into(self._bytes, first, self._number, count, check, 0)
        first += HEAD.size
        here = min(count, SIZE - first)
        self._bytes[first : first + here] = message[:here]
        if here < count:
            self._bytes[: count - here] = message[here:]
        self._turn(count)
        return True

    def read(self) -> bytes:
        """The next message."""
        first = self._place % SIZE
        number, count, check, _ = HEAD.unpack_from(self._bytes, first)
        if number != self._number or count > MOST:
            raise Torn("a message that is not the next one")
        first += HEAD.size
        found = bytes(self._bytes[first : first + count])
        if len(found) < count:
            found += bytes(self._bytes[: count - len(found)])
        if zlib.crc32(found, number ^ count) != check:
            raise Torn("a message that is not as it was written")
        self._turn(count)
        self._done[0] = self._place
        return found

    def _turn(self, count: int) -> None:
        self._place += _taken(count)
        self._number = (self._number + 1) % NUMBERS


def _taken(count: int) -> int:
    """The bytes that a message of so many takes: a head is never at the end and the begin."""
    return HEAD.size + count + -count % HEAD.size


@final
class Channel:
    """One end of two rings; it is used as the connections of `multiprocessing` are.

    It goes to another process as an argument, while that is started. One thread sends at a time,
    and one receives. `signs` are a few numbers in memory of both sides.
    """

    def __init__(self, memory: Arena, is_first: bool, bells: tuple[Any, Any], socket: Any) -> None:
        self._given = memory, is_first, bells, socket
        self._from, self._to = (bell.fileno() for bell in bells)
        self._socket, view = socket, memoryview(memory.buffer)
        self.signs = view[:LINE].cast("d")
        one, other = (_Ring(view[first:][: LINE + SIZE]) for first in (LINE, 2 * LINE + SIZE))
        self._out, self._in = (one, other) if is_first else (other, one)
        self._heard = b""  # bytes of the pipe that were not looked at
        self._look = select.poll()
        self._look.register(self._from, select.POLLIN)

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Both ends of a new one; the first is for this process.

        Raises an `OSError` if there is no memory or descriptor left.
        """
        memory = Arena(LINE + 2 * (LINE + SIZE))
        if sys.platform == "linux":  # which else kills who writes where no memory is left
            os.posix_fallocate(memory.fd, 0, memory.size)
        (here, to_here), (there, to_there), sockets = Pipe(False), Pipe(False), Pipe()
        ours = cls(memory, True, (here, to_there), sockets[0])
        return ours, cls(memory, False, (there, to_here), sockets[1])

    def __reduce__(self) -> Any:
        return Channel, self._given

    def send_bytes(self, message: bytes) -> None:
        """Send a message; an `OSError` if the other side is dead."""
        if self._out.write(message):
            os.write(self._to, IN_RING)
        else:
            os.write(self._to, IN_SOCKET)
            self._socket.send_bytes(message)

    def recv_bytes(self, most: int | None = None) -> bytes:
        """Wait for a message, and return it.

        An `EOFError` or `OSError` if the other side is dead and has left none, or if a message has
        more than `most` bytes.
        """
        self._heard = self._heard or os.read(self._from, AT_ONCE)
        kind, self._heard = self._heard[:1], self._heard[1:]
        if kind == IN_RING:
            return self._in.read()
        if kind == IN_SOCKET:
            return self._socket.recv_bytes(most)
        raise Torn("a byte that announces nothing") if kind else EOFError

    def poll(self, seconds: float = 0.0) -> bool:
        """Whether a message, or the end, is there, or comes within so many `seconds`."""
        return bool(self._heard or self._look.poll(1000 * seconds))

    def close(self) -> None:
        """Be done with it: the other side hears that."""
        for connection in (*self._given[2], self._socket):
            connection.close()
        self._from = self._to = -1  # their numbers become those of other files
