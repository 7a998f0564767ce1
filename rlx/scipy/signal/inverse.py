"""Lines from the spectra of their segments: istft."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as rnp
from ...trace.apply import as_tensor
from ...trace.arguments import flag
from ...trace.array_arguments import scalar
from ...trace.axes import integer, one_axis
from ..operands import Tensor
from .spectral import wrong
from .windows import window_of


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
) -> tuple[Any, Any]:
    """Times, and the lines whose segments have these transforms; undoes `stft`.

    `boundary` tells whether `stft` had put something before and after the lines.
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
    moments = rnp.asarray(np.arange(line.shape[-1]), rnp.real(line).dtype) / scalar("istft: fs", fs)
    return moments, rnp.moveaxis(line, -1, place)


def _overlapped(parts: Any, step: int) -> Any:
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
