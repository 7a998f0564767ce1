"""Iterative solvers of linear systems, which use products with the matrix only.

`A` is a matrix or a linear function; b and x are arrays or pytrees of arrays. Derivatives solve
another system by the same method. `M`, the preconditioner, approximates the inverse of A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import numpy as rnp
from ...ir.errors import ArgumentError, ShapeError, StructureError
from ...trace import pytree
from ...trace.apply import as_tensor
from ...trace.arguments import choice, count_of
from ...trace.array import Array
from ...trace.array_arguments import scalar
from ...trace.control import while_loop
from ...trace.promotion import convert, result_dtype
from ...trace.scan import scan
from ...transforms.custom import stop_gradient
from ...transforms.solve import custom_linear_solve

Map = Callable[[Any], Any]


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by conjugate gradients, for a positive definite A.

    `A` is a matrix or a function of x, `x0` where the method begins, zeros if not given, `M`
    approximates the inverse of A. The results are x and None. The method stops when the residual is
    below `tol` times the norm of b, or below `atol`, or after `maxiter` steps.

    >>> import numpy as np
    >>> cg([[4.0, 1.0], [1.0, 3.0]], np.array([6.0, 7.0]))[0].round(3).tolist()
    [1.0, 2.0]
    """
    return _solved("cg", _conjugate_gradients, A, b, x0, tol, atol, maxiter, M, True), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by stabilized biconjugate gradients; see `cg`.

    `x0`, `tol`, `atol` and `maxiter` are as there; returns x and None.
    """
    return _solved("bicgstab", _biconjugate_gradients, A, b, x0, tol, atol, maxiter, M, False), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Array, Array]:
    """Solve A x = b by generalized minimal residuals; see `cg`.

    `x0`, `tol` and `atol` are as there. Returns x, and 0, or -1 if x is not finite. The method
    restarts after `restart` products, at most `maxiter` times. `solve_method` is "batched" or
    "incremental".
    """
    choice("gmres: solve_method", solve_method, ("batched", "incremental"))
    restart = count_of("gmres: restart", restart, 1)

    def method(a: Map, b: Any, tol: Any, atol: Any, most: int, m: Map) -> Any:
        return _least_residuals(a, b, tol, atol, most, m, restart)

    x = _solved("gmres", method, A, b, x0, tol, atol, maxiter, M, False)
    is_finite = [rnp.all(rnp.isfinite(leaf)) for leaf in pytree.leaves(x)]
    return x, rnp.where(rnp.all(rnp.stack(is_finite)), 0, -1)


# -- containers as vectors ------------------------------------------------------------------------


def _solved(
    name: str,
    method: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    atol: Any,
    maxiter: int | None,
    M: Any,
    is_symmetric: bool,
) -> Array:
    leaves, tree = pytree.flatten(b)
    if not leaves:
        raise StructureError(f"{name}: b holds no arrays", fix="give b as a vector")
    leaves = [as_tensor(leaf) for leaf in leaves]
    dtype = result_dtype(*leaves, inexact=True)

    def joined(x: Any) -> Any:
        return rnp.concatenate([rnp.ravel(convert(as_tensor(y), dtype)) for y in pytree.leaves(x)])

    def parted(x: Any) -> Any:
        parts, start = [], 0
        for leaf in leaves:
            parts.append(rnp.reshape(x[start : start + leaf.size], leaf.shape))
            start += leaf.size
        return pytree.unflatten(tree, parts)

    def on_vectors(a: Any) -> Map:
        if a is None:
            return lambda x: x
        if not callable(a) and not tree.is_leaf():
            raise ArgumentError(
                f"{name}: b is a tree of arrays, which a matrix cannot be applied to",
                fix="give A as a function of such trees, or b as a vector",
            )
        fn = a if callable(a) else _product(name, as_tensor(a))
        return lambda x: joined(fn(parted(x)))

    vector, product = joined(b), on_vectors(A)
    most = 10 * vector.size if maxiter is None else count_of(f"{name}: maxiter", maxiter)
    tol, atol = scalar(f"{name}: tol", tol), scalar(f"{name}: atol", atol)
    inverse = on_vectors(M)

    def solve(product: Map, b: Any) -> Any:
        return method(product, b, tol, atol, most, inverse)

    symmetric = is_symmetric and not rnp.iscomplexobj(vector)
    if x0 is None:
        return parted(custom_linear_solve(product, vector, solve, solve, symmetric=symmetric))
    # the solver starts at 0, from where derivatives start as well
    start = stop_gradient(joined(_fitting(name, x0, tree, leaves)))
    rest = vector - product(start)
    return parted(start + custom_linear_solve(product, rest, solve, solve, symmetric=symmetric))


def _product(name: str, a: Any) -> Map:
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"{name}: A is {a.type}", fix="give a square matrix, or a function")
    return lambda x: a @ x


def _fitting(name: str, x0: Any, tree: Any, leaves: list[Any]) -> Any:
    parts, other = pytree.flatten(x0)
    shapes = [as_tensor(x).shape for x in parts]
    if other != tree or shapes != [x.shape for x in leaves]:
        raise ShapeError(
            f"{name}: x0 is unlike b",
            notes=[f"x0: {shapes}", f"b: {[x.shape for x in leaves]}"],
            fix="give both the same containers and shapes",
        )
    return x0


# -- methods on vectors ---------------------------------------------------------------------------


def _square(x: Any) -> Array:
    return rnp.real(rnp.vdot(x, x))


def _conjugate_gradients(a: Map, b: Any, tol: Any, atol: Any, most: int, m: Map) -> Array:
    limit = rnp.maximum(tol**2 * _square(b), atol**2)
    residual, toward = b, m(b)

    def is_far(state: Any) -> Any:
        _, residual, _, _, count = state
        return (_square(residual) > limit) & (count < most)

    def step(state: Any) -> Any:
        x, residual, gamma, direction, count = state
        image = a(direction)
        share = gamma / rnp.vdot(direction, image)
        x, residual = x + share * direction, residual - share * image
        toward = m(residual)
        following = rnp.vdot(residual, toward)
        return x, residual, following, toward + following / gamma * direction, count + 1

    start = (0 * b, residual, rnp.vdot(residual, toward), toward, 0)
    return while_loop(is_far, step, start)[0]


def _biconjugate_gradients(a: Map, b: Any, tol: Any, atol: Any, most: int, m: Map) -> Array:
    limit = rnp.maximum(tol**2 * _square(b), atol**2)
    residual = shadow = b
    one = rnp.ones((), b.dtype)

    def is_far(state: Any) -> Any:
        _, residual, _, _, _, _, _, count, is_stuck = state
        return (_square(residual) > limit) & (count < most) & ~is_stuck

    def step(state: Any) -> Any:
        x, residual, alpha, omega, rho, direction, image, count, _ = state
        following = rnp.vdot(shadow, residual)
        beta = following / rho * alpha / omega
        direction = residual + beta * (direction - omega * image)
        toward = m(direction)
        image = a(toward)
        alpha = following / rnp.vdot(shadow, image)
        half = residual - alpha * image
        other = m(half)
        turned = a(other)
        size = _square(turned)
        is_there = _square(half) <= limit
        omega = rnp.where(is_there, 0.0, rnp.vdot(turned, half) / rnp.where(size > 0, size, 1.0))
        x = x + alpha * toward + omega * other
        residual = rnp.where(is_there, half, half - omega * turned)
        is_stuck = (following == 0) | (rnp.vdot(shadow, image) == 0) | ((omega == 0) & ~is_there)
        return x, residual, alpha, omega, following, direction, image, count + 1, is_stuck

    zero = 0 * residual
    start = (zero, residual, one, one, one, zero, zero, 0, rnp.asarray(False))
    return while_loop(is_far, step, start)[0]


def _least_residuals(a: Map, b: Any, tol: Any, atol: Any, most: int, m: Map, restart: int) -> Array:
    limit = rnp.maximum(tol * rnp.sqrt(_square(b)), atol)
    count = min(restart, b.size)

    def is_far(state: Any) -> Any:
        _, residual, rounds = state
        return (_square(residual) > limit * limit) & (rounds < most)

    def step(state: Any) -> Any:
        x, residual, rounds = state
        size = rnp.sqrt(_square(residual))
        basis, table = _orthogonal_products(lambda v: m(a(v)), residual / size, count)
        wanted = rnp.zeros(count + 1, residual.dtype).at[0].set(size)
        shares = rnp.linalg.lstsq(table, wanted)[0]
        x = x + shares @ basis[:-1]
        return x, m(b - a(x)), rounds + 1

    return while_loop(is_far, step, (0 * b, m(b), 0))[0]


def _orthogonal_products(product: Map, first: Any, count: int) -> tuple[Array, Array]:
    """An orthonormal basis of a vector's images (Arnoldi), and the map in it."""
    basis = rnp.zeros((count + 1, first.size), first.dtype).at[0].set(first)
    epsilon = float(rnp.finfo(first.dtype).eps)

    def step(basis: Any, k: Any) -> tuple[Any, Any]:
        image = product(basis[k])
        size = rnp.sqrt(_square(image))
        shares: Any = 0
        for _ in range(2):  # once is not exact enough
            part = rnp.conj(basis) @ image
            image, shares = image - part @ basis, shares + part
        rest = rnp.sqrt(_square(image))
        rest = rnp.where(rest > epsilon * size, rest, 0.0)
        unit = rnp.where(rest > 0, image / rnp.where(rest > 0, rest, 1.0), 0.0)
        shares = shares.at[k + 1].set(rnp.astype(rest, shares.dtype))
        return basis.at[k + 1].set(unit), shares

    basis, columns = scan(step, basis, rnp.arange(count))
    return basis, columns.T
