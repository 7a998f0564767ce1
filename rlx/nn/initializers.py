"""Initial values of parameters: functions of a key, a shape and a dtype.

Enters: `initializer(key, shape, dtype)`. Leaves: an array. The names and numbers are those of
`jax.nn.initializers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import numpy as rnp
from .. import random
from ..ir.builder import user_source
from ..ir.errors import AttributeValueError, ShapeError
from ..numpy.reductions import named
from ..trace.axes import integer, some_axes

Initializer = Callable[..., Any]
Axes = int | tuple[int, ...]
# the standard deviation of a normal distribution cut off at -2 and 2
TRUNCATED_DEVIATION = 0.87962566103423978
MODES = ("fan_in", "fan_out", "fan_avg")
DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")


def zeros(key: Any, shape: Any, dtype: Any = "float32") -> Any:
    """All zero."""
    return rnp.zeros(shape, dtype)


def ones(key: Any, shape: Any, dtype: Any = "float32") -> Any:
    """All one."""
    return rnp.ones(shape, dtype)


def constant(value: Any, dtype: Any = "float32") -> Initializer:
    """All of one value."""
    return lambda key, shape, dtype=dtype: rnp.full(shape, value, dtype)


def uniform(scale: float = 0.01, dtype: Any = "float32") -> Initializer:
    """Equally likely from 0 to `scale`."""
    return lambda key, shape, dtype=dtype: random.uniform(key, shape, dtype) * scale


def normal(stddev: float = 0.01, dtype: Any = "float32") -> Initializer:
    """Normal with a standard deviation."""
    return lambda key, shape, dtype=dtype: random.normal(key, shape, dtype) * stddev


def truncated_normal(
    stddev: float = 0.01, dtype: Any = "float32", lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Normal, cut off at so many standard deviations."""
    usual = dtype

    def initialize(key: Any, shape: Any, dtype: Any = usual) -> Any:
        return random.truncated_normal(key, lower, upper, shape, dtype) * stddev

    return initialize


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = "float32",
) -> Initializer:
    """Variance `scale` divided by the number of inputs, outputs, or their mean.

    Axes that are none of inputs, outputs and batch, such as those of a convolution's window,
    multiply both numbers.
    """
    _check_one_of("mode", mode, MODES)
    _check_one_of("distribution", distribution, DISTRIBUTIONS)
    usual = dtype

    def initialize(key: Any, shape: Any, dtype: Any = usual) -> Any:
        sizes = tuple(integer("a size", n) for n in shape)
        fan_in, fan_out = _fans(sizes, in_axis, out_axis, batch_axis)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        variance = scale / max(1.0, fan)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, -1.0) * math.sqrt(3 * variance)
        if distribution == "normal":
            return normal(math.sqrt(variance))(key, shape, dtype)
        return truncated_normal(math.sqrt(variance) / TRUNCATED_DEVIATION)(key, shape, dtype)

    return initialize


def _scaled(
    name: str, scale: float, mode: str, distribution: str, doc: str
) -> Callable[..., Initializer]:
    def function(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = "float32"
    ) -> Initializer:
        axes = (in_axis, out_axis, batch_axis)
        return variance_scaling(scale, mode, distribution, *axes, dtype)

    return named(function, name, doc)


GLOROT = "with variance 2 / (inputs + outputs), for tanh and linear layers."
LECUN = "with variance 1 / inputs, which keeps the variance from layer to layer."
HE = "with variance 2 / inputs, for relu."
CUT = "truncated_normal"
glorot_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", f"Uniform {GLOROT}")
glorot_normal = _scaled("glorot_normal", 1.0, "fan_avg", CUT, f"Normal {GLOROT}")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", f"Uniform {LECUN}")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", CUT, f"Normal {LECUN}")
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", f"Uniform {HE}")
he_normal = _scaled("he_normal", 2.0, "fan_in", CUT, f"Normal {HE}")
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def _fans(shape: tuple[int, ...], inputs: Axes, outputs: Axes, batch: Axes) -> tuple[int, int]:
    if len(shape) < 2:
        raise ShapeError(
            f"the shape {shape} has no axes of inputs and outputs",
            where=str(user_source()),
            fix="give two axes or more, or use initializers.normal or zeros",
        )
    name = "variance_scaling"
    groups = [some_axes(name, axes, len(shape)) for axes in (inputs, outputs, batch)]
    taken = some_axes(name, sum(groups, ()), len(shape))  # each axis stands for one thing
    window = math.prod(n for i, n in enumerate(shape) if i not in taken)
    fan_in, fan_out = (math.prod(shape[i] for i in group) for group in groups[:2])
    return fan_in * window, fan_out * window


def _check_one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise AttributeValueError(
            f"variance_scaling: the {name} {value!r} does not exist",
            where=str(user_source()),
            fix=f"use one of {', '.join(valid)}",
        )
