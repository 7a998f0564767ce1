"""Arrays from nothing or from Python: array, zeros, arange, linspace, eye."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim, maximum, minimum
from ..ir.errors import ArgumentError, AttributeValueError, ConcretizationError, ShapeError
from ..ir.memory import Memory
from ..ir.types import MOST_ELEMENTS, as_dtype, is_inexact, is_integer
from ..trace.apply import apply, apply_like, as_operand, as_tensor, operand_type
from ..trace.arguments import callable_of, choice, count_of, flag, shown
from ..trace.array import Array, from_device, new_array
from ..trace.array_arguments import scalar
from ..trace.axes import MOST_AXES, as_shape, integer, one_axis
from ..trace.foreign import shared
from ..trace.host import is_python_scalar, leaves_of_lists, no_memory, scalar_to_numpy, to_numpy
from ..trace.operators import Operators
from ..trace.promotion import FLOAT, broadcast_to, convert_exactly, result_dtype
from ..trace.pytree import too_deep
from ..trace.tensor import TracedTensor
from .arithmetic import astype, sign
from .elementwise import Tensor, add, divide, exp, log, multiply, named, refuse_out
from .logic import where
from .manipulation import expand_dims, moveaxis, stack

ORDERS = (None, "K", "A", "C", "F")  # NumPy's, of elements in memory


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Memory | str | None = None,
) -> Array:
    """Make an array from numbers, nested lists or another array; by default a copy.

    `object` may be a list of arrays and traced tensors. `dtype` is by default NumPy's, float32 for
    Python floats, int32 for integers; `ndmin` is the least number of axes, new ones first. With
    `copy=False` an array of rlx stays as it is. `order` has no effect; the result is on `device`.

    >>> array([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if not (isinstance(order, str) and order == "K"):
        choice("array: order", order, ORDERS)
    if isinstance(object, Dim):
        object = as_operand(object)
    if isinstance(object, Operators):
        x: Any = object
        made = astype(x, x.dtype if dtype is None else dtype, copy=copy is not False)
    elif isinstance(object, list | tuple) and _holds_tensors(object):
        rows = [array(item, dtype) for item in object]
        made = stack(rows)
    else:
        made = new_array(to_numpy(object, dtype, copy=True))
    if made.ndim < count_of("array: ndmin", ndmin, most=MOST_AXES):
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return placed(made, device)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Memory | str | None = None,
) -> Array:
    """An array of `a`, as `array` makes it, but without a copy if possible.

    `dtype`, `order`, `device`: as there. An `AttributeValueError` if `copy=False` and it must copy.
    """
    if order is not None:
        choice("asarray: order", order, ORDERS)
    is_tensor = isinstance(a, Operators)
    if copy is False and not (is_tensor and dtype in (None, a.dtype)):
        raise AttributeValueError(
            "asarray: no array can be made of this without a copy",
            notes=[f"a: {a.type if is_tensor else type(a).__name__}"],
            fix="leave copy out, or make it None",
        )
    return placed(array(a, dtype, copy=False if is_tensor and not copy else True), device)


def placed(x: Any, device: Memory | str | None) -> Array:
    """The array on a device; None leaves it where it is."""
    return x if device is None else x.to(device)


def _holds_tensors(x: Any) -> bool:
    try:
        return any(isinstance(leaf, Operators) for leaf in leaves_of_lists(x))
    except RecursionError:
        raise too_deep() from None


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Array:
    """Make an array from one of another library that supports DLPack.

    The data are copied unless `copy` is False; then both share memory and see each other's writes.
    An array on a GPU stays there, on the device `cuda` or `rocm`.
    """
    found = from_device(x, copy is not False)
    if found is not None:
        return placed(found, device)
    if copy is False:
        return placed(Array(shared(x, copy=False)), device)
    return placed(array(shared(x)), device)


def copy(a: Tensor, order: str | None = None) -> Array:
    """A copy of an array; `order` has no effect."""
    choice("copy: order", order, ORDERS)
    return as_tensor(a).copy()


def zeros(shape: Any, dtype: Any = None, *, device: Memory | str | None = None) -> Array:
    """An array of zeros, by default float32."""
    _no_size("zeros", shape, dtype)
    return full(shape, 0, FLOAT if dtype is None else dtype, device=device)


def ones(shape: Any, dtype: Any = None, *, device: Memory | str | None = None) -> Array:
    """An array of ones, by default float32."""
    _no_size("ones", shape, dtype)
    return full(shape, 1, FLOAT if dtype is None else dtype, device=device)


def _no_size(name: str, shape: Any, dtype: Any) -> None:
    """Raise if sizes were written one after another, which makes the second a dtype."""
    if isinstance(shape, int) and isinstance(dtype, int):
        raise ArgumentError(
            f"{name}: the dtype is {dtype}",
            fix=f"write the sizes as one tuple: {name}(({shape}, {dtype}))",
        )


empty = zeros


def full(
    shape: Any, fill_value: Tensor, dtype: Any = None, *, device: Memory | str | None = None
) -> Array:
    """An array of the given shape filled with `fill_value`."""
    value = as_operand(fill_value)
    wanted = operand_type(value).dtype if dtype is None else as_dtype(dtype)
    if is_python_scalar(value):
        scalar_to_numpy(value, wanted)  # an error if it does not fit
        made = apply("full", shape=as_shape(shape), value=value, dtype=wanted)
    else:
        made = broadcast_to(convert_exactly(value, wanted), as_shape(shape))
    return placed(made, device)


def zeros_like(
    a: Tensor, dtype: Any = None, shape: Any = None, *, device: Memory | str | None = None
) -> Array:
    """An array of zeros with the shape and dtype of another array, unless given."""
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(
    a: Tensor, dtype: Any = None, shape: Any = None, *, device: Memory | str | None = None
) -> Array:
    """An array of ones with the shape and dtype of another array, unless given."""
    return full_like(a, 1, dtype, shape, device=device)


def empty_like(
    prototype: Tensor, dtype: Any = None, shape: Any = None, *, device: Memory | str | None = None
) -> Array:
    """The same as `zeros_like(prototype)`."""
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(
    a: Tensor,
    fill_value: Tensor,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Memory | str | None = None,
) -> Array:
    """An array filled with `fill_value`, with the shape and dtype of another array."""
    like = as_operand(a)
    type = operand_type(like)
    shape = type.shape if shape is None else shape
    device = like._device if device is None and isinstance(like, Array) else device
    return full(shape, fill_value, type.dtype if dtype is None else dtype, device=device)


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Memory | str | None = None,
) -> Array:
    """Evenly spaced numbers from `start` to `stop`, excluded, by `step`.

    The dtype is int32 for integers, else float32. Bounds that are traced raise
    `ConcretizationError`, because the size depends on them.
    """
    return placed(_arange(start, stop, step, dtype), device)


