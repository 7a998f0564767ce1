"""Cosine transforms under the names of `jax.scipy.fft`.

Integers become float32. Fourier transforms are in `rlx.numpy.fft`. The `type` is 2; `n`, or `s` for
several `axes`, are lengths to pad with zeros or cut to; the `norm` "ortho" makes transforms
orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..numpy.elementwise import named
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of, members
from ..trace.array import Array
from ..trace.axes import one_axis, some_axes
from ..trace.promotion import promote_operands
from .operands import Tensor

NORMS = (None, "backward", "ortho")


def _along_one(name: str, transform: Callable[..., Any], doc: str):
    def function(
        x: Tensor, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Array:
        return _along(name, transform, x, type, n, axis, norm)

    return named(function, name, doc)


def _along_several(name: str, transform: Callable[..., Any], doc: str):
    def function(
        x: Tensor,
        type: int = 2,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = None,
    ) -> Array:
        x, sizes = as_tensor(x), [s] if isinstance(s, int) else s
        if sizes is not None:
            sizes = [count_of(f"{name}: a size", n, least=1) for n in members(f"{name}: s", sizes)]
        if axes is None and sizes is not None:
            axes = tuple(range(x.ndim - len(sizes), x.ndim))
        places = some_axes(name, axes, x.ndim)
        if sizes is not None and len(sizes) != len(places):
            raise ArgumentError(
                f"{name}: there are {len(sizes)} sizes for {len(places)} axes",
                fix="give one size for each axis",
            )
        for place, n in zip(places, sizes or [None] * len(places), strict=True):
            x = _along(name, transform, x, type, n, place, norm)
        return x

    return named(function, name, doc)


def _along(
    name: str, transform: Callable[..., Any], x: Tensor, type: int, n: Any, axis: int, norm: Any
) -> Array:
    choice(f"{name}: type", type, (2,))
    choice(f"{name}: norm", norm, NORMS)
    line = as_tensor(promote_operands(x, inexact=True)[0])
    place = one_axis(name, axis, line.ndim)
    line = rnp.moveaxis(line, place, -1)
    if n is not None:
        count = count_of(f"{name}: n", n, 1)
        line = line[..., :count]
        pads = [(0, 0)] * (line.ndim - 1) + [(0, count - line.shape[-1])]
        line = rnp.pad(line, pads)
    if line.shape[-1] == 0:
        raise ShapeError(
            f"{name}: {line.type} has no elements to transform", fix="give one or more, or an n"
        )
    if rnp.iscomplexobj(line):
        made = transform(line.real, norm) + 1j * transform(line.imag, norm)
    else:
        made = transform(line, norm)
    return rnp.moveaxis(made, -1, place)


def _order(count: int) -> np.ndarray:
    """The even places, then the odd ones backwards."""
    return np.concatenate([np.arange(0, count, 2), np.arange(1, count, 2)[::-1]]).astype("int32")


def _turns(count: int, dtype: Any) -> Array:
    """exp(1j * pi * k / 2n) for each k."""
    turns = np.exp(0.5j * math.pi * np.arange(count) / count)
    return rnp.asarray(turns.astype("complex128" if dtype.itemsize == 8 else "complex64"))


def _sizes(count: int, dtype: Any) -> np.ndarray:
    """The lengths of the cosines, by which the orthogonal transform divides."""
    squares = np.full(count, 2.0 * count)
    squares[0] = 4.0 * count
    return np.sqrt(squares).astype(dtype)


def _cosines(x: Any, norm: str | None) -> Array:
    # Makhoul, "A fast cosine transform in one and two dimensions", 1980
    count = x.shape[-1]
    whole = rnp.fft.fft(x[..., _order(count)])
    made = rnp.astype(2 * rnp.real(whole * rnp.conj(_turns(count, x.dtype))), x.dtype)
    return made / _sizes(count, x.dtype) if norm == "ortho" else made


def _from_cosines(x: Any, norm: str | None) -> Array:
    count, dtype = x.shape[-1], x.dtype
    if norm == "ortho":
        x = x * _sizes(count, dtype)
    halves = np.ones(count, dtype)
    halves[0] = 0.5
    line = rnp.real(rnp.fft.ifft(x * halves * _turns(count, dtype)))
    return rnp.astype(line[..., np.argsort(_order(count)).astype("int32")], dtype)


dct = _along_one(
    "dct",
    _cosines,
    """The discrete cosine transform of type 2 along an axis.

    It is 2 * the sum of x[j] * cos(pi * k * (2j + 1) / 2n). `n` pads with zeros or truncates; the
    norm "ortho" makes the transform orthogonal.

    >>> dct([1.0, 2.0, 3.0]).round(3).tolist()
    [12.0, -3.4639999866485596, 0.0]
    """,
)
idct = _along_one("idct", _from_cosines, "The inverse of `dct`.")
dctn = _along_several(
    "dctn",
    _cosines,
    """The discrete cosine transform of type 2 along several axes, all by default.

    `s` are the lengths to which they are padded or truncated.
    """,
)
idctn = _along_several("idctn", _from_cosines, "The inverse of `dctn`.")
