"""Lowering: passes from a traced graph to a loop program.

Takes a traced `Graph` and a `Target`; gives a `Program` of the loop level, the text of each
stage, and a report of what was fused and what was not. May use `ir` only. Read `pipeline.py`
first.
"""