def _arange(start: Any, stop: Any, step: Any, dtype: Any) -> Array:
    low, high = (0, start) if stop is None else (start, stop)
    if isinstance(high, Dim) and isinstance(low, int | Dim) and step in (None, 1):
        line = apply("iota", shape=(high - low,), axis=0, dtype="int32" if dtype is None else dtype)
        return line if isinstance(low, int) and low == 0 else add(line, low)
    by = 1 if step is None else step
    numbers = [as_operand(_known_number(scalar("arange: a bound", n))) for n in (low, high, by)]
    wanted = result_dtype(*numbers) if dtype is None else as_dtype(dtype)
    given: list[Any] = [np.asarray(n)[()] for n in numbers]  # NumPy's scalars of any kind
    low, high, by = given
    if is_integer(wanted) and low == 0 and by == 1 and float(high).is_integer():
        return apply("iota", shape=(max(int(high), 0),), axis=0, dtype=wanted)
    if by == 0 or not _is_row(low, high, by):
        raise ArgumentError(
            f"arange: from {low} to {high} by {by} is no array of finite size",
            fix="use a step that leads from the start to the stop",
        )
    return new_array(_line("arange", low, high, by, dtype=wanted))


def _is_row(low: Any, high: Any, by: Any) -> bool:
    """Whether so many numbers can stand in an array."""
    start, stop, step = map(complex, (low, high, by))
    is_finite = all(number - number == 0 for number in (start, stop, step))
    return is_finite and abs((stop - start) / step) <= MOST_ELEMENTS


def _line(name: str, *bounds: Any, dtype: Any = None) -> np.ndarray:
    try:
        line = np.arange(*bounds)
        return line if dtype is None else line.astype(dtype)
    except MemoryError as error:
        raise no_memory(name, error) from None
    except (ValueError, OverflowError):
        raise AttributeValueError(
            f"{name}: there is no counting with {', '.join(map(shown, bounds))}",
            fix="use numbers that int64 holds",
        ) from None


