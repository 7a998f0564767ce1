"""Reading and writing parts of arrays: `x[i]`, `x.at[i].set(v)`, and `x[i] = v`.

Takes an array and an index as users write it, and applies ops. Read `items.py` first.
"""
