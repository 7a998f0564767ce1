"""The bytes of a file: in memory, read by slices, or mapped; and arrays in them."""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from os import PathLike

import numpy as np

from ..ir.files import as_path, check_regular, reaching
from ..ir.types import Type
from .contents import refuse

WINDOW, SMALL = 1 << 16, 1 << 12  # bytes read at once for arrays that are no larger than this
CUT = "the file was cut off while it was read"


class FileBytes:
    """The bytes of an open file, each slice read into memory of its own.

    Another process may cut the file off: that is an error at the next slice, whereas a process that
    looks at a mapped file beyond its end is killed by the system (SIGBUS).
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        place = as_path(path)
        with reaching(path, "read"):
            check_regular(place, "read")
            self._file = open(place, "rb")
            weakref.finalize(self, self._file.close)
            self._size = os.fstat(self.fileno()).st_size
        self._path, self._lock = path, threading.Lock()
        self._window = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> memoryview:
        start, stop, _ = part.indices(self._size)
        found = np.empty(max(stop - start, 0), "u1")
        self.read(found, start)
        return found.data

    def fileno(self) -> int:
        """The number of the file for the operating system."""
        return self._file.fileno()

    def read(self, array: np.ndarray, start: int) -> None:
        """Fill an array with the bytes from `start` on."""
        try:  # `reaching` takes a third of the time of a small array
            with self._lock:
                self._file.seek(start)
                count = self._file.readinto(array.reshape(-1).view("u1").data)
        except OSError as error:
            with reaching(self._path, "read"):
                raise error
        if count < array.nbytes:
            refuse(CUT)

    def around(self, start: int, nbytes: int) -> tuple[bytes, int]:
        """Bytes among which are the few from `start` on, and where.

        Small arrays lie together, so that most need no look at the file.
        """
        begin, found = self._window
        if not begin <= start <= begin + len(found) - nbytes:
            with self._lock, reaching(self._path, "read"):
                self._file.seek(start)
                begin, found = start, self._file.read(WINDOW)
            self._window = begin, found
        if begin + len(found) < start + nbytes:
            refuse(CUT)
        return found, start - begin


Source = FileBytes | memoryview  # a view if the bytes are in memory or mapped


def map_file(path: str | PathLike[str]) -> memoryview:
    """The bytes of a file, mapped: they are read where they are looked at."""
    data = FileBytes(path)
    if not len(data):  # which cannot be mapped
        return memoryview(b"")
    with reaching(path, "read"):
        return memoryview(mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ))


def release(data: Source) -> None:
    """Let the system take back the memory of a mapped file, until it is used."""
    file = data.obj if isinstance(data, memoryview) else None
    if isinstance(file, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)


def check_whole(data: Source) -> None:
    """Raise an error if a mapped file is shorter now.

    A look beyond its end kills the process.
    """
    file = data.obj if isinstance(data, memoryview) else None
    if isinstance(file, mmap.mmap) and file.size() < len(file):
        refuse("the file was cut off after it was opened")


def array_in(data: Source, start: int, type: Type) -> np.ndarray:
    """The array in a file's bytes from `start` on; in place in an aligned view."""
    nbytes = type.nbytes
    if not nbytes:
        return np.zeros(type.shape, type.dtype)
    if not isinstance(data, FileBytes):
        check_whole(data)
        found = np.ndarray(type.shape, type.dtype, data, start)
    elif nbytes <= SMALL:
        near, place = data.around(start, nbytes)
        found = np.ndarray(type.shape, type.dtype, near, place).copy()
    else:
        found = np.empty(type.shape, type.dtype)
        data.read(found, start)
    if type.dtype.kind == "b" and (found.view("u1") > 1).any():
        refuse("an array of bools holds other numbers than 0 and 1")
    return found if found.flags.aligned else found.copy()


def with_own_memory(array: np.ndarray) -> np.ndarray:
    """The array, copied if it shares the memory of something else."""
    return array if array.base is None else np.array(array)
