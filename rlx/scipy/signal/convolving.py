"""Convolutions and correlations of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ... import lax, numpy as rnp
from ...ir.errors import ArgumentError, ShapeError
from ...numpy import fft
from ...trace.apply import as_tensor
from ...trace.arguments import choice
from ...trace.array import Array
from ...trace.array_arguments import known_real
from ...trace.axes import some_axes
from ...trace.promotion import promote_operands
from ..operands import Tensor

MODES = ("full", "same", "valid")


def fftconvolve(
    in1: Tensor, in2: Tensor, mode: str = "full", axes: Sequence[int] | None = None
) -> Array:
    """The convolution of two arrays along `axes`, by Fourier transforms.

    Along the other axes the arrays have equal sizes.

    >>> fftconvolve([1.0, 2.0], [1.0, 3.0]).round(3).tolist()
    [1.0, 5.0, 6.0]
    """
    x, y = _pair("fftconvolve", in1, in2, mode)
    along = some_axes("fftconvolve", axes, x.ndim)
    if any(x.shape[i] != y.shape[i] for i in range(x.ndim) if i not in along):
        _wrong_shape("fftconvolve", x, y, "give equal sizes along the other axes")
    full = [x.shape[i] + y.shape[i] - 1 for i in along]
    if rnp.iscomplexobj(x):
        made = fft.ifftn(fft.fftn(x, full, along) * fft.fftn(y, full, along), full, along)
    else:
        made = fft.irfftn(fft.rfftn(x, full, along) * fft.rfftn(y, full, along), full, along)
    window = [slice(None)] * x.ndim
    is_swapped = _is_swapped("fftconvolve", x, y, along) if mode == "valid" else False
    for i, size in zip(along, full, strict=True):
        ends = (y.shape[i], x.shape[i]) if is_swapped else (x.shape[i], y.shape[i])
        count = _size(mode, *ends)
        start = (size - count) // 2
        window[i] = slice(start, start + count)
    return made[tuple(window)]


def convolve(
    in1: Tensor, in2: Tensor, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The convolution of two arrays.

    Method "fft" uses Fourier transforms, "direct" and "auto" sum the products. In mode "valid" one
    array must be at least as large as the other along each axis.

    >>> convolve([1.0, 2.0], [1.0, 3.0]).tolist()
    [1.0, 5.0, 6.0]
    """
    if choice("convolve: method", method, ("auto", "direct", "fft")) == "fft":
        return fftconvolve(in1, in2, mode)
    x, y = _pair("convolve", in1, in2, mode)
    return _summed("convolve", x, y, mode, precision)


def correlate(
    in1: Tensor, in2: Tensor, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The cross-correlation of two arrays, the second one conjugated; see `convolve`."""
    x, y = as_tensor(in1), as_tensor(in2)
    return convolve(x, rnp.flip(rnp.conj(y)), mode, method, precision)


def convolve2d(
    in1: Tensor,
    in2: Tensor,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The convolution of two matrices, padded with zeros.

    Another `boundary` or `fillvalue` is an `ArgumentError`.
    """
    x, y = _matrices("convolve2d", in1, in2, mode, boundary, fillvalue)
    return _summed("convolve2d", x, y, mode, precision)


def correlate2d(
    in1: Tensor,
    in2: Tensor,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The cross-correlation of two matrices, the second one conjugated.

    They are padded with zeros: `boundary` and `fillvalue` are as for `convolve2d`.
    """
    x, y = _matrices("correlate2d", in1, in2, mode, boundary, fillvalue)
    # of a middle that does not come out even, the other one than that of convolve2d
    made = _summed("correlate2d", rnp.flip(x), rnp.conj(y), mode, precision)
    is_swapped = _is_swapped("correlate2d", x, y, (0, 1)) and x.shape != y.shape
    made = rnp.flip(made)
    return rnp.conj(made) if mode == "valid" and is_swapped else made


# -- what they share ------------------------------------------------------------------------------


def _pair(name: str, in1: Tensor, in2: Tensor, mode: str) -> tuple[Array, Array]:
    """The arrays in one dtype, of one rank."""
    choice(f"{name}: mode", mode, MODES)
    x, y = map(as_tensor, promote_operands(as_tensor(in1), as_tensor(in2), inexact=True))
    if x.ndim != y.ndim or 0 in (*x.shape, *y.shape):
        _wrong_shape(name, x, y, "give two arrays of equally many axes, none of them empty")
    return x, y


def _matrices(
    name: str, in1: Tensor, in2: Tensor, mode: str, boundary: str, fill: float
) -> tuple[Array, Array]:
    choice(f"{name}: boundary", boundary, ("fill", "wrap", "symm"))
    if boundary != "fill" or known_real(f"{name}: fillvalue", fill) != 0:
        what = "beyond the edges there are zeros alone"
        raise ArgumentError(f"{name}: {what}", fix="pad the matrix with rlx.numpy.pad")
    x, y = _pair(name, in1, in2, mode)
    if x.ndim != 2:
        _wrong_shape(name, x, y, "give matrices")
    return x, y


def _is_swapped(name: str, x: Any, y: Any, axes: Sequence[int]) -> bool:
    """Whether the second array is the larger one; along all axes the same one must be."""
    if all(x.shape[i] >= y.shape[i] for i in axes):
        return False
    if all(x.shape[i] <= y.shape[i] for i in axes):
        return True
    _wrong_shape(name, x, y, "make one array at most as large as the other along each axis")


def _size(mode: str, n: int, k: int) -> int:
    return {"full": n + k - 1, "same": n, "valid": n - k + 1}[mode]


def _summed(name: str, x: Any, y: Any, mode: str, precision: Any) -> Array:
    """The products summed, the smaller array as the kernel."""
    is_swapped = _is_swapped(name, x, y, range(x.ndim))
    long, short = (y, x) if is_swapped else (x, y)
    padding = []
    for i in range(x.ndim):
        n, k = long.shape[i], short.shape[i]
        count = x.shape[i] if mode == "same" else _size(mode, n, k)
        start = (n + k - 1 - count) // 2
        padding.append((k - 1 - start, k - 1 - (n + k - 1 - count - start)))
    kernel = rnp.flip(short)[None, None]
    ones = (1,) * x.ndim
    made = lax.conv_general_dilated(long[None, None], kernel, ones, padding, precision=precision)
    return made[0, 0]


def _wrong_shape(name: str, x: Any, y: Any, fix: str) -> NoReturn:
    raise ShapeError(f"{name}: the arrays are {x.type} and {y.type}", fix=fix)
