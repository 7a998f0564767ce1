"""Ops of linear algebra: factorizations, eigenvalues, solvers.

Read `factor.py` first; `matrices.py` holds what the rooms share, `small.py` the loops for small
matrices.
"""

from . import factor, schur, solve, spectral, triangular

__all__ = ["factor", "schur", "solve", "spectral", "triangular"]
