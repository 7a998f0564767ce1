"""Sessions, compiled graphs, the compile cache, measuring.

Enters: a graph (or a function and examples) and a device. Leaves: a `CompiledGraph`. Uses ir,
trace, lower and backends. Read `session.py` first.
"""

from ..backends.backend import MISS
from . import distributed
from .cache import CacheStats, CompileCache
from .compiled import CompiledGraph, Cost
from .debug import debug, show
from .devices import (
    Device,
    default_device,
    device,
    devices,
    doctor,
    register_backend,
    unregister_backend,
)
from .eager import run_on_device
from .explain_device import Explanation, explain_device
from .export_coreml import export_coreml
from .measure import CacheBuster, Tick, time_ns
from .nan_check import nan_check
from .options import is_invariant
from .precision import precision, with_own_policies
from .session import CompileOptions, Session, default_session
from .supports import Support, supports
from .transfer import block_until_ready, device_get, device_put
from .verify_function import Verification, verify

__all__ = [
    "MISS",
    "CacheBuster",
    "CacheStats",
    "CompileCache",
    "CompileOptions",
    "CompiledGraph",
    "Cost",
    "Device",
    "Explanation",
    "Session",
    "Support",
    "Tick",
    "Verification",
    "block_until_ready",
    "debug",
    "default_device",
    "default_session",
    "device",
    "device_get",
    "device_put",
    "devices",
    "distributed",
    "doctor",
    "explain_device",
    "export_coreml",
    "is_invariant",
    "nan_check",
    "precision",
    "register_backend",
    "run_on_device",
    "show",
    "supports",
    "time_ns",
    "unregister_backend",
    "verify",
    "with_own_policies",
]
