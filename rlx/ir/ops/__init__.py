"""The ops of rlx: a file for each family of ops, a folder for a large one.

An op is defined in one place with all its rules, its "room". It takes values (or, by its
reference, arrays), and records a node in the open graph. Adding an op to a family touches that
family's file alone. Read `families.py` and `arithmetic.py` first.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..graph import OPS
from . import (
    arithmetic,
    callback,
    checkpoint,
    compare,
    constant,
    contract,
    control,
    convert,
    cumulative,
    custom,
    exponential,
    index,
    loops,
    movement,
    pad_slice,
    reduce,
    scan,
    scatter,
    trigonometric,
)

# Loaded one after another until one has the op that is asked for, those first that more ask for.
RARE = (
    "random activation softmax sort normalize dynamic error_function pool conv attention fft "
    "segments linalg special quantize blocks block_dot precision named"
)
OPS.rare += [f"{__name__}.{room}" for room in RARE.split()]


class _Rooms(ModuleType):
    """An op whose room's file has the same name (convert, sort) hides the file."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in OPS.defined:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Rooms
for _name in OPS.defined.keys() & globals().keys():
    del globals()[_name]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_") or name not in OPS:
            raise AttributeError(f"there is no op {name!r}")
        return OPS[name]
