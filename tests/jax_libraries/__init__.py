"""Programs of libraries of JAX, run by rlx as JAX runs them: `make libraries`.

`program.py` says what a program is and how it is compared, `table.py` runs all of them, and the
other files have the programs, a few for each library.
"""
