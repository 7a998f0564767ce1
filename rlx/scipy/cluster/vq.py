"""Vector quantization."""

from __future__ import annotations

from ... import numpy as rnp
from ...ir.errors import ShapeError
from ...trace.array import Array
from ..operands import Tensor, floats


def vq(obs: Tensor, code_book: Tensor, check_finite: bool = True) -> tuple[Array, Array]:
    """Assign each row to its nearest code: the indices of the codes, the distances.

    `f32[n, m], f32[codes, m] → i32[n], f32[n]` of `obs` and `code_book`; other shapes are a
    `ShapeError`.

    >>> [x.tolist() for x in vq([[0.0, 1.0], [5.0, 5.0]], [[0.0, 0.0], [5.0, 4.0]])]
    [[0, 1], [1.0, 1.0]]
    """
    x, book = floats("vq", obs, code_book)
    if x.ndim != book.ndim or x.ndim not in (1, 2) or x.shape[1:] != book.shape[1:]:
        raise ShapeError(
            f"vq: the rows are {x.type}, the book is {book.type}",
            fix="give matrices whose rows are of one length, or two vectors of numbers",
        )
    x, book = (rnp.reshape(y, (y.shape[0], -1)) for y in (x, book))
    distances = rnp.linalg.norm(x[:, None] - book, axis=-1)
    return rnp.argmin(distances, axis=-1), rnp.min(distances, axis=-1)
