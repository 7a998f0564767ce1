"""Keys for exact equality, which tells 1, 1.0 and True apart."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from .record import fields

SHOWN = (numbers.Number, np.generic, range, slice)  # their texts say all


def exact(value: Any) -> Any:
    """A key of a value and its type, and of those inside; -0.0 differs from 0.0.

    It looks into tuples, named ones too, frozen sets, and the fields of records and dataclasses.

    >>> exact(1) == exact(1.0), exact((1, 2)) == exact((True, 2)), exact((1, 2)) == exact((1, 2))
    (False, False, True)
    """
    if isinstance(value, SHOWN):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), tuple(map(exact, value))
    if isinstance(value, frozenset):
        return type(value), frozenset(map(exact, value))
    parts = tuple(exact(getattr(value, name)) for name in fields(type(value)))
    return type(value), value, parts
