"""Operands as `rlx.lax` takes them: no promotion, and only scalars broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim, Size
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.types import is_bool, is_complex, is_float, is_integer
from ..trace.apply import apply, as_operand, described, is_weak, operand_type
from ..trace.array import Array, ArrayLike
from ..trace.axes import integer, some_axes
from ..trace.host import default_of, is_python_scalar
from ..trace.promotion import fit_operands, result_dtype

Tensor = ArrayLike


def strict(name: str, *operands: Any) -> list[Any]:
    """Convert operands to one dtype and one shape, as `rlx.lax` requires it.

    Python numbers take the dtype of the arrays. Scalars broadcast to any shape; other shapes must
    have the same rank. `name` is the function for errors.
    """
    given = [as_operand(x) for x in operands]
    return fit_operands(name, strict_dtype(name, given), *_of_one_rank(name, given))


def strict_dtype(name: str, given: Sequence[Any]) -> np.dtype:
    """The common dtype of all operands but Python numbers; raise if they differ."""
    strong = [x for x in given if not is_weak(x)]
    if not strong:
        return result_dtype(*given)
    dtype = operand_type(strong[0]).dtype
    for x in strong[1:]:
        if operand_type(x).dtype != dtype:
            raise DtypeError(
                f"{name}: the dtypes differ, {dtype.name} and {operand_type(x).dtype.name}",
                notes=described(*given),
                fix=f"convert one, x.astype({dtype.name!r}), or use rlx.numpy, which promotes",
            )
    for x in given:
        if is_weak(x) and kind(_dtype(x)) > kind(dtype):
            raise DtypeError(
                f"{name}: a {_dtype(x).name} number does not fit {dtype.name} operands",
                notes=described(*given),
                fix=f"convert the operands, x.astype({_dtype(x).name!r}), or use rlx.numpy",
            )
    return dtype


def _dtype(x: Any) -> np.dtype:
    return default_of(x) if is_python_scalar(x) else operand_type(x).dtype


def kind(dtype: np.dtype) -> int:
    """The place of a dtype in the order bool, integer, float, complex."""
    return [is_bool(dtype), is_integer(dtype), is_float(dtype), is_complex(dtype)].index(True)


def _of_one_rank(name: str, given: Sequence[Any]) -> Sequence[Any]:
    ranks = {operand_type(x).rank for x in given} - {0}
    if len(ranks) > 1:
        raise ShapeError(
            f"{name}: the operands have {' and '.join(map(str, sorted(ranks)))} axes",
            notes=described(*given),
            fix="add axes with lax.expand_dims, or use rlx.numpy, which broadcasts",
        )
    return given


def elementwise(op: str, name: str, *operands: Any) -> Array:
    """Apply a pointwise op to operands that `strict` takes."""
    return apply(op, *strict(name, *operands))


def axes_of(name: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Nonnegative axes from a sequence of axes; `name` is the function for errors."""
    return some_axes(name, integers(f"{name}: axes", axes), rank)


def sequence(what: str, items: Any) -> Sequence[Any]:
    """The given list or tuple; other objects raise an error that names `what` it is."""
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise ArgumentError(
            f"{what}: {type(items).__name__} is no sequence",
            fix="give a list or a tuple",
        )
    return items


def scalar(name: str, x: Any) -> Any:
    """The operand, checked to be a scalar; `name` is the function for the error."""
    x = as_operand(x)
    if operand_type(x).shape:
        raise ShapeError(f"{name}: the initial value is {operand_type(x)}", fix="give a scalar")
    return x


def steps_of(what: str, steps: Any, count: int) -> tuple[int, ...]:
    """A tuple of `count` integers, all 1 by default."""
    return (1,) * count if steps is None else integers(what, steps, count)


def integers(what: str, numbers: Any, count: int | None = None) -> tuple[int, ...]:
    """A tuple of Python integers from a sequence; the error names `what` they are."""
    found = tuple(integer(f"{what}: a number", n) for n in _members(what, numbers))
    if count is not None and len(found) != count:
        raise ArgumentError(
            f"{what} {found} has {len(found)} numbers, not {count}",
            fix=f"give {count} integers",
        )
    return found


def sizes_of(what: str, numbers: Any) -> tuple[Size, ...]:
    """A tuple of sizes, integers or symbolic ones, from a sequence."""
    members = _members(what, numbers)
    return tuple(n if isinstance(n, Dim) else integer(f"{what}: a number", n) for n in members)


def _members(what: str, numbers: Any) -> Any:
    if not isinstance(numbers, Sequence | np.ndarray | range) or isinstance(numbers, str):
        raise ArgumentError(
            f"{what} {numbers!r} is no sequence of integers",
            fix="give a tuple of integers",
        )
    return numbers
