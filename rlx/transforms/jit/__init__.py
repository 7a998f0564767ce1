"""`jit`: trace, compile and call a function, for each kind of arguments.

Takes a Python function and its arguments, gives results. Read `jitted.py` first: its `_slow` is
the path of a first call, `paths.py` that of all others.
"""
