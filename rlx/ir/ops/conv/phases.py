"""Windows over elements that are spread apart, without a zero between them.

With elements `base` places apart, results that lie `base` apart see the same places of the kernel,
and only these: each phase is a convolution of the elements as they are with a part of the kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...graph import Value
from ...record import record
from ...types import Size
from ..constant import like
from ..movement import reshape
from ..pad_slice import concat, slice
from .products import last_axis_in_memory, moved
from .windows import Pads, padded, padded_size, spread_size, window_count

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


def places_of(length: int, size: int, base: int, pads: tuple[int, int], dilation: int) -> int:
    """How many results there are along an axis."""
    reach: Any = spread_size(size, dilation)
    count: Any = window_count(padded_size(length, base, pads), reach, 1)
    return count


def phases_of(
    length: int, size: int, base: int, pads: tuple[int, int], dilation: int
) -> list[Phase]:
    """The phases of one axis; all have as many results, the last perhaps too many.

    Result o of phase p stands at place `o * base + p`, its window's place k at `o * base + p + k *
    dilation - pads[0]` of the elements spread out: at an element where that is a multiple of base.
    """
    count = -(-places_of(length, size, base, pads, dilation) // base)
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
    places = [places_of(*line) for line in lines]
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
