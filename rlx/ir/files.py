"""Reading and writing files, with errors that say how to fix them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import ArgumentError, FileAccessError, FileFormatError, FileMissingError, RlxError

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
MOST_SHOWN = 200  # letters of a path
MOST_NAME = 255  # bytes of a file's name, of file systems


def read_file(path: str | PathLike[str], parse: Callable[[bytes], T]) -> T:
    """Give what `parse` makes of a file's bytes; its errors name the file."""
    place = as_path(path)
    with reaching(path, "read"):
        check_regular(place, "read")
        data = place.read_bytes()
    with naming(path):
        return parse(data)


def write_file(path: str | PathLike[str], data: bytes) -> None:
    """Make a file of bytes."""
    place = as_path(path)
    with reaching(path, "write"):
        place.write_bytes(data)


@contextmanager
def naming(path: str | PathLike[str]) -> Iterator[None]:
    """Put the file's name into errors about its contents."""
    try:
        yield
    except FileFormatError as error:
        if error.what.startswith(f"{_shown(path)}: "):  # who read it inside has said so
            raise
        raise FileFormatError(f"{_shown(path)}: {error.what}", fix=error.fix) from error.__cause__


@contextmanager
def reaching(file: Any, deed: str) -> Iterator[None]:
    """Convert errors of the operating system about a file to errors of rlx.

    `deed` is "read" or "write".
    """
    try:
        yield
    except RlxError:  # which says so already
        raise
    except FileNotFoundError:
        raise FileMissingError(
            f"cannot {deed} {_shown(file)}: there is no such file or directory",
            fix="check the path; a relative one begins where the program was started"
            if deed == "read"
            else "make the directory first: pathlib.Path(path).parent.mkdir(parents=True)",
        ) from None
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise FileAccessError(
            f"cannot {deed} {_shown(file)}: {(error.strerror or str(error)).lower()}",
            fix="make room on the disk, or give a path on another one"
            if is_full
            else f"give the path of a file that you may {deed}",
        ) from None


def check_regular(place: Path, deed: str) -> None:
    """Raise an error for a device, a pipe or a socket, which may never end."""
    if place.exists() and not place.is_file() and not place.is_dir():
        raise FileAccessError(
            f"cannot {deed} {str(place)!r}: it is no regular file",
            fix="give the path of a file on a disk",
        )


def as_path(path: Any) -> Path:
    """Convert what names a file, or raise."""
    if not isinstance(path, (str, PathLike)):
        raise ArgumentError(
            f"a file is named by a text or a pathlib.Path, which {type(path).__name__} is not",
            fix="give the path of the file",
        )
    if "\0" in str(path):  # which systems answer in ways of their own
        raise FileAccessError(
            f"the path {_shown(path)} holds the character NUL, which no path does",
            fix="give the path of a file",
        )
    from pathlib import Path  # with the parser of addresses

    place = Path(path)
    try:
        longest = max((len(os.fsencode(part)) for part in place.parts), default=0)
    except UnicodeEncodeError:
        raise FileAccessError(
            f"the path {_shown(path)} holds half of a letter, which no path does",
            fix="give the path of a file",
        ) from None
    if longest > MOST_NAME:  # so that looking for it is no error of the system
        raise FileAccessError(
            f"the path {_shown(path)} has a name of {longest} bytes, more than {MOST_NAME}",
            fix="give the path of a file",
        )
    return place


def _shown(file: Any) -> str:
    text = repr(str(file))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
