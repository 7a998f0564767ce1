"""What each primitive of JAX means in rlx: imported, it fills `replay.RULES`.

Read `elementwise.py` first; `calls.py` and `derivatives.py` have those that hold functions, and
those that libraries made.
"""

from . import calls, derivatives, elementwise, linalg, random, reductions, shapes
