"""What each primitive of JAX means in rlx: imported, it fills `replay.RULES`.

Read `elementwise.py` first; `calls.py` and `derivatives.py` have those that hold functions, and
those that libraries made.
"""

from . import (
    calls as calls,
    derivatives as derivatives,
    elementwise as elementwise,
    linalg as linalg,
    random as random,
    reductions as reductions,
    shapes as shapes,
)
