"""Activations and other functions without parameters, under `jax.nn`'s names.

They take and return arrays: `x` is f32[...], or of another dtype; integers become float32.
Activations work element by element; functions along `axis` keep the shape, or with `keepdims` the
rank.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.dims import Dim
from ..ir.errors import DtypeError
from ..ir.lazy import listed
from ..ir.types import as_dtype, promote
from ..scipy.operands import log1mexp as log1mexp
from ..scipy.special import logsumexp
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.arguments import choice
from ..trace.array import Array
from ..trace.array_arguments import known_real, scalar
from ..trace.axes import integer, one_axis, some_axes
from ..trace.promotion import (
    FLOAT,
    convert,
    pointwise,
    promote_operands,
    result_dtype,
    rounded_once,
)
from ..transforms.eager import eager
from .attention import dot_product_attention as dot_product_attention
from .blocks import linear as linear
from .quantization import (
    get_scaled_dot_general_config as get_scaled_dot_general_config,
    scaled_dot_general as scaled_dot_general,
    scaled_matmul as scaled_matmul,
)

__dir__ = listed(__name__)

Axis = int | tuple[int, ...] | None


def _inexact(x: Any) -> Array:
    (converted,) = promote_operands(x, inexact=True)
    return as_tensor(converted)


# -- activations --------------------------------------------------------------------------------


def identity(x: Any) -> Array:
    """Identity: x itself."""
    return as_tensor(x)


@eager
def relu(x: Any) -> Array:
    """ReLU: max(x, 0); the derivative at 0 is 0."""
    return apply("relu", as_tensor(x))


@eager
def relu6(x: Any) -> Array:
    """ReLU6: the number, at least 0 and at most 6."""
    return rnp.minimum(relu(_inexact(x)), 6.0)


@eager
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Array:
    """Leaky ReLU: the number, or `negative_slope` times it if it is negative."""
    x = _inexact(x)
    return rnp.where(x >= 0, x, x * scalar("leaky_relu: negative_slope", negative_slope))


@eager
def sigmoid(x: Any) -> Array:
    """Sigmoid (logistic function): 1 / (1 + exp(-x))."""
    return pointwise("logistic", x, name="sigmoid", inexact=True)


def tanh(x: Any, /) -> Array:
    """The hyperbolic tangent."""
    return rnp.tanh(x)


@eager
def softplus(x: Any) -> Array:
    """Softplus, a smooth ReLU: log(1 + exp(x))."""
    return apply("softplus", _inexact(x))


@eager
def log_sigmoid(x: Any) -> Array:
    """Logarithm of the sigmoid, without its underflow."""
    return -softplus(-_inexact(x))


@eager
def silu(x: Any) -> Array:
    """SiLU (swish): x times its sigmoid."""
    return apply("silu", _inexact(x))


swish = silu


@eager
def gelu(x: Any, approximate: bool = True) -> Array:
    """GELU: x times the standard normal CDF at x.

    `approximate` goes through tanh.
    """
    return apply("gelu", _inexact(x), approximate=approximate)


@eager
def mish(x: Any) -> Array:
    """Mish: x times tanh(softplus(x))."""
    return rounded_once(lambda x: x * rnp.tanh(softplus(x)), _inexact(x))


@eager
def elu(x: Any, alpha: float = 1.0) -> Array:
    """ELU: `x`, or `alpha * (exp(x) - 1)` if it is negative."""
    x, alpha = _inexact(x), scalar("elu: alpha", alpha)
    # exp of a large number that is not used would still spoil the derivative
    return rnp.where(x > 0, x, alpha * rnp.expm1(rnp.where(x > 0, 0.0, x)))


@eager
def celu(x: Any, alpha: float = 1.0) -> Array:
    """CELU: `x`, or `alpha * (exp(x / alpha) - 1)` if it is negative."""
    x, alpha = _inexact(x), scalar("celu: alpha", alpha)
    return rnp.where(x > 0, x, alpha * rnp.expm1(rnp.where(x > 0, 0.0, x) / alpha))


@eager
def selu(x: Any) -> Array:
    """SELU: the ELU whose constants keep mean 0 and variance 1 between layers."""
    alpha, scale = 1.6732632423543772848, 1.0507009873554804934
    return rounded_once(lambda x: scale * elu(x, alpha), _inexact(x))


@eager
def soft_sign(x: Any) -> Array:
    """Softsign: x / (1 + |x|)."""
    return rounded_once(lambda x: x / (1.0 + rnp.abs(x)), _inexact(x))


@eager
def hard_tanh(x: Any) -> Array:
    """Hard tanh: the number, at least -1 and at most 1."""
    x = as_tensor(x)
    return rnp.where(x > 1, 1, rnp.where(x < -1, -1, x))


@eager
def hard_sigmoid(x: Any) -> Array:
    """Hard sigmoid, of three straight lines: relu6(x + 3) / 6."""
    return rounded_once(lambda x: relu6(x + 3.0) / 6.0, _inexact(x))


@eager
def hard_silu(x: Any) -> Array:
    """Hard SiLU: the number times its hard sigmoid."""
    return rounded_once(lambda x: x * hard_sigmoid(x), _inexact(x))


hard_swish = hard_silu


@eager
def glu(x: Any, axis: int = -1) -> Array:
    """GLU (gated linear unit): half of `axis` times the sigmoid of the other half.

    `f32[..., 2 n] → f32[..., n]`.
    """
    value, gate = rnp.split(_inexact(x), 2, axis)
    return rounded_once(lambda value, gate: value * sigmoid(gate), value, gate)


@eager
def squareplus(x: Any, b: Any = 4) -> Array:
    """Squareplus, a smooth ReLU without exponentials: `(x + sqrt(x * x + b)) / 2`."""
    x, b = promote_operands(x, b, inexact=True)
    return rounded_once(lambda x, b: (x + rnp.sqrt(rnp.square(x) + b)) / 2, x, b)


def sparse_plus(x: Any) -> Array:
    """Sparse plus, a smooth ReLU: 0 below -1, x above 1, a parabola between."""
    x = _inexact(x)
    return rnp.where(x <= -1, 0.0, rnp.where(x >= 1, x, rnp.square(x + 1) / 4))


def sparse_sigmoid(x: Any) -> Array:
    """Sparse sigmoid, the derivative of `sparse_plus`: a line between 0 and 1."""
    return 0.5 * rnp.clip(_inexact(x) + 1, 0.0, 2.0)


# -- along axes ---------------------------------------------------------------------------------


@eager
def softmax(x: Any, axis: Axis = -1, where: Any = None) -> Array:
    """Softmax: exp(x) divided by its sum along axes; None means all axes.

    Elements where `where` is false do not count and become 0.
    """
    x = _inexact(x)
    axes = some_axes("softmax", axis, x.ndim)
    if where is None:
        return apply("softmax", x, axes=axes)
    return rnp.where(where, apply("softmax", _masked(x, where), axes=axes), 0.0)


@eager
def log_softmax(x: Any, axis: Axis = -1, where: Any = None) -> Array:
    """The logarithm of the softmax, without its underflow.

    Elements where `where` is false do not count and become -inf.
    """
    x = _inexact(x)
    axes = some_axes("log_softmax", axis, x.ndim)
    if where is None:
        return apply("log_softmax", x, axes=axes)
    return rnp.where(where, apply("log_softmax", _masked(x, where), axes=axes), -math.inf)


def _masked(x: Any, where: Any) -> Array:
    """The least number where `where` is false; -inf would make NaN in an empty row."""
    return rnp.where(where, x, float(rnp.finfo(x.dtype).min))


def logmeanexp(x: Any, axis: Axis = None, where: Any = None, keepdims: bool = False) -> Array:
    """The logarithm of the mean of exp(x) along axes, without overflow.

    With `keepdims` the axes stay, of size 1. Elements where `where` is false do not count.

    >>> logmeanexp([1000.0, 1000.0])
    Array(1000., dtype=float32)
    """

    def mean(x: Any) -> Any:
        total = logsumexp(x, axis, keepdims=keepdims, where=where)
        counted = rnp.ones_like(x) if where is None else rnp.where(where, rnp.ones_like(x), 0.0)
        return total - rnp.log(rnp.sum(counted, axis, keepdims=keepdims))

    return rounded_once(mean, _inexact(x))


@eager
def standardize(
    x: Any,
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """Standardize: subtract the mean, and divide by the standard deviation.

    Returns the shape of `x`. They are those along `axis`; a `mean` or `variance` that is given is
    not computed. `epsilon` is added to the variance. Only elements where `where` is true count.
    `algorithm` may be "fast" or "stable"; both are the stable one. Half-size numbers are computed
    in float32.
    """
    choice("standardize: algorithm", algorithm, ("fast", "stable"))
    epsilon = scalar("standardize: epsilon", epsilon)
    x = _inexact(x)
    mean, variance = (y if y is None else as_operand(y) for y in (mean, variance))
    given = [y for y in (mean, variance) if y is not None]
    dtype = result_dtype(x, *given)
    wide = convert(x, promote(x.dtype, FLOAT))
    mean = rnp.mean(wide, axis, keepdims=True, where=where) if mean is None else mean
    if variance is None:
        square = rnp.square(wide - mean)
        variance = rnp.mean(square, axis, keepdims=True, where=where)
    return convert((wide - mean) / rnp.sqrt(variance + epsilon), dtype)


@eager
def layer_norm(x: Any, scale: Any, bias: Any, *, eps: float = 1e-5) -> Array:
    """Layer normalization of the last axis, then times `scale` plus `bias`.

    `x` has shape (..., n), the other two (n,). `eps` is added to the variance. From "Layer
    Normalization", Ba et al., 2016.

    >>> layer_norm([1.0, 3.0], [1.0, 1.0], [0.0, 1.0], eps=0.0)
    Array([-1.,  2.], dtype=float32)
    """
    x, scale, bias = map(as_tensor, promote_operands(x, scale, bias, inexact=True))
    return apply("layer_norm", x, scale, bias, eps=known_real("eps", eps))


@eager
def rms_norm(x: Any, scale: Any, *, eps: float = 1e-6) -> Array:
    """RMS normalization of the last axis, then times `scale`.

    `x` has shape (..., n), `scale` (n,). `eps` is added to the mean square. From "Root Mean Square
    Layer Normalization", Zhang and Sennrich, 2019.

    >>> rms_norm([1.0, 7.0], [1.0, 5.0], eps=0.0)
    Array([0.2, 7. ], dtype=float32)
    """
    x, scale = map(as_tensor, promote_operands(x, scale, inexact=True))
    return apply("rms_norm", x, scale, eps=known_real("eps", eps))


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """One-hot encoding: 1 at the label's place on a new axis, else 0.

    `i32[...] → f32[..., num_classes]`, with the new axis at `axis`. `dtype` is float32 if not
    given. Labels outside of the classes give zeros.

    >>> one_hot([1, 0], 3)
    Array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    labels, what = as_tensor(x), "one_hot: num_classes"
    place = one_axis("one_hot", axis, labels.ndim + 1)
    return apply(
        "one_hot",
        labels,
        size=num_classes if isinstance(num_classes, Dim) else integer(what, num_classes),
        dtype=FLOAT if dtype is None else as_dtype(dtype),
        axis=place,
    )


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
    if index.dtype.itemsize >= 4 and index.dtype != np.int32:  # none comes to be another's number
        index = rnp.clip(index, -1 if index.dtype.kind == "i" else 0, 2**31 - 1)
    given = as_tensor(x), as_tensor(w), convert(index, as_dtype("int32"))
    return apply("segmented_dot", *given)
