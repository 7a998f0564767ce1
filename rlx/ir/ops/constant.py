"""Ops without operands: constant, full, iota; and what is known of values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..body import Fill, Library
from ..errors import AxisError, ShapeError
from ..graph import Constant, Node, Value
from ..op import Parts, define
from ..types import Type, as_dtype, is_complex, is_inexact

SCALAR = int | float | complex | bool


@define
def constant(*, value: Constant) -> Type:
    """An array known when the graph is made."""
    return Type(as_dtype(value.array.dtype), value.array.shape)


constant.reference(lambda *, value: value.array)


constant.is_constant = True
constant.body(Library())
constant.nondifferentiable("a constant has no operands")
constant.samples(value=np.array([1.0, 2.0]), expect=[1.0, 2.0])


@define
def full(*, shape: tuple[int, ...], value: SCALAR, dtype: np.dtype) -> Type:
    """An array of one number: `full(shape=(2,), value=0, dtype="f32")`."""
    _check_shape(shape)
    return Type(dtype, shape)


def _check_shape(shape: tuple[int, ...]) -> None:
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ShapeError(f"the shape {shape} has a negative size", fix="use sizes of 0 or more")


full.reference(lambda *, shape, value, dtype: np.full(shape, np.asarray(value).astype(dtype)))
full.body(Fill(lambda index, result, *, shape, value, dtype: value))


@full.parts
def full_parts(*, shape: tuple[int, ...], value: SCALAR, dtype: np.dtype) -> Parts:
    part = np.real(np.zeros((), dtype)).dtype
    return Parts(*(full(shape=shape, value=x, dtype=part) for x in (value.real, value.imag)))


full.nondifferentiable("a constant has no operands")
full.samples(shape=(2,), value=3, dtype="float32", expect=[3.0, 3.0])
full.samples(shape=(), value=True, dtype="bool", expect=True)


@define
def iota(*, shape: tuple[int, ...], axis: int, dtype: np.dtype) -> Type:
    """The index along one axis: 0, 1, 2 ... in an array of the given shape."""
    if not 0 <= axis < len(shape):
        raise AxisError(
            f"axis {axis} is outside the shape {shape}", fix=f"pick an axis below {len(shape)}"
        )
    _check_shape(shape)
    return Type(dtype, shape)


@iota.reference
def iota_reference(*, shape: tuple[int, ...], axis: int, dtype: np.dtype) -> np.ndarray:
    line = np.empty(shape[axis], dtype)
    for start in range(0, line.size, 1 << 20):  # in parts: all of it in int64 may be far larger
        part = line[start : start + (1 << 20)]
        part[:] = np.arange(start, start + part.size)
    return np.broadcast_to(np.expand_dims(line, [i for i in range(len(shape)) if i != axis]), shape)


iota.body(Fill(lambda index, result, *, shape, axis, dtype: index[axis]))
iota.nondifferentiable("an index has no operands")
iota.samples(shape=(2, 3), axis=1, dtype="int32", expect=[[0, 1, 2], [0, 1, 2]])


# -- what a fold rule can know, and values of one number -------------------------------------------

SCANNED = 1024  # larger constants are not searched for being all one number


def like(x: Value, number: SCALAR) -> Value:
    """An array of one number with the dtype and shape of `x`."""
    return full(shape=x.shape, value=number, dtype=x.dtype)


def scalar_like(x: Value, number: SCALAR) -> Value:
    """A scalar with the dtype of `x`."""
    return full(shape=(), value=number, dtype=x.dtype)


def uniform(x: Value) -> SCALAR | None:
    """The number that all elements of a value are known to be, or None."""
    if x.node is None:
        return None
    if x.node.op is full:
        with np.errstate(all="ignore"):
            return np.asarray(x.node.attrs["value"]).astype(x.dtype).item()
    array = x.constant
    if array is None or not 0 < array.size <= SCANNED or not (array == array.flat[0]).all():
        return None
    if array.tobytes() != array.flat[0].tobytes() * array.size:  # zeros of both signs
        return None
    return array.flat[0].item()


def is_zero(x: Value, *, negative: bool) -> bool:
    """Whether all elements are the zero of that sign; an integer's has none."""
    number = uniform(x)
    if number is None or number != 0:
        return False
    if not is_inexact(x.dtype):
        return True
    return not is_complex(x.dtype) and (math.copysign(1.0, number.real) < 0) == negative


def is_all(x: Value, number: SCALAR) -> bool:
    """Whether all elements of a value are known to be this number."""
    return uniform(x) == number


def undone(name: str, place: int = 0) -> Callable[[Value], Value | None]:
    """The fold of an op that takes back another: to the operand of that one."""

    def undone_fold(x: Value) -> Value | None:
        before = maker(x, name)
        return before.args[place] if before else None

    return undone_fold


def maker(x: Value, name: str) -> Node | None:
    """The node that makes a value, if it is one of the op of this name."""
    return x.node if x.node is not None and x.node.op.name == name else None
