"""Spectra of segments of lines: stft, csd, welch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ... import numpy as rnp
from ...ir.errors import ArgumentError
from ...trace.apply import as_tensor
from ...trace.arguments import choice, flag
from ...trace.array_arguments import scalar, vector
from ...trace.axes import integer, one_axis
from ...trace.promotion import promote_operands
from ..operands import Tensor
from .trend import detrend as without_trend
from .windows import window_of

PADS = {"even": "reflect", "constant": "edge", "zeros": "constant"}


@dataclass(frozen=True)
class Segments:
    """How lines are cut: lengths of a segment, of its overlap, of its transform."""

    length: int
    overlap: int
    transform: int
    window: Any

    @property
    def step(self) -> int:
        """How far a segment starts behind the one before."""
        return self.length - self.overlap


def segments_of(
    name: str, window: Any, length: Any, overlap: Any, transform: Any, count: int, dtype: Any
) -> Segments:
    """The segments of lines of `count` elements; `name` is the function for the error."""
    if length is None:
        length = (
            count if isinstance(window, str | tuple) else vector(f"{name}: window", window).shape[0]
        )
    length = integer(f"{name}: nperseg", length)
    if length < 1:
        wrong(name, f"nperseg is {length}", "pick a positive number")
    if length > count and isinstance(window, str | tuple):
        warnings.warn(f"{name}: segments of {length} elements are cut to {count}", stacklevel=4)
        length = count
    overlap = length // 2 if overlap is None else integer(f"{name}: noverlap", overlap)
    transform = length if transform is None else integer(f"{name}: nfft", transform)
    if overlap >= length or transform < length:
        wrong(
            name,
            f"nperseg is {length}, noverlap {overlap}, nfft {transform}",
            "pick a noverlap less than nperseg, and an nfft at least nperseg",
        )
    return Segments(length, overlap, transform, window_of(name, window, length, dtype))


def stft(
    x: Tensor,
    fs: Tensor = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """Frequencies, times and the Fourier transforms of overlapping segments of lines.

    `boundary` is what stands before and after a line: "zeros", "constant", "even", "odd" or None;
    `padded` adds zeros until the segments come out even.
    """
    return_onesided = flag("stft: return_onesided", return_onesided)
    padded = flag("stft: padded", padded)
    (line,), place, cut = _prepared("stft", [x], window, nperseg, noverlap, nfft, axis)
    line = _extended(line, boundary, cut.length // 2)
    if padded:
        missing = -(line.shape[-1] - cut.length) % cut.step % cut.length
        line = rnp.pad(line, [(0, 0)] * (line.ndim - 1) + [(0, missing)])
    fs = scalar("stft: fs", fs)
    is_half = return_onesided and not rnp.iscomplexobj(line)
    made = _transformed(line, cut, _trend_of("stft", detrend), is_half)
    made = made / rnp.sum(cut.window)
    times = _times(line.shape[-1], cut, made) / fs
    if boundary is not None:
        times = times - cut.length / 2 / fs
    # the frequencies stand where the lines did, the segments last
    return _frequencies(cut, is_half, made) * fs, times, rnp.moveaxis(made, -2, place)


def csd(
    x: Tensor,
    y: Tensor | None,
    fs: Tensor = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Frequencies, and the cross spectral density of lines, averaged over segments.

    `scaling` "spectrum" gives powers, "density" powers by frequency; `average` is "mean" or
    "median". Without y it is the density of x.
    """
    return_onesided = flag("csd: return_onesided", return_onesided)
    given = [x] if y is None else [x, y]
    lines, place, cut = _prepared("csd", given, window, nperseg, noverlap, nfft, axis)
    choice("csd: scaling", scaling, ("density", "spectrum"))
    choice("csd: average", average, ("mean", "median"))
    fs = scalar("csd: fs", fs)
    is_half = return_onesided and not any(map(rnp.iscomplexobj, lines))
    transforms = [_transformed(z, cut, _trend_of("csd", detrend), is_half) for z in lines]
    made = rnp.conj(transforms[0]) * transforms[-1]
    if y is None:
        made = rnp.real(made)
    if scaling == "density":
        made = made / (fs * rnp.sum(rnp.square(rnp.abs(cut.window))))
    else:
        made = made / rnp.square(rnp.abs(rnp.sum(cut.window)))
    if is_half:  # each frequency stands for its negative as well
        twice = np.full(made.shape[-2], 2.0)
        twice[0] = 1.0
        if cut.transform % 2 == 0:
            twice[-1] = 1.0
        made = made * twice.astype(rnp.real(made).dtype)[:, None]
    frequencies = _frequencies(cut, is_half, made) * fs
    return frequencies, rnp.moveaxis(_averaged(made, average), -1, place)


