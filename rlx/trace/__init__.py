"""Tracing: from Python functions to graphs; arrays, pytrees, control flow.

Takes a Python function and example arguments; gives a `Graph`. May use `ir` only. Read `apply.py`
first, then `make_graph.py`.
"""
