"""Convolutions as matrix products: which axes, in which order.

The axes have names here: "group" (if there are groups), "batch", "in", "out", the places of the
result and those in the window. A copy is made of what the windows see; its order decides whether
it is made line by line, and whether the product can read it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph import Value
from ...types import promote
from ..arithmetic import mul
from ..constant import maker
from ..contract import dot_general
from ..convert import narrowed, widened
from ..movement import broadcast, reshape, transpose
from ..reduce import reduce_sum

Names = list[str]


def window_products(seen: Value, weights: Value, last: int, dtype: np.dtype | None) -> Value:
    """Products of what the windows see with the kernel, summed.

    `([group,] batch, in, places, window), ([group,] out, in, window) → (batch, [group,] out,
    places)`. `last` is the axis of (batch, in, places) whose elements are neighbors in memory.
    """
    count = (seen.rank - 2) // 2
    group, places, window = _names(seen.rank % 2 == 1, count)
    depth = ["in", *window]
    orders = [[*depth, *places, "batch"], ["batch", *places, *window, "in"]]
    order = [*group, *(orders[last] if last < 2 else [*depth, "batch", *places])]
    seen = _in_order(seen, [*group, "batch", "in", *places, *window], order)
    sides = [(seen, order), (weights, [*group, "out", *depth])]
    sides = sides if last < 2 else sides[::-1]  # so the result too has neighbors where x has
    made, names = _product(sides, depth, dtype)
    return _in_order(made, names, ["batch", *group, "out", *places])


def summed_products(seen: Value, weights: Value, last: int, dtype: np.dtype | None) -> Value:
    """For groups of one output: a loop instead of many small products, and no copy.

    `(group, batch, in, places, window), (group, 1, in, window) → (batch, group, places)`. `last` is
    as for `window_products`.
    """
    dtype = dtype or seen.dtype
    seen, weights = (widened(narrowed(a, promote(a.dtype, dtype))) for a in (seen, weights))
    group, places, window = _names(True, weights.rank - 3)
    depth = [*window, "in"] if last == 1 else ["in", *window]
    kept = ["batch", *group, *places]
    # the loop goes along what are neighbors in memory
    order = [[*places, *group, "batch"], ["batch", *places, *group], kept][last]
    seen = _in_order(seen, ["group", "batch", "in", *places, *window], [*order, *depth])
    weights = reshape(weights, shape=(weights.shape[0], *weights.shape[2:]))
    weights = _in_order(weights, [*group, "in", *window], [*group, *depth])
    summed = tuple(range(len(order), seen.rank))
    factors = broadcast(weights, shape=seen.shape, axes=(order.index("group"), *summed))
    total = reduce_sum(mul(seen, factors), axes=summed)
    return narrowed(_in_order(total, order, kept), dtype)


# -- axes with names ------------------------------------------------------------------------------


def _names(has_groups: bool, count: int) -> tuple[Names, Names, Names]:
    places, window = ([f"{word}{i}" for i in range(count)] for word in ("place", "window"))
    return ["group"] if has_groups else [], places, window


def _in_order(x: Value, names: Names, wanted: Names) -> Value:
    """The axes of x, which have these names, in the wanted order."""
    return x if names == wanted else transpose(x, axes=[names.index(name) for name in wanted])


def _product(
    sides: Sequence[tuple[Value, Names]], depth: Names, dtype: np.dtype | None
) -> tuple[Value, Names]:
    """The product of two arrays summed over `depth`, group by group; and its axes' names."""
    (x, x_names), (y, y_names) = sides
    group = [name for name in x_names if name == "group"]
    contract, batch = (
        tuple(tuple(names.index(name) for name in chosen) for names in (x_names, y_names))
        for chosen in (depth, group)
    )
    free = [n for names in (x_names, y_names) for n in names if n not in (*depth, *group)]
    return dot_general(x, y, contract=contract, batch=batch, dtype=dtype), [*group, *free]


def last_axis_in_memory(x: Value) -> int:
    """The axis whose elements are neighbors in memory: 0, 1, or 2 for any later one.

    It is the last, unless x is an array with its axes in another order.
    """
    order = list(range(x.rank))  # where the axes of x are in the array before
    while before := maker(x, "transpose"):
        order = [before.attrs["axes"][i] for i in order]
        (x,) = before.args
    return min(order.index(x.rank - 1), 2) if order else 2


# -- axes -----------------------------------------------------------------------------------------


def by_group(x: Value, features: int, batches: int) -> Value:
    """The groups of (batch, in, ...) as an axis 0."""
    return split(x, 0, batches) if batches > 1 else moved(split(x, 1, features), 1, 0)


def moved(x: Value, start: int, end: int) -> Value:
    """The axis `start` put at `end`, the others in their order."""
    order = [i for i in range(x.rank) if i != start]
    return x if start == end else transpose(x, axes=(*order[:end], start, *order[end:]))


def split(x: Value, axis: int, groups: int) -> Value:
    """An axis as two: one of groups, and the places in a group."""
    size: Any = x.shape[axis]
    size = size if groups == 1 else size // groups
    return reshape(x, shape=(*x.shape[:axis], groups, size, *x.shape[axis + 1 :]))


def merged(x: Value, axis: int) -> Value:
    """An axis and the one after it as one."""
    size = x.shape[axis] * x.shape[axis + 1]
    return reshape(x, shape=(*x.shape[:axis], size, *x.shape[axis + 2 :]))
