"""Collectives over the named axes of `vmap`: psum, all_gather, ppermute.

Under `rlx.vmap(f, axis_name="i")`, `psum(x, "i")` is the sum of x over all members of the batch. An
axis name may be a tuple of names; x may be a pytree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..ir.graph import OPS
from ..numpy.elementwise import named
from ..trace import pytree
from ..trace.apply import as_tensor, record
from ..trace.arguments import members, pair
from ..trace.array import Array
from ..trace.axes import integer, one_axis
from ..trace.named import size_of_axis

Tree = TypeVar("Tree")


def _names(axis_name: Any) -> tuple[Any, ...]:
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


def _gathered(x: Any, name: Any) -> Any:
    attrs = {"axis_name": name, "size": size_of_axis(name)}
    return record(OPS["all_gather"], [as_tensor(x)], attrs)[0]


def axis_size(axis_name: Any) -> Any:
    """The size of a named axis, or the product of several."""
    total: Any = 1
    for name in _names(axis_name):
        total = total * size_of_axis(name)
    return total


def axis_index(axis_name: Any) -> Array:
    """The index of this member along a named axis, int32; row-major for several names."""
    total: Any = 0
    for name in _names(axis_name):
        attrs = {"axis_name": name, "size": size_of_axis(name)}
        total = total * size_of_axis(name) + record(OPS["axis_index"], [], attrs)[0]
    return total


# -- totals -------------------------------------------------------------------------------------


def _refuse_groups(groups: Any) -> None:
    if groups is not None:
        raise ArgumentError(
            "axis_index_groups: groups of members do not talk among themselves here",
            fix="nest two vmaps with a name each: a batch of groups, each a batch of members",
        )


def _total(name: str, reduce: Callable[..., Any], doc: str):
    def function(x: Tree, axis_name: Any, *, axis_index_groups: Any = None) -> Tree:
        _refuse_groups(axis_index_groups)

        def total(leaf: Any) -> Any:
            if isinstance(leaf, int | float) and reduce is rnp.sum:
                return leaf * axis_size(axis_name)  # a number, which may be a size
            for each in _names(axis_name):
                leaf = reduce(_gathered(leaf, each), 0)
            return leaf

        return pytree.map(total, x)

    return named(function, name, doc)


psum = _total(
    "psum",
    rnp.sum,
    """The sum over a named axis.

    >>> import rlx
    >>> rlx.vmap(lambda x: x / psum(x, "i"), axis_name="i")(rlx.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """,
)
pmean = _total("pmean", rnp.mean, "The mean over a named axis.")
pmax = _total("pmax", rnp.max, "The maximum over a named axis.")
pmin = _total("pmin", rnp.min, "The minimum over a named axis.")


# -- exchanges ----------------------------------------------------------------------------------


def all_gather(
    x: Tree, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False
) -> Tree:
    """The arrays of all members, stacked along a new axis or, if `tiled`, joined."""
    _refuse_groups(axis_index_groups)

    def gather(leaf: Any) -> Any:
        leaf = as_tensor(leaf)
        found = leaf
        for name in reversed(_names(axis_name)):
            found = _gathered(found, name)
        found = rnp.reshape(found, (-1, *leaf.shape))
        place = one_axis("all_gather", axis, leaf.ndim if tiled else leaf.ndim + 1)
        return _joined(found, place) if tiled else rnp.moveaxis(found, 0, place)

    return pytree.map(gather, x)


def _joined(stacked: Any, place: int) -> Any:
    """Arrays stacked along axis 0, joined along an axis of theirs."""
    moved = rnp.moveaxis(stacked, 0, place)
    count, size = moved.shape[place : place + 2]
    return rnp.reshape(moved, (*moved.shape[:place], count * size, *moved.shape[place + 2 :]))


def psum_scatter(
    x: Tree,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Tree:
    """The sum over a named axis, scattered: each member gets the part of its index.

    The axis of parts, `scatter_dimension`, vanishes, or if `tiled` shrinks to the part's size.
    """
    _refuse_groups(axis_index_groups)

    def scatter(leaf: Any) -> Any:
        total = psum(leaf, axis_name)
        place = one_axis("psum_scatter", scatter_dimension, total.ndim)
        return _own_part(total, axis_name, place, tiled)

    return pytree.map(scatter, x)


def _own_part(x: Any, axis_name: Any, place: int, tiled: bool) -> Array:
    count, size = axis_size(axis_name), x.shape[place]
    if size % count or not (tiled or size == count):
        raise ShapeError(
            f"axis {place} of {x.type} does not make {count} parts, one for each member",
            fix=f"use a size of {count}" + (", or a multiple of it" if tiled else ""),
        )
    parts = rnp.reshape(x, (*x.shape[:place], count, size // count, *x.shape[place + 1 :]))
    mine = rnp.take(parts, axis_index(axis_name), place, mode="clip")
    return mine if tiled else rnp.squeeze(mine, place)


def all_to_all(
    x: Tree,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Tree:
    """Split along one axis, send part i to member i, and join along another axis.

    They are `split_axis` and `concat_axis`. The former vanishes and the latter is new, or if
    `tiled` both stay. Returns what arrived, of the structure of `x`.
    """
    _refuse_groups(axis_index_groups)

    def exchange(leaf: Any) -> Any:
        leaf = as_tensor(leaf)
        first = one_axis("all_to_all", split_axis, leaf.ndim)
        last = one_axis("all_to_all", concat_axis, leaf.ndim)
        arrived = _own_part(all_gather(leaf, axis_name), axis_name, first + 1, tiled)
        return _joined(arrived, last) if tiled else rnp.moveaxis(arrived, 0, last)

    return pytree.map(exchange, x)


def pswapaxes(x: Tree, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Tree:
    """Swap the named axis with another axis of the same size; returns the array."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Tree, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Tree:
    """Send arrays between members along (source, target) pairs; others get zeros.

    The pairs are `perm`; a target that comes twice is an `ArgumentError`. Returns what arrived.
    """
    count = axis_size(axis_name)
    sources = np.full(count, -1, np.int32)
    pairs = [pair("ppermute: perm", one) for one in members("ppermute: perm", perm)]
    for given in pairs:
        source, target = (integer("ppermute: perm", i) for i in given)
        if not (0 <= source < count and 0 <= target < count) or sources[target] >= 0:
            raise ArgumentError(
                f"ppermute: {tuple(pairs)} is no one-to-one map of {count} members",
                fix=f"give pairs of numbers from 0 to {count - 1}, each target once",
            )
        sources[target] = source
    source = Array(sources)[axis_index(axis_name)]

    def receive(leaf: Any) -> Any:
        sent = rnp.take(all_gather(leaf, axis_name), source, 0, mode="clip")
        return rnp.where(source >= 0, sent, rnp.zeros_like(sent))

    return pytree.map(receive, x)


def pshuffle(x: Tree, axis_name: Any, perm: Sequence[int]) -> Tree:
    """Member i gets the array of member `perm[i]`."""
    sources = members("pshuffle: perm", perm)
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(sources)])
