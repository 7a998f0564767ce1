"""How much JSON callers may send, and how deep.

Many lists and objects hold all streams up. How deep Python reads them depends on who calls it, and
so an answer would depend on the thread that reads; and what goes through them later fails.
"""

from __future__ import annotations

import numpy as np

MOST_PARTS = 1 << 15  # lists and objects: ten times as many take 100 ms
MOST_DEPTH = 256  # of them in each other: what reads them later calls itself twice for each
STEPS = np.zeros(256, "int8")
STEPS[[ord("["), ord("{")]], STEPS[[ord("]"), ord("}")]] = 1, -1


def parts_of(given: bytes) -> int:
    """How many lists and objects JSON has; a few of its texts may count, too.

    >>> parts_of(b'{"a": [[], "text"]}')
    3
    """
    count = given.count(b"[") + given.count(b"{")
    if count <= MOST_PARTS:
        return count
    return int((_steps(given) > 0).sum())


def depth_of(given: bytes) -> int:
    """How many lists and objects of JSON are in each other.

    Where there are few, it is how many there are.

    >>> depth_of(b"[[" * 1000 + b"1" + b"]]" * 1000), depth_of(b"[" + b"[]," * 999 + b"1]")
    (2000, 2)
    """
    count = given.count(b"[") + given.count(b"{")
    return count if count <= MOST_DEPTH else int(np.cumsum(_steps(given), dtype="int32").max())


def _steps(given: bytes) -> np.ndarray:
    """For each letter outside of texts 1 if it begins a list or object, -1 if it ends one."""
    # a place is in a text if the number of quotation marks before it is odd
    letters = np.frombuffer(given.replace(rb"\\", b"").replace(rb"\"", b""), "uint8")
    is_bare = np.cumsum(letters == ord('"'), dtype="uint8") % 2 == 0
    return STEPS[letters] * is_bare
