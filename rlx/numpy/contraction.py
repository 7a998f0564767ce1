"""Products summed over axes: matmul, dot, tensordot, einsum and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import DTYPES, as_dtype, is_bool
from ..trace.apply import apply, as_operand, as_tensor, described
from ..trace.axes import some_axes
from ..trace.promotion import convert, result_dtype
from .arithmetic import conj, subtract
from .elementwise import Tensor, multiply, not_equal
from .manipulation import (
    broadcast_arrays,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    stack,
    transpose,
)
from .reductions import sum

Axes = Sequence[int]


def _pair(x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """Two operands as tensors of one dtype."""
    x, y = as_operand(x), as_operand(y)
    dtype = result_dtype(x, y)
    return convert(as_tensor(x), dtype), convert(as_tensor(y), dtype)


def _contract(
    x: Any,
    y: Any,
    contract: tuple[Axes, Axes],
    batch: tuple[Axes, Axes] = ((), ()),
    dtype: Any = None,
) -> Any:
    """The op; sums of bools ask whether a product is true."""
    if is_bool(x.dtype):
        x, y = convert(x, DTYPES["int32"]), convert(y, DTYPES["int32"])
        return not_equal(_contract(x, y, contract, batch), 0)
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
    raise ShapeError(
        f"{name}: the inner sizes differ, {n} and {m}",
        where=str(user_source()),
        notes=described(x, y),
        fix=fix,
    )


def _check_axes(name: str, *operands: Any) -> None:
    for x in operands:
        if not x.ndim:
            raise ShapeError(
                f"{name}: an operand has no axes",
                where=str(user_source()),
                notes=described(*operands),
                fix="multiply by numbers with x * y",
            )


# -- matmul -------------------------------------------------------------------------------------


def matmul(
    a: Tensor, b: Tensor, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The product of matrices, of stacks of them, or with vectors.

    `f32[n, k], f32[k, m] → f32[n, m]`.
    """
    a, b = _pair(a, b)
    _check_axes("matmul", a, b)
    _check_inner("matmul", a, b, a.ndim - 1, max(b.ndim - 2, 0))
    dtype = preferred_element_type
    if b.ndim <= 2:
        return _contract(a, b, ((a.ndim - 1,), (max(b.ndim - 2, 0),)), dtype=dtype)
    if a.ndim == 1:
        return _contract(b, a, ((b.ndim - 2,), (0,)), dtype=dtype)
    return _stacked_matmul(a, b, dtype)


def _stacked_matmul(x: Any, y: Any, dtype: Any) -> Any:
    """The product of stacks of matrices.

    A stack axis of size 1, or one that lacks, repeats the other's.
    """
    rank = max(x.ndim, y.ndim) - 2
    x, x_labels = _thin(x, y, rank, "row")
    y, y_labels = _thin(y, x, rank, "column")
    shared = [label for label in x_labels[:-2] if label in y_labels[:-2]]
    _check_batch(x, y, x_labels, y_labels, shared)
    result = _contract(
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
                where=str(user_source()),
                notes=described(x, y),
                fix="make the axes before the last two equal, or 1",
            )


# -- other products -----------------------------------------------------------------------------


