"""Layers that change the number of places; features come last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from .. import numpy as rnp
from ..image import resize
from ..ir.errors import ShapeError
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of
from ..trace.array import Array
from .arguments import Numbers, numbers
from .module import Module, field

METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")


def pixel_shuffle(x: Any, factor: int) -> Array:
    """Blocks of places out of features, r by r, where r is `factor`.

    `f32[..., h, w, size r²] → f32[..., h r, w r, size]`. Feature `c r² + i r + j` becomes feature c
    at row i and column j of the block, as in PyTorch. From "Real-Time Single Image and Video
    Super-Resolution", Shi et al., 2016.

    >>> pixel_shuffle(rnp.arange(4.0).reshape(1, 1, 4), 2)[..., 0].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    r, x = count_of("pixel_shuffle: factor", factor, 1), _image("pixel_shuffle", x)
    *batch, height, width, size = x.shape
    if size % (r * r):
        raise ShapeError(
            f"pixel_shuffle: the {size} features of {x.type} do not make blocks of {r} by {r}",
            fix=f"give a multiple of {r * r} features, channels last",
        )
    n = len(batch)
    parts = rnp.reshape(x, (*batch, height, width, size // (r * r), r, r))
    parts = rnp.transpose(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return rnp.reshape(parts, (*batch, height * r, width * r, size // (r * r)))


def pixel_unshuffle(x: Any, factor: int) -> Array:
    """Features out of blocks of places, r by r, where r is `factor`.

    `f32[..., h r, w r, size] → f32[..., h, w, size r²]`. It undoes `pixel_shuffle`.

    >>> pixel_unshuffle(rnp.arange(4.0).reshape(2, 2, 1), 2).tolist()
    [[[0.0, 1.0, 2.0, 3.0]]]
    """
    r, x = count_of("pixel_unshuffle: factor", factor, 1), _image("pixel_unshuffle", x)
    *batch, height, width, size = x.shape
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle: the places of {x.type} do not part in blocks of {r} by {r}",
            fix=f"give an image whose sides are multiples of {r}, channels last",
        )
    n = len(batch)
    parts = rnp.reshape(x, (*batch, height // r, r, width // r, r, size))
    parts = rnp.transpose(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return rnp.reshape(parts, (*batch, height // r, width // r, size * r * r))


def _image(name: str, x: Any) -> Any:
    x = as_tensor(x)
    if x.ndim < 3:
        raise ShapeError(
            f"{name}: {x.type} has no rows, columns and features",
            fix="give an array of shape (..., height, width, features)",
        )
    return x


@final
class PixelShuffle(Module):
    """Blocks of places out of features as a layer.

    `f32[..., h, w, size r²] → f32[..., h r, w r, size]`, where r is `factor`.

    >>> PixelShuffle(2)(rnp.ones((3, 5, 5, 8))).shape
    (3, 10, 10, 2)
    """

    factor: int = field(static=True)

    def __init__(self, factor: int) -> None:
        self.factor = count_of("PixelShuffle: factor", factor, 1)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return pixel_shuffle(x, self.factor)


@final
class PixelUnshuffle(Module):
    """Features out of blocks of places as a layer.

    `f32[..., h r, w r, size] → f32[..., h, w, size r²]`, where r is `factor`.

    >>> PixelUnshuffle(2)(rnp.ones((3, 10, 10, 2))).shape
    (3, 5, 5, 8)
    """

    factor: int = field(static=True)

    def __init__(self, factor: int) -> None:
        self.factor = count_of("PixelUnshuffle: factor", factor, 1)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return pixel_unshuffle(x, self.factor)


@final
class Upsample(Module):
    """Upsampling: `f32[batch, n, size] → f32[batch, n scale, size]`.

    A single `scale` is for all axes between the batch and the features; else it has an integer for
    each of the last axes before the features. `method` is one of those of `rlx.image.resize`;
    "nearest" and "linear" are PyTorch's "nearest" and "bilinear" without `align_corners`.

    >>> Upsample(2)(rnp.array([[[1.0], [2.0]]]))[0, :, 0].tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    scale: int | tuple[int, ...] = field(static=True)
    method: str = field(static=True)

    def __init__(self, scale: Numbers, *, method: str = "nearest") -> None:
        found = numbers("Upsample: the scale", scale)
        self.scale = found if isinstance(scale, Sequence) else found[0]
        self.method = choice("Upsample: method", method, METHODS)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        scale = self.scale
        each = (scale,) * (x.ndim - 2) if isinstance(scale, int) else scale
        if not each or x.ndim < len(each) + 1:
            raise ShapeError(
                f"Upsample: {x.type} has no places for the scale {scale}",
                fix="give an array of shape (batch, places, features)",
            )
        first = x.ndim - 1 - len(each)
        sizes = (n * m for n, m in zip(x.shape[first:-1], each, strict=True))
        return resize(x, (*x.shape[:first], *sizes, x.shape[-1]), self.method)
