"""Benchmarks: rlx beside other libraries, each in a process of its own: `python -m benchmarks`.

A case (`cases/`) is inputs and a program in words that every library has (`libraries/library.py`);
`models/` holds longer programs. `session.py` starts a worker for each library and lets them take
turns, `result.py` has the arithmetic, `pages.py` what is written. `scaling.py` stands alone.
"""
