"""Initializers of parameters: functions of a key, a shape and a dtype.

`initializer(key, shape, dtype)` returns an array of this `shape`, made with the `key`; `dtype` is
float32 if neither the call nor the initializer names one. `in_axis`, `out_axis` and `batch_axis`
say which axes of the shape are inputs, outputs, and neither. The names and numbers are those of
`jax.nn.initializers`; initializers print as the calls that made them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as rnp, random
from ..ir.errors import AttributeValueError, ShapeError
from ..ir.lazy import listed
from ..ir.types import as_dtype, is_complex, is_float
from ..numpy.elementwise import named
from ..trace.array import Array
from ..trace.axes import as_shape, integer, one_axis, some_axes
from ..trace.described import described

__dir__ = listed(__name__)

Initializer = Callable[..., Array]
Axes = int | tuple[int, ...]
# the standard deviation of a normal distribution cut off at -2 and 2
TRUNCATED_DEVIATION = 0.87962566103423978
# that of a complex one cut off at size 2
COMPLEX_TRUNCATED_DEVIATION = 0.95311164380491208
MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")


def zeros(key: Any, shape: Any, dtype: Any = None) -> Array:
    """All zero."""
    return rnp.zeros(shape, _chosen(dtype))


def ones(key: Any, shape: Any, dtype: Any = None) -> Array:
    """All one."""
    return rnp.ones(shape, _chosen(dtype))


@described
def constant(value: Any, dtype: Any = None) -> Initializer:
    """All of one `value`."""
    return lambda key, shape, dtype=dtype: rnp.full(shape, value, _chosen(dtype))


@described
def uniform(scale: float = 0.01, dtype: Any = None) -> Initializer:
    """Uniform from 0 to `scale`."""
    return lambda key, shape, dtype=dtype: _drawn(random.uniform, key, shape, dtype, scale)


@described
def normal(stddev: float = 0.01, dtype: Any = None) -> Initializer:
    """Normal with the standard deviation `stddev`."""
    return lambda key, shape, dtype=dtype: _drawn(random.normal, key, shape, dtype, stddev)


@described
def truncated_normal(
    stddev: float = 0.01, dtype: Any = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Truncated normal: `stddev` times normal numbers from `lower` to `upper`."""
    usual = dtype

    def initialize(key: Any, shape: Any, dtype: Any = usual) -> Any:
        def draw(key: Any, shape: Any, dtype: Any) -> Any:
            return random.truncated_normal(key, lower, upper, shape, dtype)

        return _drawn(draw, key, shape, dtype, stddev)

    return initialize


@described
def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Variance scaling: variance `scale` / fan-in, fan-out, or their mean.

    `mode` is "fan_in", "fan_out", "fan_avg" or "fan_geo_avg"; `distribution` is "truncated_normal",
    "normal" or "uniform". Axes that are none of inputs, outputs and batch, such as those of a
    convolution's window, multiply both numbers.
    """
    _check_one_of("mode", mode, MODES)
    _check_one_of("distribution", distribution, DISTRIBUTIONS)
    usual, from_minus_one = dtype, functools.partial(random.uniform, minval=-1.0)

    def initialize(key: Any, shape: Any, dtype: Any = usual) -> Any:
        sizes = tuple(integer("a size", n) for n in as_shape(shape))
        fan_in, fan_out = _fans(sizes, in_axis, out_axis, batch_axis)
        fans = (fan_in, fan_out, (fan_in + fan_out) / 2, math.sqrt(fan_in * fan_out))
        deviation = math.sqrt(scale / max(1.0, fans[MODES.index(mode)]))
        dtype = _chosen(dtype)
        if distribution == "normal":
            return _drawn(random.normal, key, shape, dtype, deviation)
        if is_complex(dtype):
            return _in_a_circle(key, shape, dtype, distribution == "uniform") * deviation
        if distribution == "uniform":
            return _drawn(from_minus_one, key, shape, dtype, math.sqrt(3.0) * deviation)
        return truncated_normal(deviation / TRUNCATED_DEVIATION)(key, shape, dtype)

    return initialize


def _in_a_circle(key: Any, shape: Any, dtype: np.dtype, is_uniform: bool) -> Any:
    """Complex numbers of variance 1: equally likely in a circle, or normal and cut off at 2."""
    size_key, angle_key = random.split(key)
    part = as_dtype("float64" if dtype.itemsize == 16 else "float32")
    share = random.uniform(size_key, shape, part)
    if is_uniform:
        size = rnp.sqrt(2 * share)
    else:
        size = rnp.sqrt(-rnp.log1p(-(1 - math.exp(-4.0)) * share)) / COMPLEX_TRUNCATED_DEVIATION
    angle = 2 * math.pi * random.uniform(angle_key, shape, part)
    return size * rnp.exp(1j * rnp.astype(angle, dtype))


def _scaled(
    name: str, scale: float, mode: str, distribution: str, doc: str
) -> Callable[..., Initializer]:
    def function(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
    ) -> Initializer:
        axes = (in_axis, out_axis, batch_axis)
        return variance_scaling(scale, mode, distribution, *axes, dtype)

    return described(named(function, name, doc))


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


@described
def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Orthogonal: orthonormal rows or columns, whichever are fewer, times `scale`.

    All such matrices are equally likely. The columns stand along `column_axis`, the other axes
    together are the rows.
    """
    usual = dtype

    def initialize(key: Any, shape: Any, dtype: Any = usual) -> Any:
        sizes = tuple(integer("a size", n) for n in shape)
        _check_rank("orthogonal", sizes, range(2, 65))
        if 0 in sizes:
            return rnp.zeros(sizes, _chosen(dtype))
        place = one_axis("orthogonal", column_axis, len(sizes))
        others = [n for i, n in enumerate(sizes) if i != place]
        columns = sizes[place]

        def draw(key: Any, shape: Any, dtype: Any) -> Any:
            made = random.orthogonal(key, math.prod(others), (), dtype, columns)
            return rnp.moveaxis(rnp.reshape(made, (*others, columns)), -1, place)

        return _drawn(draw, key, sizes, dtype, scale)

    return initialize


