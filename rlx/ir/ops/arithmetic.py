"""Pointwise arithmetic: add, sub, mul, div, neg and their like."""

from __future__ import annotations

import numpy as np

from .families import linear_in_each, pointwise

NUMBERS = ("integer", "float", "complex")

add = pointwise(
    "add",
    np.add,
    "add",
    doc="Sum of two numbers; integers wrap around.",
    operands=("x", "y"),
    kinds=NUMBERS,
    transpose=linear_in_each(lambda ct, x, y: ct, lambda ct, x, y: ct),
    samples=[dict(args=((2, 3), (2, 3))), dict(args=([1.0, 2.0], [3.0, 5.0]), expect=[4.0, 7.0])],
)
mul = pointwise(
    "mul",
    np.multiply,
    "mul",
    doc="Product of two numbers; integers wrap around.",
    operands=("x", "y"),
    kinds=NUMBERS,
    jvp=[lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t)],
    transpose=linear_in_each(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
    samples=[dict(args=((2, 3), (2, 3))), dict(args=([2.0, 3.0], [4.0, -5.0]), expect=[8.0, -15.0])],
)
