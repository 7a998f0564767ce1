"""Layers that change the number of places, also for features; features come last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, final

from .. import lax, numpy as rnp
from ..image import resize
from ..ir.errors import ShapeError
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of
from ..trace.array import Array
from .arguments import (
    Numbers,
    Pads,
    as_given,
    check_one_axis,
    numbers,
    pads_of,
    with_one_batch_axis,
)
from .module import Module, field

METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")


def pixel_shuffle(x: Any, factor: int) -> Array:
    """Pixel shuffle: features become blocks of r by r pixels, where r is `factor`.

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


# -- windows as features --------------------------------------------------------------------------


def unfold(
    x: Any,
    window: Numbers,
    strides: Numbers = 1,
    padding: Pads = "VALID",
    *,
    dilation: Numbers = 1,
) -> Array:
    """Unfold (im2col): the windows that a convolution's kernel sees, as features.

    `f32[..., h, w, size] → f32[..., h', w', size window]`, of as many axes as `window` has numbers;
    `strides`, `padding` and `dilation` are as for `max_pool`. Feature `c k + i` is feature c at
    place i of the window's k. PyTorch's has the windows in one axis, the last:
    `y.reshape(len(x), -1, y.shape[-1]).swapaxes(1, 2)`.

    >>> unfold(rnp.array([[1.0], [2.0], [3.0]]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    x = as_tensor(x)
    sizes = numbers("unfold: the window", window)
    n = len(sizes)
    check_one_axis("unfold", "the window", window, x)
    x, batch = with_one_batch_axis("unfold", x, n)
    steps, apart = _steps("unfold", strides, dilation, n)
    pads = _pads("unfold", padding, x.shape[1:-1], sizes, steps, apart)
    x = rnp.pad(x, [(0, 0), *pads, (0, 0)])
    places = _places("unfold", x.shape[1:-1], sizes, steps, apart)
    parts = [x[(slice(None), *cut)] for cut in _cuts(places, sizes, steps, apart)]
    return rnp.reshape(rnp.stack(parts, axis=-1), (*batch, *places, x.shape[-1] * len(parts)))


def fold(
    x: Any,
    output_size: Numbers,
    window: Numbers,
    strides: Numbers = 1,
    padding: Pads = "VALID",
    *,
    dilation: Numbers = 1,
) -> Array:
    """Fold (col2im): sum overlapping windows, the transpose of `unfold`.

    `f32[..., h', w', size window] → f32[..., h, w, size]`, where `output_size` is (h, w).
    `window`, `strides`, `padding` and `dilation` are as for `unfold`; `fold(unfold(x))` gives x
    times the number of windows that see each place. Another number of windows or features than
    `unfold` gives is a `ShapeError`.

    >>> fold(rnp.array([[1.0, 2.0], [2.0, 3.0]]), 3, 2)[:, 0].tolist()
    [1.0, 4.0, 3.0]
    """
    x = as_tensor(x)
    sizes = numbers("fold: the window", window)
    n, whole = len(sizes), math.prod(sizes)
    check_one_axis("fold", "the window", window, x)
    outer = numbers("fold: the output size", output_size, n)
    x, batch = with_one_batch_axis("fold", x, n)
    steps, apart = _steps("fold", strides, dilation, n)
    pads = _pads("fold", padding, outer, sizes, steps, apart)
    padded = [size + low + high for size, (low, high) in zip(outer, pads, strict=True)]
    places = _places("fold", padded, sizes, steps, apart)
    if x.shape[1:-1] != places or x.shape[-1] % whole:
        raise ShapeError(
            f"fold: the input is {x.type}, for {places} windows of {whole} places",
            fix=f"give an array of shape (..., {', '.join(map(str, places))}, size * {whole}), as\n"
            "unfold makes it with the same options",
        )
    parts = rnp.reshape(x, (*x.shape[:-1], x.shape[-1] // whole, whole))
    y = rnp.zeros((x.shape[0], *padded, parts.shape[-2]), x.dtype)
    for i, cut in enumerate(_cuts(places, sizes, steps, apart)):
        y = y.at[(slice(None), *cut)].add(parts[..., i])
    inner = (slice(low, low + size) for size, (low, _) in zip(outer, pads, strict=True))
    return rnp.reshape(y[(slice(None), *inner)], (*batch, *outer, y.shape[-1]))


def _steps(
    name: str, strides: Numbers, dilation: Numbers, count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    steps = numbers(f"{name}: the strides", strides, count)
    return steps, numbers(f"{name}: the dilation", dilation, count)


def _pads(
    name: str,
    padding: Pads,
    shape: Sequence[Any],
    sizes: Sequence[int],
    steps: Sequence[int],
    apart: Sequence[int],
) -> Sequence[tuple[int, int]]:
    """Places before and after each axis."""
    found = pads_of(name, padding, len(sizes))
    if not isinstance(found, str):
        return found
    seen = [(k - 1) * d + 1 for k, d in zip(sizes, apart, strict=True)]
    return lax.padtype_to_pads(shape, seen, steps, found)


def _places(
    name: str, shape: Any, sizes: Sequence[int], steps: Sequence[int], apart: Sequence[int]
) -> tuple[Any, ...]:
    """How many windows an axis has."""
    rows = zip(shape, sizes, steps, apart, strict=True)
    found = tuple((n - (k - 1) * d - 1) // step + 1 for n, k, step, d in rows)
    if any(isinstance(n, int) and n < 1 for n in found):
        raise ShapeError(
            f"{name}: the windows {tuple(sizes)} are larger than the {tuple(shape)} places",
            fix="make them smaller, or pad the array",
        )
    return found


def _cuts(
    places: Sequence[Any], sizes: Sequence[int], steps: Sequence[int], apart: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
    """For each place of a window, in order, where it lies in all windows."""
    for at in itertools.product(*map(range, sizes)):
        rows = zip(at, places, steps, apart, strict=True)
        yield tuple(
            slice(i * d, i * d + (count - 1) * step + 1, step) for i, count, step, d in rows
        )


def _image(name: str, x: Any) -> Any:
    x = as_tensor(x)
    if x.ndim < 3:
        raise ShapeError(
            f"{name}: {x.type} has no rows, columns and features",
            fix="give an array of shape (..., height, width, features)",
        )
    return x


# -- layers ---------------------------------------------------------------------------------------


class _OfWindows(Module):
    """What `Unfold` and `Fold` share."""

    window: int | tuple[int, ...] = field(static=True)
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    dilation: tuple[int, ...] = field(static=True)

    def __init__(self, window: Numbers, stride: Numbers, padding: Pads, dilation: Numbers) -> None:
        name = type(self).__name__
        count, self.window = len(numbers(f"{name}: the window", window)), as_given(window)
        self.stride, self.dilation = _steps(name, stride, dilation, count)
        self.padding = pads_of(name, padding, count)


@final
class Unfold(_OfWindows):
    """Unfold (im2col) as a layer: windows become features.

    `f32[..., h, w, size] → f32[..., h', w', size window]`. `window`, `stride`, `padding` and
    `dilation` are as for `unfold`.

    >>> Unfold((2, 2), stride=2)(rnp.ones((1, 4, 4, 3))).shape
    (1, 2, 2, 12)
    """

    def __init__(
        self,
        window: Numbers,
        *,
        stride: Numbers = 1,
        padding: Pads = "VALID",
        dilation: Numbers = 1,
    ) -> None:
        super().__init__(window, stride, padding, dilation)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return unfold(x, self.window, self.stride, self.padding, dilation=self.dilation)


@final
class Fold(_OfWindows):
    """Fold (col2im) as a layer: overlapping windows are summed.

    `f32[..., h', w', size window] → f32[..., h, w, size]`. `output_size`, `window`, `stride`,
    `padding` and `dilation` are as for `fold`.

    >>> Fold((4, 4), (2, 2), stride=2)(rnp.ones((1, 2, 2, 12))).shape
    (1, 4, 4, 3)
    """

    output_size: tuple[int, ...] = field(static=True)

    def __init__(
        self,
        output_size: Numbers,
        window: Numbers,
        *,
        stride: Numbers = 1,
        padding: Pads = "VALID",
        dilation: Numbers = 1,
    ) -> None:
        super().__init__(window, stride, padding, dilation)
        self.output_size = numbers("Fold: the output size", output_size, len(self.stride))

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        options = self.window, self.stride, self.padding
        return fold(x, self.output_size, *options, dilation=self.dilation)


@final
class PixelShuffle(Module):
    """Pixel shuffle as a layer: features become blocks of pixels (upsampling).

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
    """Pixel unshuffle as a layer: blocks of pixels become features.

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
