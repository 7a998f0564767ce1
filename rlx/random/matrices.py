"""Random vectors and matrices that take linear algebra."""

from __future__ import annotations

from typing import Any

from .. import numpy as rnp
from ..ir.errors import DtypeError, ShapeError
from ..ir.types import as_dtype, is_inexact
from ..numpy import linalg
from ..trace.apply import as_tensor
from ..trace.arguments import choice
from ..trace.axes import as_shape, broadcast_shapes, integer
from ..trace.promotion import promote_operands
from .continuous import check_float, normal
from .reuse import takes_key

METHODS = ("cholesky", "eigh", "svd")


@takes_key
def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Any:
    """Vectors of normal numbers with means `f[..., n]` and covariances `f[..., n, n]`.

    `method` factors the covariance: "cholesky", or "eigh" or "svd", which take singular ones too.

    >>> from rlx.random import key
    >>> multivariate_normal(key(0), [0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], (3,)).shape
    (3, 2)
    """
    mean, cov = (as_tensor(x) for x in promote_operands(mean, cov, inexact=True))
    dtype = check_float("multivariate_normal", mean.dtype if dtype is None else dtype)
    if mean.ndim < 1 or cov.shape[-2:] != 2 * mean.shape[-1:]:
        raise ShapeError(
            f"multivariate_normal: the mean is {mean.type} and the covariance {cov.type}",
            fix="give a mean with a last axis n and a covariance with last axes (n, n)",
        )
    together = broadcast_shapes("multivariate_normal", mean.shape[:-1], cov.shape[:-2])
    batch = together if shape is None else as_shape(shape)
    numbers = normal(key, (*batch, mean.shape[-1]), dtype)
    return mean + rnp.matvec(_root(cov, method), numbers)


def _root(cov: Any, method: str) -> Any:
    """A matrix whose product with its transpose is the covariance."""
    choice("multivariate_normal: method", method, METHODS)
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = linalg.eigh(cov)
        return vectors * rnp.sqrt(values[..., None, :])
    vectors, values, _ = linalg.svd(cov)
    return vectors * rnp.sqrt(values[..., None, :])


@takes_key
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Any:
    """Orthogonal matrices of size n, unitary ones for a complex dtype.

    All are equally likely. With `m` they are n by m, with orthonormal rows or columns, whichever
    are fewer.

    Mezzadri, "How to generate random matrices from the classical compact groups", 2007.
    """
    dtype, rows = as_dtype("float32" if dtype is None else dtype), integer("orthogonal: n", n)
    if not is_inexact(dtype):
        raise DtypeError(
            f"orthogonal: {dtype.name} numbers have no fractions",
            fix="ask for a float or complex dtype",
        )
    columns = rows if m is None else integer("orthogonal: m", m)
    size = (*as_shape(shape), max(rows, columns), min(rows, columns))
    q, r = linalg.qr(normal(key, size, dtype))
    q = q * rnp.sign(rnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return rnp.matrix_transpose(q) if rows < columns else q
