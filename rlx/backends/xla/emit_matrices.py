"""Rows of the table: factors of matrices, and systems solved by them.

What LAPACK has on the host alone has no row, and so runs there as its NumPy reference.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from ..graph_table.row import Row
from .emit_sums import EXACT, has_elements


def _lu(x: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(linalg.lu(x))


def _qr(x: jax.Array, *, full_matrices: bool) -> tuple[jax.Array, ...]:
    return tuple(linalg.qr(x, full_matrices=full_matrices))


def _eigh(x: jax.Array, *, compute_vectors: bool) -> tuple[jax.Array, ...]:
    vectors, values = linalg.eigh(x, lower=True, symmetrize_input=False)
    return (values, vectors) if compute_vectors else (values,)


def _svd(x: jax.Array, *, full_matrices: bool, compute_uv: bool) -> tuple[jax.Array, ...]:
    if not compute_uv:
        return (linalg.svd(x, compute_uv=False),)
    return tuple(linalg.svd(x, full_matrices=full_matrices))


def _cholesky(x: jax.Array) -> jax.Array:
    return jnp.tril(linalg.cholesky(x, symmetrize_input=False))


def _diagonal(x: jax.Array) -> jax.Array:
    return jnp.diagonal(x, axis1=-2, axis2=-1)


def _linear_solve(a: jax.Array, b: jax.Array, *, transpose_a: bool) -> jax.Array:
    both, _, order = linalg.lu(a.mT if transpose_a else a)
    b = jnp.take_along_axis(b, order[..., None], axis=-2)
    x = linalg.triangular_solve(both, b, left_side=True, lower=True, unit_diagonal=True)
    x = linalg.triangular_solve(both, x, left_side=True, lower=False)
    is_singular = (_diagonal(both) == 0).any(-1)[..., None, None]
    return jnp.where(is_singular, jnp.asarray(np.nan, x.dtype), x)


def _pivots(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The diagonal of U, and the sign of the permutation."""
    both, pivots, _ = linalg.lu(x)
    moved = (pivots != lax.iota(pivots.dtype, pivots.shape[-1])).sum(-1)
    return _diagonal(both), jnp.where(moved % 2 == 0, 1, -1).astype(x.dtype)


def _det(x: jax.Array) -> jax.Array:
    pivots, sign = _pivots(x)
    return sign * pivots.prod(-1)


def _slogdet(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    pivots, sign = _pivots(x)
    sizes = jnp.abs(pivots)
    turned = sign * (pivots / jnp.where(sizes == 0, 1, sizes).astype(x.dtype)).prod(-1)
    return turned.astype(x.dtype), jnp.log(sizes).sum(-1)


def _pinv(x: jax.Array, cutoff: jax.Array) -> jax.Array:
    u, s, vh = linalg.svd(x, full_matrices=False)
    is_kept = s > cutoff[..., None] * s.max(-1, keepdims=True)
    inverse = jnp.where(is_kept, 1 / jnp.where(is_kept, s, jnp.ones_like(s)), jnp.zeros_like(s))
    scaled = inverse[..., :, None].astype(x.dtype) * jnp.conj(u.mT)
    return jnp.matmul(jnp.conj(vh.mT), scaled, precision=EXACT)


ROWS: dict[str, Row] = {
    "lu": Row(_lu, takes=has_elements),
    "qr": Row(_qr, takes=has_elements),
    "eigh": Row(_eigh, takes=has_elements),
    "svd": Row(_svd, takes=has_elements),
    "cholesky": Row(_cholesky, takes=has_elements),
    "triangular_solve": Row(linalg.triangular_solve, takes=has_elements),
    "linear_solve": Row(_linear_solve, takes=has_elements),
    "det": Row(_det, takes=has_elements),
    "slogdet": Row(_slogdet, takes=has_elements),
    "pinv": Row(_pinv, takes=has_elements),
}
