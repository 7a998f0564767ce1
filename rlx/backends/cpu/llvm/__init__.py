"""LLVM: functions built as text, compiled and linked into the process.

Read `text.py` first.
"""
