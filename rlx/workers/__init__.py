"""Processes that compute for this one, and that it can lose without harm.

`WorkerPool` runs a user's functions in them. Read `process.py` first: a process, its messages and
its signs of life.
"""

from ..ir.lazy import listed as _listed
from .pool import WorkerPool as WorkerPool

__all__ = ["WorkerPool"]
__dir__ = _listed(__name__)
