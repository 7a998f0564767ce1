"""Products summed over axes: matmul, dot, tensordot, einsum and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import DTYPES, as_dtype, is_bool
from ..trace.apply import apply, as_operand, as_tensor, described
from ..trace.arguments import check_precision, choice, count_of, members
from ..trace.array import Array
from ..trace.array_arguments import vector
from ..trace.axes import some_axes
from ..trace.promotion import convert, convert_exactly, result_dtype, wide_dtype
from ..transforms.eager import eager
from .arithmetic import conj, subtract
from .elementwise import Tensor, add, multiply, not_equal, refuse_out
from .manipulation import broadcast_arrays, expand_dims, moveaxis, ravel, reshape, stack, transpose

Axes = Sequence[int]


def _pair(x: Tensor, y: Tensor) -> tuple[Array, Array]:
    """Two operands as tensors of one dtype."""
    x, y = as_operand(x), as_operand(y)
    dtype = result_dtype(x, y)
    return convert_exactly(x, dtype), convert_exactly(y, dtype)


def contracted(
    x: Any,
    y: Any,
    contract: tuple[Axes, Axes],
    batch: tuple[Axes, Axes] = ((), ()),
    dtype: Any = None,
) -> Array:
    """The `dot_general` op; for bools whether any product is true."""
    if is_bool(x.dtype):
        x, y = convert(x, DTYPES["int32"]), convert(y, DTYPES["int32"])
        return not_equal(contracted(x, y, contract, batch), 0)
    return apply(
        "dot_general",
        x,
        y,
        contract=(tuple(contract[0]), tuple(contract[1])),
        batch=(tuple(batch[0]), tuple(batch[1])),
        dtype=None if dtype is None else as_dtype(dtype),
    )


def _check_inner(name: str, x: Any, y: Any, i: int, j: int) -> None:
    n, m = x.shape[i], y.shape[j]
    if n == m:
        return
    fix = f"give x a last axis of {m}, or y {n} rows"
    if x.ndim == y.ndim == 2 and y.shape[1] == n:
        fix = f"transpose y: x @ y.T needs y: {y.type}"
    elif x.ndim == y.ndim == 2 and x.shape[0] == m:
        fix = f"transpose x: x.T @ y needs x: {x.type}"
    raise ShapeError(f"{name}: the inner sizes differ, {n} and {m}", notes=described(x, y), fix=fix)


def _check_axes(name: str, *operands: Any) -> None:
    for x in operands:
        if not x.ndim:
            raise ShapeError(
                f"{name}: an operand has no axes",
                notes=described(*operands),
                fix="multiply by numbers with x * y",
            )


# -- matmul -------------------------------------------------------------------------------------


@eager
def matmul(
    a: Tensor, b: Tensor, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The matrix product, of vectors, matrices or broadcast stacks of matrices.

    `f32[n, k], f32[k, m] → f32[n, m]`. Inner sizes that differ raise `ShapeError`.
    """
    check_precision("matmul", precision)
    a, b = _pair(a, b)
    _check_axes("matmul", a, b)
    _check_inner("matmul", a, b, a.ndim - 1, max(b.ndim - 2, 0))
    dtype = preferred_element_type
    if b.ndim <= 2:
        return contracted(a, b, ((a.ndim - 1,), (max(b.ndim - 2, 0),)), dtype=dtype)
    if a.ndim == 1:
        return contracted(b, a, ((b.ndim - 2,), (0,)), dtype=dtype)
    return _stacked_matmul(a, b, dtype)


def _stacked_matmul(x: Any, y: Any, dtype: Any) -> Array:
    """The product of stacks of matrices.

    A stack axis of size 1, or one that lacks, repeats the other's.
    """
    rank = max(x.ndim, y.ndim) - 2
    (x, x_labels), (y, y_labels) = _thin(x, y, rank, "row"), _thin(y, x, rank, "column")
    shared = [label for label in x_labels[:-2] if label in y_labels[:-2]]
    _check_batch(x, y, x_labels, y_labels, shared)
    result = contracted(
        x,
        y,
        ((x.ndim - 1,), (y.ndim - 2,)),
        ([x_labels.index(s) for s in shared], [y_labels.index(s) for s in shared]),
        dtype,
    )
    free = [s for s in x_labels[:-1] if s not in shared]
    free += [s for s in y_labels if s not in shared and s != "inner"]
    labels = [*shared, *free]
    wanted = [*range(rank), "row", "column"]
    return transpose(result, [labels.index(s) for s in wanted])


