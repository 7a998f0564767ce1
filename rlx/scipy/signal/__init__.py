"""Convolutions and spectra under the names of `jax.scipy.signal`.

Enters and leaves: arrays; integers become float32. Read `convolving.py` first.
"""

from .convolving import convolve, convolve2d, correlate, correlate2d, fftconvolve
from .inverse import istft
from .spectral import csd, stft, welch
from .trend import detrend
