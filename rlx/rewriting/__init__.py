"""Python's `if`, `while` and `for` on traced values, by rewriting source.

Takes a Python function; gives one in which these statements ask whether what they depend on is
traced. May use `trace`, `transforms` and `numpy`. Read `autograph.py` first.
"""
