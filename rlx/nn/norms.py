"""Normalization over batches and groups, whose features come last.

Statistics of half-size numbers are computed, and kept, in float32.
"""

from __future__ import annotations

from typing import Any, final

from .. import lax, numpy as rnp
from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import promote
from ..trace.apply import as_tensor
from ..trace.arguments import count_of, flag
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.promotion import FLOAT, convert, promote_operands, result_dtype
from ..transforms.custom import stop_gradient
from ..transforms.eager import eager
from .arguments import bias_of, scale_of
from .module import Module, field
from .state import check_is_held, latest, update_state

SHARE = 32  # a part so small of the batch tells where its numbers lie


@final
class BatchNorm(Module):
    """Batch normalization: `f32[..., size] → f32[..., size]`, features last.

    In training mode each feature is normalized over all other axes, and `mean` and `var` become
    `momentum` times what they were plus `1 - momentum` times those of the batch (as in Flax; the
    momentum of PyTorch is one minus it). `var` holds the variance times n / (n - 1), as PyTorch's.
    Its new state is what `nn.with_state` is for. In inference mode `mean` and `var` normalize.
    With `axis_name` the statistics are those of all members of a named axis of `vmap`.

    From "Batch Normalization", Ioffe and Szegedy, 2015.

    >>> import rlx
    >>> from rlx import nn
    >>> norm = BatchNorm(3)
    >>> x = rlx.random.normal(rlx.random.key(0), (8, 4, 4, 3))
    >>> y, norm = nn.with_state(norm)(x)
    >>> nn.inference(norm)(x).shape
    (8, 4, 4, 3)
    """

    scale: Array | None
    bias: Array | None
    mean: Array = field(state=True)
    var: Array = field(state=True)
    momentum: float = field(static=True)
    eps: float = field(static=True)
    axis_name: Any = field(static=True)
    inference: bool = field(static=True)

    def __init__(
        self,
        size: int,
        *,
        momentum: float = 0.99,
        eps: float = 1e-5,
        use_scale: bool = True,
        use_bias: bool = True,
        axis_name: Any = None,
        inference: bool = False,
        dtype: Any = "float32",
    ) -> None:
        size = count_of("BatchNorm: the size", size, 1)
        self.scale = scale_of("BatchNorm", use_scale, size, dtype)
        self.bias = bias_of("BatchNorm", use_bias, size, dtype)
        wide = promote(rnp.zeros((), dtype).dtype, FLOAT)
        self.mean, self.var = rnp.zeros((size,), wide), rnp.ones((size,), wide)
        self.momentum = known_real("BatchNorm: the momentum", momentum)
        self.eps = known_real("BatchNorm: eps", eps)
        self.axis_name = axis_name
        self.inference = flag("BatchNorm: inference", inference)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        _check_features("BatchNorm", x, self.mean.shape[0])
        if self.inference:
            mean, var = self.mean, self.var
        else:
            check_is_held(self)
            mean, var = self._statistics(x)
        return _normalized(x, mean, var, self.eps, self.scale, self.bias)

    def _statistics(self, x: Any) -> tuple[Any, Any]:
        """The mean and the variance of a batch, which the state takes note of."""
        count = x.size // x.shape[-1]
        axes = tuple(range(x.ndim - 1))
        mean, var = (rnp.squeeze(found, axes) for found in moments(x, axes))
        if self.axis_name is not None:
            ours, mean = mean, lax.pmean(mean, self.axis_name)
            var = lax.pmean(var + rnp.square(ours - mean), self.axis_name)
            count = lax.psum(count, self.axis_name)
        if isinstance(count, int) and count < 2:
            raise ShapeError(
                f"BatchNorm: {x.type} has one number for each feature, which has no variance",
                fix="train with batches of 2 or more, or use nn.inference(model)",
            )
        if not isinstance(count, int):  # an open size, or that of a named axis
            count = rnp.asarray(count, var.dtype)
        before, keep = latest(self), self.momentum
        unbiased = var * (count / (count - 1))
        update_state(
            self,
            mean=_moved(before.mean, mean, keep),
            var=_moved(before.var, unbiased, keep),
        )
        return mean, var


