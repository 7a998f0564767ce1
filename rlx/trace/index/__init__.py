"""Reading and writing parts of arrays: `x[i]`, `x.at[i].set(v)`, and `x[i] = v`.

Enters: an array and an index as users write it. Leaves: ops. Read `items.py` first.
"""