def welch(
    x: Tensor,
    fs: Tensor = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Frequencies, and the power spectral density of lines; see `csd`."""
    settings = (window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return csd(x, None, fs, *settings)


# -- steps ----------------------------------------------------------------------------------------


def _prepared(
    name: str, given: list[Any], window: Any, length: Any, overlap: Any, transform: Any, axis: int
) -> tuple[list[Any], int, Segments]:
    """The lines along the last axis, the axis they came from, and how they are cut."""
    lines = list(map(as_tensor, promote_operands(*map(as_tensor, given), inexact=True)))
    if len({x.ndim for x in lines}) > 1:
        wrong(name, "x and y have different numbers of axes", "give them equally many")
    place = one_axis(name, axis, lines[0].ndim)
    lines = [rnp.moveaxis(x, place, -1) for x in lines]
    count = lines[0].shape[-1]
    dtype = rnp.real(lines[0]).dtype
    cut = segments_of(name, window, length, overlap, transform, count, dtype)
    longest = max(x.shape[-1] for x in lines)
    pads = [[(0, 0)] * (x.ndim - 1) + [(0, longest - x.shape[-1])] for x in lines]
    lines = [rnp.pad(x, p) if p[-1][1] else x for x, p in zip(lines, pads, strict=True)]
    return lines, place, cut


def _trend_of(name: str, trend: Any) -> Callable[[Any], Any]:
    """The function that takes the trend from segments."""
    if callable(trend):
        return trend
    if trend is False or trend is None:
        return lambda x: x
    if not isinstance(trend, str):
        wrong(name, f"the trend is {trend!r}", 'use "constant", "linear", False or a function')
    return partial(without_trend, type=trend, axis=-1)


def _extended(x: Any, boundary: str | None, by: int) -> Any:
    """The lines with what stands before and after them."""
    if boundary is None:
        return x
    choice("stft: boundary", boundary, ("odd", *PADS))
    pads = [(0, 0)] * (x.ndim - 1) + [(by, by)]
    if boundary != "odd":
        return rnp.pad(x, pads, PADS[boundary])
    # turned around the ends
    return rnp.pad(x, pads, "reflect", reflect_type="odd")


def _transformed(x: Any, cut: Segments, trend: Callable[[Any], Any], is_half: bool) -> Any:
    """The Fourier transforms of the segments, along the axis before the last."""
    count = (x.shape[-1] - cut.overlap) // cut.step
    places = cut.step * np.arange(count)[:, None] + np.arange(cut.length)
    parts = trend(x[..., places.astype("int32")]) * cut.window
    if is_half:
        made = rnp.fft.rfft(rnp.real(parts), cut.transform)
    else:
        made = rnp.fft.fft(parts, cut.transform)
    return rnp.swapaxes(made, -1, -2)


def _times(count: int, cut: Segments, like: Any) -> Any:
    half = cut.length / 2
    return rnp.asarray(np.arange(half, count - half + 1, cut.step), rnp.real(like).dtype)


def _frequencies(cut: Segments, is_half: bool, like: Any) -> Any:
    grid = np.fft.rfftfreq if is_half else np.fft.fftfreq
    return rnp.asarray(grid(cut.transform), rnp.real(like).dtype)


def _averaged(x: Any, average: str) -> Any:
    count = x.shape[-1]
    if average == "mean" or count == 1:
        return rnp.mean(x, -1)
    # the median of squares is below their mean
    bias = 1 + sum(1 / (k + 1) - 1 / k for k in range(2, count, 2))
    if rnp.iscomplexobj(x):
        middle = rnp.median(rnp.real(x), -1) + 1j * rnp.median(rnp.imag(x), -1)
        return middle / bias
    return rnp.median(x, -1) / bias


def wrong(name: str, what: str, fix: str) -> NoReturn:
    """Raise an error at the user's place."""
    raise ArgumentError(f"{name}: {what}", fix=fix)
