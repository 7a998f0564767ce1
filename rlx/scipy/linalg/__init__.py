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
from .functions import (
    det,
    eigh,
    eigh_tridiagonal,
    expm,
    expm_frechet,
    funm,
    hessenberg,
    inv,
    polar,
    qr_multiply,
    rsf2csf,
    schur,
    solve_sylvester,
    sqrtm,
    svd,
)
from .named_matrices import (
    block_diag,
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
    toeplitz,
)
