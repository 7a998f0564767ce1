"""Checks and conversions of arguments that are arrays or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import ConcretizationError, ShapeError
from .apply import apply, as_tensor
from .arguments import shown, wrong
from .array import Array
from .tensor import TracedTensor


def vector(what: str, given: Any, *, least: int = 0) -> Array:
    """Convert to a tensor with one axis; a number is a vector of one."""
    x = as_tensor(given)
    if x.ndim == 0:
        x = apply("reshape", x, shape=(1,))
    if x.ndim != 1:
        raise ShapeError(
            f"{what} is {x.type}, not a vector",
            fix="give one axis; rlx.vmap takes a batch of them",
        )
    if isinstance(x.shape[0], int) and x.shape[0] < least:
        raise ShapeError(f"{what} is {x.type}, without elements", fix=f"give {least} or more")
    return x


def with_axes(what: str, given: Any, least: int) -> Array:
    """Convert to a tensor with so many axes at least."""
    x = as_tensor(given)
    if x.ndim >= least:
        return x
    kind = {1: "an axis", 2: "the two axes of a matrix"}.get(least, f"{least} axes")
    raise ShapeError(
        f"{what} is {x.type}, without {kind}",
        fix="give an array with an axis"
        if least == 1
        else f"give an array with {least} axes or more",
    )


def known_number(what: str, given: Any) -> Any:
    """Convert a number that is known while tracing to a Python number."""
    array = given.concrete if isinstance(given, TracedTensor) else given
    if array is None:
        raise ConcretizationError(
            f"{what} is {shown(given)}, which has no number while it is recorded",
            fix="make the argument a Python value with static_argnames",
        )
    x = as_tensor(array)
    if x.shape == ():
        return x.host().item()
    raise wrong(what, given, "a number", "pass one number")


def scalar(what: str, given: Any) -> Any:
    """Check for a scalar: a number, an array without axes or a symbolic size."""
    is_number = isinstance(given, int | float | complex | np.number | np.bool_ | Dim)
    is_scalar = isinstance(getattr(given, "dtype", None), np.dtype) and given.shape == ()
    if is_number or (is_scalar and given.dtype.kind not in "OSUMmV"):
        return given
    raise wrong(what, given, "a number", "pass one number")


def matrix(what: str, given: Any) -> Any:
    """Convert to a tensor with two axes."""
    x = as_tensor(given)
    if x.ndim == 2:
        return x
    raise ShapeError(
        f"{what} is {x.type}, not a matrix",
        fix="give two axes; rlx.vmap takes a batch of matrices",
    )


def known_real(what: str, given: Any) -> float:
    """Convert a number that is known while tracing to a Python float."""
    found = given if isinstance(given, float) else known_number(what, given)  # with all its digits
    if isinstance(found, int | float):
        return float(found)
    raise wrong(what, given, "a real number", "pass one number")
