"""Interpolation of samples, under the names of `jax.scipy.interpolate`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn, final

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..trace.apply import as_tensor
from ..trace.arguments import choice, flag, members
from ..trace.array import Array
from ..trace.attributes import register_attributes
from ..trace.promotion import promote_operands
from .operands import Tensor, floats

METHODS = ("linear", "nearest")


@final
class RegularGridInterpolator:
    """Linear or nearest interpolation of values on a rectilinear grid.

    `points` are the ascending coordinates along each axis; further axes of `values` are results.
    `method` is "linear" or "nearest". Outside of the grid the result is `fill_value`, or
    extrapolated if that is None; `bounds_error` must be False.

    >>> f = RegularGridInterpolator(([0.0, 1.0, 3.0],), [0.0, 10.0, 30.0])
    >>> f([0.5, 2.0]).tolist()
    [5.0, 20.0]
    """

    grid: tuple[Any, ...]
    values: Any
    fill_value: Any

    def __init__(
        self,
        points: Sequence[Tensor],
        values: Tensor,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Tensor | None = np.nan,
    ) -> None:
        bounds_error = flag("RegularGridInterpolator: bounds_error", bounds_error)
        _check_method(method)
        if bounds_error:
            what = "RegularGridInterpolator: compiled code raises no errors for places"
            raise ArgumentError(what, fix="use bounds_error=False")
        self.method = method
        self.bounds_error = False
        self.values = as_tensor(promote_operands(as_tensor(values), inexact=True)[0])
        self.grid = tuple(as_tensor(p) for p in members("RegularGridInterpolator: points", points))
        self.fill_value = None if fill_value is None else as_tensor(fill_value)
        sizes = tuple(p.shape for p in self.grid)
        if sizes != tuple((n,) for n in self.values.shape[: len(sizes)]) or (1,) in sizes:
            _wrong_shape(
                f"the points are {', '.join(str(p.type) for p in self.grid)}, "
                f"the values {self.values.type}",
                "give one vector of two or more places for each axis of the values",
            )

    def __call__(self, xi: Tensor | tuple[Tensor, ...], method: str | None = None) -> Array:
        """Interpolate at points of shape (..., axes), or at a tuple of coordinate arrays."""
        method = self.method if method is None else method
        _check_method(method)
        places = self._places(xi)
        indices, shares = [], []
        is_outside: Any = False
        for axis, grid in enumerate(self.grid):
            x = places[..., axis]
            i = rnp.clip(rnp.searchsorted(grid, x) - 1, 0, grid.shape[0] - 2)
            indices.append(i)
            shares.append((x - grid[i]) / (grid[i + 1] - grid[i]))
            is_outside = is_outside | (x < grid[0]) | (x > grid[-1])
        if method == "nearest":
            near = zip(indices, shares, strict=True)
            made = self.values[tuple(rnp.where(t <= 0.5, i, i + 1) for i, t in near)]
        else:
            made = self._between(indices, shares)
        if self.fill_value is None:
            return made
        outside = rnp.reshape(is_outside, is_outside.shape + (1,) * (made.ndim - is_outside.ndim))
        return rnp.where(outside, rnp.astype(self.fill_value, made.dtype), made)

    def _places(self, xi: Tensor | tuple[Tensor, ...]) -> Any:
        count = len(self.grid)
        if isinstance(xi, tuple) and len(xi) == 1:
            xi = xi[0]
        if isinstance(xi, tuple):
            coordinates = rnp.broadcast_arrays(*floats("RegularGridInterpolator", *xi))
            places = rnp.stack(coordinates, axis=-1)
        else:
            places = as_tensor(xi)
            places = rnp.reshape(places, (-1, count)) if places.ndim < 2 else places
        if places.shape[-1] != count:
            _wrong_shape(f"the places are {places.type}", f"give an array of shape (..., {count})")
        return as_tensor(promote_operands(places, inexact=True)[0])

    def _between(self, indices: list[Any], shares: list[Any]) -> Any:
        """The sum of the corners around each place, weighted."""
        extra = (1,) * (self.values.ndim - len(indices))
        total: Any = 0
        for corner in itertools.product((0, 1), repeat=len(indices)):
            weight: Any = 1.0
            for side, share in zip(corner, shares, strict=True):
                weight = weight * (share if side else 1 - share)
            value = self.values[tuple(i + side for i, side in zip(indices, corner, strict=True))]
            total = total + value * rnp.reshape(weight, weight.shape + extra)
        return total


register_attributes(
    RegularGridInterpolator, ("grid", "values", "fill_value"), ("method", "bounds_error")
)


def _check_method(method: str) -> None:
    choice("RegularGridInterpolator: method", method, METHODS)


def _wrong_shape(what: str, fix: str) -> NoReturn:
    raise ShapeError(f"RegularGridInterpolator: {what}", fix=fix)
