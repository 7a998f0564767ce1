"""Spectra of segments of signals, and back: stft, istft, csd, welch; detrend."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ... import numpy as rnp
from ...ir.errors import ArgumentError, AttributeValueError, ShapeError
from ...ir.record import record
from ...ir.source import user_source
from ...trace.apply import as_tensor
from ...trace.arguments import choice, count_of, flag, members
from ...trace.array import Array
from ...trace.array_arguments import known_real, scalar, vector
from ...trace.axes import integer, one_axis
from ...trace.promotion import promote_operands
from ..operands import Tensor

# -- windows for spectra, by the names that SciPy gives them ---------------------------------------
#
# They continue beyond their end.


# the factors of cos(2 * pi * k * x), with changing signs
COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
SHAPES = ("triang", "bartlett", "cosine", "parzen", "bohman")
WITH_NUMBER = ("kaiser", "gaussian", "tukey", "general_hamming")


def window_of(name: str, window: Any, count: int, dtype: Any) -> Array:
    """The values of a window given by a name, a name and a number, or an array.

    `name` is the function for the error.
    """
    if not isinstance(window, str | tuple):
        given = as_tensor(window)
        if given.shape != (count,):
            raise ShapeError(
                f"{name}: the window is {given.type}, the segments have {count} elements",
                fix=f"give a window of shape ({count},)",
            )
        return given
    kind, *numbers = (window,) if isinstance(window, str) else window or ("",)
    known = (*COSINES, *SHAPES) if not numbers else WITH_NUMBER
    if not isinstance(kind, str) or kind not in known or len(numbers) > 1:
        raise ArgumentError(
            f"{name}: there is no window {window!r}",
            fix=f"use one of {', '.join((*COSINES, *SHAPES))}, or (name, number) "
            f"for one of {', '.join(WITH_NUMBER)}",
        )
    numbers = [known_real(f"{name}: the number of the window", x) for x in numbers]
    return rnp.asarray(_numbers(kind, numbers, count).astype(dtype))


def _numbers(kind: str, numbers: list[float], count: int) -> np.ndarray:
    if count == 1:
        return np.ones(1)
    i = np.arange(count)
    place = i / count  # the window has its end at place 1, which is the next one's start
    offset = i - count / 2
    if kind in COSINES:
        return _cosines(COSINES[kind], place)
    if kind == "general_hamming":
        return _cosines((numbers[0], 1 - numbers[0]), place)
    if kind == "kaiser":
        edge = np.sqrt(np.maximum(0.0, 1 - np.square(2 * place - 1)))
        return np.i0(numbers[0] * edge) / np.i0(numbers[0])
    if kind == "gaussian":
        return np.exp(-0.5 * np.square(offset / numbers[0]))
    if kind == "tukey":
        return _tukey(numbers[0], place)
    return _shape(kind, i, place, count)


def _cosines(factors: tuple[float, ...], place: np.ndarray) -> np.ndarray:
    terms = [(-1) ** k * a * np.cos(2 * math.pi * k * place) for k, a in enumerate(factors)]
    return np.sum(terms, axis=0)


def _tukey(share: float, place: np.ndarray) -> np.ndarray:
    if share <= 0:
        return np.ones(place.shape)
    edge = np.minimum(np.minimum(place, 1 - place) / (min(share, 1.0) / 2), 1.0)
    return 0.5 - 0.5 * np.cos(math.pi * edge)


def _shape(kind: str, i: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    middle = np.abs(2 * place - 1)
    if kind == "bartlett":
        return 1 - middle
    if kind == "cosine":
        return np.sin(math.pi * (i + 0.5) / (count + 1))
    if kind == "bohman":
        return (1 - middle) * np.cos(math.pi * middle) + np.sin(math.pi * middle) / math.pi
    size = count + 1  # of the window with its end
    if kind == "triang":
        turned = np.minimum(i + 1, size - i)
        return 2 * turned / (size + 1) if size % 2 else (2 * turned - 1) / size
    share = np.abs(i - (size - 1) / 2) / (size / 2)  # parzen
    inner = 1 - 6 * np.square(share) * (1 - share)
    return np.where(share <= ((size - 1) // 4) / (size / 2), inner, 2 * (1 - share) ** 3)


# -- what remains of lines without their trend: detrend --------------------------------------------


def detrend(
    data: Tensor,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Remove the mean, or the least-squares line, along an axis.

    The `type` of what is removed from `data` is "constant" or "linear"; `bp` are breakpoints
    between parts that have a line each. `overwrite_data` has no effect.

    >>> detrend([1.0, 2.0, 6.0]).round(3).tolist()
    [0.5, -1.0, 0.5]
    """
    choice("detrend: type", type, ("constant", "linear"))
    if overwrite_data is not None:
        raise ArgumentError("detrend: no array is overwritten", fix="leave out overwrite_data")
    x = as_tensor(promote_operands(data, inexact=True)[0])
    place = one_axis("detrend", axis, x.ndim)
    if type == "constant":
        return x - rnp.mean(x, place, keepdims=True)
    count = x.shape[place]
    ends = np.unique([0, *_places(bp), count]).tolist()
    if ends[0] < 0 or ends[-1] > count:
        raise ArgumentError(
            f"detrend: the parts end at {ends}, the line at {count}",
            fix=f"pick places bp from 0 to {count}",
        )
    lines = rnp.moveaxis(x, place, -1)
    parts = [_less_line(lines[..., i:j]) for i, j in itertools.pairwise(ends)]
    return rnp.moveaxis(rnp.concatenate(parts, axis=-1), -1, place)


