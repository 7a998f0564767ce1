"""Reductions over axes and windows, cumulative operations, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import numpy as rnp
from ..ir.dims import Dim
from ..ir.errors import ArgumentError, AttributeValueError, RlxError, ShapeError
from ..ir.types import Type, as_dtype, empty_result
from ..numpy.elementwise import named
from ..trace import pytree
from ..trace.apply import apply, as_tensor, operand_type
from ..trace.arguments import count_of, flag, wrong
from ..trace.array import Array
from ..trace.axes import integer, one_axis
from ..trace.host import is_python_scalar
from ..trace.make_graph import check_function, trace
from ..trace.promotion import broadcast_to, convert, rounded_once
from ..trace.scan import associative_scan
from .elementwise import bitwise_xor
from .operands import Tensor, axes_of, integers, scalar, sequence, steps_of, strict_dtype

# -- which operation a Python function of two numbers is -------------------------------------------
#
# Reductions are told so what to do.


class Monoid(NamedTuple):
    """An associative operation: the names of its ops for elements, axes and windows."""

    op: str
    whole: str
    windows: str | None


MONOIDS = {
    "add": Monoid("add", "reduce_sum", "reduce_window_sum"),
    "mul": Monoid("mul", "reduce_prod", "reduce_window_prod"),
    "max": Monoid("max", "reduce_max", "reduce_window_max"),
    "min": Monoid("min", "reduce_min", "reduce_window_min"),
    "bit_and": Monoid("bit_and", "reduce_and", None),
    "bit_or": Monoid("bit_or", "reduce_or", None),
}


def monoid_of(computation: Callable[[Any, Any], Any], dtype: np.dtype) -> Monoid | None:
    """The operation that a function applies to two scalars; None if it is another one."""
    check_function(computation, "the computation of a reduction")
    try:
        graph = trace(computation, (Type(dtype), Type(dtype))).graph
    except (RlxError, TypeError):  # it takes other arguments
        return None
    if len(graph.nodes) != 1 or list(graph.results) != list(graph.nodes[0].results):
        return None
    node = graph.nodes[0]
    return MONOIDS.get(node.op.name) if set(node.args) == set(graph.params) else None


def is_neutral(monoid: Monoid, number: Any, dtype: np.dtype) -> bool:
    """Whether a number is known to be the neutral element of an operation."""
    if not is_python_scalar(number) and not isinstance(number, Array | np.ndarray | np.generic):
        return False
    found = np.asarray(number).item()
    nothing = empty_result(monoid.op.removeprefix("bit_"), dtype)
    return found == nothing and not (found == 0 and math.copysign(1, found.real) < 0)


def _reduction(name: str, doc: str):
    def function(operand: Tensor, axes: Sequence[int]) -> Array:
        x = as_tensor(operand)
        return apply(name, x, axes=axes_of(name, axes, x.ndim))

    return named(function, name, doc)


reduce_sum = _reduction("reduce_sum", "The sum over axes.")
reduce_prod = _reduction("reduce_prod", "The product over axes.")
reduce_max = _reduction("reduce_max", "The maximum over axes; NaN if there is one.")
reduce_min = _reduction("reduce_min", "The minimum over axes; NaN if there is one.")
reduce_and = _reduction("reduce_and", "The bitwise AND over axes; for bools whether all are true.")
reduce_or = _reduction("reduce_or", "The bitwise OR over axes; for bools whether any is true.")


def reduce_xor(operand: Tensor, axes: Sequence[int]) -> Array:
    """The bitwise XOR over axes."""
    x = as_tensor(operand)
    return reduce(x, convert(0, x.dtype), bitwise_xor, axes)


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Reduce over axes by an associative function, starting from `init_values`.

    `computation(a, b)` takes trees of arrays like `operands` and combines them elementwise; returns
    such a tree. Addition, multiplication, maximum and minimum are one op; other functions take
    log2(n) rounds.
    """
    xs, tree = pytree.flatten(operands)
    xs = [as_tensor(x) for x in xs]
    starts = [scalar("reduce", s) for s in pytree.flatten_like(tree, init_values, "reduce", SIDES)]
    starts = [convert(s, strict_dtype("reduce", [x, s])) for x, s in zip(xs, starts, strict=True)]
    axes = axes_of("reduce", dimensions, xs[0].ndim)
    if any(x.shape != xs[0].shape for x in xs):
        raise ShapeError(
            f"reduce: the shapes {', '.join(str(x.shape) for x in xs)} differ",
            fix="give operands of one shape",
        )
    monoid = monoid_of(computation, xs[0].dtype) if len(xs) == 1 else None
    if monoid is not None:
        made = apply(monoid.whole, xs[0], axes=axes)
        if not is_neutral(monoid, starts[0], xs[0].dtype):
            made = apply(monoid.op, broadcast_to(starts[0], made.shape), made)
        return pytree.unflatten(tree, [made])
    return _folded(xs, tree, starts, computation, axes)


