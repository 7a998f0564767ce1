"""Matrix products and convolutions as LLVM code: tiling, packing, threads.

Read `problem.py`, then `choice.py` and `emit.py`.
"""
