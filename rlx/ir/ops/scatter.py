"""The scatter ops: scatter, scatter_add, scatter_mul, scatter_min, scatter_max."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..body import Read, Scatter
from ..errors import ShapeError
from ..graph import Value
from ..op import Op, is_linear
from ..rules import batch_size, later, spread
from ..types import Type, is_half
from .arithmetic import add, div, mul
from .compare import eq, select
from .constant import full, iota, like
from .control import filled
from .convert import convert, narrowed, widened
from .families import NUMBERS, ORDERED, check_dtypes, check_kind
from .index import gather
from .movement import reshape
from .window import (
    SCATTER_WORDS,
    Axes,
    check_indices,
    check_mode,
    check_rising,
    check_window,
    place_in_window,
    window_places,
)

MODES = ("clip", "drop", "promise")


def _type_rule(
    x: Type,
    indices: Type,
    updates: Type,
    *,
    window_axes: Axes,
    inserted_axes: Axes = (),
    operand_batch_axes: Axes = (),
    indices_batch_axes: Axes = (),
    scatter_axes: Axes,
    mode: str = "clip",
    unique: bool = False,
) -> Type:
    check_indices(indices, scatter_axes)
    check_window(x, indices, inserted_axes, operand_batch_axes, indices_batch_axes, scatter_axes)
    check_mode(mode, MODES)
    check_dtypes(x, updates, "the updates: updates")
    inner = [i for i in range(x.rank) if i not in (*inserted_axes, *operand_batch_axes)]
    check_rising("window_axes", window_axes, updates.rank, len(inner))
    points = tuple(n for i, n in enumerate(updates.shape) if i not in window_axes)
    if points != indices.shape[:-1]:
        raise ShapeError(
            f"the updates {updates} have the sizes {points} besides the window, "
            f"the indices {indices.shape[:-1]}",
            fix="give one window of updates for each index vector",
        )
    for i, axis in zip(inner, window_axes, strict=True):
        length, size = x.shape[i], updates.shape[axis]
        if isinstance(length, int) and isinstance(size, int) and size > length:
            raise ShapeError(
                f"a window of size {size} does not fit in axis {i} of {x}",
                fix=f"use updates of size {length} or less along axis {axis}",
            )
    return x


def _window_sizes(x: Any, updates: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    """The size of a window along each axis of x."""
    gone = (*attrs["inserted_axes"], *attrs["operand_batch_axes"])
    window = iter([updates.shape[i] for i in attrs["window_axes"]])
    return tuple(1 if i in gone else next(window) for i in range(len(x.shape)))


def _as_gather(x: Any, updates: Any, attrs: dict[str, Any]) -> dict[str, Any]:
    """The windows in the words of gather."""
    axes = {ours: attrs[theirs] for ours, theirs in SCATTER_WORDS.items()}
    return {**axes, "sizes": _window_sizes(x, updates, attrs)}


def _reference(combine: Callable[..., None], sums: bool) -> Callable[..., np.ndarray]:
    def windows_reference(
        x: np.ndarray, indices: np.ndarray, updates: np.ndarray, **attrs: Any
    ) -> np.ndarray:
        places, fits = window_places(x.shape, indices, **_as_gather(x, updates, attrs))
        kept = np.ones(updates.shape, bool) if attrs["mode"] == "clip" else fits
        result = widened(x).copy() if sums else x.copy()
        at = tuple(np.broadcast_to(place, updates.shape)[kept] for place in places)
        combine(result, at if at else ..., updates[kept].astype(result.dtype, copy=False))
        return result

    return windows_reference


def _place(
    index: Sequence[Any], load: Callable[..., Any], types: Sequence[Type], **attrs: Any
) -> Read:
    x, _, updates = types
    guarded, windows = attrs["mode"] != "clip", _as_gather(x, updates, attrs)
    places, guards = place_in_window(index, load, x.shape, guarded=guarded, **windows)
    return Read(0, places, guards)


def _batch(made: Op) -> Callable[..., Value]:
    def windows_batch(
        args: Sequence[Value],
        batched: Sequence[bool],
        *,
        window_axes: Axes,
        inserted_axes: Axes,
        operand_batch_axes: Axes,
        indices_batch_axes: Axes,
        scatter_axes: Axes,
        **attrs: Any,
    ) -> Value:
        size = batch_size(args, batched)
        x, indices, updates = args
        x = x if batched[0] else spread(x, size)
        updates = updates if batched[2] else spread(updates, size)
        window_axes, operand_batch_axes = later(window_axes), later(operand_batch_axes)
        if batched[1]:
            indices_batch_axes = (0, *later(indices_batch_axes))
            operand_batch_axes = (0, *operand_batch_axes)
        else:
            window_axes = (0, *window_axes)
        return made(
            x,
            indices,
            updates,
            window_axes=window_axes,
            inserted_axes=later(inserted_axes),
            operand_batch_axes=operand_batch_axes,
            indices_batch_axes=indices_batch_axes,
            scatter_axes=later(scatter_axes),
            **attrs,
        )

    return windows_batch


def _scatter(
    name: str, doc: str, kinds: Sequence[str], combine: Callable[..., None], instruction: str
) -> Op:
    @wraps(_type_rule)
    def type_rule(x: Type, indices: Type, updates: Type, **attrs: Any) -> Type:
        check_kind(x, kinds)
        return _type_rule(x, indices, updates, **attrs)

    made = Op(name, type_rule, f"{doc}\n{_MANUAL}")
    sums = instruction in ("add", "mul")
    made.reference(_reference(combine, sums))
    made.body(Scatter(instruction, 2, _place))
    made.batch(_batch(made))
    made.fold(_fold(made, sums))
    made.samples((4, 3), _PLACES, (5, 3), **_ROWS)
    made.samples((4, 3), _PLACES, (5, 3), **_ROWS, mode="drop")
    made.samples((0, 3), np.zeros((0, 1), np.int32), (0, 3), **_ROWS, unique=True)
    made.samples((4, 3), np.array([[3], [0]]), (2, 3), **_ROWS, unique=True)
    made.samples(
        (3, 4, 5),
        np.array([[[1, 2], [0, 0]]]),
        (2, 1, 2, 3),
        window_axes=(0, 3),
        inserted_axes=(1,),
        scatter_axes=(2, 0),
    )
    made.samples(
        (4, 3, 2),
        np.array([[[0], [1], [1]], [[2], [1], [3]]]),
        (2, 3, 2),
        window_axes=(2,),
        inserted_axes=(0,),
        operand_batch_axes=(1,),
        indices_batch_axes=(1,),
        scatter_axes=(0,),
    )
    return made


def _fold(made: Op, sums: bool) -> Callable[..., Value | None]:
    def windows_fold(x: Value, indices: Value, updates: Value, **attrs: Any) -> Value | None:
        if 0 in updates.shape:
            return x
        if sums and is_half(x.dtype):  # updates that meet are rounded once, at the end
            return narrowed(made(widened(x), indices, widened(updates), **attrs), x.dtype)
        return None

    return windows_fold


_MANUAL = """
    The window at each index vector (the last axis of `indices`; element k is the start along axis
    `scatter_axes[k]` of x) is combined with a window of `updates`, whose axes `window_axes` are
    those of x without `inserted_axes` and `operand_batch_axes`. Along `operand_batch_axes[i]` the
    place is that along axis `indices_batch_axes[i]` of `indices`. Updates apply in row-major order.

    A window that does not lie inside of x is moved there (mode "clip") or left out ("drop"). The
    mode "promise" says there is none: it is left out too, but what derivatives read in its place
    is the nearest one inside, as in JAX. `unique` promises that no two updates meet. Half-size
    floats are summed and multiplied in float32.
    """
_ROWS: dict[str, Any] = dict(window_axes=(1,), inserted_axes=(0,), scatter_axes=(0,))
_POINTS: dict[str, Any] = dict(window_axes=(), inserted_axes=(0,), scatter_axes=(0,))
_PLACES = np.array([[2], [0], [2], [5], [-1]])
_TWICE = np.array([[2], [2], [0], [7]])
_ANY = ("bool", *NUMBERS)


def _read_back(x: Value, indices: Value, updates: Value, attrs: dict[str, Any]) -> Value:
    """What stands in x where each update goes; 0 for one of mode "drop" that lies outside."""
    mode = "fill" if attrs["mode"] == "drop" else attrs["mode"]
    return gather(x, indices, **_as_gather(x, updates, attrs), mode=mode, fill=0)


def _set(x: np.ndarray, at: Any, updates: np.ndarray) -> None:
    x[at] = updates


scatter = _scatter(
    "scatter", "Replace windows of x by updates; the last of several stays.", _ANY, _set, "set"
)


def _linear_jvp(made: Op) -> None:
    @made.jvp
    def linear_jvp(primals: Sequence[Value], tangents: Sequence[Any], **attrs: Any) -> tuple:
        """The same updates win again, as they apply in the same order."""
        x, indices, updates = primals
        t, tu = filled(tangents[::2], [x, updates])
        return made(*primals, **attrs), made(t, indices, tu, **attrs)


_linear_jvp(scatter)


@scatter.transpose
def scatter_transpose(ct: Value, x: Any, indices: Value, updates: Any, **attrs: Any) -> list[Any]:
    pulled: list[Any] = [None, None, None]
    if is_linear(x):
        zeros = like(updates, 0)
        pulled[0] = scatter(ct, indices, zeros, **attrs)
    if is_linear(updates):
        back = _read_back(ct, indices, updates, attrs)
        if not attrs["unique"]:
            back = select(_winners(x, indices, updates, attrs), back, like(back, 0))
        pulled[2] = back
    return pulled


def _winners(x: Any, indices: Value, updates: Any, attrs: dict[str, Any]) -> Value:
    """Which updates stay in the result.

    Number them from 1, write the numbers, read them back.
    """
    line = add(iota(shape=(math.prod(updates.shape),), axis=0, dtype="int32"), 1)
    numbers = reshape(line, shape=updates.shape)
    written = scatter(full(shape=x.shape, value=0, dtype="int32"), indices, numbers, **attrs)
    return eq(_read_back(written, indices, numbers, attrs), numbers)


scatter.samples([1.0, 2.0, 3.0], _TWICE, [5.0, 6.0, 7.0, 8.0], **_POINTS, expect=[7.0, 2.0, 8.0])
scatter.samples(
    [1.0, 2.0, 3.0], _TWICE, [5.0, 6.0, 7.0, 8.0], **_POINTS, mode="drop", expect=[7.0, 2.0, 6.0]
)

scatter_add = _scatter("scatter_add", "Add updates to windows of x.", NUMBERS, np.add.at, "add")


_linear_jvp(scatter_add)


@scatter_add.transpose
def scatter_add_transpose(
    ct: Value, x: Any, indices: Value, updates: Any, **attrs: Any
) -> list[Any]:
    back = _read_back(ct, indices, updates, attrs) if is_linear(updates) else None
    return [ct if is_linear(x) else None, None, back]


scatter_add.samples(
    [1.0, 2.0, 3.0], _TWICE, [5.0, 6.0, 7.0, 8.0], **_POINTS, expect=[8.0, 2.0, 22.0]
)

scatter_mul = _scatter(
    "scatter_mul", "Multiply windows of x by updates.", NUMBERS, np.multiply.at, "mul"
)


@scatter_mul.jvp
def scatter_mul_jvp(primals: Sequence[Value], tangents: Sequence[Any], **attrs: Any) -> tuple:
    x, indices, updates = primals
    t, _, tu = tangents
    out = scatter_mul(*primals, **attrs)
    pushed = None if t is None else scatter_mul(t, indices, updates, **attrs)
    if tu is None:
        return out, pushed
    factor = _read_back(x, indices, updates, attrs)
    if not attrs["unique"]:
        factor = mul(factor, _product_of_others(x, indices, updates, attrs))
    start = like(x, 0) if pushed is None else pushed
    return out, scatter_add(start, indices, mul(tu, factor), **attrs)


@scatter_mul.transpose
def scatter_mul_transpose(
    ct: Value, x: Any, indices: Value, updates: Any, **attrs: Any
) -> list[Any]:
    if is_linear(x):
        return [scatter_mul(ct, indices, updates, **attrs), None, None]
    assert attrs["unique"], "only updates that never meet are linear"
    return [None, None, _read_back(mul(ct, x), indices, updates, attrs)]


def _product_of_others(x: Value, indices: Value, updates: Value, attrs: dict[str, Any]) -> Value:
    """For each update the product of all others at its place.

    Zeros are counted, not divided by, so first derivatives hold there too; second ones do not.
    """
    is_zero = eq(updates, like(updates, 0))
    nonzero = select(is_zero, like(updates, 1), updates)
    products = scatter_mul(like(x, 1), indices, nonzero, **attrs)
    counts = scatter_add(like(x, 0), indices, convert(is_zero, dtype=x.dtype), **attrs)
    others = div(_read_back(products, indices, updates, attrs), nonzero)
    zeros_besides = _read_back(counts, indices, updates, attrs) - convert(is_zero, dtype=x.dtype)
    return select(eq(zeros_besides, like(updates, 0)), others, like(updates, 0))


scatter_mul.samples(
    [1.0, 2.0, 3.0], _TWICE, [5.0, 6.0, 7.0, 2.0], **_POINTS, expect=[7.0, 2.0, 180.0]
)


def _extreme_jvp(made: Op) -> None:
    @made.jvp
    def extreme_jvp(primals: Sequence[Value], tangents: Sequence[Any], **attrs: Any) -> tuple:
        """The mean of the tangents of all that equal the extreme at a place."""
        x, indices, updates = primals
        t, _, tu = tangents
        out = made(*primals, **attrs)
        stays = eq(x, out)
        wins = eq(updates, _read_back(out, indices, updates, attrs))
        count = scatter_add(
            convert(stays, dtype=x.dtype), indices, convert(wins, dtype=x.dtype), **attrs
        )
        start = like(x, 0) if t is None else select(stays, t, like(x, 0))
        if tu is not None:
            start = scatter_add(start, indices, select(wins, tu, like(updates, 0)), **attrs)
        return out, div(start, count)


scatter_min = _scatter(
    "scatter_min",
    "Take the least of x and the updates; NaN if one is. Ties share their tangent equally.",
    ORDERED,
    np.minimum.at,
    "min",
)
_extreme_jvp(scatter_min)
scatter_min.samples(
    [1.0, 2.0, 6.0], _TWICE, [5.0, 6.0, -7.0, 8.0], **_POINTS, expect=[-7.0, 2.0, 5.0]
)
scatter_max = _scatter(
    "scatter_max",
    "Take the greatest of x and the updates; NaN if one is. Ties share their tangent equally.",
    ORDERED,
    np.maximum.at,
    "max",
)
_extreme_jvp(scatter_max)
scatter_max.samples(
    [1.0, 2.0, 6.0], _TWICE, [5.0, 6.0, -7.0, 8.0], **_POINTS, expect=[1.0, 2.0, 8.0]
)
