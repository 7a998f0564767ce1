"""Sorts and top k as LLVM code.

Read `rows.py` first.
"""
