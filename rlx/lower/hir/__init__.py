"""Graph passes that do not depend on the device.

Each pass takes a valid `Graph` and gives one; most files have one pass of their name. They may use
`ir` only, and name no op. Read `inline_calls.py` first.
"""

from .batch_products import batch_products, lighten_loops
from .inline_calls import expand, inline_calls
from .loops import hoist, trim_loops
from .rebuild import dedupe, drop_dead
from .simplify import fold_constants, simplify
from .split_complex import split_complex
from .split_fixed import split_fixed

__all__ = [
    "batch_products",
    "dedupe",
    "drop_dead",
    "expand",
    "fold_constants",
    "hoist",
    "inline_calls",
    "lighten_loops",
    "simplify",
    "split_complex",
    "split_fixed",
    "trim_loops",
]
