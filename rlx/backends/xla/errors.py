"""What XLA raises, as errors of the house."""

from __future__ import annotations

import os

import jax

from ...ir.errors import DeviceFailure, DeviceMemoryError, KernelBuildError, RlxError
from ...ir.source import user_source
from ..locks import check_process

_PROCESS = os.getpid()  # of JAX's threads, which a forked child has not
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")


class translated:
    """Gives errors of XLA as the house's, in a block that `builds` a program or not.

    A class, for the frames of a generator would stand between the user's line and the error.
    """

    def __init__(self, device: str, *, builds: bool = False) -> None:
        self._device, self._builds = device, builds

    def __enter__(self) -> None:
        check_process(self._device, _PROCESS)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        kinds: tuple[type[BaseException], ...] = (jax.errors.JaxRuntimeError, MemoryError)
        if not self._builds:  # JAX's name for what it does not know, as a lost process
            kinds = (*kinds, ValueError)
        if error is None or isinstance(error, RlxError):
            return
        if isinstance(error, kinds):
            raise _translated(self._device, error, self._builds) from error


def _translated(device: str, error: BaseException, builds: bool) -> RlxError:
    text = str(error).partition("\n")[0]
    where = str(user_source())
    if isinstance(error, MemoryError) or any(word in text for word in OUT_OF_MEMORY):
        return DeviceMemoryError(
            f"the device {device!r} has not enough memory: {text}",
            where=where,
            fix="use smaller arrays, delete those you no longer need, or donate arguments",
        )
    if builds:
        return KernelBuildError(
            f"XLA cannot compile the function for the device {device!r}: {text}",
            where=where,
            fix='run it on the cpu: rlx.jit(f, device="cpu")',
        )
    return DeviceFailure(
        f"XLA failed on the device {device!r}: {text}",
        where=where,
        fix='call it again, or on the cpu: rlx.jit(f, device="cpu")',
    )
