"""What each primitive of JAX means in rlx: imported, it fills `replay.RULES`.

Read `elementwise.py` first; `calls.py` and `derivatives.py` have those that hold functions.
"""

from . import (
    callbacks,
    calls,
    derivatives,
    elementwise,
    indices,
    linalg,
    random,
    reductions,
    shapes,
)
