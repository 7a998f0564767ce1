"""Image resizing, for arrays of any rank.

Arrays are resampled by a kernel along each axis: one matrix of weights an axis.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import numpy as rnp
from ..ir.errors import AttributeValueError as AttributeValueError, ShapeError as ShapeError
from ..ir.lazy import listed as listed
from ..ir.types import is_inexact as is_inexact, promote as promote
from ..trace.apply import as_tensor as as_tensor
from ..trace.arguments import count_of as count_of, flag as flag, members as members, wrong as wrong
from ..trace.array import Array
from ..trace.axes import some_axes as some_axes
from ..trace.promotion import FLOAT as FLOAT

__dir__ = listed(__name__)

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

LEAST = 1000 * 2.0**-23  # a sum of weights below this is noise: nothing is there to sample


class ResizeMethod(enum.Enum):
    """The kernel that weighs neighbors."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method called `s`: nearest, linear (bilinear, triangle), cubic, ...

        Any other name is an `AttributeValueError`.
        """
        found = NAMES.get(s) if isinstance(s, str) else None
        if found is None:
            raise AttributeValueError(
                f"there is no resize method {s!r}",
                fix=f"use one of {', '.join(NAMES)}",
            )
        return found


NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
}


def _cubic(x: Any) -> Any:
    """Keys, 1981: Cubic convolution interpolation for digital image processing, a = -1/2."""
    near = ((1.5 * x - 2.5) * x) * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return rnp.where(x < 1, near, rnp.where(x < 2, far, 0))


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        waves = radius * rnp.sin(math.pi * x) * rnp.sin(math.pi * x / radius)
        shape = rnp.where(x > 1e-3, waves / rnp.where(x != 0, math.pi**2 * x**2, 1), 1)
        return rnp.where(x > radius, 0, shape)

    return kernel


KERNELS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: lambda x: rnp.maximum(0, 1 - x),
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic,
}


def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """An array resampled to another shape of the same rank.

    `image` has any rank; the result has the shape `shape` and the dtype of the image, float32 for
    integers. `method` is nearest, linear, cubic, lanczos3 or lanczos5. With `antialias` the kernel
    is widened where an axis shrinks, so that every element counts. `precision` is taken for JAX's
    sake: all digits are kept. A shape of another rank is a `ShapeError`.

    >>> resize(rnp.array([[0.0, 1.0]]), (1, 4), "linear").tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    image, sizes = as_tensor(image), _sizes(shape)
    kind = _method(method)
    if len(sizes) != image.ndim:
        raise ShapeError(
            f"resize: the shape {sizes} has not the rank of {image.type}",
            fix="give a size for each axis",
        )
    axes = [i for i in range(image.ndim) if image.shape[i] != sizes[i]]
    if kind is ResizeMethod.NEAREST:
        return _nearest(image, sizes, axes)
    result = image if is_inexact(image.dtype) else image.astype("float32")
    if 0 in sizes:
        return rnp.zeros(sizes, result.dtype)
    if any(image.shape[i] == 0 for i in axes):
        raise ShapeError(
            f"resize: {image.type} has no elements to make others of",
            fix="give an image with elements",
        )
    for axis in axes:
        scale = sizes[axis] / image.shape[axis]
        weights = _weights(result, axis, sizes[axis], scale, 0.0, KERNELS[kind], antialias)
        result = _weighted(result, weights, axis)
    return result


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Array:
    """An array scaled and moved along axes: x goes to `scale * x + translation`.

    `scale` and `translation` have a number for each of `spatial_dims`; the result has the shape
    `shape`. What comes from outside of `image` is 0. `method`, `antialias` and `precision` are as
    for `resize`; "nearest" is an `AttributeValueError`.

    >>> moved = scale_and_translate(
    ...     rnp.ones((1, 3)), (1, 4), (1,), rnp.array([1.0]), rnp.array([1.0]), "linear")
    >>> moved.tolist()
    [[0.0, 1.0, 1.0, 1.0]]
    """
    image, sizes = as_tensor(image), _sizes(shape)
    kind = _method(method)
    if kind is ResizeMethod.NEAREST:
        raise AttributeValueError(
            "scale_and_translate: nearest has no weights",
            fix="use linear, cubic, lanczos3 or lanczos5",
        )
    scale, translation = as_tensor(scale), as_tensor(translation)
    result = image if is_inexact(image.dtype) else image.astype("float32")
    given = members("scale_and_translate: spatial_dims", spatial_dims)
    axes = some_axes("scale_and_translate", given, image.ndim)
    if len(sizes) != image.ndim:
        raise wrong("scale_and_translate: shape", shape, f"of {image.ndim} sizes", "give all")
    for what, x in (("scale", scale), ("translation", translation)):
        if tuple(x.shape) != (len(axes),):
            fix = f"give {len(axes)} numbers, one for each of spatial_dims"
            raise wrong(f"scale_and_translate: {what}", x, f"of the shape ({len(axes)},)", fix)
    for i, axis in enumerate(axes):
        weights = _weights(
            result, axis, sizes[axis], scale[i], translation[i], KERNELS[kind], antialias
        )
        result = _weighted(result, weights, axis)
    return result


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(count_of("resize: a size", n) for n in members("resize: shape", shape))


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


def _weights(
    image: Any,
    axis: int,
    new: int,
    scale: Any,
    translation: Any,
    kernel: Callable[[Any], Any],
    antialias: bool,
) -> Array:
    """The matrix whose column j has the weights of the elements for the new element j.

    It is in float32, or in float64 for an image of such numbers.
    """
    size, dtype = image.shape[axis], promote(rnp.finfo(image.dtype).dtype, FLOAT)
    antialias = flag("antialias", antialias)
    inverse = 1.0 / scale
    width = rnp.maximum(inverse, 1.0) if antialias else 1.0
    place = (rnp.arange(new, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5
    distance = rnp.abs(place[None, :] - rnp.arange(size, dtype=dtype)[:, None]) / width
    weights = kernel(distance)
    total = rnp.sum(weights, axis=0, keepdims=True)
    weights = rnp.where(rnp.abs(total) > LEAST, weights / rnp.where(total != 0, total, 1), 0)
    is_inside = (place >= -0.5) & (place <= size - 0.5)
    return rnp.where(is_inside[None, :], weights, 0)


def _weighted(image: Any, weights: Any, axis: int) -> Array:
    moved = rnp.moveaxis(image, axis, -1)
    return rnp.moveaxis(rnp.matmul(moved, weights.astype(image.dtype)), -1, axis)


def _nearest(image: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    for axis in axes:
        size, new = image.shape[axis], sizes[axis]
        places = rnp.floor((rnp.arange(new, dtype="float32") + 0.5) * size / new).astype("int32")
        image = rnp.take(image, places, axis=axis, mode="clip")
    return image