@described
def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An orthogonal matrix at the middle of a convolution's window, zeros elsewhere.

    The last two axes are inputs and outputs; more inputs than outputs are a `ShapeError`. `scale`
    and `column_axis` are as for `orthogonal`. From "Dynamical Isometry and a Mean Field Theory of
    CNNs", Xiao et al., 2018.
    """
    usual = dtype

    def initialize(key: Any, shape: Any, dtype: Any = usual) -> Any:
        sizes = tuple(integer("a size", n) for n in shape)
        _check_rank("delta_orthogonal", sizes, (3, 4, 5))
        if sizes[-1] < sizes[-2]:
            raise ShapeError(
                f"delta_orthogonal: there are more inputs, {sizes[-2]}, than outputs, {sizes[-1]}",
                fix="use at least as many outputs as inputs",
            )
        matrix = orthogonal(scale, column_axis)(key, sizes[-2:], dtype)
        pads = [((n - 1) // 2, n - 1 - (n - 1) // 2) for n in sizes[:-2]]
        window = rnp.reshape(matrix, (1,) * len(pads) + sizes[-2:])
        return rnp.pad(window, [*pads, (0, 0), (0, 0)])

    return initialize


def _drawn(draw: Callable[..., Any], key: Any, shape: Any, dtype: Any, scale: float) -> Array:
    """Random numbers times a scale; floats of 8 bits are drawn as float32."""
    dtype = _chosen(dtype)
    if dtype.itemsize > 1 or not is_float(dtype):
        return draw(key, shape, dtype) * scale
    return rnp.astype(draw(key, shape, _chosen(None)) * scale, dtype)


def _chosen(dtype: Any) -> np.dtype:
    """The dtype, or float32."""
    return as_dtype("float32" if dtype is None else dtype)


def _check_rank(name: str, shape: tuple[int, ...], ranks: Sequence[int]) -> None:
    if len(shape) not in ranks:
        raise ShapeError(
            f"{name}: the shape {shape} has {len(shape)} axes",
            fix=f"give {ranks[0]} axes" + (" or more" if len(ranks) > 1 else ""),
        )


def _fans(shape: tuple[int, ...], inputs: Axes, outputs: Axes, batch: Axes) -> tuple[int, int]:
    if len(shape) < 2:
        raise ShapeError(
            f"the shape {shape} has no axes of inputs and outputs",
            fix="give two axes or more, or use initializers.normal or zeros",
        )
    name = "variance_scaling"
    groups = [some_axes(name, axes, len(shape)) for axes in (inputs, outputs, batch)]
    taken = some_axes(name, sum(groups, ()), len(shape))  # each axis stands for one thing
    window = math.prod(n for i, n in enumerate(shape) if i not in taken)
    fan_in, fan_out = (math.prod(shape[i] for i in group) for group in groups[:2])
    return fan_in * window, fan_out * window


def _check_one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in valid:
        raise AttributeValueError(
            f"variance_scaling: the {name} {value!r} does not exist",
            fix=f"use one of {', '.join(valid)}",
        )
