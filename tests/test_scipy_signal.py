"""`rlx.scipy.signal` against SciPy's numbers: values, derivatives, batches; and errors."""

from __future__ import annotations

import inspect
from typing import Any

import jax.scipy.signal
import numpy as np
import pytest
import scipy.signal

import rlx
from rlx.ir.errors import RlxError
from rlx.scipy import signal

RANDOM = np.random.default_rng(0)
LONG, SHORT = RANDOM.normal(size=20), RANDOM.normal(size=7)
WAVE = LONG + 1j * RANDOM.normal(size=20)
IMAGE, PATCH = RANDOM.normal(size=(6, 7)), RANDOM.normal(size=(3, 4))
LINES = RANDOM.normal(size=(2, 3, 100))
MODES = ("full", "same", "valid")


def close(got: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            close(one, other)
        return
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    scale = float(np.max(np.abs(wanted), initial=0.0))
    single = got.dtype.name in ("float32", "complex64")
    np.testing.assert_allclose(got, wanted, rtol=0, atol=scale * (1e-5 if single else 1e-12))


def test_parameters_are_those_of_jax() -> None:
    for name in dir(jax.scipy.signal):
        if not name.startswith("_") and callable(getattr(jax.scipy.signal, name)):
            mine, other = (
                [
                    (p.name, p.default)
                    for p in inspect.signature(getattr(m, name)).parameters.values()
                ]
                for m in (signal, jax.scipy.signal)
            )
            assert mine == other, name


@pytest.mark.parametrize("mode", MODES)
def test_convolutions_are_those_of_scipy(mode: str) -> None:
    for x, y in ((LONG, SHORT), (SHORT, LONG), (WAVE, SHORT), (SHORT, WAVE), (IMAGE, PATCH)):
        for name in ("convolve", "correlate"):
            wanted = getattr(scipy.signal, name)(x, y, mode)
            for method in ("direct", "fft"):
                close(getattr(signal, name)(x, y, mode, method), wanted)
        close(signal.fftconvolve(x, y, mode), scipy.signal.fftconvolve(x, y, mode))
    for x, y in ((IMAGE, PATCH), (PATCH, IMAGE), (IMAGE * 1j, PATCH + 1j), (PATCH, 1j * IMAGE)):
        close(signal.convolve2d(x, y, mode), scipy.signal.convolve2d(x, y, mode))
        close(signal.correlate2d(x, y, mode), scipy.signal.correlate2d(x, y, mode))
    x, y = RANDOM.normal(size=(4, 9)), RANDOM.normal(size=(4, 5))
    close(signal.fftconvolve(x, y, mode, [1]), scipy.signal.fftconvolve(x, y, mode, 1))
    close(
        rlx.jit(lambda x, y: signal.convolve(x, y, mode))(LONG, SHORT),
        scipy.signal.convolve(LONG, SHORT, mode),
    )


def test_convolution_differentiates_and_batches() -> None:
    places = np.arange(26.0)
    slope = rlx.grad(lambda x, y: (signal.convolve(x, y) * places).sum(), (0, 1))(LONG, SHORT)
    close(slope, tuple(scipy.signal.correlate(places, z, "valid") for z in (SHORT, LONG)))
    rows = RANDOM.normal(size=(3, 20))
    close(
        rlx.vmap(lambda x: signal.fftconvolve(x, SHORT))(rows),
        np.stack([scipy.signal.convolve(x, SHORT) for x in rows]),
    )


def test_trends_are_those_of_scipy() -> None:
    close(
        signal.detrend(LINES, type="constant", axis=1), scipy.signal.detrend(LINES, 1, "constant")
    )
    close(signal.detrend(LINES), scipy.signal.detrend(LINES))
    close(signal.detrend(LINES, bp=[30, 71]), scipy.signal.detrend(LINES, bp=[30, 71]))
    np.testing.assert_allclose(signal.detrend(LINES, axis=0), 0 * LINES, atol=1e-15)  # two points
    np.testing.assert_allclose(signal.detrend(np.arange(5)), np.zeros(5), atol=1e-6)


WINDOWS = (
    "boxcar hann hamming blackman nuttall blackmanharris flattop triang bartlett cosine parzen "
    "bohman"
).split()
NUMBERED = (
    ("kaiser", 8.6),
    ("gaussian", 5.0),
    ("tukey", 0.4),
    ("tukey", 0.0),
    ("general_hamming", 0.7),
)


@pytest.mark.parametrize("window", [*WINDOWS, *NUMBERED], ids=str)
def test_windows_are_those_of_scipy(window: Any) -> None:
    for count in (16, 17):
        close(
            signal.welch(LINES[0, 0], window=window, nperseg=count),
            scipy.signal.welch(LINES[0, 0], window=window, nperseg=count),
        )


def test_spectra_are_those_of_scipy() -> None:
    x, y = LINES[0], LINES[1]
    for settings in (
        {"nperseg": 16},
        {"nperseg": 15, "noverlap": 4, "fs": 3.5, "detrend": "linear"},
        {"nperseg": 16, "nfft": 32, "scaling": "spectrum", "detrend": False},
        {"nperseg": 16, "average": "median"},
        {"nperseg": 20, "return_onesided": False},
        {"window": np.hanning(24)},
    ):
        close(signal.csd(x, y, **settings), scipy.signal.csd(x, y, **settings))
        close(signal.welch(x, **settings), scipy.signal.welch(x, **settings))
    close(signal.welch(LINES, axis=1), scipy.signal.welch(LINES, axis=1, nperseg=3))
    close(signal.csd(x, y[:, :60], nperseg=16), scipy.signal.csd(x, y[:, :60], nperseg=16))
    wave = x + 1j * y
    close(
        signal.welch(wave, nperseg=16, return_onesided=False),
        scipy.signal.welch(wave, nperseg=16, return_onesided=False),
    )


@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant", None])
def test_short_transforms_are_those_of_scipy(boundary: str | None) -> None:
    for settings in (
        {"nperseg": 16},
        {"nperseg": 15, "noverlap": 9, "fs": 2.0, "padded": False},
        {"nperseg": 16, "nfft": 20, "return_onesided": False, "detrend": "constant"},
    ):
        close(
            signal.stft(LINES, boundary=boundary, **settings),
            scipy.signal.stft(LINES, boundary=boundary, **settings),
        )
    moved = np.moveaxis(LINES, -1, 0)
    close(
        signal.stft(moved, nperseg=16, boundary=boundary, axis=0),
        scipy.signal.stft(moved, nperseg=16, boundary=boundary, axis=0),
    )


def test_short_transforms_go_back() -> None:
    for settings in ({"nperseg": 16}, {"nperseg": 15, "noverlap": 10, "fs": 2.0}):
        _, _, spectra = scipy.signal.stft(LINES, **settings)
        times, back = signal.istft(spectra, **settings)
        # the times SciPy gives for several lines are as many as there are lines
        close(times, scipy.signal.istft(spectra[0, 0], **settings)[0])
        close(back, scipy.signal.istft(spectra, **settings)[1])
        _, back = signal.istft(signal.stft(LINES, **settings)[2], **settings)
        np.testing.assert_allclose(back[..., :100], LINES, atol=1e-12)
    _, _, spectra = scipy.signal.stft(LINES, nperseg=16, return_onesided=False)
    _, wanted = scipy.signal.istft(spectra, input_onesided=False)
    close(signal.istft(spectra, input_onesided=False)[1], wanted)
    turned = {"input_onesided": False, "time_axis": 0, "freq_axis": 1}
    spectra = np.moveaxis(spectra, (-2, -1), (1, 0))
    close(signal.istft(spectra, **turned)[1], scipy.signal.istft(spectra, **turned)[1])


def test_spectra_differentiate_and_compile() -> None:
    def power(x: Any) -> Any:
        return signal.welch(x, nperseg=16)[1].sum()

    step = 1e-5 * RANDOM.normal(size=100)
    slope = rlx.jit(rlx.grad(power))(LINES[0, 0])
    change = (power(LINES[0, 0] + step) - power(LINES[0, 0] - step)) / 2
    np.testing.assert_allclose((slope * step).sum(), change, rtol=1e-6)
    rows = rlx.vmap(lambda x: signal.stft(x, nperseg=16)[2])(LINES[0])
    close(rows, signal.stft(LINES[0], nperseg=16)[2])


def test_what_has_no_meaning_is_refused() -> None:
    for call in (
        lambda: signal.convolve(LONG, SHORT, "whole"),
        lambda: signal.convolve(LONG, SHORT, method="magic"),
        lambda: signal.convolve(LONG, PATCH),
        lambda: signal.convolve(np.ones((2, 5)), np.ones((3, 4))),
        lambda: signal.convolve2d(IMAGE, PATCH, boundary="wrap"),
        lambda: signal.convolve2d(LONG, SHORT),
        lambda: signal.fftconvolve(IMAGE, PATCH, axes=[0]),
        lambda: signal.detrend(LONG, type="cubic"),
        lambda: signal.detrend(LONG, bp=[50]),
        lambda: signal.welch(LONG, window="round"),
        lambda: signal.welch(LONG, window=np.ones(4), nperseg=5),
        lambda: signal.welch(LONG, nperseg=8, noverlap=8),
        lambda: signal.welch(LONG, scaling="loud"),
        lambda: signal.stft(LONG, nperseg=4, boundary="cliff"),
        lambda: signal.stft(LONG, nperseg=0),
        lambda: signal.istft(LONG),
        lambda: signal.istft(IMAGE, time_axis=0, freq_axis=0),
        lambda: signal.istft(IMAGE, noverlap=50),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix
    with pytest.warns(UserWarning, match="cut to 20"):
        signal.welch(LONG, nperseg=30)
