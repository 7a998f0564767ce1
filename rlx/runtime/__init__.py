"""The run time: sessions, compiled graphs, the compile cache, devices.

Takes a graph (or a function and examples) and a device; gives a `CompiledGraph`. May use ir,
trace, lower and backends. Lowering is loaded when it is first needed. Read `session.py` first.
"""

from ..backends.backend import MISS, Executable, Plan, PlannedCall
from ..backends.locks import no_collection
from .cache import CacheStats, CompileCache
from .compiled import CompiledGraph, Cost
from .debug import debug, show
from .devices import (
    Device,
    block_until_ready,
    default_device,
    device,
    device_get,
    device_put,
    devices,
    doctor,
    register_backend,
    unregister_backend,
)
from .eager import run_on_device
from .options import is_invariant
from .precision import precision, with_own_policies
from .session import CompileOptions, Session, default_session

__all__ = [
    "MISS",
    "CacheStats",
    "CompileCache",
    "CompileOptions",
    "CompiledGraph",
    "Cost",
    "Device",
    "Executable",
    "Plan",
    "PlannedCall",
    "Session",
    "block_until_ready",
    "debug",
    "default_device",
    "default_session",
    "device",
    "device_get",
    "device_put",
    "devices",
    "doctor",
    "is_invariant",
    "no_collection",
    "precision",
    "register_backend",
    "run_on_device",
    "show",
    "unregister_backend",
    "with_own_policies",
]
