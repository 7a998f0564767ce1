"""Random index expressions: everything that NumPy takes between the brackets."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

STEPS = (None, 1, 2, 3, -1, -2)


@st.composite
def slices(draw: Any, size: int) -> slice:
    """A slice that may reach beyond the axis."""
    bound = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from(STEPS)))


@st.composite
def places(draw: Any, size: int, width: int) -> np.ndarray:
    """An integer array of a shape that broadcasts with those of the same width."""
    shape = draw(st.sampled_from([(), (1,), (width,), (width,), (2, width), (2, 1), (1, 1, 1)]))
    if not size:
        shape = (0,)
    dtype = draw(st.sampled_from(["int8", "int32", "int64", "uint8"]))
    least = 0 if dtype == "uint8" else -size
    count = int(np.prod(shape))
    numbers = st.lists(st.integers(least, max(size - 1, 0)), min_size=count, max_size=count)
    return np.array(draw(numbers), dtype).reshape(shape)


@st.composite
def masks(draw: Any, shape: tuple[int, ...], width: int) -> np.ndarray:
    """A mask that holds at `width` places, or at one."""
    count = int(np.prod(shape))
    wanted = min(count, draw(st.sampled_from([width, width, 1])))
    mask = np.zeros(count, bool)
    mask[draw(st.permutations(range(count)))[:wanted]] = True
    return mask.reshape(shape)


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index for an array of a shape; NumPy may refuse it."""
    width, axis = draw(st.integers(1, 3)), 0
    items: list[Any] = []
    kinds = ["number", "slice", "slice", "places", "places", "mask", "square", "new", "flag", "end"]
    while axis < len(shape) and len(items) < 5:
        size, kind = shape[axis], draw(st.sampled_from(kinds))
        if kind == "end":
            break
        if kind == "new":
            items.append(None)
        elif kind == "flag":
            items.append(draw(st.sampled_from([True, True, np.True_, False, np.array(True)])))
        elif kind == "square" and axis + 1 < len(shape):
            items.append(draw(masks(shape[axis : axis + 2], width)))
            axis += 2
        else:
            if kind == "number" and size:
                number = draw(st.integers(-size, size - 1))
                items.append(draw(st.sampled_from([number, np.int64(number)])))
            elif kind == "places":
                items.append(draw(places(size, width)))
            elif kind == "mask":
                items.append(draw(masks((size,), width)))
            else:
                items.append(draw(slices(size)))
            axis += 1
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return tuple(items)


@st.composite
def indexed_arrays(draw: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """An array of up to four axes with an index for it."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 0]), min_size=1, max_size=4)))
    if 0 in shape and draw(st.booleans()):
        shape = tuple(n or 1 for n in shape)
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    return x, draw(indices(shape))


def numpys(x: np.ndarray, index: tuple[Any, ...]) -> np.ndarray | None:
    """What NumPy finds at an index; None if it refuses."""
    try:
        return x[index]
    except (IndexError, ValueError):
        return None
