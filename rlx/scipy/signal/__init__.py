"""Convolutions and spectra under the names of `jax.scipy.signal`.

Integers become float32. Read `convolving.py` first.

`in1` and `in2` are arrays of one rank; the `mode` "full" gives all places where they meet, "same"
those in the middle, of the size of `in1`, "valid" those without padding. `method` may be "fft" or
"direct"; "auto" sums the products.

Spectra are of signals sampled `fs` times a second. They are cut into segments of `nperseg` samples,
of which neighbours share `noverlap`, by default half; each is multiplied by the `window`, a name or
an array, padded to `nfft` samples, and relieved of its mean or line by `detrend`: "constant",
"linear", a function or False. With `return_onesided` real signals have frequencies from 0 up only.
"""

from .convolving import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
)
from .spectral import csd as csd, detrend as detrend, istft as istft, stft as stft, welch as welch
