"""From a graph of primitives to a loop program with its memory.

Enters: a legal graph and a target. Leaves: a `Program`. Read `fuse.py` (what gets memory), then
`elements.py` (bodies to scalar expressions), then `schedule.py` (steps).
"""

from .divide_loops import divide_loops
from .finish import finish
from .operands import order_operands, turn_operands
from .plan_memory import plan_memory
from .schedule import schedule

__all__ = ["divide_loops", "finish", "order_operands", "plan_memory", "schedule", "turn_operands"]
