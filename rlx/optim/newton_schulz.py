"""The steps of Muon: updates of matrices with singular values of about one."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import count_of, members, wrong
from .moments import ahead, moved, unbiased
from .optimizer import (
    Optimizer,
    check_gradients,
    check_numbers,
    first_step,
    of_kind,
    on_parameters,
    square_of,
    stateless,
    widened,
    zeros_like,
)

Coefficients = tuple[float, float, float]
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of Jordan et al., for the least number of steps


class MuonState(NamedTuple):
    """The running mean of Muon."""

    count: Any  # how many steps were made
    mean: Any  # of gradients


def scale_by_muon(
    ns_coeffs: Coefficients = COEFFICIENTS,
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    *,
    nesterov: bool = True,
) -> Optimizer:
    """Give matrices like the mean of gradients, but with singular values of about one.

    From `x = m / (|m| + eps)`, where m is the mean of `scale_by_adam` with `beta` for its `b1`,
    each of the `ns_steps` of Newton and Schulz gives `x = a x + (b y + c y y) x` with `y = x xᵀ`;
    a, b, c are `ns_coeffs`.

    >>> step = scale_by_muon()
    >>> gradient = rnp.array([[8.0, 0.0], [0.0, 2.0]])
    >>> updates, _ = step.update(gradient, step.init(gradient))
    >>> bool(((updates.diagonal() > 0.6) & (updates.diagonal() < 1.3)).all())
    True
    """
    coefficients = members("scale_by_muon: ns_coeffs", ns_coeffs)
    if len(coefficients) != 3:
        raise wrong("scale_by_muon: ns_coeffs", ns_coeffs, "three numbers", "use the default")
    a, b, c = coefficients
    check_numbers(a=a, b=b, c=c, beta=beta, eps=eps)
    count_of("scale_by_muon: ns_steps", ns_steps)

    def orthogonal(m: Any) -> Any:
        if m.ndim != 2:
            fix = "use optim.muon, which gives other arrays to Adam, or optim.masked"
            raise wrong("scale_by_muon: a parameter", m, "a matrix", fix)
        is_tall = m.shape[0] > m.shape[1]
        x = m.T if is_tall else m
        x = x / (rnp.sqrt(rnp.sum(square_of(x))) + eps)
        for _ in range(ns_steps):
            y = x @ x.T
            x = a * x + (b * y + c * y @ y) @ x
        return x.T if is_tall else x

    def init(params: Any) -> MuonState:
        return MuonState(first_step(params), widened(zeros_like(params)))

    def update(grads: Any, state: MuonState, params: Any = None) -> tuple[Any, MuonState]:
        check_gradients(grads, of_kind(state, MuonState).mean)
        wide, count = widened(grads), state.count + 1
        mean = moved(beta, state.mean, wide)
        hat = ahead(beta, mean, wide, count) if nesterov else unbiased(beta, mean, count)
        updates = pytree.map(lambda m, g: orthogonal(m).astype(g.dtype), hat, grads)
        return updates, MuonState(count, mean)

    return on_parameters(init, update)


def scale_by_shape(consistent_rms: float | None = None) -> Optimizer:
    """Multiply matrices of shape (n, m) by `sqrt(max(1, m / n))`.

    With `consistent_rms` it is `sqrt(max(n, m)) consistent_rms`, which makes the root mean square
    of Muon's updates that number. Liu et al., 2025, https://arxiv.org/abs/2502.16982

    >>> step = scale_by_shape()
    >>> step.update(rnp.ones((1, 4)), ())[0]
    Array([[2., 2., 2., 2.]], dtype=float32)
    """

    def multiply(u: Any) -> Any:
        n, m = u.shape
        width = max(1.0, m / max(n, 1)) ** 0.5
        return u * (width if consistent_rms is None else max(n, m) ** 0.5 * consistent_rms)

    return stateless(lambda updates: pytree.map(multiply, updates))
