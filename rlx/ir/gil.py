"""What differs between Python with and without the global interpreter lock."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

# What was built, not `sys._is_gil_enabled()`: a build without the lock takes one for a moment
# wherever any thread imports a library in C.
HAS_GIL: Final = "free-threading build" not in sys.version


def counts_exactly(thing: object) -> bool:
    """Whether `sys.getrefcount(thing)` is right while others run.

    Without the GIL the thread that made an object counts in a field of its own, and others in
    another. Their sum, read one after the other, is right if this is that thread, or if nobody has
    the first field any more.
    """
    return HAS_GIL or _maker(thing) in (0, _maker(object()))


def _maker(thing: object) -> int:
    """The thread whose references have a count of their own, the first word of the object."""
    return ctypes.c_size_t.from_address(id(thing)).value
