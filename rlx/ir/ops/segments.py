"""Products of rows, each with a matrix of its own out of several: segmented_dot."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dims import likely
from ..errors import DtypeError, ShapeError
from ..graph import Value
from ..op import define, is_linear
from ..types import Type, promote
from .arithmetic import mul
from .compare import ge, select
from .constant import full, like
from .convert import WIDE, convert
from .families import check_kind
from .index import gather
from .movement import broadcast, reshape, transpose
from .reduce import reduce_sum
from .scatter import scatter_add


def _wide(*xs: Any) -> np.dtype:
    """The dtype of the sums."""
    wide = WIDE
    for x in xs:
        wide = promote(wide, x.dtype)
    return wide


@define
def segmented_dot(x: Type, w: Type, index: Type) -> Type:
    """The products of rows with the matrices that they are numbered for.

    `f[tokens, k], f[count, k, n], i32[tokens] → f[tokens, n]`, in the dtype of x: row t is
    multiplied by `w[index[t]]`, summed in float32 or longer floats. A number beyond the last is the
    last one; the products of rows with a negative one are 0.
    """
    check_kind(x, ["float"])
    check_kind(w, ["float"])
    if (x.rank, w.rank) != (2, 3) or x.shape[1] != w.shape[1]:
        raise ShapeError(
            f"rows {x} and matrices {w} do not fit",
            fix="give rows (tokens, k) and matrices (count, k, n)",
        )
    if not all(isinstance(n, int) for n in w.shape[1:]):
        raise ShapeError(
            f"the matrices of {w} have sizes that are not known",
            fix="leave only the numbers of tokens and of matrices open",
        )
    if index.dtype.name != "int32":
        raise DtypeError(f"index is {index}", fix="give int32 numbers")
    if index.shape != x.shape[:1]:
        raise ShapeError(
            f"there are {x.shape[0]} rows, index is {index}", fix="give one number for each row"
        )
    return x.with_shape((x.shape[0], w.shape[2]))


@segmented_dot.reference
def segmented_dot_reference(x: np.ndarray, w: np.ndarray, index: np.ndarray) -> np.ndarray:
    wide, is_none = _wide(x, w), index < 0
    if not len(w):
        return np.zeros((len(x), w.shape[2]), wide)
    chosen = w[np.clip(index, 0, len(w) - 1)].astype(wide)
    return np.where(is_none[:, None], 0, np.einsum("tk,tkn->tn", x.astype(wide), chosen))


@segmented_dot.expand
def segmented_dot_expand(x: Value, w: Value, index: Value) -> Value:
    """Sums of products, where each number of a matrix is read from it: no matrix is copied."""
    wide, (tokens, k), n = _wide(x, w), x.shape, w.shape[2]
    if w.shape[0] == 0:
        return full(shape=(tokens, n), value=0.0, dtype=x.dtype)
    chosen = gather(
        w,
        reshape(index, shape=(tokens, 1)),
        offset_axes=(1, 2),
        collapsed_axes=(0,),
        start_axes=(0,),
        sizes=(1, k, n),
    )
    rows = broadcast(convert(x, dtype=wide), shape=(tokens, k, n), axes=(0, 1))
    sums = reduce_sum(mul(rows, convert(chosen, dtype=wide)), axes=(1,))
    is_there = broadcast(ge(index, like(index, 0)), shape=sums.shape, axes=(0,))
    return convert(select(is_there, sums, like(sums, 0)), dtype=x.dtype)


segmented_dot.jvp(
    [
        lambda t, out, x, w, index: segmented_dot(t, w, index),
        lambda t, out, x, w, index: segmented_dot(x, t, index),
        None,
    ]
)


@segmented_dot.transpose
def segmented_dot_transpose(ct: Value, x: Any, w: Any, index: Value) -> list[Value | None]:
    if is_linear(x):
        turned = transpose(w, axes=(0, 2, 1))
        return [segmented_dot(ct, turned, index), None, None]
    shape, wide = (*x.shape, w.shape[2]), _wide(x, w)
    rows = broadcast(convert(x, dtype=wide), shape=shape, axes=(0, 1))
    columns = broadcast(convert(ct, dtype=wide), shape=shape, axes=(0, 2))
    last = like(index, 0) if w.shape[0] == 0 else index
    sums = scatter_add(
        full(shape=w.shape, value=0.0, dtype=wide),
        reshape(last, shape=(*index.shape, 1)),
        mul(rows, columns),
        window_axes=(1, 2),
        inserted_axes=(0,),
        scatter_axes=(0,),
        mode="drop",
    )
    return [None, convert(sums, dtype=w.dtype), None]


segmented_dot.library_work(
    "direct", lambda x, w, index: 2.0 * likely(x.shape[0]) * w.shape[1] * w.shape[2]
)
_INDEX = np.array([2, 0, -1, 2], "int32")
segmented_dot.samples((4, 3), (3, 3, 5), _INDEX)
segmented_dot.samples((4, 0), (3, 0, 2), _INDEX)
segmented_dot.samples(
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    [[[1.0], [0.0]], [[10.0], [1.0]]],
    np.array([1, 0, -1], "int32"),
    expect=[[12.0], [3.0], [0.0]],
)