def _less_line(x: Any) -> Array:
    """The lines less the straight line that fits best."""
    count = x.shape[-1]
    places = (np.arange(count) - (count - 1) / 2).astype(rnp.real(x).dtype)
    rest = x - rnp.mean(x, -1, keepdims=True)
    if count == 1:
        return rest
    slope = rnp.sum(rest * places, -1, keepdims=True) / np.sum(places * places)
    return rest - slope * places


def _places(bp: Any) -> list[int]:
    given = (bp,) if isinstance(bp, int | np.integer) else members("detrend: bp", bp)
    return [integer("detrend: a place of bp", n) for n in given]


PADS = {"even": "reflect", "constant": "edge", "zeros": "constant"}


@record
class Segments:
    """The lengths of segments, of their overlap and transforms, and their window."""

    length: int
    overlap: int
    transform: int
    window: Any

    @property
    def step(self) -> int:
        """The distance between the starts of segments."""
        return self.length - self.overlap


def segments_of(
    name: str, window: Any, length: Any, overlap: Any, transform: Any, count: int, dtype: Any
) -> Segments:
    """The segments of signals of `count` samples; `name` is used in errors."""
    if length is None:
        length = (
            count if isinstance(window, str | tuple) else vector(f"{name}: window", window).shape[0]
        )
    length = integer(f"{name}: nperseg", length)
    if length < 1:
        wrong(name, f"nperseg is {length}", "pick a positive number")
    if length > count and isinstance(window, str | tuple):
        source = user_source()
        assert source is not None, "somebody calls it"
        text = f"{name}: segments of {length} elements are cut to {count}"
        warnings.warn_explicit(text, UserWarning, source.file, source.line)
        length = count
    overlap = length // 2 if overlap is None else count_of(f"{name}: noverlap", overlap)
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
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform: frequencies, times and transforms of segments.

    `boundary` extends the signal at both ends: "zeros", "constant", "even", "odd" or None; `padded`
    adds zeros to fill the last segment.
    """
    return_onesided = flag("stft: return_onesided", return_onesided)
    padded = flag("stft: padded", padded)
    (line,), place, cut = _prepared("stft", [x], window, nperseg, noverlap, nfft, axis)
    line = _extended(line, boundary, cut.length // 2)
    if padded:
        missing = -(line.shape[-1] - cut.length) % cut.step % cut.length
        line = rnp.pad(line, [(0, 0)] * (line.ndim - 1) + [(0, missing)])
    rate = _rate("stft", fs)
    is_half = return_onesided and not rnp.iscomplexobj(line)
    made = _transformed(line, cut, _trend_of("stft", detrend), is_half)
    made = made / rnp.sum(cut.window)
    half = cut.length / 2
    places = np.arange(half, line.shape[-1] - half + 1, cut.step)
    times = rnp.asarray(places, rnp.real(made).dtype) / rate
    if boundary is not None:
        times = times - half / rate
    # the frequencies stand where the lines did, the segments last
    return _frequencies(cut, is_half, made) * rate, times, rnp.moveaxis(made, -2, place)


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
) -> tuple[Array, Array]:
    """The cross spectral density by Welch's method: frequencies and densities.

    `scaling` "density" gives power per frequency, "spectrum" power; segments are averaged by
    `average`, "mean" or "median". Without y it is the power spectral density of x.
    """
    given = [x] if y is None else [x, y]
    settings = (window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return _density("csd", given, fs, *settings)


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
) -> tuple[Array, Array]:
    """The power spectral density by Welch's method; see `csd`.

    `scaling` and `average` are as there.
    """
    settings = (window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return _density("welch", [x], fs, *settings)


def _density(
    name: str,
    given: list[Any],
    fs: Tensor,
    window: Any,
    length: int | None,
    overlap: int | None,
    transform: int | None,
    detrend: Any,
    return_onesided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> tuple[Array, Array]:
    return_onesided = flag(f"{name}: return_onesided", return_onesided)
    lines, place, cut = _prepared(name, given, window, length, overlap, transform, axis)
    choice(f"{name}: scaling", scaling, ("density", "spectrum"))
    choice(f"{name}: average", average, ("mean", "median"))
    fs = _rate(name, fs)
    is_half = return_onesided and not any(map(rnp.iscomplexobj, lines))
    transforms = [_transformed(z, cut, _trend_of(name, detrend), is_half) for z in lines]
    made = rnp.conj(transforms[0]) * transforms[-1]
    if len(given) == 1:
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


def _rate(name: str, fs: Any) -> Any:
    """How many samples there are in a unit of time."""
    if isinstance(fs, int | float) and fs == 0:
        raise AttributeValueError(f"{name}: fs is {fs}", fix="use a positive number")
    return scalar(f"{name}: fs", fs)


def _trend_of(name: str, trend: Any) -> Callable[[Any], Any]:
    """The function that takes the trend from segments."""
    if callable(trend):
        return trend
    if trend is False or trend is None:
        return lambda x: x
    if not isinstance(trend, str):
        wrong(name, f"the trend is {trend!r}", 'use "constant", "linear", False or a function')
    return partial(detrend, type=trend, axis=-1)


def _extended(x: Any, boundary: str | None, by: int) -> Array:
    """The lines with what stands before and after them."""
    if boundary is None:
        return x
    choice("stft: boundary", boundary, ("odd", *PADS))
    pads = [(0, 0)] * (x.ndim - 1) + [(by, by)]
    if boundary != "odd":
        return rnp.pad(x, pads, PADS[boundary])
    # turned around the ends
    return rnp.pad(x, pads, "reflect", reflect_type="odd")


def _transformed(x: Any, cut: Segments, trend: Callable[[Any], Any], is_half: bool) -> Array:
    """The Fourier transforms of the segments, along the axis before the last."""
    count = (x.shape[-1] - cut.overlap) // cut.step
    places = cut.step * np.arange(count)[:, None] + np.arange(cut.length)
    parts = trend(x[..., places.astype("int32")]) * cut.window
    if is_half:
        made = rnp.fft.rfft(rnp.real(parts), cut.transform)
    else:
        made = rnp.fft.fft(parts, cut.transform)
    return rnp.swapaxes(made, -1, -2)


def _frequencies(cut: Segments, is_half: bool, like: Any) -> Array:
    grid = np.fft.rfftfreq if is_half else np.fft.fftfreq
    return rnp.asarray(grid(cut.transform), rnp.real(like).dtype)


def _averaged(x: Any, average: str) -> Array:
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
    """Raise an `ArgumentError` of a function."""
    raise ArgumentError(f"{name}: {what}", fix=fix)


# -- lines from the spectra of their segments: istft -----------------------------------------------


def istft(
    Zxx: Tensor,
    fs: Tensor = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The inverse of `stft`: times and the signal.

    `Zxx` has frequencies along `freq_axis`, from 0 up only if `input_onesided`, and segments along
    `time_axis`. `boundary` says whether `stft` had extended the signal.
    """
    input_onesided = flag("istft: input_onesided", input_onesided)
    boundary = flag("istft: boundary", boundary)
    spectra = as_tensor(Zxx)
    if spectra.ndim < 2:
        wrong("istft", f"Zxx is {spectra.type}", "give axes of frequencies and of segments")
    times, frequencies = (one_axis("istft", i, spectra.ndim) for i in (time_axis, freq_axis))
    if times == frequencies:
        wrong("istft", "one axis is both that of time and of frequency", "name two axes")
    spectra = rnp.moveaxis(spectra, (frequencies, times), (-2, -1))
    usual = 2 * (spectra.shape[-2] - 1) if input_onesided else spectra.shape[-2]
    length = integer("istft: nperseg", usual if nperseg is None else nperseg)
    is_odd = nfft is None and input_onesided and length == usual + 1
    count = integer("istft: nfft", usual + is_odd if nfft is None else nfft)
    overlap = integer("istft: noverlap", length // 2 if noverlap is None else noverlap)
    if length < 1 or count < length or overlap >= length:
        wrong(
            "istft",
            f"nperseg is {length}, noverlap {overlap}, nfft {count}",
            "pick a noverlap less than nperseg, and an nfft at least nperseg",
        )
    back = rnp.fft.irfft if input_onesided else rnp.fft.ifft
    parts = back(spectra, count, axis=-2)[..., :length, :]
    shape = window_of("istft", window, length, rnp.real(parts).dtype)
    parts = rnp.swapaxes(parts, -1, -2) * (shape * rnp.sum(shape))
    weights = rnp.broadcast_to(shape * shape, parts.shape[-2:])
    line, weight = (_overlapped(x, length - overlap) for x in (parts, weights))
    if boundary:
        inner = slice(length // 2, line.shape[-1] - length // 2)
        line, weight = line[..., inner], weight[..., inner]
    line = line / rnp.where(weight > 1e-10, weight, 1.0)
    place = times - (frequencies < times)
    moments = rnp.asarray(np.arange(line.shape[-1]), rnp.real(line).dtype) / _rate("istft", fs)
    return moments, rnp.moveaxis(line, -1, place)


def _overlapped(parts: Any, step: int) -> Array:
    """The sum of segments, each `step` places after the one before."""
    count, length = parts.shape[-2:]
    pieces = -(-length // step)
    parts = rnp.pad(parts, [(0, 0)] * (parts.ndim - 1) + [(0, pieces * step - length)])
    parts = rnp.reshape(parts, (*parts.shape[:-1], pieces, step))
    total = rnp.zeros((*parts.shape[:-3], count + pieces - 1, step), parts.dtype)
    for i in range(pieces):  # piece i of all segments stands i steps later
        before, after = i, pieces - 1 - i
        pads = [(0, 0)] * (parts.ndim - 3) + [(before, after), (0, 0)]
        total = total + rnp.pad(parts[..., i, :], pads)
    line = rnp.reshape(total, (*total.shape[:-2], -1))
    return line[..., : (count - 1) * step + length]