@final
class GroupNorm(Module):
    """Group normalization: `f32[batch, ..., size] → f32[batch, ..., size]`.

    Features, which come last, are split into `groups`; those of a group, at all places of a sample,
    are normalized together. A `size` that the groups do not divide is an `ArgumentError`. From
    "Group Normalization", Wu and He, 2018.

    >>> x = rnp.arange(8.0).reshape(2, 4)
    >>> GroupNorm(4, 2, eps=0.0)(x)
    Array([[-1.,  1., -1.,  1.],
           [-1.,  1., -1.,  1.]], dtype=float32)
    """

    scale: Array | None
    bias: Array | None
    size: int = field(static=True)
    groups: int = field(static=True)
    eps: float = field(static=True)

    def __init__(
        self,
        size: int,
        groups: int,
        *,
        eps: float = 1e-5,
        use_scale: bool = True,
        use_bias: bool = True,
        dtype: Any = "float32",
    ) -> None:
        self.size = count_of("GroupNorm: the size", size, 1)
        self.groups = count_of("GroupNorm: groups", groups, 1)
        if size % groups:
            raise ArgumentError(
                f"GroupNorm: {size} features cannot be parted into {groups} equal groups",
                fix="use a number of groups that divides the size",
            )
        self.eps = known_real("GroupNorm: eps", eps)
        self.scale = scale_of("GroupNorm", use_scale, size, dtype)
        self.bias = bias_of("GroupNorm", use_bias, size, dtype)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        _check_features("GroupNorm", x, self.size)
        return _normalized_groups(x, self.groups, self.eps, self.scale, self.bias)


@final
class InstanceNorm(Module):
    """Instance normalization: `f32[batch, ..., size] → f32[batch, ..., size]`.

    Each feature of each sample is normalized over all places; without places it is a `ShapeError`.
    From "Instance Normalization", Ulyanov et al., 2016.

    >>> InstanceNorm(1, eps=0.0)(rnp.array([[[1.0], [3.0]]])).tolist()
    [[[-1.0], [1.0]]]
    """

    scale: Array | None
    bias: Array | None
    size: int = field(static=True)
    eps: float = field(static=True)

    def __init__(
        self,
        size: int,
        *,
        eps: float = 1e-5,
        use_scale: bool = True,
        use_bias: bool = True,
        dtype: Any = "float32",
    ) -> None:
        self.size = count_of("InstanceNorm: the size", size, 1)
        self.eps = known_real("InstanceNorm: eps", eps)
        self.scale = scale_of("InstanceNorm", use_scale, size, dtype)
        self.bias = bias_of("InstanceNorm", use_bias, size, dtype)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        _check_features("InstanceNorm", x, self.size)
        if x.ndim < 3:
            raise ShapeError(
                f"InstanceNorm: {x.type} has no places between the samples and the features",
                fix="give one axis or more between them: f32[batch, places, features]",
            )
        mean, var = moments(x, tuple(range(1, x.ndim - 1)))
        return _normalized(x, mean, var, self.eps, self.scale, self.bias)


def _moved(before: Any, now: Any, keep: float) -> Array:
    """A running mean with another number."""
    return convert(keep * before + (1 - keep) * stop_gradient(now), before.dtype)