def dot(a: Tensor, b: Tensor, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of products over the last axis of a and the second last of b."""
    a, b = _pair(a, b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    _check_inner("dot", a, b, a.ndim - 1, max(b.ndim - 2, 0))
    contract = ((a.ndim - 1,), (max(b.ndim - 2, 0),))
    return _contract(a, b, contract, dtype=preferred_element_type)


def inner(a: Tensor, b: Tensor) -> Any:
    """The sum of products over the last axes."""
    a, b = _pair(a, b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    _check_inner("inner", a, b, a.ndim - 1, b.ndim - 1)
    return _contract(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


def vdot(a: Tensor, b: Tensor) -> Any:
    """The sum of products of all elements, those of a conjugated."""
    return dot(conj(ravel(a)), ravel(b))


def vecdot(x: Tensor, y: Tensor, axis: int = -1) -> Any:
    """The sums of products along an axis, elements of x conjugated."""
    x, y = _pair(x, y)
    _check_axes("vecdot", x, y)
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"vecdot: the axes have the sizes {x.shape[-1]} and {y.shape[-1]}",
            where=str(user_source()),
            notes=described(x, y),
            fix="give both arrays the same size along the axis",
        )
    x, y = broadcast_arrays(x, y)
    last, batch = x.ndim - 1, tuple(range(x.ndim - 1))
    return _contract(conj(x), y, ((last,), (last,)), (batch, batch))


def matvec(x: Tensor, y: Tensor) -> Any:
    """Matrices times vectors: `f32[..., n, k], f32[..., k]`."""
    return matmul(x, expand_dims(y, -1))[..., 0]


def vecmat(x: Tensor, y: Tensor) -> Any:
    """Vectors, conjugated, times matrices: `f32[..., k], f32[..., k, m]`."""
    return matmul(expand_dims(conj(x), -2), y)[..., 0, :]


def outer(a: Tensor, b: Tensor) -> Any:
    """All products of elements: `f32[n], f32[m]` gives `f32[n, m]`."""
    return multiply(ravel(a)[:, None], ravel(b)[None, :])


def kron(x: Tensor, y: Tensor) -> Any:
    """Blocks of y, multiplied by the elements of x."""
    x, y = _pair(x, y)
    rank = max(x.ndim, y.ndim)
    x, y = (reshape(a, (1,) * (rank - a.ndim) + tuple(a.shape)) for a in (x, y))
    wide = reshape(x, tuple(n for size in x.shape for n in (size, 1)))
    product = multiply(wide, reshape(y, tuple(n for size in y.shape for n in (1, size))))
    return reshape(product, tuple(n * m for n, m in zip(x.shape, y.shape, strict=True)))


def cross(x: Tensor, y: Tensor, axis: int = -1) -> Any:
    """The vector at right angles to two vectors of 3 elements along an axis."""
    x, y = _pair(x, y)
    x, y = broadcast_arrays(moveaxis(x, axis, -1), moveaxis(y, axis, -1))
    if x.shape[-1] not in (2, 3):
        raise ShapeError(
            f"cross: vectors have 3 elements, not {x.shape[-1]}",
            where=str(user_source()),
            notes=described(x, y),
            fix="name the axis of the vectors with axis=",
        )
    a, b = ([v[..., i] for i in range(v.shape[-1])] for v in (x, y))
    last = subtract(multiply(a[0], b[1]), multiply(a[1], b[0]))
    if len(a) == 2:
        return last
    first = subtract(multiply(a[1], b[2]), multiply(a[2], b[1]))
    second = subtract(multiply(a[2], b[0]), multiply(a[0], b[2]))
    return moveaxis(stack([first, second, last], axis=-1), -1, axis)


def tensordot(x: Tensor, y: Tensor, axes: Any = 2) -> Any:
    """The sum of products over axes.

    The axes are so many last of x and first of y, or a pair of lists.
    """
    x, y = _pair(x, y)
    if isinstance(axes, int):
        first, second = range(x.ndim - axes, x.ndim), range(axes)
    elif isinstance(axes, Sequence) and len(axes) == 2 and not isinstance(axes, str):
        first, second = ((a,) if isinstance(a, int) else tuple(a) for a in axes)
    else:
        raise ArgumentError(
            f"tensordot: the axes are {axes!r}",
            where=str(user_source()),
            fix="give a number of axes, or a pair of lists of axes",
        )
    left = some_axes("tensordot", tuple(first), x.ndim)
    right = some_axes("tensordot", tuple(second), y.ndim)
    if len(left) != len(right):
        raise ArgumentError(
            f"tensordot: {len(left)} axes of x stand against {len(right)} of y",
            where=str(user_source()),
            fix="name as many axes of x as of y",
        )
    for i, j in zip(left, right, strict=True):
        _check_inner("tensordot", x, y, i, j)
    return _contract(x, y, (left, right))


def convolve(a: Tensor, v: Tensor, mode: str = "full") -> Any:
    """The sums of products of a with v turned around and moved along."""
    a, v = _pair(a, v)
    long, short = (a, v) if a.shape[0] >= v.shape[0] else (v, a)
    return _correlated(long, short[::-1], mode)


def correlate(a: Tensor, v: Tensor, mode: str = "valid") -> Any:
    """The sums of products of a with v, conjugated, moved along."""
    a, v = _pair(a, v)
    if a.shape[0] >= v.shape[0]:
        return _correlated(a, conj(v), mode)
    return _correlated(conj(v), a, mode)[::-1]


def _correlated(long: Any, short: Any, mode: str) -> Any:
    n, k = long.shape[0], short.shape[0]
    before = {"full": k - 1, "same": k // 2, "valid": 0}.get(mode)
    if before is None:
        raise ArgumentError(
            f"convolve: there is no mode {mode!r}",
            where=str(user_source()),
            fix='use "full", "same" or "valid"',
        )
    count = {"full": n + k - 1, "same": n, "valid": n - k + 1}[mode]
    zero = as_tensor(np.zeros((), long.dtype))
    low, high = (before,), (count + k - 1 - n - before,)
    padded = apply("pad", long, zero, low=low, high=high, interior=(0,))
    places = np.arange(count, dtype="int32")[:, None] + np.arange(k, dtype="int32")
    return matmul(padded[places], short)


# -- einsum -------------------------------------------------------------------------------------


def einsum(
    subscripts: str,
    *operands: Tensor,
    precision: Any = None,
    preferred_element_type: Any = None,
    optimize: Any = True,
) -> Any:
    """Sums of products by named axes: `einsum("ij,jk->ik", x, y)` is `x @ y`.

    Operands are contracted in pairs, the pair with the smallest result first.
    """
    tensors = [as_tensor(x) for x in operands]
    inputs, output = _parse(subscripts, tensors)
    dtype = result_dtype(*tensors)
    sizes = _label_sizes(inputs, tensors)
    terms = [
        _simple(convert(x, dtype), labels, sizes) for x, labels in zip(tensors, inputs, strict=True)
    ]
    terms = [
        _summed(x, labels, [*output, *_others(terms, i)]) for i, (x, labels) in enumerate(terms)
    ]
    while len(terms) > 1:
        i, j = _cheapest(terms, output, sizes)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        kept = [*output, *(s for _, labels in rest for s in labels)]
        terms = [*rest, _contract_terms(terms[i], terms[j], kept, preferred_element_type)]
    x, labels = terms[0]
    result = transpose(x, [labels.index(s) for s in output if s in labels])
    return result


def _others(terms: list[tuple[Any, list[str]]], i: int) -> list[str]:
    return [s for j, (_, labels) in enumerate(terms) if j != i for s in labels]


def _parse(subscripts: str, tensors: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; `...` becomes labels of its own."""
    if not isinstance(subscripts, str):
        raise ArgumentError(
            f"einsum: the subscripts are of type {type(subscripts).__name__}, not a text",
            where=str(user_source()),
            fix='name the axes first: einsum("ij,jk->ik", x, y)',
        )
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise _einsum_error(f"{subscripts!r} names {len(parts)} operands, {len(tensors)} are given")
    inputs = []
    for part, x in zip(parts, tensors, strict=True):
        named = len(part.replace("...", ""))
        hidden = x.ndim - named
        if hidden < 0 or (hidden and "..." not in part):
            raise _einsum_error(f"{part!r} names {named} axes of an array with {x.ndim}")
        inputs.append(_with_dots(part, hidden))
    widest = max((_count_dots(labels) for labels in inputs), default=0)
    if arrow:
        output = _with_dots(right, widest)
    else:
        letters = sorted(s for s in set(left) - set(".,") if left.count(s) == 1)
        output = [*(f".{i}" for i in reversed(range(widest))), *letters]
    known = {s for labels in inputs for s in labels}
    if not set(output) <= known or len(set(output)) < len(output):
        raise _einsum_error(f"the result {right!r} must name axes of the operands, each once")
    return inputs, output


def _count_dots(labels: Sequence[str]) -> int:
    """How many labels stand for `...`."""
    return len([s for s in labels if s.startswith(".")])


def _with_dots(part: str, hidden: int) -> list[str]:
    before, dots, after = part.partition("...")
    middle = [f".{i}" for i in reversed(range(hidden))] if dots else []
    return [*before, *middle, *after]


def _einsum_error(what: str) -> ArgumentError:
    return ArgumentError(
        f"einsum: {what}",
        where=str(user_source()),
        fix='write a letter for each axis, as "bij,bjk->bik"',
    )


def _label_sizes(inputs: Sequence[Sequence[str]], tensors: Sequence[Any]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for labels, x in zip(inputs, tensors, strict=True):
        for label, n in zip(labels, x.shape, strict=True):
            before = sizes.setdefault(label, n)
            if before == 1:
                sizes[label] = n
            elif n not in (1, before):
                raise _einsum_error(f"the axis {label!r} has the sizes {before} and {n}")
    return sizes


def _simple(x: Any, labels: Sequence[str], sizes: dict[str, Any]) -> tuple[Any, list[str]]:
    """The operand without thin axes, and with diagonals taken.

    Thin axes repeat others' sizes; a label that stands twice asks for a diagonal.
    """
    labels = list(labels)
    thin = [i for i, s in enumerate(labels) if x.shape[i] == 1 and sizes[s] != 1]
    if thin:
        x = reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in thin))
        labels = [s for i, s in enumerate(labels) if i not in thin]
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            line = np.arange(x.shape[i], dtype="int32")
            x = moveaxis(x, (i, j), (0, 1))[line, line]
            labels = [label, *(s for k, s in enumerate(labels) if k not in (i, j))]
    return x, labels


