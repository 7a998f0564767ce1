"""The device of XLA: a CPU, a GPU or a TPU, as JAX offers them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from ...ir.graph import Graph
from ...ir.text import show
from ...ir.verify import verify
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..device_entry import device_entry

INSTALL = {
    "": "pip install jax",
    "cpu": "pip install jax",
    "gpu": 'pip install "jax[cuda13]"',
    "tpu": 'pip install "jax[tpu]"',
}


class XlaBackend(Backend):
    """Compiles graphs by JAX and XLA for one of JAX's platforms; "" is the best one it has."""

    def __init__(self, platform: str = "") -> None:
        self.platform = platform
        self.name = f"xla:{platform}" if platform else "xla"
        self.target = Target(self.name, has_symbolic_sizes=False)

    @functools.cached_property
    def _found(self) -> Availability:
        if find_spec("jax") is None:
            return Availability(False, "JAX is not installed", INSTALL[self.platform])
        try:
            import jax

            jax.devices(self.platform or None)
        except (ImportError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            return Availability(False, f"JAX says: {reason}", INSTALL[self.platform])
        return Availability(True)
