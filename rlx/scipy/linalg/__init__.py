"""Linear algebra with the names of `jax.scipy.linalg`.

There are factors to keep, functions of matrices, and matrices with names.

`A`, `B` and `C` are matrices f[..., n, n]; of triangular and Hermitian ones only the `lower`
triangle, or the upper one, is read. Named matrices have `n` rows; `c` is a first column, `r` a row.

The keywords by which SciPy overwrites arguments or checks for infinities are taken, and do
nothing: `overwrite_c`, `lwork`, `lapack_driver`, `debug`, `turbo`, `blocksize`.
"""

from .factors import (
    cho_factor as cho_factor,
    cho_solve as cho_solve,
    cholesky as cholesky,
    lu as lu,
    lu_factor as lu_factor,
    lu_solve as lu_solve,
    qr as qr,
    solve as solve,
    solve_triangular as solve_triangular,
)
from .functions import (
    det as det,
    eigh as eigh,
    eigh_tridiagonal as eigh_tridiagonal,
    expm as expm,
    expm_frechet as expm_frechet,
    funm as funm,
    hessenberg as hessenberg,
    inv as inv,
    polar as polar,
    qr_multiply as qr_multiply,
    rsf2csf as rsf2csf,
    schur as schur,
    solve_sylvester as solve_sylvester,
    sqrtm as sqrtm,
    svd as svd,
)
from .named_matrices import (
    block_diag as block_diag,
    circulant as circulant,
    companion as companion,
    convolution_matrix as convolution_matrix,
    dft as dft,
    fiedler as fiedler,
    fiedler_companion as fiedler_companion,
    hadamard as hadamard,
    hankel as hankel,
    helmert as helmert,
    hilbert as hilbert,
    invhilbert as invhilbert,
    invpascal as invpascal,
    leslie as leslie,
    pascal as pascal,
    toeplitz as toeplitz,
)
