"""Rounding: floor, ceil, round, trunc, is_finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Value
from ..op import Op
from .families import pointwise


def _rounding(name: str, reference: Callable[..., Any], doc: str, expect: list[float]) -> Op:
    made = pointwise(
        name,
        reference,
        name,
        doc=doc,
        kinds=("float",),
        nondifferentiable="the result is constant between integers",
        samples=[
            dict(args=((2, 3),)),
            dict(args=([-1.5, -0.5, 0.5, 1.25, 2.5],), expect=expect),
        ],
    )
    made.fold(_rounded_fold)
    return made


def _rounded_fold(x: Value) -> Value | None:
    """A whole number stays."""
    return x if x.node is not None and x.node.op in (floor, ceil, round, trunc) else None


floor = _rounding("floor", np.floor, "The greatest whole number at most x.", [-2, -1, 0, 1, 2])
ceil = _rounding("ceil", np.ceil, "The least whole number at least x.", [-1, 0, 1, 2, 3])
round = _rounding("round", np.rint, "The nearest whole number; halves to even.", [-2, 0, 0, 1, 2])
trunc = _rounding("trunc", np.trunc, "The whole part, rounded toward zero.", [-1, 0, 0, 1, 2])

is_finite = pointwise(
    "is_finite",
    np.isfinite,
    "is_finite",
    doc="Whether the number is neither infinite nor NaN.",
    kinds=("float",),
    result="bool",
    nondifferentiable="the result is bool",
    samples=[
        dict(args=((2, 3),)),
        dict(args=([1.0, np.inf, np.nan],), expect=[True, False, False]),
    ],
)