def _summed(x: Any, labels: list[str], kept: Sequence[str]) -> tuple[Any, list[str]]:
    """Without axes that nobody else names."""
    lone = tuple(i for i, s in enumerate(labels) if s not in kept)
    return (sum(x, lone, x.dtype), [s for s in labels if s in kept]) if lone else (x, labels)


def _cheapest(
    terms: Sequence[tuple[Any, list[str]]], output: Sequence[str], sizes: dict[str, Any]
) -> tuple[int, int]:
    """The pair whose contraction shrinks the operands most."""
    best, found = None, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            kept = {*output, *(s for k, t in enumerate(terms) if k not in (i, j) for s in t[1])}
            both = set(terms[i][1]) | set(terms[j][1])
            spans = (both & kept, terms[i][1], terms[j][1])
            result, first, second = (_volume(span, sizes) for span in spans)
            cost = result - first - second
            if best is None or cost < best:
                best, found = cost, (i, j)
    return found


def _volume(labels: Any, sizes: dict[str, Any]) -> int:
    return math.prod(n if isinstance(n, int) else 1000 for n in (sizes[s] for s in labels))


def _contract_terms(
    first: tuple[Any, list[str]], second: tuple[Any, list[str]], kept: Sequence[str], dtype: Any
) -> tuple[Any, list[str]]:
    (x, left), (y, right) = first, second
    shared = [s for s in left if s in right]
    batch = [s for s in shared if s in kept]
    inner = [s for s in shared if s not in kept]
    if not inner:
        return _outer_terms(x, left, y, right)
    result = _contract(
        x,
        y,
        ([left.index(s) for s in inner], [right.index(s) for s in inner]),
        ([left.index(s) for s in batch], [right.index(s) for s in batch]),
        dtype,
    )
    free = [s for s in [*left, *right] if s not in shared]
    return result, [*batch, *free]


def _outer_terms(x: Any, left: list[str], y: Any, right: list[str]) -> tuple[Any, list[str]]:
    """A product without a sum, by broadcasting."""
    labels = [*left, *(s for s in right if s not in left)]
    ordered = [s for s in labels if s in right]
    y = transpose(y, [right.index(s) for s in ordered])
    sizes = iter(y.shape)
    y = reshape(y, tuple(next(sizes) if s in right else 1 for s in labels))
    x = reshape(x, (*x.shape, *(1 for s in labels[len(left) :])))
    return multiply(x, y), labels