@eager
def moments(x: Any, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The mean and the variance along axes, which stay with size 1, from one pass.

    The sums are those of distances from the mean of a part of the numbers, at least a share p of
    them. It is no farther than sqrt(var / p) from the mean of all, so that little is cancelled
    where the distances' mean square becomes a variance, wherever the numbers lie.

    >>> [m.item() for m in moments(rnp.array([[1e4], [1e4 + 1], [1e4 + 2]]), (0,))]
    [10001.0, 0.666...]
    """
    x = convert(x, promote(x.dtype, FLOAT))
    first = x.shape[axes[0]]
    rows = max(1, first // SHARE) if isinstance(first, int) else 1
    part = lax.slice_in_dim(stop_gradient(x), 0, rows, axis=axes[0])
    center = rnp.mean(part, axes, keepdims=True)
    distance = x - center
    mean = rnp.mean(distance, axes, keepdims=True)
    var = rnp.mean(rnp.square(distance), axes, keepdims=True) - rnp.square(mean)
    below = rnp.minimum(stop_gradient(var), 0.0)  # rounding may bring a variance below zero
    return center + mean, var - below


@eager
def _normalized(x: Any, mean: Any, var: Any, eps: float, scale: Any, bias: Any) -> Array:
    """Normalize, then multiply by the scale and add the bias, if they are there."""
    factor = lax.rsqrt(var + eps) * (1.0 if scale is None else scale)
    # the mean's gradient passes through a vector that is zero: it is then a multiple of the sum of
    # cotangents that the bias needs anyway, and no third sum over the batch
    still = stop_gradient(mean)
    shift = (still - mean) * factor
    y = (x - still) * factor + (shift if bias is None else shift + bias)
    return convert(y, _dtype(x, scale, bias))


def _dtype(*operands: Any) -> Any:
    return result_dtype(*(x for x in operands if x is not None), inexact=True)


@eager
def _normalized_groups(x: Any, groups: int, eps: float, scale: Any, bias: Any) -> Array:
    """Normalize each group of features of each sample."""
    size = x.shape[-1] // groups
    parts = rnp.reshape(x, (*x.shape[:-1], groups, size))
    mean, var = moments(parts, (*range(1, x.ndim - 1), x.ndim))
    y = rnp.reshape((parts - mean) * lax.rsqrt(var + eps), x.shape)
    y = y if scale is None else y * scale
    return convert(y if bias is None else y + bias, _dtype(x, scale, bias))


def _check_features(name: str, x: Any, size: int) -> None:
    if x.ndim < 2 or x.shape[-1] != size:
        raise ShapeError(
            f"{name}: {x.type} has no last axis of {size} features after axes of batches",
            fix="put features last, as x.transpose(0, 2, 3, 1) does",
        )


def local_response_norm(
    x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    """Local response normalization: by the squares of neighboring features.

    `f32[..., n] → f32[..., n]`: `x / (k + alpha mean)^beta`, where the mean is of the squares of
    `size` features around each, zeros beyond the ends, as in PyTorch. From "ImageNet Classification
    with Deep Convolutional Neural Networks", Krizhevsky et al., 2012.

    >>> local_response_norm(rnp.array([1.0, 2.0, 2.0]), 3, 3.0, 1.0).round(3)
    Array([0.167, 0.2  , 0.222], dtype=float32)
    """
    count = count_of("local_response_norm: size", size, 1)
    given = {"alpha": alpha, "beta": beta, "k": k}
    alpha, beta, k = (known_real(f"local_response_norm: {n}", y) for n, y in given.items())
    (x,) = map(as_tensor, promote_operands(x, inexact=True))
    if not x.ndim:
        raise ShapeError(
            f"local_response_norm: {x.type} has no features", fix="give an array of (..., features)"
        )
    wide = convert(x, promote(x.dtype, FLOAT))
    pads = [(0, 0)] * (x.ndim - 1) + [(count // 2, (count - 1) // 2)]
    window, steps = (1,) * (x.ndim - 1) + (count,), (1,) * x.ndim
    total = lax.reduce_window(wide * wide, 0.0, lax.add, window, steps, pads)
    return convert(wide / (k + alpha / count * total) ** beta, x.dtype)


@final
class LocalResponseNorm(Module):
    """Local response normalization as a layer: `f32[..., n] → f32[..., n]`.

    `size`, `alpha`, `beta` and `k` are as for `local_response_norm`.

    >>> LocalResponseNorm(3)(rnp.ones((2, 4, 4, 8))).shape
    (2, 4, 4, 8)
    """

    size: int = field(static=True)
    alpha: float = field(static=True)
    beta: float = field(static=True)
    k: float = field(static=True)

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size = count_of("LocalResponseNorm: size", size, 1)
        self.alpha = known_real("LocalResponseNorm: alpha", alpha)
        self.beta = known_real("LocalResponseNorm: beta", beta)
        self.k = known_real("LocalResponseNorm: k", k)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return local_response_norm(x, self.size, self.alpha, self.beta, self.k)
