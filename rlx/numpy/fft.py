"""Discrete Fourier transforms: `rnp.fft.rfft(x)`.

Any length, along any axes; `n` and `s` pad with zeros or cut. The inverse transforms are divided
by the count of terms; the `norm` "ortho" divides both ways by its root, "forward" the others. `s`
is a length for each of `axes`; other counts of them are an `ArgumentError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim, Size, compare
from ..ir.errors import ArgumentError, AttributeValueError, AxisError, DtypeError
from ..ir.lazy import listed
from ..ir.memory import Memory
from ..ir.types import DTYPES, as_dtype, is_complex, is_inexact
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.arguments import choice
from ..trace.array import Array
from ..trace.axes import integer, number, some_axes
from ..trace.promotion import FLOAT, convert
from .arithmetic import conj
from .creation import arange, placed
from .elementwise import Tensor, divide, multiply, named, sqrt
from .manipulation import moveaxis, roll

__dir__ = listed(__name__)

Lengths = Sequence[int] | None
Axes = Sequence[int] | None
Norm = str | None
AT_ONCE = 3  # so many axes the op transforms


def _along_one(name: str, doc: str):
    def function(a: Tensor, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
        return _along_axis(name, name, a, n, axis, norm)

    return named(function, name, doc)


def _along_two(name: str, doc: str):
    def function(
        a: Tensor, s: Lengths = None, axes: Sequence[int] = (-2, -1), norm: Norm = None
    ) -> Array:
        if not isinstance(axes, Sequence) or len(axes) != 2:
            raise ArgumentError(
                f"{name}: the axes are {axes!r}, not two",
                fix="give two axes, or use the function that ends in n",
            )
        return _transform(name, name.rstrip("2"), a, s, axes, norm)

    return named(function, name, doc)


def _along_several(name: str, doc: str):
    def function(a: Tensor, s: Lengths = None, axes: Axes = None, norm: Norm = None) -> Array:
        return _transform(name, name.rstrip("n"), a, s, axes, norm)

    return named(function, name, doc)


fft = _along_one(
    "fft",
    """The discrete Fourier transform along an axis.

    `n` pads with zeros or truncates. `norm` is "backward" (the default), "ortho" or "forward".

    >>> fft([1.0, 2.0, 3.0, 4.0]).tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """,
)
ifft = _along_one("ifft", "The inverse of `fft`.")
rfft = _along_one("rfft", "The Fourier transform of real input: frequencies 0 to n // 2 only.")
irfft = _along_one("irfft", "The inverse of `rfft`: n real numbers, by default 2 * (size - 1).")
fft2 = _along_two("fft2", "The Fourier transform along two axes.")
ifft2 = _along_two("ifft2", "The inverse of `fft2`.")
rfft2 = _along_two(
    "rfft2", "The Fourier transform of real input along two axes, the last one halved."
)
irfft2 = _along_two("irfft2", "The inverse of `rfft2`.")
fftn = _along_several(
    "fftn", "The Fourier transform along several axes, by default all, or the last `len(s)`."
)
ifftn = _along_several("ifftn", "The inverse of `fftn`.")
rfftn = _along_several(
    "rfftn", "The Fourier transform of real input along several axes, the last one halved."
)
irfftn = _along_several("irfftn", "The inverse of `rfftn`.")


def hfft(a: Tensor, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The Fourier transform of a signal with Hermitian symmetry: a real spectrum.

    Only the first half of the signal is given.
    """
    a = as_tensor(a)
    x = _along_axis("hfft", "irfft", conj(a), n, axis, norm)
    return multiply(x, x.shape[axis])


def ihfft(a: Tensor, n: int | None = None, axis: int = -1, norm: Norm = None) -> Array:
    """The inverse of `hfft`."""
    a = as_tensor(a)
    x = _along_axis("ihfft", "rfft", a, n, axis, norm)
    return divide(conj(x), a.shape[axis] if n is None else n)


def fftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Memory | str | None = None
) -> Array:
    """The sample frequencies of `fft` for sample spacing `d`.

    >>> fftfreq(5).tolist() == [0.0, 0.20000000298023224, 0.4000000059604645,
    ...                         -0.4000000059604645, -0.20000000298023224]
    True
    """
    n, dtype = _count("fftfreq", n), _frequency_dtype("fftfreq", dtype)
    k = roll(arange(-(n // 2), n - n // 2, dtype=dtype), -(n // 2), 0)
    return placed(divide(k, _span("fftfreq", d, n, dtype)), device)


def rfftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Memory | str | None = None
) -> Array:
    """The sample frequencies of `rfft` for sample spacing `d`."""
    n, dtype = _count("rfftfreq", n), _frequency_dtype("rfftfreq", dtype)
    k = arange(n // 2 + 1, dtype=dtype)
    return placed(divide(k, _span("rfftfreq", d, n, dtype)), device)


def fftshift(x: Tensor, axes: int | Axes = None) -> Array:
    """Shift the zero frequency to the center of `axes`; None takes all axes."""
    x = as_tensor(x)
    places = some_axes("fftshift", axes, x.ndim)
    return roll(x, [x.shape[i] // 2 for i in places], places)


def ifftshift(x: Tensor, axes: int | Axes = None) -> Array:
    """The inverse of `fftshift`."""
    x = as_tensor(x)
    places = some_axes("ifftshift", axes, x.ndim)
    return roll(x, [-(x.shape[i] // 2) for i in places], places)


# -- how -------------------------------------------------------------------------------------------


def _along_axis(name: str, kind: str, a: Any, n: Any, axis: Any, norm: Norm) -> Array:
    s = None if n is None else (n,)
    return _transform(name, kind, a, s, (integer(f"{name}: the axis", axis),), norm)


def _transform(name: str, kind: str, a: Any, s: Any, axes: Axes, norm: Norm) -> Array:
    x = _operand(name, kind, a)
    places = _places(name, x, s, axes)
    if not places:
        if kind not in ("fft", "ifft"):
            raise AxisError(
                f"{name}: there is no axis to transform",
                fix="give one axis or more, of an array that has some",
            )
        return x
    last = range(x.ndim - len(places), x.ndim)
    x = moveaxis(x, places, last)
    lengths = _lengths(name, kind, x, s, len(places))
    out = _over_last(kind, _fitted(kind, x, lengths), lengths)
    factor = _factor(name, math.prod(lengths), norm, out.dtype)
    out = out if isinstance(factor, float) and factor == 1.0 else multiply(out, factor)
    return moveaxis(out, last, places)


def _operand(name: str, kind: str, a: Any) -> Array:
    """The array to transform: floats for "rfft", else complex numbers."""
    x = as_tensor(a)
    if kind == "rfft":
        if is_complex(x.dtype):
            raise DtypeError(
                f"{name}: the operand is {x.type}, and this is for real numbers",
                fix="use the function without the r in its name, or take x.real",
            )
        return convert(x, x.dtype if x.dtype.name == "float64" else FLOAT)
    is_wide = is_inexact(x.dtype) and x.dtype.name in ("float64", "complex128")
    return convert(x, DTYPES["complex128" if is_wide else "complex64"])


def _places(name: str, x: Any, s: Any, axes: Axes) -> tuple[int, ...]:
    """The axes to transform, counted from 0."""
    if s is not None and not isinstance(s, Sequence):
        raise ArgumentError(
            f"{name}: s is {s!r}, not a sequence",
            fix="give a tuple with the length of each axis",
        )
    if axes is None and s is not None:
        if len(s) > x.ndim:
            raise AxisError(
                f"{name}: there are {len(s)} lengths for {x.type}",
                fix="give at most one length for each axis",
            )
        return tuple(range(x.ndim - len(s), x.ndim))
    places = some_axes(name, axes, x.ndim)
    if s is not None and len(s) != len(places):
        raise ArgumentError(
            f"{name}: there are {len(s)} lengths for {len(places)} axes",
            fix="give one length for each axis",
        )
    return places


def _lengths(name: str, kind: str, x: Any, s: Any, count: int) -> tuple[Size, ...]:
    """The lengths of the transform: those given, else those of the array."""
    sizes = list(x.shape[-count:])
    if s is None and kind == "irfft":
        sizes[-1] = 2 * (sizes[-1] - 1)
    lengths = tuple(
        n if isinstance(n, Dim) else integer(f"{name}: a length", n)
        for n in (sizes if s is None else s)
    )
    if any(compare(n, 1) is False for n in lengths):
        raise AttributeValueError(
            f"{name}: the transform has the lengths {lengths}",
            fix="use lengths of 1 or more, by n or s or a longer array",
        )
    return lengths


def _fitted(kind: str, x: Any, lengths: tuple[Size, ...]) -> Array:
    """The last axes padded with zeros or cut to what the transform takes."""
    wanted = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "irfft" else lengths
    rest = (0,) * (x.ndim - len(wanted))
    high = (*rest, *(n - size for n, size in zip(wanted, x.shape[len(rest) :], strict=True)))
    if not any(high):
        return x
    none = (0,) * x.ndim
    return apply("pad", x, as_tensor(0).astype(x.dtype), low=none, high=high, interior=none)


def _over_last(kind: str, x: Any, lengths: tuple[Size, ...]) -> Array:
    """Transform the last axes, a few at a time.

    The axis cut to half comes first in the transform and last in its inverse.
    """
    if len(lengths) <= AT_ONCE:
        return apply("fft", x, kind=kind, lengths=lengths)
    rest, last = lengths[:-AT_ONCE], lengths[-AT_ONCE:]
    if kind in ("fft", "rfft"):
        return _over_earlier("fft", apply("fft", x, kind=kind, lengths=last), rest)
    return apply("fft", _over_earlier("ifft", x, rest), kind=kind, lengths=last)


def _over_earlier(kind: str, x: Any, lengths: tuple[Size, ...]) -> Any:
    """Transform the axes before the last ones."""
    count = len(lengths)
    here = range(x.ndim - count - AT_ONCE, x.ndim - AT_ONCE)
    end = range(x.ndim - count, x.ndim)
    return moveaxis(_over_last(kind, moveaxis(x, here, end), lengths), end, here)


def _factor(name: str, count: Any, norm: Norm, dtype: Any) -> Any:
    """What the result is multiplied by; the inverse is already divided."""
    choice(f"{name}: norm", norm, (None, "backward", "ortho", "forward"))
    if norm in (None, "backward"):
        return 1.0
    if isinstance(count, Dim):
        terms = convert(as_tensor(count), np.finfo(dtype).dtype)
        scale = sqrt(terms) if norm == "ortho" else terms
    else:
        scale = math.sqrt(count) if norm == "ortho" else float(count)
    return scale if name.startswith("i") else 1.0 / scale


def _count(name: str, n: Any) -> int:
    n = integer(f"{name}: n", n)
    if n < 1:
        raise AttributeValueError(f"{name}: n is {n}", fix="use a length of 1 or more")
    return n


def _span(name: str, d: Any, n: int, dtype: Any) -> Array:
    """How long n samples last."""
    return convert(as_operand(number(f"{name}: d", d) * n), dtype)


def _frequency_dtype(name: str, dtype: Any) -> Any:
    dtype = FLOAT if dtype is None else as_dtype(dtype)
    if not is_inexact(dtype):
        raise DtypeError(f"{name}: frequencies are no {dtype.name}", fix="ask for a float dtype")
    return dtype
