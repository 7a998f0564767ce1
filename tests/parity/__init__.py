"""rlx against JAX, function by function and law by law.

`tables_*.py` list expressions, a function to a line; `engine.py` evaluates each with the modules of
JAX and with those of rlx and compares values, dtypes, shapes, weak types, `jit`, `jvp`, `vjp`, the
second order and `vmap` over each argument. `docs/differences.md` lists where the two differ, and
why. `make parity` runs everything, `test_sample.py` a part of it.
"""
