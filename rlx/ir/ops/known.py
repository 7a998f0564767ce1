"""What a fold rule can know about a value, and values of one number."""

from __future__ import annotations

import math

import numpy as np

from ..graph import Node, Value
from ..types import is_complex, is_inexact
from .constant import SCALAR, full

SCANNED = 1024  # larger constants are not searched for being all one number


def like(x: Value, number: SCALAR) -> Value:
    """An array of one number with the dtype and shape of `x`."""
    return full(shape=x.shape, value=number, dtype=x.dtype)


def scalar_like(x: Value, number: SCALAR) -> Value:
    """A scalar with the dtype of `x`."""
    return full(shape=(), value=number, dtype=x.dtype)


def uniform(x: Value) -> SCALAR | None:
    """The number that all elements of a value are known to be, or None."""
    if x.node is None:
        return None
    if x.node.op is full:
        with np.errstate(all="ignore"):
            return np.asarray(x.node.attrs["value"]).astype(x.dtype).item()
    array = x.constant
    if array is None or not 0 < array.size <= SCANNED or not (array == array.flat[0]).all():
        return None
    if array.tobytes() != array.flat[0].tobytes() * array.size:  # zeros of both signs
        return None
    return array.flat[0].item()


def is_zero(x: Value, *, negative: bool) -> bool:
    """Whether all elements are the zero of that sign; an integer's has none."""
    number = uniform(x)
    if number is None or number != 0:
        return False
    if not is_inexact(x.dtype):
        return True
    return not is_complex(x.dtype) and (math.copysign(1.0, number.real) < 0) == negative


def is_all(x: Value, number: SCALAR) -> bool:
    """Whether all elements of a value are known to be this number."""
    return uniform(x) == number


def maker(x: Value, name: str) -> Node | None:
    """The node that makes a value, if it is one of the op of this name."""
    return x.node if x.node is not None and x.node.op.name == name else None
