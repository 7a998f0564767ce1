"""All cases, in the order of the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .engine import Case
from .tables_lax import LAX, LAX_LINALG
from .tables_numpy import NUMPY
from .tables_numpy_more import FFT, LINALG, MORE
from .tables_rest import INITIALIZERS, NN, RANDOM, SCIPY_LINALG, SPECIAL, TOP, TREE

TABLES: dict[str, dict[str, str]] = {
    "numpy": NUMPY | MORE,
    "numpy.linalg": LINALG,
    "numpy.fft": FFT,
    "lax": LAX,
    "lax.linalg": LAX_LINALG,
    "nn": NN,
    "nn.initializers": INITIALIZERS,
    "random": RANDOM,
    "scipy.special": SPECIAL,
    "scipy.linalg": SCIPY_LINALG,
    "tree": TREE,
    "": TOP,
}


def cases() -> list[Case]:
    """The case of each expression."""
    return [
        Case(module, text)
        for module, groups in TABLES.items()
        for lines in groups.values()
        for text in _expressions(lines)
    ]


def by_function() -> dict[str, list[Case]]:
    """The cases of each function, as `numpy.clip`."""
    found: dict[str, list[Case]] = {}
    for case in cases():
        found.setdefault(case.function, []).append(case)
    return found


def _expressions(lines: str) -> Iterator[str]:
    for line in lines.strip().replace("\n    ", " ").splitlines():
        named = re.match(r"([\w.]+): (.*)", line)
        for part in (named[2] if named else line).split(" ; "):
            yield f"{named[1]}({part.strip()})" if named else part.strip()
