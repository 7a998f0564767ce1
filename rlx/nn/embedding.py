"""Embeddings: rows of a table, one for each index or one for each bag of indices."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, BoundsError, DtypeError, ShapeError
from ..ir.ops.custom import Rule
from ..ir.source import user_source
from ..ops import segment_max, segment_sum
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of
from ..trace.array import Array
from ..trace.index.items import check_ends, check_places
from ..trace.promotion import convert, rounded_once
from . import initializers
from .arguments import drawn, lengths_of
from .initializers import Initializer
from .module import Module, field

MODES = ("mean", "sum", "max")


@final
class Embedding(Module):
    """Embedding: a row of a table for each index: `i32[...] → f32[..., size]`.

    The table has `count` rows. An index outside of it is a `BoundsError` where it is known, as in
    `x[index]`, else its row is NaN; negative ones count from the end.

    >>> from rlx import random
    >>> Embedding(9, 4, key=random.key(0))(rnp.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    weight: Array

    def __init__(
        self,
        count: int,
        size: int,
        *,
        key: Any,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        default = initializers.normal(1.0)
        self.weight = drawn("Embedding", initializer, default, key, (count, size), dtype)

    def __call__(self, index: Any, *, key: Any = None) -> Array:
        return _rows(self.weight, _integers("Embedding: the index", index))


@final
class EmbeddingBag(Module):
    """Embedding bag: the mean, sum or maximum of the rows of each bag of indices.

    `i32[..., n] → f32[..., size]`: the last axis is a bag, of which `lengths`, i32[...], says how
    many indices are there. Or `i32[n], offsets=i32[bags] → f32[bags, size]`: bags one after the
    other, and where each begins. The table has `count` rows; `mode` is "mean", "sum" or "max".
    `weights`, of the shape of the indices, multiply rows before they are summed. Indices equal to
    `padding_index` do not count, and their row is not trained. Bags without indices are 0, as in
    PyTorch. Weights with another mode are an `ArgumentError`.

    >>> from rlx import random
    >>> layer = EmbeddingBag(9, 4, key=random.key(0))
    >>> layer([[1, 2, 3], [4, 5, 0]], lengths=[3, 2]).shape
    (2, 4)
    >>> bool((layer([1, 2, 3, 4, 5], offsets=[0, 3])[1] == layer([[4, 5]])[0]).all())
    True
    """

    weight: Array
    mode: str = field(static=True)
    padding_index: int | None = field(static=True)

    def __init__(
        self,
        count: int,
        size: int,
        *,
        key: Any,
        mode: str = "mean",
        padding_index: int | None = None,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        name = "EmbeddingBag"
        count, size = count_of(f"{name}: count", count, 1), count_of(f"{name}: size", size, 1)
        self.mode = choice(f"{name}: mode", mode, MODES)
        self.padding_index = padding_index
        if padding_index is not None:
            self.padding_index = count_of(f"{name}: padding_index", padding_index, 0, count - 1)
        default = initializers.normal(1.0)
        self.weight = drawn(name, initializer, default, key, (count, size), dtype)

    def __call__(
        self,
        index: Any,
        offsets: Any = None,
        *,
        lengths: Any = None,
        weights: Any = None,
        key: Any = None,
    ) -> Array:
        index = _integers("EmbeddingBag: the index", index)
        if index.ndim == 0 or (offsets is not None and (index.ndim != 1 or lengths is not None)):
            raise ShapeError(
                f"EmbeddingBag: the index is {index.type}",
                fix="give bags as rows, i32[bags, count], with lengths= for bags of fewer; or all "
                "in one, i32[n], with offsets= alone",
            )
        counts = rnp.ones(index.shape, "bool")
        if self.padding_index is not None:
            counts = index != self.padding_index
        if lengths is not None:
            *batch, most = index.shape
            limits = lengths_of("EmbeddingBag: lengths", lengths, tuple(batch), most)
            counts = counts & (rnp.arange(most, dtype="int32") < limits[..., None])
        rows = _rows(self.weight, rnp.where(counts, index, 0))
        factors = self._factors(weights, index, rows.dtype)
        bags = None if offsets is None else _bags(offsets, index.shape[0])
        size = None if offsets is None else as_tensor(offsets).shape[0]
        return rounded_once(lambda rows: self._joined(rows, counts, factors, bags, size), rows)

    def _factors(self, weights: Any, index: Any, dtype: Any) -> Any:
        if weights is None:
            return None
        factors = as_tensor(weights)
        if self.mode != "sum":
            raise ArgumentError(
                f'EmbeddingBag: weights are for the mode "sum", and this one is "{self.mode}"',
                fix='make the layer with mode="sum", or leave out weights=',
            )
        if factors.shape != index.shape:
            raise ShapeError(
                f"EmbeddingBag: the weights are {factors.type}",
                fix=f"give one number for each index, of shape {index.shape}",
            )
        return convert(factors, dtype)

    def _joined(self, rows: Any, counts: Any, factors: Any, bags: Any, size: Any) -> Any:
        """The rows of each bag as one."""
        counted = counts[..., None]

        def of_bags(x: Any, is_max: bool = False) -> Any:
            if bags is None:
                return rnp.max(x, -2, initial=-np.inf) if is_max else rnp.sum(x, -2)
            return (segment_max if is_max else segment_sum)(x, bags, size)

        amounts = of_bags(convert(counted, rows.dtype))
        if self.mode == "max":
            found = of_bags(rnp.where(counted, rows, -np.inf), True)
            return rnp.where(amounts > 0, found, 0.0)
        rows = rows if factors is None else rows * factors[..., None]
        total = of_bags(rnp.where(counted, rows, 0.0))
        return total if self.mode == "sum" else total / rnp.maximum(amounts, 1.0)


def _rows(weight: Any, index: Any) -> Any:
    check_places(index, weight.shape[0], 0)
    return rnp.take(weight, index, axis=0)


def _integers(what: str, given: Any) -> Any:
    x = as_tensor(given)
    if x.dtype.kind in "iu":
        return x
    raise DtypeError(f"{what} is {x.type}, not integers", fix='convert it: x.astype("int32")')


def _bags(offsets: Any, count: Any) -> Any:
    """The number of the bag of each index."""
    starts = _integers("EmbeddingBag: offsets", offsets)
    if starts.ndim != 1 or starts.shape[0] == 0:
        raise ShapeError(
            f"EmbeddingBag: offsets is {starts.type}",
            fix="give the place where each bag begins: i32[bags]",
        )
    where = str(user_source())

    def look(low: np.ndarray, high: np.ndarray, size: Any = None) -> None:
        if low < 0:
            raise BoundsError(
                "EmbeddingBag: offsets do not rise from 0 to the number of indices",
                where=where,
                fix="begin with 0, and give places in order; a bag may be empty",
            )

    starts = rnp.astype(starts, "int64" if starts.dtype.itemsize == 8 else "int32")
    ends = rnp.concatenate([starts[1:], rnp.full((1,), count, starts.dtype)])
    steps = rnp.concatenate([-rnp.abs(starts[:1]), ends - starts])
    check_ends(steps, count, Rule(look, ("EmbeddingBag: offsets", where)))
    places = rnp.arange(count, dtype=starts.dtype)
    return rnp.searchsorted(starts, places, side="right") - 1
