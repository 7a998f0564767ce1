"""The disk cache: bytes by key, for all processes of a user.

An entry is a file of its own, written aside and renamed: readers see all of it or nothing, and
nobody waits for anybody. Its checksum covers the key, too; what is damaged is removed and made
anew. Machine code is run as it is read, so a directory that others may write to is not used.
Whatever goes wrong with files only makes compiles slower; RLX_DEBUG=1 tells about it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, TypeAlias

import ml_dtypes
import numpy as np

from ..ir.config import IMPORTED, config
from ..ir.record import record

MAGIC = b"rlxcode\n"
CHECKSUM = 16  # bytes
SUFFIX, UNFINISHED = ".rlx", ".rlx.part"
BLOCK = 4096  # what a file takes up at the least
LARGEST = 4  # one entry takes at most this part of the cache, as a divisor
LEFT_ALONE = 3600  # seconds after which an unfinished file is one of a process that died
FULL_TO = 0.9  # of the limit is kept when the cache overflows
SYNCED = 1 << 20  # bytes of a file whose checksum does not cover all of it
WRITERS = 4  # processes that are thought to write at once
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@record
class DiskCache:
    """An LRU cache of entries in a directory."""

    root: Path
    limit: int  # bytes of all entries

    def get(self, key: str) -> bytes | None:
        """The entry of a key, if there is one that is whole."""
        path = self.root / f"{key}{SUFFIX}"
        try:
            with open_entry(path) as file:
                if strangers(os.fstat(file.fileno())):
                    return None
                data = file.read()
        except OSError:
            return None
        start = len(MAGIC) + CHECKSUM
        if data[:start] != MAGIC + _checksum(key, data[start:]):
            self.remove(key)
            return None
        with suppress(OSError):
            os.utime(path)
        return data[start:]

    def put(self, key: str, content: bytes) -> bool:
        """Write an entry; gives whether that is done.

        Others are removed if there are too many bytes.
        """
        return self.put_parts(key, [MAGIC + _checksum(key, content) + content])

    def put_parts(
        self, key: str, parts: Sequence[bytes | np.ndarray], replaces: bool = True
    ) -> bool:
        """Write a file of some parts, bytes each; gives whether that is done.

        It is on the disk before it has its name. One that another process wrote meanwhile stays if
        this one `replaces` none.
        """
        size = sum(part.nbytes if isinstance(part, np.ndarray) else len(part) for part in parts)
        if size > self.limit // LARGEST:
            return False
        unfinished = self.root / f"{key}.{os.getpid()}.{secrets.token_hex(4)}{UNFINISHED}"
        try:
            with open(os.open(unfinished, _CREATE, 0o600), "wb") as file:
                for part in parts:
                    file.write(part.data if isinstance(part, np.ndarray) else part)
                if size > SYNCED:
                    file.flush()
                    os.fsync(file.fileno())
            _name(unfinished, self.root / f"{key}{SUFFIX}", replaces)
        except OSError as error:
            tell_once(f"nothing can be written to {self.root}: {error.strerror}")
            return False
        finally:
            with suppress(OSError):
                os.unlink(unfinished)
        left = _unlooked.get(self.root, 0) - _taken(size)
        _unlooked[self.root] = left if left >= 0 else self._make_room()
        return True

    def remove(self, key: str) -> None:
        """Remove an entry that turned out to be of no use."""
        with suppress(OSError):
            os.unlink(self.root / f"{key}{SUFFIX}")
            tell(f"removed the damaged entry {key} of {self.root}")

    def _make_room(self) -> int:
        """Remove entries if there are too many; gives the bytes to write before the next look."""
        entries, total = [], 0
        for file, status in _files(self.root):
            if file.name.endswith(UNFINISHED) and status.st_mtime < time.time() - LEFT_ALONE:
                _unlink(file.path)
            elif file.name.endswith(SUFFIX):
                entries.append((status.st_mtime_ns, _taken(status.st_size), file.path))
                total += entries[-1][1]
        if total > self.limit:
            for _, size, path in sorted(entries):
                if total <= self.limit * FULL_TO:
                    break
                _unlink(path)
                total -= size
        return max(0, self.limit - total) // WRITERS


_unlooked: dict[Path, int] = {}  # bytes that may be written to a cache before a look at all of it


def disk_cache() -> DiskCache | None:
    """The cache that the settings name, if it can be used."""
    root = config.cache
    if root is False:
        return None
    if root is True:
        root = _user_directory()
    if not isinstance(root, Path) or not _is_usable(root):
        return None
    return DiskCache(root, config.cache_disk_bytes)


def _name(unfinished: Path, path: Path, replaces: bool) -> None:
    """Give a file that is finished its name, which another one may have."""
    if not (replaces or path.is_symlink()):  # nobody reads what a link names
        try:
            return os.link(unfinished, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            pass
    os.replace(unfinished, path)


def open_entry(path: Path) -> BinaryIO:
    """Open a file of the cache, which is no link."""
    return open(os.open(path, _OPEN), "rb")


def strangers(status: os.stat_result) -> str:
    """Why a file or a directory is not to be trusted; empty if it is.

    Trusted is what belongs to this user (or to the system's) and nobody else may write to.
    """
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return "others may write to it" if is_open else ""


def tell(text: str) -> None:
    """Print a line if RLX_DEBUG asks for it."""
    if config.debug >= 1:
        print(f"rlx: cache on disk: {text}", file=sys.stderr, flush=True)


def tell_once(text: str) -> None:
    """Print a line if RLX_DEBUG asks for it, the first time."""
    if config.debug >= 1 and text not in _told:
        _told.add(text)
        tell(text)


_told: set[str] = set()


def _is_usable(root: Path) -> bool:
    """Whether a directory, made if it does not exist, may be used."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = strangers(os.stat(root))
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        tell_once(f"{root} is not used: {reason}")
    return not reason


def _user_directory() -> Path | None:
    """Where caches of this user belong on this system."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "rlx"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "rlx" / "Cache"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else home / ".cache") / "rlx"


def _checksum(key: str, content: bytes) -> bytes:
    digest = hashlib.blake2b(key.encode(), digest_size=CHECKSUM)
    digest.update(content)
    return digest.digest()


def _files(root: Path) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    with suppress(OSError), os.scandir(root) as found:
        for file in found:
            with suppress(OSError):  # another process removed it
                if file.is_file(follow_symlinks=False):
                    yield file, file.stat(follow_symlinks=False)


def _taken(size: int) -> int:
    """The bytes that a file takes up."""
    return -(-size // BLOCK) * BLOCK


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


# -- what compiled code depends on besides a graph -------------------------------------------------
#
# That is the files of rlx, and the libraries it uses.


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
