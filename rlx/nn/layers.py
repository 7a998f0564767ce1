"""Layers: modules with parameters, called with an array.

The layers of rlx take `key`, which only those use that draw random numbers; a layer of a user
need not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from .. import numpy as rnp, random
from ..ir.errors import ArgumentError
from ..trace.apply import as_tensor
from ..trace.arguments import count_of, flag, members, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.axes import integer, number, some_axes
from ..trace.make_graph import check_function
from ..trace.promotion import convert, wide_dtype
from . import initializers
from .arguments import bias_of, call_layer, check_features, drawn, scale_of
from .functional import layer_norm, relu, rms_norm
from .initializers import Initializer
from .module import Module, field


@final
class Linear(Module):
    """Linear (dense) layer, x @ weight + bias: `f32[..., in] → f32[..., out]`.

    >>> Linear(3, 2, key=random.key(0))
    Linear(weight=f32[3, 2], bias=f32[2])
    """

    weight: Array
    bias: Array | None

    def __init__(
        self,
        in_size: int,
        out_size: int,
        *,
        key: Any,
        use_bias: bool = True,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        default = initializers.lecun_normal()
        self.weight = drawn("Linear", initializer, default, key, (in_size, out_size), dtype)
        self.bias = bias_of("Linear", use_bias, out_size, dtype)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        if self.bias is None:
            return rnp.matmul(x, self.weight)
        dtype = rnp.result_type(x, self.weight, self.bias)
        y = rnp.matmul(x, self.weight, preferred_element_type=wide_dtype(dtype))
        return convert(y + self.bias, dtype)


@final
class LayerNorm(Module):
    """Layer normalization of the last axis, then times `scale` plus `bias`.

    `f32[..., size] → f32[..., size]`. From "Layer Normalization", Ba et al., 2016.

    >>> LayerNorm(2, use_bias=False)(rnp.array([1.0, 3.0])).round(3).tolist()
    [-1.0, 1.0]
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
        self.size = count_of("LayerNorm: the size", size, 1)
        self.scale = scale_of("LayerNorm", use_scale, self.size, dtype)
        self.bias = bias_of("LayerNorm", use_bias, self.size, dtype)
        self.eps = known_real("LayerNorm: eps", eps)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        scale = rnp.ones((self.size,), x.dtype) if self.scale is None else self.scale
        bias = rnp.zeros((self.size,), x.dtype) if self.bias is None else self.bias
        return layer_norm(x, scale, bias, eps=self.eps)


@final
class RMSNorm(Module):
    """RMS normalization of the last axis, then times `scale`.

    `f32[..., size] → f32[..., size]`, see `rms_norm`.
    """

    scale: Array
    eps: float = field(static=True)

    def __init__(self, size: int, *, eps: float = 1e-6, dtype: Any = "float32") -> None:
        self.scale = rnp.ones((size,), dtype)
        self.eps = eps

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return rms_norm(x, self.scale, eps=self.eps)


@final
class Dropout(Module):
    """Dropout: zeroes numbers with probability `rate`, scales others up.

    `f32[...] → f32[...]`. In training mode it needs a key, else it is an `ArgumentError`; in
    inference mode, `nn.inference(model)`, it returns the numbers as they are. Along the axes
    `broadcast_dims` all are zeroed or none, as in Flax: with (1, 2) whole channels of images.

    >>> from rlx import nn
    >>> x = rnp.ones((2, 3))
    >>> y = Dropout(0.5)(x, key=random.key(0))
    >>> nn.inference(Dropout(0.5))(x) is x
    True
    >>> y = Dropout(0.5, broadcast_dims=1)(x, key=random.key(0))
    >>> bool((y == y[:, :1]).all())
    True
    """

    rate: float = field(static=True)
    inference: bool = field(static=True)
    broadcast_dims: tuple[int, ...] = field(static=True)

    def __init__(
        self,
        rate: float = 0.5,
        *,
        broadcast_dims: int | Sequence[int] = (),
        inference: bool = False,
    ) -> None:
        if not 0 <= number("Dropout: the rate", rate) <= 1:
            raise ArgumentError(
                f"Dropout: the rate {rate} is no probability",
                fix="give a rate from 0 to 1",
            )
        self.rate = float(rate)
        self.inference = flag("Dropout: inference", inference)
        what = "Dropout: broadcast_dims"
        is_one = not isinstance(broadcast_dims, Sequence)
        axes = (broadcast_dims,) if is_one else members(what, broadcast_dims)
        self.broadcast_dims = tuple(integer(what, axis) for axis in axes)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        if self.inference or self.rate == 0:
            return x
        if key is None:
            raise ArgumentError(
                f"Dropout(rate={self.rate}) is in training mode, and was given no key",
                fix="pass key=..., a key of rlx.random, for training, or make the model\n"
                "ready for use: model = nn.inference(model)",
            )
        if self.rate == 1:
            return rnp.zeros_like(x)
        axes = some_axes("Dropout: broadcast_dims", self.broadcast_dims, x.ndim)
        shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        is_kept = random.bernoulli(key, 1 - self.rate, shape)
        return rnp.where(is_kept, x / (1 - self.rate), 0.0)


