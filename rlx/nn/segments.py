"""Products of rows with matrices of their own: many adapters in one batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.errors import DtypeError
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor
from ..trace.array import Array
from ..trace.promotion import convert
from ..transforms.eager import eager


@eager
def segmented_dot(x: Any, w: Any, index: Any) -> Array:
    """Multiply each row by one of several matrices.

    `f[tokens, k], f[count, k, n], i32[tokens] → f[tokens, n]`: row t of `x` is multiplied by
    `w[index[t]]`; a number beyond the last is the last one, and a negative one gives 0. Sums are
    made in float32 or longer floats, in an order that k alone decides; returns the dtype of `x`.
    Low-rank adapters of many requests are two of these, and are exchanged, or other ones chosen,
    without a compile: they are inputs. Raises a `ShapeError` or a `DtypeError` for what does not
    fit.

    >>> down, up = np.ones((3, 8, 2), "float32"), np.ones((3, 2, 4), "float32")
    >>> x, adapters = np.ones((5, 8), "float32"), np.array([0, 2, -1, 2, 1])
    >>> segmented_dot(segmented_dot(x, down, adapters), up, adapters)[:, 0].tolist()
    [16.0, 16.0, 0.0, 16.0, 16.0]
    """
    index = as_tensor(index if hasattr(index, "dtype") else np.asarray(index))
    if index.dtype.kind not in "iu":
        raise DtypeError(f"segmented_dot: index is {index.type}", fix="give integers, int32 say")
    given = as_tensor(x), as_tensor(w), convert(index, as_dtype("int32"))
    return apply("segmented_dot", *given)
