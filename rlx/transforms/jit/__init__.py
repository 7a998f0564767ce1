"""`jit`: record a function for each kind of arguments, compile it, enter its code.

Enters: a Python function and its arguments. Leaves: results. Read `jitted.py` first: its `_slow` is
the way of a first call, `paths.py` that of all others.
"""
