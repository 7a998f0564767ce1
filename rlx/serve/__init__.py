"""Serving language models: requests share steps, pages of a cache, and prefixes.

`Engine` continues many texts at a time. Read `pages.py` first, then `scheduler.py`, `engine.py`.
"""

from ..ir.lazy import listed as _listed
from .adapters import Adapters as Adapters
from .engine import Engine as Engine, Ticket as Ticket
from .weights import Handle as Handle, WeightRegistry as WeightRegistry
from .workers import Workers as Workers

__dir__ = _listed(__name__)
