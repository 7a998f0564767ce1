"""Sessions, compiled graphs, the compile cache, measuring.

Enters: a graph (or a function and examples) and a device. Leaves: a `CompiledGraph`. Uses ir,
trace, lower and backends. Read `session.py` first.
"""

from .cache import CacheStats, CompileCache
from .measure import CacheBuster, Tick, time_ns
from .session import CompiledGraph, CompileOptions, Session, default_session

__all__ = [
    "CacheBuster",
    "CacheStats",
    "CompileCache",
    "CompileOptions",
    "CompiledGraph",
    "Session",
    "Tick",
    "default_session",
    "time_ns",
]
