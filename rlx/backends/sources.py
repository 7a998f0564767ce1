"""What compiled code depends on besides a graph.

That is the files of rlx, and the libraries it uses.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

from ..ir.config import IMPORTED
from .disk import DiskCache, tell_once

ROOMS = ("ir", "lower", "backends")  # where a graph becomes code
EVERYTHING = (".",)
IMPORT_TIME = 2.0  # seconds it may have taken
_ROOT = Path(__file__).parents[1]


def sources(disk: DiskCache, rooms: Sequence[str] = ROOMS) -> str:
    """A hash of the files in some rooms of rlx, and of versions.

    By default they are those that turn graphs into code. It is empty if files were changed since
    this process read them.
    """
    files = sorted(file for room in rooms for file in _files_in(str(_ROOT / room)))
    newest = max((max(s.st_mtime, s.st_ctime) for _, s in files), default=IMPORTED)
    if newest > IMPORTED - IMPORT_TIME:
        tell_once("not used, for files of rlx were changed after this process began")
        return ""
    stamps = [(path, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in files]
    platforms = (sys.version, sys.platform, platform.machine())
    content = _content(disk, tuple(stamps))
    return hashed(content, platforms, np.__version__, ml_dtypes.__version__)


@cache
def _content(disk: DiskCache, stamps: tuple[tuple[str, int, int, int], ...]) -> str:
    """A hash of what is in files, kept by their sizes and dates.

    Reading them takes ten times as long as looking at these.
    """
    key = hashed("files of rlx", stamps)
    known = disk.get(key)
    if known is None:
        digest = hashlib.blake2b(digest_size=16)
        for path, *_ in stamps:
            with open(path, "rb") as file:
                content = file.read()
            name = path.removeprefix(str(_ROOT))
            digest.update(f"{name} {len(content)}\n".encode() + content)
        known = digest.digest()
        disk.put(key, known)
    return known.hex()


def hashed(*parts: object) -> str:
    """A hash of what parts look like."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _files_in(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        for file in found:
            if file.is_dir():
                yield from _files_in(file.path)
            elif file.name.endswith(".py"):
                yield file.path, file.stat()
