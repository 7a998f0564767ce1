"""The xla device: graphs replayed op by op in JAX, and compiled by XLA.

A graph of HIR becomes an executable on the CPU, a GPU or a TPU. `emit.py` has one line for
each op that JAX knows; read `backend.py` first, then `program.py`. JAX is imported here alone.
"""
