"""Benchmarks: rlx beside JAX and NumPy, in one process: `python -m benchmarks`."""