@final
class PReLU(Module):
    """PReLU: x, or a trained slope times x where x is negative.

    `f32[..., n] → f32[..., n]`. `slope` is its first value. There is one for all, or with `size`
    one for each feature, which come last. From "Delving Deep into Rectifiers", He et al., 2015.

    >>> PReLU()(rnp.array([2.0, -4.0])).tolist()
    [2.0, -1.0]
    """

    slope: Array

    def __init__(self, size: int = 1, *, slope: float = 0.25, dtype: Any = "float32") -> None:
        size = count_of("PReLU: the size", size, 1)
        self.slope = rnp.full((size,), known_real("PReLU: slope", slope), dtype)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x = as_tensor(x)
        if self.slope.shape[0] != 1:
            check_features("PReLU", x, self.slope.shape[0], 0)
        return rnp.where(x >= 0, x, x * self.slope)


@final
class Lambda(Module):
    """A `function` as a layer: `f32[...] → f32[...]`, as it maps them."""

    function: Callable[[Any], Any] = field(static=True)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return self.function(x)


@final
class Sequential(Module):
    """Layers, or functions, one after the other.

    Each gets a key of its own, if it takes one; functions and modules without `key` do not.

    >>> model = Sequential([Linear(2, 3, key=random.key(0)), relu, Dropout(0.5)])
    >>> model(rnp.ones((4, 2)), key=random.key(1)).shape
    (4, 3)
    """

    layers: tuple[Module, ...]

    def __init__(self, layers: Sequence[Any]) -> None:
        if callable(layers):
            fix = "pass a list: nn.Sequential([first, second])"
            raise wrong("Sequential: layers", layers, "a list", fix)
        layers = members("Sequential: layers", layers)
        for i, x in enumerate(layers):
            check_function(x, f"Sequential: layer {i}")
        self.layers = tuple(x if isinstance(x, Module) else Lambda(x) for x in layers)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        for i, layer in enumerate(self.layers):
            x = call_layer(layer, x, key=None if key is None else random.fold_in(key, i))
        return x


@final
class MLP(Module):
    """Multilayer perceptron: linear layers with an activation between them.

    `f32[..., sizes[0]] → f32[..., sizes[-1]]`. `activation` is a function of an array. Fewer than
    two `sizes` are an `ArgumentError`.

    >>> MLP([2, 8, 1], key=random.key(0))
    MLP(
      layers=(
        Linear(weight=f32[2, 8], bias=f32[8]),
        Linear(weight=f32[8, 1], bias=f32[1]),
      ),
      activation=relu,
    )
    """

    layers: tuple[Linear, ...]
    activation: Callable[[Any], Any] = field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        key: Any,
        activation: Callable[[Any], Any] = relu,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        check_function(activation, "MLP: the activation")
        sizes = members("MLP: sizes", sizes)
        if len(sizes) < 2:
            raise ArgumentError(
                f"MLP: {list(sizes)} has no input and output size",
                fix="give the size of the input, of each hidden layer, and of the output",
            )
        keys = random.split(key, len(sizes) - 1)
        self.layers = tuple(
            Linear(n, m, key=k, initializer=initializer, dtype=dtype)
            for n, m, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.activation = activation

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
