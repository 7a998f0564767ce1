"""The steps of Adafactor, which keeps squares of a matrix as a row and a column."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import count_of, flag
from .optimizer import (
    Optimizer,
    check_gradients,
    check_numbers,
    first_step,
    needs_params,
    of_kind,
    on_parameters,
    square_of,
    stateless,
    widened,
)


class FactoredState(NamedTuple):
    """Mean squares: factored, or of the whole array; the others are one zero."""

    count: Any  # how many steps were made
    v_row: Any  # over rows, where an array is factored
    v_col: Any  # over columns
    v: Any  # of an array that is not factored


def _factored_axes(shape: tuple[int, ...], least: int | None) -> tuple[int, int] | None:
    """The second largest and the largest axis, if both have `least` elements."""
    if least is None or len(shape) < 2:
        return None
    second, largest = sorted(range(len(shape)), key=lambda axis: shape[axis])[-2:]
    return (second, largest) if shape[second] >= least else None


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
) -> Optimizer:
    """Divide by the root of mean squares, which a matrix keeps by row and column.

    Returns a step for `chain`. With `d = 1 - (t - step_offset)^-decay_rate` and `q = g² + epsilon`,
    the rows are `r = d r + (1 - d) mean(q, columns)`, the columns
    `c = d c + (1 - d) mean(q, rows)`, and the update is `g / sqrt(r / mean(r)) / sqrt(c)`. Arrays
    without two axes of `min_dim_size_to_factor`, and all unless `factored`, keep
    `v = d v + (1 - d) q`; their update is `g / sqrt(v)`.

    >>> step = scale_by_factored_rms()
    >>> p = rnp.zeros(1)
    >>> step.update(rnp.array([3.0]), step.init(p), p)[0]
    Array([1.], dtype=float32)
    """
    check_numbers(decay_rate=decay_rate, step_offset=step_offset, epsilon=epsilon)
    is_factored = flag("factored", factored)
    least = count_of("min_dim_size_to_factor", min_dim_size_to_factor) if is_factored else None

    def begin(p: Any) -> tuple[Any, Any, Any]:
        axes = _factored_axes(p.shape, least)
        # arrays of their own: a step may be given the memory of all of them
        if axes is None:
            return rnp.zeros_like(p, shape=(1,)), rnp.zeros_like(p, shape=(1,)), rnp.zeros_like(p)
        second, largest = axes
        rows, columns = _zeros_without(p, largest), _zeros_without(p, second)
        return rows, columns, rnp.zeros_like(p, shape=(1,))

    def init(params: Any) -> FactoredState:
        wide = widened(params)
        return FactoredState(first_step(params), *_columns(begin, 3, wide))

    def update(grads: Any, state: FactoredState, params: Any = None) -> tuple[Any, FactoredState]:
        check_gradients(grads, of_kind(state, FactoredState).v)
        needs_params("scale_by_factored_rms", params)
        step = state.count + 1 - step_offset

        def change(g: Any, *means: Any) -> tuple[Any, ...]:
            wide, axes = widened(g), _factored_axes(rnp.shape(g), least)
            decay = 1 - step.astype(wide.dtype) ** -decay_rate
            update, *after = _changed(wide, means, decay, epsilon, axes)
            return update.astype(rnp.asarray(g).dtype), *after

        updates, *means = _columns(change, 4, grads, state.v_row, state.v_col, state.v)
        return updates, FactoredState(state.count + 1, *means)

    return on_parameters(init, update)


def _changed(
    g: Any, means: tuple[Any, ...], kept: Any, epsilon: float, axes: tuple[int, int] | None
) -> tuple[Any, Any, Any, Any]:
    """The update of one array, and its means after."""
    (row, col, whole), square = means, square_of(g) + epsilon
    if axes is None:
        whole = kept * whole + (1 - kept) * square
        return g / rnp.sqrt(whole), row, col, whole
    second, largest = axes
    row = kept * row + (1 - kept) * rnp.mean(square, axis=largest)
    col = kept * col + (1 - kept) * rnp.mean(square, axis=second)
    share = row / rnp.mean(row, axis=second - (second > largest), keepdims=True)
    by_row, by_col = rnp.expand_dims(share**-0.5, largest), rnp.expand_dims(col**-0.5, second)
    return g * by_row * by_col, row, col, whole


def _zeros_without(p: Any, axis: int) -> Any:
    return rnp.zeros_like(p, shape=(*p.shape[:axis], *p.shape[axis + 1 :]))


def _columns(function: Any, count: int, tree: Any, *rest: Any) -> list[Any]:
    """A tree for each result of a function that has several."""
    first, spec = pytree.flatten(tree)
    rows = [function(*row) for row in zip(first, *map(pytree.leaves, rest), strict=True)]
    return [pytree.unflatten(spec, [row[i] for row in rows]) for i in range(count)]


def _root_mean_square(x: Any) -> Any:
    return rnp.sqrt(rnp.mean(square_of(x)))


def clip_by_block_rms(threshold: float) -> Optimizer:
    """Clip each array's update so that its root mean square is at most `threshold`.

    Returns a step for `chain`.

    >>> step = clip_by_block_rms(2.0)
    >>> step.update(rnp.array([4.0, -4.0]), ())[0]
    Array([ 2., -2.], dtype=float32)
    """
    check_numbers(threshold=threshold)

    def clip(u: Any) -> Any:
        wide = widened(u)
        update = wide / rnp.maximum(1.0, _root_mean_square(wide) / threshold)
        return update.astype(rnp.asarray(u).dtype)

    return stateless(lambda updates: pytree.map(clip, updates))


def scale_by_param_block_rms(min_scale: float = 1e-3) -> Optimizer:
    """Multiply the update of each array by the root of the array's mean square.

    It is at least `min_scale`.

    >>> step = scale_by_param_block_rms()
    >>> step.update(rnp.array([1.0, 3.0]), (), rnp.array([2.0, -2.0]))[0]
    Array([2., 6.], dtype=float32)
    """
    check_numbers(min_scale=min_scale)

    def multiply(u: Any, p: Any) -> Any:
        size = rnp.maximum(_root_mean_square(widened(p)), min_scale)
        return (widened(u) * size).astype(rnp.asarray(u).dtype)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        params = needs_params("scale_by_param_block_rms", params)
        return pytree.map(multiply, grads, params), state

    return on_parameters(lambda params: (), update)
