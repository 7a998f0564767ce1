"""Products summed over axes: dot_general."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..body import Contract
from ..errors import AttributeValueError, AxisError, ShapeError
from ..graph import Value
from ..op import Parts, define
from ..rules import later
from ..types import Type, is_bool, is_complex, is_float, is_integer, promote
from .complex_parts import in_pairs, view_as_complex
from .constant import like, maker
from .convert import REAL_PART, in_one_dtype, narrowed
from .families import NUMBERS, check_dtypes, check_kind, linear_in_each
from .movement import reshape, transpose
from .pad_slice import concat

Pairs = tuple[tuple[int, ...], tuple[int, ...]]


@define
def dot_general(
    x: Type, y: Type, *, contract: Pairs, batch: Pairs = ((), ()), dtype: np.dtype | None = None
) -> Type:
    """The product of two arrays, summed over pairs of axes.

    `f32[3, 4], f32[4, 2] → f32[3, 2]`. `contract` is (axes of x, axes of y), summed over in pairs.
    `batch` is likewise; these stay. The result has the batch axes, the free axes of x, then those
    of y. `dtype` is that of the sum and the result, the operands' if not given; half-size floats
    are summed in float32.
    """
    check_kind(x, NUMBERS)
    check_dtypes(x, y, "one: y")
    check_sum_dtype(x, dtype)
    for word, pairs in (("contract", contract), ("batch", batch)):
        _check_pairs(word, pairs, x, y)
    for side, operand in enumerate((x, y)):
        both = (*contract[side], *batch[side])
        if len(set(both)) != len(both):
            raise AxisError(
                f"{both} names an axis of {'xy'[side]}: {operand} twice",
                fix="put each axis in `contract` or in `batch`, once",
            )
    shape = [x.shape[i] for i in batch[0]]
    shape += [x.shape[i] for i in _free(x.rank, contract[0], batch[0])]
    shape += [y.shape[i] for i in _free(y.rank, contract[1], batch[1])]
    return Type(dtype or x.dtype, tuple(shape))


def check_sum_dtype(x: Type, dtype: np.dtype | None) -> None:
    """Raise unless a dtype, if given, can hold sums of products of x."""
    if dtype is not None and _kind(dtype) < _kind(x.dtype):
        raise AttributeValueError(
            f"{dtype.name} holds no sums of {x.dtype.name}", fix="pick a dtype of the same kind"
        )


def _kind(dtype: np.dtype) -> int:
    return [is_bool(dtype), is_integer(dtype), is_float(dtype), is_complex(dtype)].index(True)


def _check_pairs(word: str, pairs: Pairs, x: Type, y: Type) -> None:
    if len(pairs) != 2 or len(pairs[0]) != len(pairs[1]):
        raise AxisError(
            f"`{word}` {pairs} does not pair axes",
            fix="give ((axes of x), (axes of y)), equally many",
        )
    for axes, operand in zip(pairs, (x, y), strict=True):
        for axis in axes:
            if not 0 <= axis < operand.rank:
                raise AxisError(
                    f"axis {axis} of `{word}` is outside {operand}",
                    fix=f"pick an axis from 0 to {operand.rank - 1}",
                )
    for i, j in zip(*pairs, strict=True):
        if x.shape[i] != y.shape[j]:
            kind = "inner" if word == "contract" else "batch"
            raise ShapeError(
                f"the {kind} sizes differ, {x.shape[i]} and {y.shape[j]}",
                fix=_fix_size(x, y, i, j),
            )


def _fix_size(x: Type, y: Type, i: int, j: int) -> str:
    wanted = y.with_shape((*y.shape[:j], x.shape[i], *y.shape[j + 1 :]))
    if x.shape[i] in y.shape:
        return f"transpose y so that its axis {j} has size {x.shape[i]}, or make y {wanted}"
    return f"make y {wanted}, or give axis {i} of x the size {y.shape[j]}"


def _free(rank: int, *used: Sequence[int]) -> tuple[int, ...]:
    """The axes that are neither contracted nor batch, in order."""
    return tuple(i for i in range(rank) if not any(i in axes for axes in used))


def codes_of(*operands: Type, **attrs: Any) -> list[str | None]:
    """Which operands of a product are integers of 8 bits, as texts of a scheme."""
    return [
        f"{x.dtype.name} codes" if x.dtype.name in ("int8", "uint8") else None for x in operands
    ]


@dot_general.reference
def dot_general_reference(
    x: np.ndarray, y: np.ndarray, *, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> np.ndarray:
    free = [_free(a.ndim, contract[i], batch[i]) for i, a in enumerate((x, y))]
    sizes = [
        [x.shape[i] for i in batch[0]],
        [x.shape[i] for i in free[0]],
        [x.shape[i] for i in contract[0]],
        [y.shape[i] for i in free[1]],
    ]
    groups, rows, inner, columns = map(math.prod, sizes)
    wide = promote(x.dtype, x.dtype if dtype is None else dtype)
    wide = np.dtype(np.float32) if is_float(wide) and wide.itemsize < 4 else wide
    left = x.astype(wide).transpose(*batch[0], *free[0], *contract[0])
    right = y.astype(wide).transpose(*batch[1], *contract[1], *free[1])
    product = left.reshape(groups, rows, inner) @ right.reshape(groups, inner, columns)
    return product.reshape((*sizes[0], *sizes[1], *sizes[3]))


dot_general.body(
    Contract(lambda types, *, contract, batch, dtype: (contract, batch)),
)


@dot_general.product
def dot_general_kept(
    types: Sequence[Type], operand: int, *, contract: Pairs, batch: Pairs, dtype: Any
) -> dict[int, int]:
    free = [_free(x.rank, contract[i], batch[i]) for i, x in enumerate(types)]
    start = len(batch[0]) + len(free[0]) * operand
    places = {axis: start + i for i, axis in enumerate(free[operand])}
    return {axis: i for i, axis in enumerate(batch[operand])} | places


@dot_general.parts
def dot_general_parts(
    x: Value | Parts, y: Value | Parts, *, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> Value | Parts:
    if not (isinstance(x, Parts) and isinstance(y, Parts) and _is_few(x.re, y.re)):
        return dot_general_invariant_parts(x, y, contract=contract, batch=batch, dtype=dtype)
    part = None if dtype is None else REAL_PART[dtype.name]
    (depth, of_y), (stay_in_x, stay_in_y) = contract, batch
    swapped = _product_of_parts(y, x, (of_y, depth), (stay_in_y, stay_in_x), part)
    stay, rows = len(stay_in_x), y.re.rank - len(of_y)
    order = (*range(stay), *range(rows, swapped.rank - 1), *range(stay, rows), swapped.rank - 1)
    return view_as_complex(transpose(swapped, axes=order))


@dot_general.invariant_parts
def dot_general_invariant_parts(
    x: Value | Parts, y: Value | Parts, *, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> Value | Parts:
    part = None if dtype is None else REAL_PART[dtype.name]
    if isinstance(x, Parts) and isinstance(y, Parts):
        return view_as_complex(_product_of_parts(x, y, contract, batch, part))
    re = dot_general(x, y, contract=contract, batch=batch, dtype=part)  # of real operands
    return Parts(re, like(re, 0))


def _is_few(x: Value, y: Value) -> bool:
    sizes = x.type.size, y.type.size
    return all(isinstance(size, int) for size in sizes) and 4 * sizes[0] < sizes[1]


def _product_of_parts(
    x: Parts, y: Parts, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> Value:
    """One real product, with the parts of the result along the last axis.

    Both parts of x lie along the depth, and are multiplied by `[[re, im], [-im, re]]` of y.
    """
    shape, rank = y.re.shape, y.re.rank
    pieces = [reshape(part, shape=(*shape, 1)) for part in (y.re, y.im, -y.im, y.re)]
    both = reshape(concat(*pieces, axis=rank), shape=(*shape, 2, 2))
    depth = ((*contract[0], x.re.rank), (*contract[1], rank))
    return dot_general(in_pairs(x), both, contract=depth, batch=batch, dtype=dtype)


dot_general.jvp(
    [
        lambda t, out, x, y, **attrs: dot_general(t, y, **attrs),
        lambda t, out, x, y, **attrs: dot_general(x, t, **attrs),
    ]
)


def _transpose_x(
    ct: Value, x: Any, y: Value, *, contract: Pairs, batch: Pairs, dtype: Any
) -> Value:
    """ct · y over the free axes of y.

    The result has the batch axes, x's free axes, x's contracted ones.
    """
    free = [_free(a.rank, contract[i], batch[i]) for i, a in enumerate((x.type, y.type))]
    stay = tuple(range(len(batch[0])))
    ends = tuple(range(ct.rank - len(free[1]), ct.rank))
    made = dot_general(*in_one_dtype(ct, y), contract=(ends, free[1]), batch=(stay, batch[1]))
    inner = [i for _, i in sorted(zip(contract[1], contract[0], strict=True))]
    return _in_order(made, (*batch[0], *free[0], *inner), x.dtype)


def _transpose_y(
    ct: Value, x: Value, y: Any, *, contract: Pairs, batch: Pairs, dtype: Any
) -> Value:
    """x · ct over the free axes of x.

    The result has the batch axes, y's contracted axes, y's free ones.
    """
    free = [_free(a.rank, contract[i], batch[i]) for i, a in enumerate((x.type, y.type))]
    stay = tuple(range(len(batch[0])))
    middle = tuple(range(len(stay), len(stay) + len(free[0])))
    made = dot_general(*in_one_dtype(x, ct), contract=(free[0], middle), batch=(batch[0], stay))
    inner = [j for _, j in sorted(zip(contract[0], contract[1], strict=True))]
    return _in_order(made, (*batch[1], *inner, *free[1]), y.dtype)


def _in_order(x: Value, axes: tuple[int, ...], dtype: np.dtype) -> Value:
    """Put axis i of x at `axes[i]`, and convert to the dtype."""
    if axes != tuple(range(x.rank)):
        x = transpose(x, axes=sorted(range(x.rank), key=axes.__getitem__))
    return narrowed(x, dtype)


dot_general.transpose(linear_in_each(_transpose_x, _transpose_y))


@dot_general.batch
def dot_general_batch(
    args: Sequence[Value], batched: Sequence[bool], *, contract: Pairs, batch: Pairs, dtype: Any
) -> Value:
    x, y = args
    moved = [
        tuple(
            tuple(i + is_there for i in axes) for axes, is_there in zip(pairs, batched, strict=True)
        )
        for pairs in (contract, batch)
    ]
    if all(batched):
        both = ((0, *moved[1][0]), (0, *moved[1][1]))
        return dot_general(x, y, contract=moved[0], batch=both, dtype=dtype)
    made = dot_general(x, y, contract=moved[0], batch=moved[1], dtype=dtype)
    # the batch axis is a free one: the first of its side, as it is axis 0 there
    place = len(batch[0])
    if batched[1]:
        place = x.rank - len(contract[0])
    order = (place, *(i for i in range(made.rank) if i != place))
    return made if place == 0 else transpose(made, axes=order)


@dot_general.total
def dot_general_total(x: Value, y: Value, *, contract: Pairs, batch: Pairs, dtype: Any) -> Value:
    moved = [tuple(map(later, pairs)) for pairs in (contract, batch)]
    summed = ((0, *moved[0][0]), (0, *moved[0][1]))
    return dot_general(x, y, contract=summed, batch=moved[1], dtype=dtype)


@dot_general.fold
def dot_general_fold(
    x: Value, y: Value, *, contract: Pairs, batch: Pairs, dtype: Any
) -> Value | None:
    """Name the axes of what was transposed, if its free ones stay in order.

    What an op multiplies by without making it is left to that op.
    """
    operands, pairs = [x, y], [list(contract), list(batch)]
    for side, operand in enumerate((x, y)):
        moved = maker(operand, "transpose")
        axes = moved.attrs["axes"] if moved else ()
        free = [axes[i] for i in _free(len(axes), contract[side], batch[side])]
        if moved and free == sorted(free):
            operands[side] = moved.args[0]
            for pair in pairs:
                pair[side] = tuple(axes[i] for i in pair[side])
    if operands != [x, y]:
        return dot_general(*operands, contract=pairs[0], batch=pairs[1], dtype=dtype)
    is_plain = not batch[0] and len(contract[0]) == 1 and dtype in (None, x.dtype)
    if not is_plain:
        return None
    swapped = _multiplied(y, x, contract[1][0], contract[0][0])
    if swapped is not None:
        return transpose(swapped, axes=(swapped.rank - 1, *range(swapped.rank - 1)))
    return _multiplied(x, y, contract[0][0], contract[1][0])


def _multiplied(x: Value, y: Value, depth: int, of_y: int) -> Value | None:
    """The product with lines of y by the op that has a rule for what y is made of."""
    rule = y.node.op.rules.multiplied if y.node is not None else None
    if rule is None or y.rank != 2 or of_y != 1:
        return None
    assert y.node is not None, "its op has a rule"
    order = (*(i for i in range(x.rank) if i != depth), depth)
    return rule(transpose(x, axes=order), *y.node.args, **y.node.attrs)


dot_general.scheme(codes_of)


dot_general.samples((3, 4), (4, 2), contract=((1,), (0,)))
dot_general.samples((2, 3, 4), (4, 5, 2), contract=((2,), (0,)), batch=((0,), (2,)))
dot_general.samples((2, 3, 4), (3, 5, 2, 4), contract=((2, 0), (3, 2)), batch=((1,), (0,)))
dot_general.samples((3,), (3,), contract=((0,), (0,)))
dot_general.samples((2,), (3,), contract=((), ()))
dot_general.samples((2, 0), (0, 3), contract=((1,), (0,)))
dot_general.samples(
    [[1.0, 2.0], [3.0, 4.0]],
    [[5.0, 6.0], [7.0, 8.0]],
    contract=((1,), (0,)),
    expect=[[19.0, 22.0], [43.0, 50.0]],
)
dot_general.samples(
    np.array([[1, 2], [3, 4]], np.int8),
    np.array([[100, 0], [100, 1]], np.int8),
    contract=((1,), (0,)),
    dtype="int32",
    expect=[[300, 2], [700, 4]],
)
_HALF = np.full((1, 512), 0.1, "float16")  # summed in halves the total is 2 % off
dot_general.samples(_HALF, _HALF, contract=((1,), (1,)))
dot_general.samples(_HALF, _HALF, contract=((1,), (1,)), dtype="float32")
