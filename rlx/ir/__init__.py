"""The graph IR: typed graphs, ops, text, verification.

Enters: calls of ops. Leaves: a typed `Graph`. Uses no other floor. Read `graph.py`, `op.py` and
`ops/arithmetic.py` first.
"""

from typing import TYPE_CHECKING

from . import errors as errors
from .lazy import door as _door

if TYPE_CHECKING:
    from .text import equal as equal, parse as parse, show as show

    __all__ = ["equal", "parse", "show"]
else:
    __getattr__, __dir__ = _door(
        __name__,
        (),
        {
            "text": "equal parse show",
        },
        errors.with_advice(__name__, {}),
    )
