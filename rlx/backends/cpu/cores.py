"""How many threads the process may keep busy."""

from __future__ import annotations

import math
import os
from pathlib import Path

from ...ir.config import threads_asked

NO_LIMIT = math.inf


def cores() -> int:
    """RLX_NUM_THREADS; else the processors it may use.

    These are those it may run on, or its share of them if that is less.
    """
    if asked := threads_asked(os.environ):
        return asked
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, math.ceil(min(count, share())))


def share(root: Path = Path("/")) -> float:
    """How many processors Linux's control groups let this process use.

    Without a limit it is infinite.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return NO_LIMIT
    found = [NO_LIMIT]
    for line in groups:
        _, kinds, path = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if kinds else "")
        inside = Path(path.lstrip("/"))
        # in a container the own group may be seen at the top
        found += [_limit(top / part, bool(kinds)) for part in (inside, *inside.parents)]
    return min(found)


def _limit(folder: Path, is_old: bool) -> float:
    """The limit of one group, of the first or the second kind."""
    try:
        if is_old:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = ((folder / name).read_text().strip() for name in names)
        else:
            quota, period = (folder / "cpu.max").read_text().split()
        limit = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # there is no such group, or it says "max"
        return NO_LIMIT
    return limit if limit > 0 else NO_LIMIT
