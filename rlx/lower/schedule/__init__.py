"""Scheduling: from a graph of primitives to a loop program with its memory.

Takes a legal graph and a target; gives a `Program`. Read `fuse.py` (which values are stored), then
`elements.py` (bodies to scalar expressions), `schedule.py` (steps) and `finish.py` (the passes over
them, in their order).
"""

from .finish import finish
from .schedule import schedule

__all__ = ["finish", "schedule"]
