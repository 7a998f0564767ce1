"""Tracing: from Python functions to graphs; arrays, pytrees, control flow.

Enters: a Python function and example arguments. Leaves: a `Graph` of the floor `ir`, the only
floor this one uses. Read `apply.py` first, then `make_graph.py`.
"""
