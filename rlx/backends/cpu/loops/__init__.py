"""Kernels of the loop IR as vectorized LLVM code.

Read `kernels.py`, then `scope.py`.
"""
