"""How much JSON callers may send: many lists and objects hold all streams up."""

from __future__ import annotations

import numpy as np

MOST_PARTS = 1 << 15  # lists and objects: ten times as many take 100 ms


def parts_of(given: bytes) -> int:
    """How many lists and objects JSON has; a few of its texts may count, too.

    >>> parts_of(b'{"a": [[], "text"]}')
    3
    """
    count = given.count(b"[") + given.count(b"{")
    if count <= MOST_PARTS:
        return count
    # a place is in a text if the number of quotation marks before it is odd
    letters = np.frombuffer(given.replace(rb"\\", b"").replace(rb"\"", b""), "uint8")
    is_bare = np.cumsum(letters == ord('"'), dtype="uint8") % 2 == 0
    return int((is_bare & ((letters == ord("[")) | (letters == ord("{")))).sum())