def _thin(x: Any, other: Any, rank: int, kind: str) -> tuple[Any, list[Any]]:
    """Drop stack axes of size 1 where the other operand has more; name the axes left."""
    first = rank + 2 - x.ndim
    labels: list[Any] = list(range(first, rank))
    dropped = []
    for label in labels:
        place = other.ndim - 2 - rank + label
        has_other = place >= 0 and other.shape[place] != 1
        if x.shape[label - first] == 1 and has_other:
            dropped.append(label)
    shape = [n for i, n in enumerate(x.shape) if i + first not in dropped or i + first >= rank]
    kept = [label for label in labels if label not in dropped]
    ends = [kind, "inner"] if kind == "row" else ["inner", kind]
    return reshape(x, tuple(shape)), [*kept, *ends]


def _check_batch(
    x: Any, y: Any, x_labels: list[Any], y_labels: list[Any], shared: list[Any]
) -> None:
    for s in shared:
        n, m = x.shape[x_labels.index(s)], y.shape[y_labels.index(s)]
        if n != m:
            raise ShapeError(
                f"matmul: the stacks have different sizes, {n} and {m}",
                notes=described(x, y),
                fix="make the axes before the last two equal, or 1",
            )


# -- other products -----------------------------------------------------------------------------


def dot(
    a: Tensor, b: Tensor, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The dot product: sums over the last axis of a and the second-to-last of b."""
    check_precision("dot", precision)
    a, b = _pair(a, b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    _check_inner("dot", a, b, a.ndim - 1, max(b.ndim - 2, 0))
    contract = ((a.ndim - 1,), (max(b.ndim - 2, 0),))
    return contracted(a, b, contract, dtype=preferred_element_type)


def inner(
    a: Tensor, b: Tensor, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The inner product: sums of products over the last axes."""
    check_precision("inner", precision)
    a, b = _pair(a, b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    _check_inner("inner", a, b, a.ndim - 1, b.ndim - 1)
    return contracted(a, b, ((a.ndim - 1,), (b.ndim - 1,)), dtype=preferred_element_type)


def vdot(
    a: Tensor, b: Tensor, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The dot product of flattened arrays, the first one conjugated."""
    check_precision("vdot", precision)
    return dot(conj(ravel(a)), ravel(b), preferred_element_type=preferred_element_type)


def vecdot(
    x: Tensor,
    y: Tensor,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The dot products of vectors along an axis, the first ones conjugated."""
    check_precision("vecdot", precision)
    x, y = _pair(x, y)
    _check_axes("vecdot", x, y)
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"vecdot: the axes have the sizes {x.shape[-1]} and {y.shape[-1]}",
            notes=described(x, y),
            fix="give both arrays the same size along the axis",
        )
    x, y = broadcast_arrays(x, y)
    last, batch = x.ndim - 1, tuple(range(x.ndim - 1))
    return contracted(conj(x), y, ((last,), (last,)), (batch, batch), preferred_element_type)


def matvec(x: Tensor, y: Tensor, /) -> Array:
    """Matrix-vector products: `f32[..., n, k], f32[..., k] → f32[..., n]`."""
    return matmul(x, expand_dims(y, -1))[..., 0]


def vecmat(x: Tensor, y: Tensor, /) -> Array:
    """Vector-matrix products: `f32[..., k], f32[..., k, m] → f32[..., m]`.

    The vectors are conjugated.
    """
    return matmul(expand_dims(conj(x), -2), y)[..., 0, :]


def outer(a: Tensor, b: Tensor, out: None = None) -> Array:
    """The outer product of flattened arrays: `f32[n], f32[m] → f32[n, m]`."""
    refuse_out("outer", out)
    a, b = _pair(a, b)
    return multiply(ravel(a)[:, None], ravel(b)[None, :])


def kron(a: Tensor, b: Tensor) -> Array:
    """The Kronecker product: blocks of b scaled by the elements of a."""
    a, b = _pair(a, b)
    rank = max(a.ndim, b.ndim)
    a, b = (reshape(x, (1,) * (rank - x.ndim) + tuple(x.shape)) for x in (a, b))
    wide = reshape(a, tuple(n for size in a.shape for n in (size, 1)))
    product = multiply(wide, reshape(b, tuple(n for size in b.shape for n in (1, size))))
    return reshape(product, tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


def cross(
    a: Tensor, b: Tensor, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of 3 elements along an axis.

    `axisa` and `axisb` are the axes of the vectors, `axisc` that of the result; `axis` is all
    three. A vector of 2 elements has a third one of 0; of two such only the third element results.
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    a, b = _pair(a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    for x in (a, b):
        if x.shape[-1] not in (2, 3):
            raise ShapeError(
                f"cross: vectors have 3 elements, not {x.shape[-1]}",
                notes=described(a, b),
                fix="name the axis of the vectors with axis=",
            )
    is_flat = a.shape[-1] == b.shape[-1] == 2
    first, second = (
        [x[..., i] if i < x.shape[-1] else multiply(x[..., 0], 0) for i in range(3)] for x in (a, b)
    )
    parts = [
        subtract(multiply(first[i], second[j]), multiply(first[j], second[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return parts[2] if is_flat else moveaxis(stack(parts, axis=-1), -1, axisc)


def tensordot(
    a: Tensor,
    b: Tensor,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The tensor contraction over the last `axes` axes of a and the first of b.

    `axes` may be a pair of lists of axes instead.
    """
    check_precision("tensordot", precision)
    a, b = _pair(a, b)
    if isinstance(axes, int):
        count = count_of("tensordot: axes", axes, most=min(a.ndim, b.ndim))
        first, second = range(a.ndim - count, a.ndim), range(count)
    elif isinstance(axes, Sequence) and len(axes) == 2 and not isinstance(axes, str):
        first, second = (
            (i,) if isinstance(i, int) else members("tensordot: a list of axes", i) for i in axes
        )
    else:
        raise ArgumentError(
            f"tensordot: the axes are {axes!r}",
            fix="give a number of axes, or a pair of lists of axes",
        )
    left = some_axes("tensordot", tuple(first), a.ndim)
    right = some_axes("tensordot", tuple(second), b.ndim)
    if len(left) != len(right):
        raise ArgumentError(
            f"tensordot: {len(left)} axes of a stand against {len(right)} of b",
            fix="name as many axes of a as of b",
        )
    for i, j in zip(left, right, strict=True):
        _check_inner("tensordot", a, b, i, j)
    return contracted(a, b, (left, right), dtype=preferred_element_type)


@eager
def convolve(
    a: Tensor,
    v: Tensor,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The convolution of two vectors; `mode` is "full", "same" or "valid"."""
    check_precision("convolve", precision)
    a, v = _lines("convolve", a, v)
    choice("convolve: mode", mode, MODES)
    long, short = (a, v) if a.shape[0] >= v.shape[0] else (v, a)
    return _correlated(long, short[::-1], mode, preferred_element_type)


@eager
def correlate(
    a: Tensor,
    v: Tensor,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The cross-correlation of two vectors, v conjugated; `mode` as in `convolve`."""
    check_precision("correlate", precision)
    a, v = _lines("correlate", a, v)
    choice("correlate: mode", mode, MODES)
    if a.shape[0] >= v.shape[0]:
        return _correlated(a, conj(v), mode, preferred_element_type)
    return _correlated(conj(v), a, mode, preferred_element_type)[::-1]


MODES = ("full", "same", "valid")
PIECE, MOST_PIECES = 16, 16  # products that are summed one after the other, and such sums


def _lines(name: str, a: Tensor, v: Tensor) -> tuple[Array, Array]:
    """Two vectors with elements, of one dtype; a number is a vector of one, as in NumPy."""
    a, v = _pair(a, v)
    return vector(f"{name}: a", a, least=1), vector(f"{name}: v", v, least=1)


def _correlated(long: Any, short: Any, mode: str, dtype: Any) -> Array:
    n, k = long.shape[0], short.shape[0]
    before = {"full": k - 1, "same": k // 2, "valid": 0}[mode]
    count = {"full": n + k - 1, "same": n, "valid": n - k + 1}[mode]
    if is_bool(long.dtype):
        long, short = convert(long, DTYPES["int32"]), convert(short, DTYPES["int32"])
        made = _correlated(long, short, mode, dtype)
        return not_equal(made, 0) if dtype is None else made
    wanted = long.dtype if dtype is None else as_dtype(dtype)
    summed = wide_dtype(wanted) or wanted
    zero = as_tensor(np.zeros((), long.dtype))
    low, high = (before,), (count + k - 1 - n - before,)
    padded = apply("pad", long, zero, low=low, high=high, interior=(0,))
    # products are summed in one go along a piece: short ones keep the sum's rounding small
    length = max(PIECE, -(-k // MOST_PIECES))
    total = None
    for start in range(0, k, length):
        stop = min(start + length, k)
        part = padded[start : count + stop - 1]
        made = _slid(part, short[start:stop], summed)
        total = made if total is None else add(total, made)
    return convert(total, wanted)


def _slid(x: Any, kernel: Any, dtype: np.dtype) -> Array:
    """The sums of products of a kernel with each of its windows of x."""
    return apply(
        "conv_general_dilated",
        expand_dims(x, (0, 1)),
        expand_dims(kernel, (0, 1)),
        window_strides=(1,),
        padding=((0, 0),),
        lhs_dilation=(1,),
        rhs_dilation=(1,),
        dtype=dtype,
    )[0, 0]
