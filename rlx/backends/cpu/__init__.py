"""The cpu backend: graphs to machine code of this processor, through LLVM.

Read `backend.py`, then `program.py`.
"""
