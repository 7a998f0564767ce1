"""Where MLX computes, and what it raises as errors of the house."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import mlx.core as mx

from ...ir.builder import user_source
from ...ir.errors import DeviceFailure, DeviceMemoryError, RlxError

_MAIN = threading.main_thread()
OUT_OF_MEMORY = ("Unable to allocate", "[malloc", "out of memory", "maximum allowed buffer size")


class _Leaving:
    """Clears what MLX keeps for a thread when Python ends the thread.

    Else MLX does so itself when Python may be gone already, and its compiled functions end the
    process.
    """

    def __del__(self) -> None:
        mx.clear_streams()


_thread = threading.local()


@contextmanager
def computing(device: mx.Device, name: str) -> Iterator[None]:
    """Compute on a device in the block; what fails there is an error of the house."""
    if not hasattr(_thread, "leaving") and threading.current_thread() is not _MAIN:
        _thread.leaving = _Leaving()
    try:
        with mx.stream(device):
            yield
    except RlxError:
        raise
    except (RuntimeError, MemoryError) as error:
        raise _translated(name, error) from error


def _translated(name: str, error: Exception) -> RlxError:
    text = str(error).partition("\n")[0]
    if isinstance(error, MemoryError) or any(word in text for word in OUT_OF_MEMORY):
        return DeviceMemoryError(
            f"the device {name!r} has too little memory: {text}",
            where=str(user_source()),
            fix="use smaller arrays, or delete those you no longer need",
        )
    return DeviceFailure(
        f"MLX failed on the device {name!r}: {text}",
        where=str(user_source()),
        fix='run the function on the cpu, rlx.jit(f, device="cpu"), and report what MLX says',
    )
