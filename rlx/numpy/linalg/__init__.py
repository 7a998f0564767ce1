"""Linear algebra on rlx arrays, with the names of `jax.numpy.linalg`.

Matrices lie in the last two axes; the axes before them are a batch. Dtypes are float32, float64,
complex64 and complex128; integers become float32. Where an answer does not exist (a matrix is
singular, or not positive definite), it is NaN or infinite instead of an error, so that one matrix
of a batch harms no other. Read `decompositions.py` first.
"""

from ...ir.lazy import listed as _listed
from .decompositions import (
    EighResult as EighResult,
    EigResult as EigResult,
    QRResult as QRResult,
    SVDResult as SVDResult,
    cholesky as cholesky,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    qr as qr,
    svd as svd,
    svdvals as svdvals,
)
from .products import (
    cond as cond,
    cross as cross,
    diagonal as diagonal,
    matmul as matmul,
    matrix_norm as matrix_norm,
    matrix_power as matrix_power,
    matrix_transpose as matrix_transpose,
    multi_dot as multi_dot,
    norm as norm,
    outer as outer,
    tensordot as tensordot,
    trace as trace,
    vecdot as vecdot,
    vector_norm as vector_norm,
)
from .solving import (
    SlogdetResult as SlogdetResult,
    det as det,
    inv as inv,
    lstsq as lstsq,
    matrix_rank as matrix_rank,
    pinv as pinv,
    slogdet as slogdet,
    solve as solve,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
)

__dir__ = _listed(__name__)
