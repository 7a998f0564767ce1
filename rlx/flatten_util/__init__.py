"""Raveling of pytrees: all arrays as one vector, and the function back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import numpy as rnp
from ..ir.errors import ShapeError as ShapeError
from ..ir.lazy import listed as listed
from ..trace import pytree as pytree
from ..trace.apply import as_operand as as_operand, as_tensor as as_tensor
from ..trace.promotion import result_dtype as result_dtype

__dir__ = listed(__name__)

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All arrays of a tree in one vector, and the function that undoes it.

    The vector has the dtype that all arrays of `pytree` promote to; the way back gives each its own
    again, and raises a `ShapeError` for a vector of another length.

    >>> vector, unravel = ravel_pytree({"b": rnp.array([3.0]), "w": rnp.ones((1, 2))})
    >>> vector.tolist(), unravel(vector * 2)["w"].tolist()
    ([3.0, 1.0, 1.0], [[2.0, 2.0]])
    """
    leaves, structure = flatten(pytree)
    arrays = [as_tensor(x) for x in leaves]
    if not arrays:
        return rnp.zeros(0), lambda vector: unflatten(structure, [])
    dtype = result_dtype(*map(as_operand, arrays))
    vector = rnp.concatenate([rnp.ravel(x).astype(dtype) for x in arrays])
    shapes = [(x.shape, x.dtype) for x in arrays]
    ends = [0]
    for shape, _ in shapes:
        ends.append(ends[-1] + math.prod(shape))

    def unravel(flat: Any) -> Any:
        flat = as_tensor(flat)
        if flat.shape != (ends[-1],):
            raise ShapeError(
                f"unravel: the vector is {flat.type}, not of {ends[-1]} numbers",
                fix=f"give a vector of the shape ({ends[-1]},)",
            )
        parts = [
            rnp.reshape(flat[start:stop], shape).astype(own)
            for start, stop, (shape, own) in zip(ends, ends[1:], shapes, strict=False)
        ]
        return unflatten(structure, parts)

    return vector, unravel


flatten, unflatten = pytree.flatten, pytree.unflatten
