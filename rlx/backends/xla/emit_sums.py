"""Rows of the table: what combines many numbers, as sums, products and factors do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import linalg

from ...ir.types import empty_result, is_bool, is_half, is_inexact, promote
from ..graph_table import Row, has_elements
from .emit_elements import Emit, narrow, wide

Pairs = tuple[tuple[int, ...], tuple[int, ...]]
EXACT = lax.Precision.HIGHEST  # else float32 has the digits of a shorter dtype on GPUs and TPUs


def _start(how: str, dtype: np.dtype) -> np.ndarray:
    return np.asarray(empty_result(how, dtype)).astype(dtype)


def reducing(combine: Callable[..., jax.Array], how: str, *, sums: bool = False) -> Emit:
    """The row of a reduction along axes; sums of short floats are rounded once."""

    def row(x: jax.Array, *, axes: Sequence[int]) -> jax.Array:
        given = wide(x) if sums else x
        made = lax.reduce(given, _start(how, given.dtype), combine, tuple(axes))
        return narrow(made, x.dtype)

    return row


def positioned(find: Callable[..., jax.Array]) -> Emit:
    """The row of the place of an extreme."""

    def row(x: jax.Array, *, axis: int, dtype: np.dtype) -> jax.Array:
        x = x.astype(np.uint8) if is_bool(x.dtype) else wide(x)
        return find(x, axis, dtype)

    return row


def running(scan: Callable[..., jax.Array]) -> Emit:
    """The row of a running sum, product or extreme."""

    def row(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
        return narrow(scan(wide(x), axis=axis, reverse=reverse), x.dtype)

    return row


def windowed(combine: Callable[..., jax.Array], how: str, *, sums: bool = False) -> Emit:
    """The row of a reduction of windows."""

    def row(
        x: jax.Array,
        *,
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        base_dilation: Sequence[int],
        window_dilation: Sequence[int],
    ) -> jax.Array:
        given = wide(x) if sums else x
        number = _start(how, given.dtype)
        steps = (tuple(window), tuple(strides), tuple(padding))
        dilations = (tuple(base_dilation), tuple(window_dilation))
        return narrow(lax.reduce_window(given, number, combine, *steps, *dilations), x.dtype)

    return row


# -- products -------------------------------------------------------------------------------------


def _sum_dtype(x: jax.Array, dtype: np.dtype | None) -> tuple[np.dtype, np.dtype]:
    """The dtypes of a product's operands, and of its sums."""
    result = x.dtype if dtype is None else dtype
    total = promote(x.dtype, result)
    total = np.dtype(np.float32) if is_half(total) else total
    # halves are multiplied as they are where their sums are not, which is exact
    is_kept = x.dtype.itemsize == 2 and total == np.float32 and is_inexact(x.dtype)
    return (x.dtype if is_kept else total), total


def _dot_general(
    x: jax.Array, y: jax.Array, *, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> jax.Array:
    operand, total = _sum_dtype(x, dtype)
    made = lax.dot_general(
        narrow(x, operand),
        narrow(y, operand),
        (contract, batch),
        precision=EXACT if is_inexact(total) else None,
        preferred_element_type=total,
    )
    return narrow(made, x.dtype if dtype is None else dtype)


def _conv_general_dilated(
    x: jax.Array,
    kernel: jax.Array,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    dtype: np.dtype | None,
) -> jax.Array:
    operand, total = _sum_dtype(x, dtype)
    made = lax.conv_general_dilated(
        narrow(x, operand),
        narrow(kernel, operand),
        tuple(window_strides),
        list(padding),
        tuple(lhs_dilation),
        tuple(rhs_dilation),
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=EXACT if is_inexact(total) else None,
        preferred_element_type=total,
    )
    return narrow(made, x.dtype if dtype is None else dtype)


def _fft(x: jax.Array, *, kind: str, lengths: Sequence[int]) -> jax.Array:
    return lax.fft(x, kind, tuple(lengths))


# -- factors of matrices, and systems solved by them ----------------------------------------------
#
# What LAPACK has on the host alone has no row, and so runs there as its NumPy reference.


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
    "reduce_sum": Row(reducing(lax.add, "add", sums=True)),
    "sum_in_turn": Row(reducing(lax.add, "add", sums=True)),
    "reduce_prod": Row(reducing(lax.mul, "mul", sums=True)),
    "reduce_max": Row(reducing(lax.max, "max")),
    "reduce_min": Row(reducing(lax.min, "min")),
    "reduce_and": Row(reducing(lax.bitwise_and, "and")),
    "reduce_or": Row(reducing(lax.bitwise_or, "or")),
    "argmax": Row(positioned(lax.argmax)),
    "argmin": Row(positioned(lax.argmin)),
    "cumsum": Row(running(lax.cumsum)),
    "cumprod": Row(running(lax.cumprod)),
    "cummax": Row(running(lax.cummax)),
    "cummin": Row(running(lax.cummin)),
    "reduce_window_sum": Row(windowed(lax.add, "add", sums=True), takes=has_elements),
    "reduce_window_prod": Row(windowed(lax.mul, "mul", sums=True), takes=has_elements),
    "reduce_window_max": Row(windowed(lax.max, "max"), takes=has_elements),
    "reduce_window_min": Row(windowed(lax.min, "min"), takes=has_elements),
    "dot_general": Row(_dot_general),
    "conv_general_dilated": Row(_conv_general_dilated, takes=has_elements),
    "fft": Row(_fft, takes=has_elements),
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