def _known_number(n: Any) -> Any:
    if isinstance(n, TracedTensor) and n.concrete is None:
        raise ConcretizationError(
            "arange needs known numbers: they decide the size",
            notes=[f"a bound is {n.type}"],
            fix="make the bound a Python value with static_argnames, or mask a longer range",
        )
    return n.concrete if isinstance(n, TracedTensor) else n


def linspace(
    start: Tensor,
    stop: Tensor,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Memory | str | None = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`; `retstep` adds the step.

    `stop` is the last number, or without `endpoint` the one after it.
    """
    wanted = result_dtype(as_operand(start), as_operand(stop), inexact=True)
    if dtype is not None and is_inexact(as_dtype(dtype)):
        wanted = as_dtype(dtype)
    num, endpoint = integer("linspace: num", num), flag("linspace: endpoint", endpoint)
    retstep = flag("linspace: retstep", retstep)
    as_shape(num)  # an error if it is negative, or more than any memory holds
    steps = num - 1 if endpoint else num
    first, last = convert_exactly(start, wanted), convert_exactly(stop, wanted)
    step = divide(last - first, max(steps, 1))
    share = _line("linspace", num) / max(steps, 1)
    shape = (num,) + (1,) * max(first.ndim, last.ndim)
    weight = Array(share.astype(wanted).reshape(shape))
    result = add(multiply(first, 1 - weight), multiply(last, weight))
    axis = one_axis("linspace", axis, result.ndim)
    if axis:
        result = moveaxis(result, 0, axis)
    if dtype is not None:
        floored = result.dtype != as_dtype(dtype) and is_integer(as_dtype(dtype))
        result = astype(apply("floor", result) if floored else result, dtype)
    result = placed(result, device)
    return (result, step) if retstep else result


def logspace(
    start: Tensor,
    stop: Tensor,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`num` numbers evenly spaced on a log scale.

    The first is `base**start`, the last `base**stop`, which is left out without `endpoint`.
    """
    result = linspace(start, stop, num, endpoint, axis=axis)
    made = apply("pow", full(result.shape, base, result.dtype), result)
    return made if dtype is None else astype(made, dtype)


def geomspace(
    start: Tensor,
    stop: Tensor,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`num` numbers in geometric progression from `start` to `stop`, both of one sign.

    `stop` is the last number, or without `endpoint` the one after it.
    """
    start, stop = as_tensor(start), as_tensor(stop)
    sizes = exp(linspace(log(abs(start)), log(abs(stop)), num, endpoint, axis=axis))
    signs = sign(start)
    made = multiply(sizes, expand_dims(signs, axis) if signs.ndim else signs)
    return made if dtype is None else astype(made, dtype)


# -- matrices -----------------------------------------------------------------------------------


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    *,
    device: Memory | str | None = None,
) -> Array:
    """A matrix, `N` by `M` or `N`, with ones on diagonal `k` and zeros elsewhere."""
    shape = as_shape((N, N if M is None else M))
    made = astype(_band(None, shape, k, "eq"), FLOAT if dtype is None else dtype)
    return placed(made, device)


def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix of size n."""
    return eye(n, dtype=dtype)


def _band(like: Any, shape: Sequence[Any], k: int, compare: str) -> Array:
    """Whether column - row compares so with k; recorded if `like` is traced."""
    rows = apply_like(like, "iota", shape=shape, axis=0, dtype="int32")
    columns = apply_like(like, "iota", shape=shape, axis=1, dtype="int32")
    k = max(min(integer("k, the number of the diagonal,", k), 2**30), -(2**30))
    return apply(compare, columns, apply("add", rows, k))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """A matrix, `N` by `M` or `N`, with ones at and below diagonal `k`."""
    shape = as_shape((N, N if M is None else M))
    return astype(_band(None, shape, k, "le"), FLOAT if dtype is None else dtype)


def _triangle(name: str, compare: str, doc: str):
    def function(m: Tensor, k: int = 0) -> Array:
        m = as_tensor(m)
        if m.ndim < 2:
            raise ShapeError(
                f"{name}: {m.type} is no matrix",
                fix="give an array with two axes or more",
            )
        return where(_band(m, m.shape[-2:], k, compare), m, np.zeros((), m.dtype))

    return named(function, name, doc)


tril = _triangle("tril", "le", "The lower triangle: elements above diagonal `k` set to zero.")
triu = _triangle("triu", "ge", "The upper triangle: elements below diagonal `k` set to zero.")


def diag(v: Tensor, k: int = 0) -> Array:
    """A matrix with the vector on diagonal `k`, or the diagonal `k` of a matrix."""
    v = as_tensor(v)
    if v.ndim not in (1, 2):
        raise ArgumentError(
            f"diag: {v.type} is no vector and no matrix",
            fix="diagonal(x, axis1=-2, axis2=-1) takes the diagonals of a batch of matrices",
        )
    if v.ndim == 2:
        return diagonal(v, k)
    k = integer("diag: k", k)
    n = v.shape[0] + abs(k)
    wide = broadcast_to(v[:, None] if k >= 0 else v[None, :], (v.shape[0], v.shape[0]))
    square = where(_band(v, wide.shape, 0, "eq"), wide, 0)
    low = (max(-k, 0), max(k, 0))
    high = tuple(n - v.shape[0] - a for a in low)
    zero = as_tensor(np.zeros((), v.dtype))
    return apply("pad", square, zero, low=low, high=high, interior=(0, 0))


def diagflat(v: Tensor, k: int = 0) -> Array:
    """A matrix with the flattened array on diagonal `k`."""
    return diag(as_tensor(v).reshape(-1), k)


def diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of 2-d slices, along a new last axis."""
    offset = integer("diagonal: offset", offset)
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    n, m = a.shape[-2:]
    count = maximum(minimum(n + min(offset, 0), m - max(offset, 0)), 0)
    rows = _arange(0, count, None, "int32")
    return a[..., rows - min(offset, 0), rows + max(offset, 0)]


def trace(
    a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Array:
    """The sum along a diagonal of two axes."""
    refuse_out("trace", out)
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype)


MOST_POWERS = 1 << 16  # columns of `vander`, each an array of its own


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Array:
    """The Vandermonde matrix of a vector: its powers as columns.

    There are `N`, by default as many as elements; the highest is first unless `increasing`.
    """
    x = as_tensor(x)
    if x.ndim != 1:
        raise ShapeError(
            f"vander: x is {x.type}, not a vector",
            fix="give one axis; rlx.vmap takes a batch of them",
        )
    count = x.shape[0] if N is None else count_of("vander: N", N, most=MOST_POWERS)
    powers = range(count) if flag("vander: increasing", increasing) else range(count - 1, -1, -1)
    return stack([x**i for i in powers], axis=1)


def meshgrid(
    *xi: Tensor, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Coordinate arrays of the grid spanned by vectors `xi`, one for each.

    The `indexing` "xy" exchanges the first two axes, "ij" does not. With `sparse` the arrays have
    size 1 along the others' axes. All are copies. Returns a list.
    """
    choice("meshgrid: indexing", indexing, ("xy", "ij"))
    sparse = flag("meshgrid: sparse", sparse)
    vectors = [as_tensor(x).reshape(-1) for x in xi]
    rank = len(vectors)
    order = list(range(rank))
    if indexing == "xy" and rank >= 2:
        order[0], order[1] = 1, 0
    shape = [0] * rank
    for i, x in enumerate(vectors):
        shape[order[i]] = x.shape[0]
    placed = [
        x.reshape(tuple(-1 if order[i] == j else 1 for j in range(rank)))
        for i, x in enumerate(vectors)
    ]
    return [(x if sparse else broadcast_to(x, tuple(shape))).copy() for x in placed]


def indices(dimensions: Sequence[Any], dtype: Any = None, sparse: bool = False) -> Any:
    """Index arrays of a grid of the shape `dimensions`, one for each axis.

    They are stacked; with `sparse` they are a tuple of arrays that broadcast.
    """
    dtype = np.dtype("int32") if dtype is None else as_dtype(dtype)
    shape = as_shape(dimensions)
    if flag("indices: sparse", sparse):
        thin = [tuple(n if i == j else 1 for j, n in enumerate(shape)) for i in range(len(shape))]
        return tuple(apply("iota", shape=s, axis=i, dtype=dtype) for i, s in enumerate(thin))
    grids = [apply("iota", shape=shape, axis=i, dtype=dtype) for i in range(len(shape))]
    return stack(grids) if grids else zeros((0,), dtype)


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """An array computed by calling a function with the index arrays of a shape.

    The call is `function(*indices, **kwargs)`, where `dtype` is that of the indices.
    """
    callable_of("fromfunction: function", function)
    return function(*indices(as_shape(shape), FLOAT if dtype is float else dtype), **kwargs)
