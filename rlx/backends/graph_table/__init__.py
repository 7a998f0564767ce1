"""What backends share that compute a graph by a library of array functions.

Enters: a traced graph and a table, one row an op, of functions on the library's arrays. Leaves: a
graph of ops that have a row (and of those that run otherwise, each with its reason), and the walk
that calls the rows. Read `row.py` first; `prepare.py` is the lowering. May use `ir` and `lower`.
"""

from .prepare import prepare
from .report import report
from .row import Row, Table
from .walk import walk

__all__ = ["Row", "Table", "prepare", "report", "walk"]
