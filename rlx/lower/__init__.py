"""From a graph to a loop program, pass by pass.

Enters: a traced `Graph` and a `Target`. Leaves: a `Program` of the loop level, with the text of
each stage and a report of what was fused and what was not. May use `ir` only. Read `pipeline.py`
first.
"""
