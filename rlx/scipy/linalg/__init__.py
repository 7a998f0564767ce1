"""Linear algebra with the names of `jax.scipy.linalg`: factors to keep, and expm.

The keywords by which SciPy overwrites arguments or checks for infinities are taken, and do
nothing.
"""

from .factors import (
    cho_factor,
    cho_solve,
    cholesky,
    lu,
    lu_factor,
    lu_solve,
    qr,
    solve,
    solve_triangular,
)
from .functions import det, eigh, expm, inv, svd
from .made import block_diag, toeplitz
