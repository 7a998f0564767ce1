"""What compiled code depends on besides a graph.

That is the files of rlx, and the libraries it uses.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import ml_dtypes
import numpy as np

from ..ir.config import IMPORTED
from .disk import DiskCache, tell_once

ROOMS = ("ir", "lower", "backends")  # where a graph becomes code
EVERYTHING = (".",)
IMPORT_TIME = 2.0  # seconds it may have taken
Stamp: TypeAlias = tuple[str, int, int, int]  # a file, its size, when it was written and changed
_ROOT = Path(__file__).parents[1]


def sources(disk: DiskCache, rooms: Sequence[str] = ROOMS) -> str:
    """A hash of the files in some rooms of rlx, and of versions.

    By default they are those that turn graphs into code. It is empty if files were changed since
    this process read them.
    """
    stamps: list[Stamp] = []
    for room in rooms:
        _look_into(str(_ROOT / room), stamps)
    newest = max((max(written, changed) for _, _, written, changed in stamps), default=0)
    if newest > (IMPORTED - IMPORT_TIME) * 1e9:
        tell_once("not used, for files of rlx were changed after this process began")
        return ""
    platforms = (sys.version, sys.platform, platform.machine())
    content = _content(disk, tuple(sorted(stamps)))
    return hashed(content, platforms, np.__version__, ml_dtypes.__version__)


@cache
def _content(disk: DiskCache, stamps: tuple[Stamp, ...]) -> str:
    """A hash of what is in files, kept by their sizes and dates.

    Reading them takes ten times as long as looking at these.
    """
    key = hashed("files of rlx", stamps)
    known = disk.get(key)
    if known is None:
        digest = hashlib.blake2b(digest_size=16)
        for stamp in stamps:
            digest.update(stamp[0].removeprefix(str(_ROOT)).encode() + _digest(stamp))
        known = digest.digest()
        disk.put(key, known)
    return known.hex()


@cache
def _digest(stamp: Stamp) -> bytes:
    with open(stamp[0], "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).digest()


def hashed(*parts: object) -> str:
    """A hash of what parts look like."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _look_into(folder: str, stamps: list[Stamp]) -> None:
    """Add the files of a folder and of those in it."""
    with os.scandir(folder) as found:
        for file in found:
            if file.name.endswith(".py"):
                s = file.stat()
                stamps.append((file.path, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
            elif file.is_dir() and file.name != "__pycache__":
                _look_into(file.path, stamps)
