"""Scheduling: from a graph of primitives to a loop program with its memory.

Takes a legal graph and a target; gives a `Program`. Read `fuse.py` (which values are stored), then
`elements.py` (bodies to scalar expressions) and `schedule.py` (steps). The passes over steps are in
the other files, in the order of `finish` in `lower/pipeline.py`.
"""

from .schedule import schedule

__all__ = ["schedule"]
