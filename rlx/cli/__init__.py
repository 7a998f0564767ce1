"""The command line, `python -m rlx` or `rlx`: arguments come in, text goes out.

Each verb is a module with two functions: `add` describes its arguments, `run` does it. Read
`main.py` first.
"""
