"""The run time of compiled code: calls from Python, memory, threads, signals.

Read `entry.py` first.
"""
