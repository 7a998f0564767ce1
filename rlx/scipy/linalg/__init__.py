"""Linear algebra with the names of `jax.scipy.linalg`.

There are factors to keep, functions of matrices, and matrices with names.

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
from .named_matrices import (
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
)
from .parts import eigh_tridiagonal, expm_frechet, polar, qr_multiply
from .triangular import funm, hessenberg, rsf2csf, schur, solve_sylvester, sqrtm
