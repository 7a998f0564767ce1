"""Transforms: jit, derivatives of both modes, batching, custom rules, checkpoint.

Each takes a Python function and gives one. The engines (`jvp.py`, `linearize.py`, `transpose.py`,
`vmap.py`) go from graph to graph and name no op. May use ir, trace and runtime. Read `jvp.py`
first.
"""
