"""The ops of rlx: a file for each family of ops, a folder for a large one.

An op is defined in one place with all its rules, its "room". It takes values (or, by its
reference, arrays), and records a node in the open graph. Adding an op to a family touches that
family's file alone. Read `families.py` and `arithmetic.py` first.
"""

from typing import TYPE_CHECKING, Any

from ..graph import OPS
from . import (
    activation,
    arithmetic,
    attention,
    callback,
    checkpoint,
    compare,
    complex_parts,
    constant,
    contract,
    control,
    conv,
    convert,
    cumulative,
    custom,
    dynamic,
    error_function,
    exponential,
    fft,
    index,
    linalg,
    loops,
    movement,
    named,
    normalize,
    pad_slice,
    pool,
    precision,
    quantize,
    random,
    reduce,
    scan,
    scatter,
    softmax,
    sort,
    special,
    trigonometric,
)

# an op whose room's file has the same name (convert, sort) hides the file
globals().update(OPS)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in OPS:
            raise AttributeError(f"there is no op {name!r}")
        return OPS[name]
