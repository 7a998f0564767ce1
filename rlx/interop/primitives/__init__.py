"""What each primitive of JAX means in rlx: imported, it fills `replay.RULES`.

Read `elementwise.py` first; `calls.py` and `derivatives.py` have those that hold functions,
`others.py` those that libraries made.
"""

from . import calls, derivatives, elementwise, linalg, others, random, reductions, shapes
