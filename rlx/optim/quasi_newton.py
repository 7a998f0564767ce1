"""The step of L-BFGS: Newton's method, with the curvature of the last few steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import count_of
from ..transforms.loops import scan
from .line_search import dot
from .optimizer import (
    Optimizer,
    check_gradients,
    first_step,
    needs_params,
    of_kind,
    on_parameters,
    zero_beside,
    zeros_like,
)


class LbfgsState(NamedTuple):
    """The last parameters and gradients, and the last few changes of both."""

    count: Any  # how many steps were made
    params: Any  # of the last step
    updates: Any  # the gradients of the last step
    diff_params_memory: Any  # changes as rows, written in turn
    diff_updates_memory: Any  # likewise, of gradients
    weights_memory: Any  # 1 / the inner product of the two changes of a step


def scale_by_lbfgs(memory_size: int = 10, scale_init_precond: bool = True) -> Optimizer:
    """Multiply by an estimate of the inverse Hessian, from the last few steps.

    With changes s of parameters and y of gradients, and `r = 1 / (s·y)`, the matrix is
    `H = (1 - r s yᵀ) H (1 - r y sᵀ) + r s sᵀ` for each of the last `memory_size` steps; it begins
    as the identity, times `(s·y) / (y·y)` of the last step if `scale_init_precond`, in the first
    step `min(1, 1 / |g|)`.

    >>> step, p = scale_by_lbfgs(), rnp.zeros(1)
    >>> step.update(rnp.array([4.0]), step.init(p), p)[0]
    Array([1.], dtype=float32)
    """
    count_of("scale_by_lbfgs: memory_size", memory_size, least=1)

    def rows(params: Any) -> Any:
        return pytree.map(lambda p: rnp.zeros_like(p, shape=(memory_size, *rnp.shape(p))), params)

    def init(params: Any) -> LbfgsState:
        weights = rnp.zeros_like(zero_beside(params), shape=(memory_size,))
        zeros = zeros_like(params), zeros_like(params)
        return LbfgsState(first_step(params), *zeros, rows(params), rows(params), weights)

    def update(grads: Any, state: LbfgsState, params: Any = None) -> tuple[Any, LbfgsState]:
        check_gradients(grads, of_kind(state, LbfgsState).updates)
        params, is_later = needs_params("scale_by_lbfgs", params), state.count > 0

        def change(now: Any, before: Any) -> Any:
            return rnp.where(is_later, now - before, rnp.zeros_like(now))

        s, y = pytree.map(change, params, state.params), pytree.map(change, grads, state.updates)
        product, place = dot(y, s), (state.count - 1) % memory_size
        weight = rnp.where(product == 0, 0.0, 1 / rnp.where(product == 0, 1.0, product))

        def write(memory: Any, row: Any) -> Any:
            return memory.at[place].set(row.astype(memory.dtype))

        memory = (
            pytree.map(write, state.diff_params_memory, s),
            pytree.map(write, state.diff_updates_memory, y),
            write(state.weights_memory, weight),
        )
        size = _first_size(grads, y, product, is_later) if scale_init_precond else 1.0
        order = (state.count + rnp.arange(memory_size, dtype="int32")) % memory_size
        after = LbfgsState(state.count + 1, params, grads, *memory)
        return _preconditioned(grads, memory, size, order), after

    return on_parameters(init, update)


def _first_size(grads: Any, y: Any, product: Any, is_later: Any) -> Any:
    """What the identity is multiplied by, for the estimate to begin with."""
    square = dot(y, y)
    learnt = rnp.where(square > 0, product / rnp.where(square > 0, square, 1.0), 1.0)
    return rnp.where(is_later, learnt, rnp.minimum(1.0, 1 / rnp.sqrt(dot(grads, grads))))


def _preconditioned(vector: Any, memory: tuple[Any, Any, Any], size: Any, order: Any) -> Any:
    """The inverse Hessian times a vector, in two loops over the memory."""

    def plus(x: Any, factor: Any, y: Any) -> Any:
        return pytree.map(lambda a, b: a + factor.astype(a.dtype) * b, x, y)

    def back(vector: Any, i: Any) -> tuple[Any, Any]:
        s, y, weight = pytree.map(lambda rows: rows[i], memory)
        alpha = weight * dot(s, vector)
        return plus(vector, -alpha, y), alpha

    def forth(vector: Any, step: Any) -> tuple[Any, None]:
        i, alpha = step
        s, y, weight = pytree.map(lambda rows: rows[i], memory)
        return plus(vector, alpha - weight * dot(y, vector), s), None

    vector, alphas = scan(back, vector, order, reverse=True)
    vector = pytree.map(lambda x: x * rnp.asarray(size).astype(x.dtype), vector)
    return scan(forth, vector, (order, alphas))[0]
