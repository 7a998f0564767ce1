"""Products with logarithms that are 0 at 0, and the logit."""

from __future__ import annotations

import math

import numpy as np

from ...graph import Value
from ..arithmetic import div, mul
from ..compare import bit_and, eq, select
from ..constant import like
from ..exponential import log, log1p
from .family import composite

# in float32, where the audit takes no slopes
_ZERO, _ONE, _NAN = np.float32(0), np.float32(1), np.float32(math.nan)


def _product_expansion(x: Value, y: Value, logarithm: Value) -> Value:
    """x * logarithm, and 0 at x = 0 unless y is NaN."""
    is_zero = bit_and(eq(x, like(x, 0)), eq(y, y))
    return select(is_zero, like(x, 0), mul(x, logarithm))


xlogy = composite(
    "xlogy",
    lambda x, y: _product_expansion(x, y, log(y)),
    doc="x * log(y), and 0 at x = 0 unless y is NaN.",
    operands=("x", "y"),
    jvp=[lambda t, out, x, y: mul(t, log(y)), lambda t, out, x, y: mul(t, div(x, y))],
    samples=[
        dict(args=((2, 3), (2, 3)), low=0.1),
        dict(args=([2.0], [3.0]), expect=[2 * math.log(3.0)]),
        dict(args=([_ZERO] * 3, [_ZERO, _NAN, -_ONE]), expect=[0.0, math.nan, 0.0]),
    ],
)
xlog1py = composite(
    "xlog1py",
    lambda x, y: _product_expansion(x, y, log1p(y)),
    doc="x * log(1 + y), and 0 at x = 0 unless y is NaN.",
    operands=("x", "y"),
    jvp=[lambda t, out, x, y: mul(t, log1p(y)), lambda t, out, x, y: mul(t, div(x, y + 1))],
    samples=[
        dict(args=((2, 3), (2, 3)), low=-0.5),
        dict(args=([2.0], [1e-20]), expect=[2e-20]),
        dict(args=([_ZERO] * 3, [-_ONE, _NAN, -2 * _ONE]), expect=[0.0, math.nan, 0.0]),
    ],
)
xlogx = composite(
    "xlogx",
    lambda x: xlogy(x, x),
    doc="x * log(x), and 0 at 0, where the derivative is -inf.",
    jvp=[lambda t, out, x: mul(t, log(x) + 1)],
    samples=[
        dict(args=((2, 3),), low=0.1),
        dict(args=([0.0, 2.0],), expect=[0.0, 2 * math.log(2.0)]),
    ],
)
logit = composite(
    "logit",
    lambda x: log(div(x, 1 - x)),
    doc="log(x / (1 - x)), the inverse of the logistic function; infinite at 0 and 1.",
    jvp=[lambda t, out, x: div(t, mul(x, 1 - x))],
    samples=[
        dict(args=((2, 3),), low=0.1, high=0.9),
        dict(args=([0.0, 0.5, 0.75, 1.0],), expect=[-math.inf, 0.0, math.log(3.0), math.inf]),
    ],
)
