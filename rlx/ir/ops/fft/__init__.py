"""The rooms of Fourier transforms.

`passes.py` writes them in products and twiddle factors for loop backends.
"""

from . import fft

__all__ = ["fft"]
