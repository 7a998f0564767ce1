"""The rooms of special functions: gamma, beta, Bessel, zeta, and their inverses.

They are composites; read `family.py` first.
"""

from . import bessel, entropy, gamma, incomplete_beta, incomplete_gamma, integrals, normal, waves

__all__ = [
    "bessel",
    "entropy",
    "gamma",
    "incomplete_beta",
    "incomplete_gamma",
    "integrals",
    "normal",
    "waves",
]
