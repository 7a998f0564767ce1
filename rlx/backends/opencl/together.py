"""Kernels of several programs that are built at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ...ir.errors import KernelBuildError
from ..c_like.opencl_c import OpenClC
from ..c_like.plan import Kernels
from .machine import ClMachine

MOST = 64  # kernels


class Together:
    """Kernels of plans that wait to be built; the first that runs has all built.

    A driver takes its time for each build, whatever is in it: PoCL reads 20,000 lines of headers.
    """

    def __init__(self, machine: ClMachine) -> None:
        self.machine, self.session = machine, -1
        self.kernels = Kernels(OpenClC(machine.limits))
        self.program: Any = None

    @property
    def is_open(self) -> bool:
        """Whether kernels may be added."""
        return self.session < 0 and len(self.kernels.known) < MOST

    def built(self) -> Any:
        """The program of all kernels, built anew if the device was lost.

        None if one of them does not build: each plan's are to be built alone then.
        """
        with self.machine.lock:
            if self.session != self.machine.session:
                self.session, self.program = self.machine.session, None
                with suppress(KernelBuildError):
                    self.program = self.machine.build(self.kernels.text)
            return self.program
