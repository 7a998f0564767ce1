"""Distributed computing: several processes, on one host or many, on xla.

Each process calls `initialize` before it uses the device. From then on a mesh has the devices of
all of them, and all processes run the same program.
"""

from __future__ import annotations

from typing import Any

from ..backends import registry
from ..ir.lazy import listed
from ..ir.sharding import NamedSharding
from ..trace.apply import as_tensor
from ..trace.arguments import wrong
from ..trace.array import Array

__dir__ = listed(__name__)


def _joined() -> Any:
    from ..backends.xla import memory  # loads JAX

    return memory


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Join the other processes; all wait until each has called this.

    The first process listens at `coordinator_address`, `"host:port"`. `num_processes` is how many
    there are, `process_id` which of them this is, from 0 on. On clusters that JAX knows (Slurm, TPU
    pods) nothing needs to be given.
    """
    _joined().join_processes(coordinator_address, num_processes, process_id)


def shutdown() -> None:
    """Leave the other processes."""
    _joined().leave_processes()


def process_index() -> int:
    """The number of this process; 0 if it is alone."""
    return _joined().process_index()


def process_count() -> int:
    """How many processes compute together."""
    return _joined().process_count()


def array_from_parts(part: Any, sharding: NamedSharding) -> Array:
    """The array of which each process has the part that is on its devices.

    `part` is this process's, `sharding` says how the whole is split.
    """
    if not isinstance(sharding, NamedSharding):
        fix = "pass rlx.NamedSharding(mesh, spec)"
        raise wrong("array_from_parts: the sharding", sharding, "a sharding", fix)
    backend = registry.get(sharding.mesh.device)
    memory: Any = backend.memory
    return Array(memory.joined(as_tensor(part).host(), sharding), memory)
