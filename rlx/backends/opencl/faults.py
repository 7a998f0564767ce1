"""What PyOpenCL raises, as errors of rlx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...ir.errors import DeviceFailure, DeviceLostError, DeviceMemoryError
from .platforms import library

MEMORY = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE")
LOST = ("DEVICE_NOT_AVAILABLE", "INVALID_COMMAND_QUEUE", "INVALID_CONTEXT", "OUT_OF_RESOURCES")


@contextmanager
def translated(device: str, doing: str) -> Iterator[None]:
    """Raise errors of rlx for those of PyOpenCL."""
    cl = library()
    try:
        yield
    except cl.Error as error:
        said = str(error)
        if isinstance(error, cl.MemoryError) or any(name in said for name in MEMORY):
            raise DeviceMemoryError(
                f"{device} has not enough memory for {doing}",
                notes=[said],
                fix="drop arrays that are no longer needed, or use a smaller batch",
            ) from error
        if any(name in said for name in LOST):
            raise DeviceLostError(
                f"{device} was lost at {doing}",
                notes=[said],
                fix="call again: the device is opened anew; make its arrays again from the host's",
            ) from error
        raise DeviceFailure(
            f"{device} failed at {doing}: {said}",
            fix="report this with the program; device='cpu' runs it meanwhile",
        ) from error
