"""Products with numbers in blocks of few bits, packed anew and read once.

`layout.py` says how they lie then. They may use `llvm`, `runtime` and `loops`.
"""
