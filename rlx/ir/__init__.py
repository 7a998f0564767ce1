"""The graph, its types, its ops and its text: what every other floor speaks about.

Enters: calls of ops. Leaves: a typed `Graph`. Uses no other floor. Read `graph.py`, `op.py` and
`ops/arithmetic.py` first.
"""

from .text import equal, parse, show

__all__ = ["equal", "parse", "show"]
