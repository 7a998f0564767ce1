"""Convolutions and spectra under the names of `jax.scipy.signal`.

Integers become float32. Read `convolving.py` first.
"""

from .convolving import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
)
from .spectral import csd as csd, detrend as detrend, istft as istft, stft as stft, welch as welch
