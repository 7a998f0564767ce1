"""The rooms of special functions: gamma, beta, Bessel, zeta, and their inverses.

They are composites; read `family.py` first.
"""

from . import bessel, entropy, gamma, incomplete, integrals, normal

__all__ = ["bessel", "entropy", "gamma", "incomplete", "integrals", "normal"]
