"""Members of a named batch, seen from one of them: all_gather and axis_index.

Batching over the axis of that name resolves these ops: their rule `named` gives results for the
whole batch. Without such a batch a member is alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ArgumentError
from ..graph import Value
from ..op import define
from ..rules import spread
from ..types import Size, Type, as_dtype
from .constant import full, iota
from .dynamic import dynamic_slice
from .movement import reshape, transpose
from .reduce import reduce_sum

INDEX = as_dtype("int32")


def _check_alone(axis_name: str, size: int) -> None:
    if size != 1:
        raise ArgumentError(
            f"there is no batch named {axis_name!r} around this",
            fix=f"call the function under rlx.vmap(f, axis_name={axis_name!r})",
        )


@define
def all_gather(x: Type, *, axis_name: str, size: int) -> Type:
    """The operands of all members, along a new axis 0, the same for each."""
    return x.with_shape((size, *x.shape))


@all_gather.reference
def all_gather_reference(x: np.ndarray, *, axis_name: str, size: int) -> np.ndarray:
    _check_alone(axis_name, size)
    return x[None]


@all_gather.expand
def all_gather_expand(x: Value, *, axis_name: str, size: int) -> Value:
    _check_alone(axis_name, size)
    return reshape(x, shape=(1, *x.shape))


@all_gather.transpose
def all_gather_transpose(ct: Value, x: Value, *, axis_name: str, size: int) -> list[Value]:
    """What all members want of this one, summed up."""
    total = reduce_sum(all_gather(ct, axis_name=axis_name, size=size), axes=(0,))
    starts = [axis_index(axis_name=axis_name, size=size)] + [
        full(shape=(), value=0, dtype=INDEX) for _ in x.shape
    ]
    mine = dynamic_slice(total, *starts, sizes=(1, *x.shape))
    return [reshape(mine, shape=x.shape)]


@all_gather.batch
def all_gather_batch(
    args: Sequence[Value], batched: Sequence[bool], *, axis_name: str, size: int
) -> Value:
    gathered = all_gather(args[0], axis_name=axis_name, size=size)
    return transpose(gathered, axes=(1, 0, *range(2, gathered.rank)))


def all_gather_named(args: Sequence[Value], batched: Sequence[bool], size: Size) -> tuple:
    """The batch itself is what all members see."""
    (x,) = args
    return (x if batched[0] else spread(x, size)), False


all_gather.rules.named = all_gather_named
all_gather.samples((2, 3), axis_name="member", size=1)
all_gather.samples([1.0, 2.0], axis_name="member", size=1, expect=[[1.0, 2.0]])


@define
def axis_index(*, axis_name: str, size: int) -> Type:
    """The number of this member."""
    return Type(INDEX)


@axis_index.reference
def axis_index_reference(*, axis_name: str, size: int) -> np.ndarray:
    _check_alone(axis_name, size)
    return np.zeros((), INDEX)


@axis_index.expand
def axis_index_expand(*, axis_name: str, size: int) -> Value:
    _check_alone(axis_name, size)
    return full(shape=(), value=0, dtype=INDEX)


axis_index.nondifferentiable("an index has no operands")


def axis_index_named(args: Sequence[Value], batched: Sequence[bool], size: Size) -> tuple:
    """Each member has its own number."""
    return iota(shape=(size,), axis=0, dtype=INDEX), True


axis_index.rules.named = axis_index_named
axis_index.samples(axis_name="member", size=1, expect=0)
