"""Linear algebra on rlx arrays, with the names of `jax.numpy.linalg`.

Matrices lie in the last two axes; the axes before them are a batch. Dtypes are float32, float64,
complex64 and complex128; integers become float32. Where an answer does not exist (a matrix is
singular, or not positive definite), it is NaN or infinite instead of an error, so that one matrix
of a batch harms no other. Read `decompositions.py` first.
"""

from ...ir.lazy import listed as _listed
from .decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from .products import (
    cond,
    cross,
    diagonal,
    matmul,
    matrix_norm,
    matrix_power,
    matrix_transpose,
    multi_dot,
    norm,
    outer,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)
from .solving import (
    SlogdetResult,
    det,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__dir__ = _listed(__name__)
