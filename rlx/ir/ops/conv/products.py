"""Convolutions as matrix products: which axes, in which order; and in phases.

The axes have names here: "group" (if there are groups), "batch", "in", "out", the places of the
result and those in the window. A copy is made of what the windows see; its order decides whether
it is made line by line, and whether the product can read it as it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph import Value
from ...record import record
from ...types import Size, promote
from ..arithmetic import mul
from ..constant import like, maker
from ..contract import dot_general
from ..convert import narrowed, widened
from ..movement import broadcast, reshape, transpose
from ..pad_slice import concat, slice
from ..reduce import reduce_sum, sum_in_turn
from .windows import Pads, padded, window_count

Names = list[str]
WINDOW = 49  # terms: a sum of more may be the gradient of a kernel, which runs along memory


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
    count = math.prod(seen.shape[axis] for axis in summed)
    add = sum_in_turn if isinstance(count, int) and count <= WINDOW else reduce_sum
    factors = broadcast(weights, shape=seen.shape, axes=(order.index("group"), *summed))
    total = add(mul(seen, factors), axes=summed)
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


# -- elements that are spread apart ----------------------------------------------------------------
#
# Without a zero between them: with elements `base` places apart, results that lie `base` apart see
# the same places of the kernel, and only these. Each phase is a convolution of the elements as they
# are with a part of the kernel.


MOST = 16  # phases


@record
class Phase:
    """Along one axis: a part of the kernel, and how its windows lie over the elements."""

    kernel: tuple[int, int, int]  # start, stop, step
    pads: tuple[int, int]
    dilation: int

    @property
    def is_empty(self) -> bool:
        """Whether no place of the kernel ever meets an element."""
        return self.kernel[0] >= self.kernel[1]


def phases_of(
    length: int, size: int, base: int, pads: tuple[int, int], dilation: int
) -> list[Phase]:
    """The phases of one axis; all have as many results, the last perhaps too many.

    Result o of phase p stands at place `o * base + p`, its window's place k at `o * base + p + k *
    dilation - pads[0]` of the elements spread out: at an element where that is a multiple of base.
    """
    count = -(-window_count(length, size, 1, dilation, base, pads) // base)
    step = base // math.gcd(base, dilation)
    phases = []
    for p in range(base):
        met = [k for k in range(size) if (p + k * dilation - pads[0]) % base == 0]
        if not met:
            phases.append(Phase((0, 0, 1), (0, 0), 1))
            continue
        low = -((p + met[0] * dilation - pads[0]) // base)
        wide = step * dilation // base
        high = count + (len(met) - 1) * wide - length - low
        phases.append(Phase((met[0], met[-1] + 1, step), (low, high), wide))
    return phases


def convolved_by_phase(
    x: Value,
    kernel: Value,
    padding: Pads,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    convolve: Callable[[Value, Value, Pads, tuple[int, ...]], Value],
) -> Value:
    """A convolution of x spread apart, put together from those of its phases.

    `convolve(x, part of the kernel, padding, rhs_dilation)` does one. All sizes are numbers.
    """
    sizes: Any = zip(
        x.shape[2:], kernel.shape[2:], lhs_dilation, padding, rhs_dilation, strict=True
    )
    lines = list(sizes)
    axes = [phases_of(*line) for line in lines]
    # all phases read one padded array
    common = tuple(
        (max(0, *(p.pads[0] for p in phases)), max(0, *(p.pads[1] for p in phases)))
        for phases in axes
    )
    x = padded(x, common, (1,) * len(axes), 0)
    made: dict[tuple[int, ...], Value] = {}
    for numbers in itertools.product(*(range(len(phases)) for phases in axes)):
        phase = [phases[i] for phases, i in zip(axes, numbers, strict=True)]
        if not any(p.is_empty for p in phase):
            part = _part(kernel, [p.kernel for p in phase])
            dilation = tuple(p.dilation for p in phase)
            pads = tuple(
                (p.pads[0] - low, p.pads[1] - high)
                for p, (low, high) in zip(phase, common, strict=True)
            )
            made[numbers] = convolve(x, part, pads, dilation)
    # put together as they lie in memory
    first, rank = 2, x.rank
    if last_axis_in_memory(x) == 1:
        first, made = 1, {numbers: moved(part, 1, rank - 1) for numbers, part in made.items()}
    one = next(iter(made.values()))  # each place of the kernel is in some phase
    zeros = like(one, 0)
    whole = _interleaved(made, zeros, (), lhs_dilation, first)
    places = [window_count(n, size, 1, step, base, pads) for n, size, base, pads, step in lines]
    stop = (*whole.shape[:first], *places, *whole.shape[first + len(places) :])
    whole = slice(whole, start=(0,) * rank, stop=stop, step=(1,) * rank)
    return moved(whole, rank - 1, 1) if first == 1 else whole


def _part(kernel: Value, spans: Sequence[tuple[int, int, int]]) -> Value:
    """The places of a kernel in (start, stop, step) along each of its last axes."""
    starts, stops, steps = zip(*spans, strict=True)
    start, step = (0, 0, *starts), (1, 1, *steps)
    return slice(kernel, start=start, stop=(*kernel.shape[:2], *stops), step=step)


def _interleaved(
    made: dict[tuple[int, ...], Value],
    zeros: Value,
    chosen: tuple[int, ...],
    bases: Sequence[int],
    first: int,
) -> Value:
    """The results of all phases in their places, the axes from `first` on; others are zeros."""
    number = len(chosen)
    if number == len(bases):
        return made.get(chosen, zeros)
    parts = [_interleaved(made, zeros, (*chosen, i), bases, first) for i in range(bases[number])]
    if len(parts) == 1:
        return parts[0]
    axis = number + first
    shape = parts[0].shape
    apart: tuple[Size, ...] = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    whole = concat(*(reshape(part, shape=apart) for part in parts), axis=axis + 1)
    length = shape[axis] * bases[number]
    return reshape(whole, shape=(*shape[:axis], length, *shape[axis + 1 :]))
