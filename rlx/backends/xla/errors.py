"""What XLA raises, as errors of the house."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from ...ir.builder import user_source
from ...ir.errors import DeviceFailure, OutOfMemory, RlxError

OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")


@contextmanager
def translated(device: str) -> Iterator[None]:
    """Give errors of XLA in the block as errors of the house."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        raise _translated(device, error) from error


def _translated(device: str, error: Exception) -> RlxError:
    text = str(error).partition("\n")[0]
    if isinstance(error, MemoryError) or any(word in text for word in OUT_OF_MEMORY):
        return OutOfMemory(
            f"the device {device!r} has too little memory: {text}",
            where=str(user_source()),
            fix="use smaller arrays, delete those you no longer need, or donate arguments",
        )
    return DeviceFailure(
        f"XLA failed on the device {device!r}: {text}",
        where=str(user_source()),
        fix='run the function on the cpu, rlx.jit(f, device="cpu"), and report what XLA says',
    )
