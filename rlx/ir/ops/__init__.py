"""The rooms: every op of rlx, a family a file.

Enters: values (or, for `reference`, arrays). Leaves: nodes in the open graph. Read `families.py`
and `arithmetic.py` first. Adding an op to a family touches that family's file alone.
"""

from . import arithmetic, constant
from ..graph import OPS


def __getattr__(name: str):
    return OPS[name]
