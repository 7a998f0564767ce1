"""Householder reflections 1 - tau v vᴴ, as LAPACK writes them.

The vectors v are the columns of a matrix below its diagonal, with 1 on it.
"""

from __future__ import annotations

from typing import Any

from .. import numpy as rnp
from ..numpy.linalg.matrices import adjoint
from ..trace.array_arguments import with_axes
from ..trace.scan import scan
from .operands import Tensor


def householder_product(a: Tensor, taus: Tensor) -> Any:
    """The first columns of the product of reflections 1 - tau v vᴴ.

    The vectors v are the columns of a below its diagonal, with 1 on it.
    """
    a = with_axes("householder_product: a", a, 2)
    taus = with_axes("householder_product: taus", taus, 1)
    rows, columns = a.shape[-2:]
    unit = rnp.broadcast_to(rnp.eye(rows, columns, dtype=a.dtype), a.shape)
    return ormqr(a, taus, unit)


def ormqr(a: Tensor, taus: Tensor, c: Tensor, *, left: bool = True, transpose: bool = False) -> Any:
    """Q c, for the product Q of the reflections in a and taus, which is not made.

    With `transpose` it is Qᴴ c; without `left` c Q and c Qᴴ.
    """
    a, c = with_axes("ormqr: a", a, 2), with_axes("ormqr: c", c, 2)
    taus = with_axes("ormqr: taus", taus, 1)
    if not left:
        return adjoint(ormqr(a, taus, adjoint(c), transpose=not transpose))
    count = taus.shape[-1]
    lines = rnp.moveaxis(_vectors(a)[..., :count], -1, 0)
    factors = rnp.moveaxis(rnp.conj(taus) if transpose else taus, -1, 0)

    def step(c: Any, row: Any) -> tuple[Any, None]:
        return _reflected(c, *row), None

    return scan(step, c, (lines, factors), reverse=not transpose)[0]


def _vectors(a: Any) -> Any:
    rows, columns = a.shape[-2:]
    return rnp.tril(a, -1) + rnp.eye(rows, columns, dtype=a.dtype)


def _reflected(c: Any, line: Any, factor: Any) -> Any:
    """A matrix after one reflection."""
    v = line[..., None]
    return c - factor[..., None, None] * (v @ (adjoint(v) @ c))


def geqrf(a: Tensor) -> tuple[Any, Any]:
    """The factors of x = Q R in one matrix, R on and above the diagonal, and the taus.

    Below are the vectors of the reflections whose product is Q.
    """
    a = with_axes("geqrf: a", a, 2)
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
        after = _reflected(a, line + (places == k), rnp.conj(tau))
        # columns before have their vectors already; this one has room where it became zero
        after = rnp.where(lanes < k, a, after)
        is_below = (places > k)[:, None] & (lanes == k)
        return rnp.where(is_below, line[..., None], after), tau

    found, taus = scan(step, a, rnp.arange(count))
    return found, rnp.moveaxis(taus, 0, -1)
