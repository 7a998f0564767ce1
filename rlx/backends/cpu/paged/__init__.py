"""Attention to keys and values in pages, where many texts share the threads.

`attention.py` says how work is cut. They may use `llvm` and `loops`.
"""
