"""Functions that tests of worker pools call in other processes."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

import numpy as np

import rlx

STATE = []


class Odd(Exception):
    """An error that can be pickled and not be made again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def square(x):
    return x * x


def slow(seconds, x):
    time.sleep(seconds)
    return x


def pid():
    return os.getpid()


def fails(kind):
    raise kind


def fails_oddly():
    raise Odd("a", "b")


def shape_error():
    rlx.numpy.ones(3) + rlx.numpy.ones(4)


def no_pickle():
    return lambda: 0


def leave():
    sys.exit(3)


def quit_now():
    os._exit(3)


def ended_by(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def segfault():
    ctypes.string_at(0)


def ended_once(path, number):
    """Ends its process by a signal, the first time."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return os.getpid()
    return ended_by(number)


def take(size):
    return np.ones(size, np.uint8).nbytes


def take_or_abort(size):
    """Take memory as libraries of C++ do."""
    try:
        take(size)
    except MemoryError:
        os.abort()


def remember(x):
    STATE.append(x)


def remembered():
    return list(STATE)


def compiled(x):
    return np.asarray(rlx.jit(lambda x: x * 2 + 1)(x))


def children():
    """The processes below this one that are alive, by pid, without the tracker of resources."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if (
                int(fields[1]) == os.getpid()
                and fields[0] != "Z"
                and b"resource_tracker" not in line
            ):
                found[int(entry.name)] = line
    return found
