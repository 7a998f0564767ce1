"""What backends share that compute a graph by a library of array functions.

Enters: a traced graph and a table, one row an op, of functions on the library's arrays. Leaves: a
graph of ops that have a row, the walk that calls the rows, a report of what became of each op. Read
`row.py` first; `prepare.py` is the lowering. May use `ir` and `lower`.
"""

from .prepare import prepare
from .report import EXPANDED, NATIVE, ON_HOST, Ways, report, ways_of
from .row import Row, Table
from .walk import walk

__all__ = [
    "EXPANDED",
    "NATIVE",
    "ON_HOST",
    "Row",
    "Table",
    "Ways",
    "prepare",
    "report",
    "walk",
    "ways_of",
]
