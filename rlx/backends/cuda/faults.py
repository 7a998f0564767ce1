"""What errors of CuPy mean for the user of rlx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...ir.errors import DeviceLostError, DeviceMemoryError, InternalError
from .cards import library

OUT_OF_MEMORY = 2  # of the runtime and of the driver
NO_MEMORY_FOR_BLAS = 3  # cuBLAS could not allocate what it needs
# After these a process cannot use the device any more; numbers of the runtime and of the driver.
LOST = frozenset(
    (
        4,  # the driver is shutting down
        46,  # all devices are busy or unavailable
        201,  # the context is not valid
        214,  # an error in memory that cannot be corrected
        700,  # a kernel used an address that is not its
        702,  # a kernel ran too long
        709,  # the context was destroyed
        710,  # an assertion failed in a kernel
        714,  # the stack is corrupt
        715,  # an illegal instruction
        716,  # a misaligned address
        717,  # an address of another space
        718,  # an invalid program counter
        719,  # a kernel failed
        999,  # unknown
    )
)


@contextmanager
def translated(device: str, doing: str) -> Iterator[None]:
    """Raise errors of rlx for those of CuPy."""
    cuda = library().cuda
    failures = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)
    try:
        yield
    except cuda.memory.OutOfMemoryError as error:
        raise _no_memory(device, doing, error) from error
    except failures as error:
        if error.status == OUT_OF_MEMORY:
            raise _no_memory(device, doing, error) from error
        if error.status in LOST:
            raise lost(device, doing, str(error)) from error
        raise _failed(device, doing, error) from error
    except RuntimeError as error:
        # the class of cuBLAS's errors cannot be imported where the library is missing
        if type(error).__name__ != "CUBLASError":
            raise
        if error.status == NO_MEMORY_FOR_BLAS:  # type: ignore[attr-defined]
            raise _no_memory(device, doing, error) from error
        raise _failed(device, doing, error) from error


def lost(device: str, doing: str, note: str) -> DeviceLostError:
    """The error for a device that this process cannot use any more."""
    return DeviceLostError(
        f"{device} was lost at {doing}",
        notes=[note],
        fix="start Python again: the driver gives a process that lost a device no new one; "
        "other devices, as device='cpu', go on working here",
    )


def _no_memory(device: str, doing: str, error: Exception) -> DeviceMemoryError:
    return DeviceMemoryError(
        f"{device} has not enough memory for {doing}",
        notes=[str(error)],
        fix="drop arrays that are no longer needed, or use a smaller batch",
    )


def _failed(device: str, doing: str, error: Exception) -> InternalError:
    return InternalError(
        f"{device} failed at {doing}: {error}",
        fix="report this with the program; device='cpu' runs it meanwhile",
    )
