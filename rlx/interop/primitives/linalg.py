"""Primitives of linear algebra."""

from __future__ import annotations

from typing import Any

from ... import lax, numpy as rnp
from ...ir.errors import UnknownPrimitive
from ...numpy.linalg.matrices import adjoint
from ...trace.apply import apply, as_tensor
from ...trace.scan import scan
from ..replay import rule, same

same(
    {
        "cholesky_update": lax.linalg.cholesky_update,
        "eig": (
            lax.linalg.eig,
            *("compute_left_eigenvectors=", "compute_right_eigenvectors="),
        ),
        "householder_product": lax.linalg.householder_product,
        "lu": lax.linalg.lu,
        "lu_pivots_to_permutation": (lax.linalg.lu_pivots_to_permutation, "permutation_size"),
        "ormqr": (lax.linalg.ormqr, "left=", "transpose="),
        "symmetric_product": (lax.linalg.symmetric_product, "alpha=", "beta="),
        "triangular_solve": (
            lax.linalg.triangular_solve,
            *("left_side=", "lower=", "transpose_a=", "conjugate_a=", "unit_diagonal="),
        ),
        "tridiagonal_solve": lax.linalg.tridiagonal_solve,
    }
)


def _refuse(equation: Any, option: str) -> UnknownPrimitive:
    name = equation.primitive.name
    return UnknownPrimitive(
        f"rlx has no meaning for JAX's primitive `{name}` with {option}",
        notes=[str(atom.aval) for atom in equation.invars],
        fix="leave the option out, or compute it outside of what rlx.from_jax converts",
    )


@rule("cholesky")
def cholesky_rule(equation: Any, x: Any) -> Any:
    return lax.linalg.cholesky(x, symmetrize_input=False)


@rule("eigh")
def eigh_rule(equation: Any, x: Any) -> Any:
    _check_whole(equation, as_tensor(x).shape[-1])
    return lax.linalg.eigh(x, lower=equation.params["lower"], symmetrize_input=False)


def _check_whole(equation: Any, size: int) -> None:
    subset = equation.params["subset_by_index"]
    if subset is not None and tuple(subset) != (0, size):
        raise _refuse(equation, f"subset_by_index={subset}")


@rule("qr")
def qr_rule(equation: Any, x: Any) -> Any:
    if equation.params["pivoting"]:
        raise _refuse(equation, "pivoting=True")
    return lax.linalg.qr(x, full_matrices=equation.params["full_matrices"])


@rule("svd")
def svd_rule(equation: Any, x: Any) -> Any:
    params = equation.params
    _check_whole(equation, min(as_tensor(x).shape[-2:]))
    if not params["compute_uv"]:
        return [lax.linalg.svd(x, compute_uv=False)]
    u, s, v = lax.linalg.svd(x, full_matrices=params["full_matrices"])
    return [s, u, v]


@rule("geqrf")
def geqrf_rule(equation: Any, a: Any) -> tuple[Any, Any]:
    """The factors of x = Q R in one matrix, R on and above the diagonal, and the taus.

    Below are the vectors of the reflections whose product is Q.
    """
    a = as_tensor(a)
    rows, columns = a.shape[-2:]
    places, lanes = rnp.arange(rows), rnp.arange(columns)
    count = min(rows, columns)

    def step(a: Any, k: Any) -> tuple[Any, Any]:
        column = rnp.take(a, k, -1)
        head = rnp.take(column, k, -1)
        tail = rnp.where(places > k, column, 0)
        squares = rnp.sum(rnp.real(tail * rnp.conj(tail)), -1)
        still = (squares == 0) & (rnp.imag(head) == 0)  # nothing to reflect
        length = rnp.sqrt(rnp.where(still, 1, squares + rnp.real(head * rnp.conj(head))))
        beta = rnp.where(rnp.real(head) < 0, length, -length).astype(a.dtype)
        line = tail / rnp.where(still, 1, head - beta)[..., None]
        tau = rnp.where(still, 0, (beta - head) / beta)
        v = (line + (places == k))[..., None]
        after = a - rnp.conj(tau)[..., None, None] * (v @ (adjoint(v) @ a))
        # columns before have their vectors already; this one has room where it became zero
        after = rnp.where(lanes < k, a, after)
        is_below = (places > k)[:, None] & (lanes == k)
        return rnp.where(is_below, line[..., None], after), tau

    found, taus = scan(step, a, rnp.arange(count))
    return found, rnp.moveaxis(taus, 0, -1)


@rule("schur")
def schur_rule(equation: Any, x: Any) -> Any:
    params = equation.params
    if params["sort_eig_vals"]:
        raise _refuse(equation, "sort_eig_vals=True")
    t, vectors = apply("schur", as_tensor(x))
    return [t, vectors] if params["compute_schur_vectors"] else [t]
