"""Special functions: gamma, beta, Bessel, zeta, and their inverses.

These ops are composites; read `family.py` first.
"""

from . import bessel, entropy, gamma, incomplete, integrals, normal

__all__ = ["bessel", "entropy", "gamma", "incomplete", "integrals", "normal"]
