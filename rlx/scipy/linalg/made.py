"""Matrices made from parts: block_diag, toeplitz."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import wrong_shape
from ...trace.apply import as_tensor


def block_diag(*arrs: Tensor) -> Any:
    """The matrices along a diagonal, zeros elsewhere; vectors count as rows.

    >>> block_diag([[1, 2]], 3).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    if not arrs:
        return numpy.zeros((1, 0))
    blocks = [numpy.atleast_2d(as_tensor(x)) for x in arrs]
    for x in blocks:
        if x.ndim > 2:
            what = f"{x.type} has more than two axes"
            wrong_shape("block_diag", what, *blocks, fix="give matrices, vectors or numbers")
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(numpy.pad(x, ((0, 0), (before, after))))
        before += x.shape[1]
    return numpy.concatenate(rows)


def toeplitz(c: Tensor, r: Tensor | None = None) -> Any:
    """The matrix with first column c, first row r, and equal elements on diagonals.

    r is the conjugate of c if not given; its first element does not count. Axes before the last
    are a batch.

    >>> toeplitz([1, 2, 3], [0, 8, 9]).tolist()
    [[1, 8, 9], [2, 1, 8], [3, 2, 1]]
    """
    column = numpy.atleast_1d(as_tensor(c))
    row = numpy.conj(column) if r is None else numpy.atleast_1d(as_tensor(r))
    batch = numpy.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (numpy.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row))
    m, n = column.shape[-1], row.shape[-1]
    line = numpy.concatenate([numpy.flip(column, -1), row[..., 1:]], axis=-1)
    places = m - 1 - np.arange(m, dtype="int32")[:, None] + np.arange(n, dtype="int32")
    return line[..., places]