SIDES = ("operands", "init_values")


def _folded(
    xs: list[Any], tree: Any, starts: list[Any], computation: Callable[..., Any], axes: Any
) -> Any:
    """Combine neighbors, half as many each time, and the initial values at last."""

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        made = computation(pytree.unflatten(tree, a), pytree.unflatten(tree, b))
        sides = ("operands", "the result")
        return [as_tensor(y) for y in pytree.flatten_like(tree, made, "reduce", sides)]

    kept = [i for i in range(xs[0].ndim) if i not in axes]
    shape = tuple(xs[0].shape[i] for i in kept)
    lines = [apply("transpose", x, axes=(*axes, *kept)).reshape((-1, *shape)) for x in xs]
    while (count := lines[0].shape[0]) > 1:
        even = count // 2 * 2
        pairs = combine([x[0:even:2] for x in lines], [x[1:even:2] for x in lines])
        rest = [x[even:] for x in lines]
        lines = [apply("concat", p, r, axis=0) for p, r in zip(pairs, rest, strict=True)]
    first = [broadcast_to(s, shape) for s in starts]
    if lines[0].shape[0] == 0:
        return pytree.unflatten(tree, first)
    return pytree.unflatten(tree, combine(first, [x[0] for x in lines]))


def argmax(operand: Tensor, axis: int, index_dtype: Any) -> Array:
    """The index of the maximum along an axis, the first of several, as `index_dtype`."""
    x = as_tensor(operand)
    return apply("argmax", x, axis=one_axis("argmax", axis, x.ndim), dtype=as_dtype(index_dtype))


def argmin(operand: Tensor, axis: int, index_dtype: Any) -> Array:
    """The index of the minimum along an axis, the first of several, as `index_dtype`."""
    x = as_tensor(operand)
    return apply("argmin", x, axis=one_axis("argmin", axis, x.ndim), dtype=as_dtype(index_dtype))


# -- running combinations -----------------------------------------------------------------------


def _running(name: str, doc: str):
    def function(operand: Tensor, axis: int = 0, reverse: bool = False) -> Array:
        x = as_tensor(operand)
        return apply(
            name, x, axis=one_axis(name, axis, x.ndim), reverse=flag(f"{name}: reverse", reverse)
        )

    return named(function, name, doc)


cumsum = _running("cumsum", "The cumulative sum along an axis.")
cumprod = _running("cumprod", "The cumulative product along an axis.")
cummax = _running("cummax", "The cumulative maximum along an axis.")
cummin = _running("cummin", "The cumulative minimum along an axis.")


def cumlogsumexp(operand: Tensor, axis: int = 0, reverse: bool = False) -> Array:
    """The cumulative log-sum-exp along an axis, without overflow."""
    return rounded_once(
        lambda x: associative_scan(
            rnp.logaddexp, x, reverse=flag("cumlogsumexp: reverse", reverse), axis=axis
        ),
        as_tensor(operand),
    )


