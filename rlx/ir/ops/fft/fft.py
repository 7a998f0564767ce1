"""Discrete Fourier transforms over the last axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...body import Blocks
from ...dims import Dim, Size, compare
from ...errors import AttributeValueError, DtypeError, ShapeError
from ...graph import Value
from ...op import ALIGNED, define
from ...types import Type
from ..arithmetic import div, mul, sub
from ..compare import eq, select
from ..constant import constant, full, iota, like
from ..convert import COMPLEX_OF, REAL_PART, conj, convert
from ..movement import broadcast
from ..reduce import reduce_sum
from .passes import fft_passes

TRANSFORMS = {
    "fft": np.fft.fftn,
    "ifft": np.fft.ifftn,
    "rfft": np.fft.rfftn,
    "irfft": np.fft.irfftn,
}


@define
def fft(x: Type, *, kind: str, lengths: tuple[Size, ...]) -> Type:
    """The discrete Fourier transform over the last one to three axes.

    `c64[..., n] → c64[..., n]`, with y[k] the sum of x[j] exp(-2 pi i j k / n) over j. `kind` is
    "fft", "ifft" (the inverse, divided by the count of terms), "rfft" (from real numbers, the last
    axis cut to n // 2 + 1, as the rest mirrors it) or "irfft" (its inverse, `c64[n // 2 + 1] →
    f32[n]`). `lengths` are the sizes of the axes, those of the result for "irfft".
    """
    _check_attributes(x, kind, lengths)
    dtypes = COMPLEX_OF if kind == "rfft" else REAL_PART
    if x.dtype.name not in dtypes:
        raise DtypeError(
            f"{kind} of {x.dtype.name} has no meaning",
            fix=f"convert the operand to {' or '.join(dtypes)}",
        )
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    before, after = x.shape[: -len(lengths)], x.shape[-len(lengths) :]
    wanted = half if kind == "irfft" else lengths
    if after != wanted:
        raise ShapeError(
            f"{kind} of the lengths {lengths} takes the last axes {wanted}, not {after}",
            fix="pad or cut the operand, or pick lengths that fit; rlx.numpy.fft does this",
        )
    if kind == "rfft":
        return Type(COMPLEX_OF[x.dtype.name], (*before, *half))
    return Type(REAL_PART[x.dtype.name], (*before, *lengths)) if kind == "irfft" else x


def _check_attributes(x: Type, kind: str, lengths: tuple[Size, ...]) -> None:
    if kind not in TRANSFORMS:
        raise AttributeValueError(
            f"there is no kind {kind!r}", fix=f"use one of {', '.join(TRANSFORMS)}"
        )
    if not 1 <= len(lengths) <= min(3, x.rank):
        raise AttributeValueError(
            f"{len(lengths)} lengths do not fit {x}",
            fix="give a length for each of the last axes, one to three",
        )
    if any(not isinstance(n, int | Dim) or compare(n, 1) is False for n in lengths):
        raise AttributeValueError(
            f"the lengths {lengths} are not all positive integers", fix="use lengths from 1"
        )


@fft.reference
def fft_reference(x: np.ndarray, *, kind: str, lengths: tuple[Size, ...]) -> np.ndarray:
    return TRANSFORMS[kind](x, s=lengths, axes=range(-len(lengths), 0))


fft.body(Blocks(fft_passes))


@fft.transpose
def fft_transpose(ct: Value, x: Value, *, kind: str, lengths: tuple[Size, ...]) -> list[Value]:
    """Cotangents pair without conjugation, and the matrix of "fft" is symmetric.

    "rfft" sums the real part of c[k] exp(-2 pi i j k / n) over half of the k. This is the inverse
    transform of conj(c), once its terms that stand for two are halved; "irfft" likewise.
    """
    if kind in ("rfft", "irfft") and not all(isinstance(n, int) for n in lengths):
        return [_open_transpose(ct, kind, lengths)]
    count: Any = math.prod(lengths)
    if kind == "rfft":
        halved = _times(conj(ct), count / _multiplicity(lengths[-1]))
        return [fft(halved, kind="irfft", lengths=lengths)]
    if kind == "irfft":
        mirrored = conj(fft(ct, kind="rfft", lengths=lengths))
        return [_times(mirrored, _multiplicity(lengths[-1]) / count)]
    return [fft(ct, kind=kind, lengths=lengths)]


def _open_transpose(ct: Value, kind: str, lengths: tuple[Size, ...]) -> Value:
    """The same with weights that are computed where the lengths are numbers."""
    dtype = REAL_PART.get(ct.dtype.name, ct.dtype)
    line = iota(shape=(lengths[-1] // 2 + 1,), axis=0, dtype=dtype)
    mirror = sub(broadcast(_number(lengths[-1:], dtype), shape=line.shape, axes=()), line)
    is_own = eq(mul(line, sub(mirror, line)), like(line, 0))  # k = 0, or k = n - k
    weights = select(is_own, like(line, 1), like(line, 2))
    count = broadcast(_number(lengths, dtype), shape=line.shape, axes=())
    if kind == "rfft":
        return fft(_weighted(conj(ct), div(count, weights)), kind="irfft", lengths=lengths)
    return _weighted(conj(fft(ct, kind="rfft", lengths=lengths)), div(weights, count))


def _number(lengths: tuple[Size, ...], dtype: np.dtype) -> Value:
    """The product of lengths as a scalar."""
    return reduce_sum(full(shape=lengths, value=1, dtype=dtype), axes=tuple(range(len(lengths))))


def _weighted(x: Value, line: Value) -> Value:
    spread = convert(line, dtype=x.dtype)
    return mul(x, broadcast(spread, shape=x.shape, axes=(x.rank - 1,)))


def _multiplicity(n: Any) -> np.ndarray:
    """How many of n frequencies each of the first half stands for.

    They are itself and its mirror.
    """
    k = np.arange(n // 2 + 1)
    return np.where((k == 0) | (2 * k == n), 1.0, 2.0)


def _times(x: Value, weights: np.ndarray) -> Value:
    """The product with a weight for each place of the last axis."""
    line = constant.lift(weights.astype(x.dtype))
    return mul(x, broadcast(line, shape=x.shape, axes=(x.rank - 1,)))


fft.batch(ALIGNED)


_ANY = Type(np.dtype("complex128"), (2, 4))
fft.samples(_ANY, kind="fft", lengths=(4,))
fft.samples(_ANY, kind="ifft", lengths=(2, 4))
fft.samples((2, 4), kind="rfft", lengths=(4,))
fft.samples((2, 5), kind="rfft", lengths=(2, 5))
fft.samples(Type(np.dtype("complex128"), (2, 3, 3)), kind="irfft", lengths=(2, 3, 4))
fft.samples(Type(np.dtype("complex128"), (2, 3)), kind="irfft", lengths=(5,))
fft.samples(np.array([1.0, 2j, -3, 0]), kind="fft", lengths=(4,), expect=[-2 + 2j, 6, -2 - 2j, 2])
fft.samples(np.array([4j, 8.0]), kind="ifft", lengths=(2,), expect=[4 + 2j, -4 + 2j])
fft.samples([1.0, 2, 3, 4], kind="rfft", lengths=(4,), expect=[10, -2 + 2j, -2])
fft.samples(np.array([6, -3 + 0j]), kind="irfft", lengths=(3,), expect=[0.0, 3.0, 3.0])
