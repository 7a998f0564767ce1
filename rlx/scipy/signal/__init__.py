"""Convolutions and spectra under the names of `jax.scipy.signal`.

Integers become float32. Read `convolving.py` first.
"""

from .convolving import convolve, convolve2d, correlate, correlate2d, fftconvolve
from .spectral import csd, detrend, istft, stft, welch