# -- order --------------------------------------------------------------------------------------


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort along an axis; several arrays by the first `num_keys` of them.

    Returns an array, or a tuple of as many. The sort is stable, also without `is_stable`.
    """
    many = tuple(operand) if isinstance(operand, tuple | list) else (operand,)
    xs = [as_tensor(x) for x in many]
    place = one_axis("sort", dimension, operand_type(xs[0]).rank) if xs else 0
    made = apply("sort", *xs, axis=place, n_keys=integer("sort: num_keys", num_keys))
    return tuple(made) if isinstance(operand, tuple | list) else made[0]


def sort_key_val(
    keys: Tensor, values: Tensor, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort `keys` along an axis, and reorder `values` in the same way.

    Returns both. The sort is stable, also without `is_stable`.
    """
    return sort((keys, values), dimension, is_stable, 1)


def top_k(operand: Tensor, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest elements along an axis in descending order, and their indices."""
    x = as_tensor(operand)
    place = one_axis("top_k", axis, x.ndim)
    values, places = apply("top_k", rnp.moveaxis(x, place, -1), k=integer("top_k: k", k))
    return rnp.moveaxis(values, -1, place), rnp.moveaxis(places, -1, place)


def approx_max_k(
    operand: Tensor,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` largest elements along an axis in descending order, and their indices.

    The axis is `reduction_dimension`. The result is exact whatever `recall_target`,
    `reduction_input_size_override` and `aggregate_to_topk` are.
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Tensor,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` smallest elements along an axis in ascending order, and their indices.

    The axis is `reduction_dimension`. The result is exact whatever `recall_target`,
    `reduction_input_size_override` and `aggregate_to_topk` are.
    """
    values, places = top_k(-as_tensor(operand), k, axis=reduction_dimension)
    return -values, places


# -- reductions of windows, and the padding of windows by name -------------------------------------


Padding = Any  # "SAME", "VALID", "SAME_LOWER", or (before, after) for each axis
PADDINGS = ("SAME", "VALID", "SAME_LOWER")


def dilated_size(size: int, dilation: int) -> int:
    """The extent of `size` elements at a distance of `dilation`."""
    return max((size - 1) * dilation + 1, 0)


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Convert a named `padding` to (before, after) for each axis, and return the list.

    `in_shape` is the operand's, `window_shape` the window's. "VALID" pads nothing. "SAME" pads so
    that there are size / stride windows, rounded up; an odd total has the larger half behind, with
    "SAME_LOWER" in front.

    >>> padtype_to_pads((5, 6), (3, 3), (1, 2), "SAME")
    [(1, 1), (0, 1)]
    """
    name = str(getattr(padding, "name", padding)).upper()
    if name not in PADDINGS:
        raise AttributeValueError(
            f"there is no padding {padding!r}",
            fix=f"use one of {', '.join(PADDINGS)}, or (before, after) for each axis",
        )
    pads = []
    windows = integers("padtype_to_pads: window_shape", window_shape)
    strides = integers("padtype_to_pads: window_strides", window_strides, len(windows))
    sizes = sequence("padtype_to_pads: in_shape", in_shape)
    if len(sizes) != len(windows):
        fix = "give a size for each axis of the window"
        raise wrong("padtype_to_pads: in_shape", sizes, f"of {len(windows)} sizes", fix)
    sizes = [n if isinstance(n, Dim) else integer("padtype_to_pads: a size", n) for n in sizes]
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        if name == "VALID":
            pads.append((0, 0))
            continue
        if not isinstance(size, int) and stride != 1:
            raise ShapeError(
                f"{name} padding of the size {size} needs its number",
                fix="use a static size, or give (before, after) for each axis",
            )
        count = size if stride == 1 else -(-size // max(stride, 1))
        total = max((count - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if name == "SAME" else (more, less))
    return pads


def pads_of(
    name: str, shape: Sequence[int], window: Sequence[int], strides: Sequence[int], padding: Padding
) -> tuple[tuple[int, int], ...]:
    """The (before, after) padding of each axis, from a name or pairs."""
    if isinstance(padding, str):
        return tuple(padtype_to_pads(shape, window, strides, padding))
    if not isinstance(padding, Sequence) or len(padding) != len(shape):
        raise ArgumentError(
            f"{name}: the padding {padding!r} has not a pair for each of {len(shape)} axes",
            fix=f"use one of {', '.join(PADDINGS)}, or (before, after) for each axis",
        )
    pairs = [integers(f"{name}: the padding of an axis", p, 2) for p in padding]
    return tuple((low, high) for low, high in pairs)


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of the result of `reduce_window`.

    `operand_shape` is the operand's; `window_dimensions`, `base_dilation` and `window_dilation` are
    as there.

    >>> reduce_window_shape_tuple((5, 6), (3, 3), (1, 2), [(0, 0), (1, 1)])
    (3, 3)
    """
    name = "reduce_window_shape_tuple"
    shape = integers(f"{name}: operand_shape", operand_shape)
    rank = len(shape)
    base = steps_of(f"{name}: base_dilation", base_dilation, rank)
    spread = steps_of(f"{name}: window_dilation", window_dilation, rank)
    sizes = map(dilated_size, shape, base)
    windows = map(
        dilated_size, integers(f"{name}: window_dimensions", window_dimensions, rank), spread
    )
    steps = integers(f"{name}: window_strides", window_strides, rank)
    for step in steps:
        count_of(f"{name}: a stride", step, 1)
    pairs = sequence(f"{name}: padding", padding)
    if len(pairs) != rank:
        raise wrong(f"{name}: padding", padding, f"for {rank} axes", "give a pair for each axis")
    pads = [integers(f"{name}: the padding of an axis", pair, 2) for pair in pairs]
    lines = zip(sizes, windows, steps, pads, strict=True)
    return tuple(
        max((n + low + high - window) // stride + 1, 0) for n, window, stride, (low, high) in lines
    )


def reduce_window(
    operand: Tensor,
    init_value: Tensor,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Reduce the elements of each window by add, mul, max or min: `computation`.

    `init_value` is combined with each result. Window parameters have one number for each axis of
    the operand: `window_dimensions` is the window's shape, `window_dilation` the distance of its
    elements. `base_dilation` puts holes between the elements of the operand; padding and holes are
    neutral elements, and "SAME" ignores the holes. Other computations raise `ArgumentError`.
    """
    x, start = as_tensor(operand), scalar("reduce_window", init_value)
    start = convert(start, strict_dtype("reduce_window", [x, start]))
    window = integers("reduce_window: window_dimensions", window_dimensions, x.ndim)
    strides, spread, dilation = (
        steps_of(f"reduce_window: {word}", steps, x.ndim)
        for word, steps in (
            ("window_strides", window_strides),
            ("base_dilation", base_dilation),
            ("window_dilation", window_dilation),
        )
    )
    monoid = monoid_of(computation, x.dtype)
    if monoid is None or monoid.windows is None:
        raise ArgumentError(
            "reduce_window: the computation is none of add, mul, max and min",
            fix="use lax.add, lax.mul, lax.max or lax.min, or reduce rlx.lax's "
            "conv_general_dilated_patches, which has the elements of a window as an axis",
        )
    seen = [dilated_size(n, d) for n, d in zip(window, dilation, strict=True)]
    made = apply(
        monoid.windows,
        x,
        window=window,
        strides=strides,
        padding=pads_of("reduce_window", x.shape, seen, strides, padding),
        base_dilation=spread,
        window_dilation=dilation,
    )
    if is_neutral(monoid, init_value, x.dtype):
        return made
    return apply(monoid.op, broadcast_to(start, made.shape), made)
