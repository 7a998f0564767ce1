"""Layers: modules with parameters, called with an array.

Every layer takes `key`, which only those use that draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from .. import numpy as rnp, random
from ..ir.errors import ArgumentError
from ..trace.apply import as_tensor
from ..trace.arguments import flag, members, wrong
from ..trace.array import Array
from ..trace.axes import number
from ..trace.make_graph import check_function
from ..trace.promotion import convert, wide_dtype
from . import initializers
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
        initializer = initializer or initializers.lecun_normal()
        self.weight = initializer(key, (in_size, out_size), dtype)
        self.bias = rnp.zeros((out_size,), dtype) if use_bias else None

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        if self.bias is None:
            return rnp.matmul(x, self.weight)
        dtype = rnp.result_type(x, self.weight, self.bias)
        y = rnp.matmul(x, self.weight, preferred_element_type=wide_dtype(dtype))
        return convert(y + self.bias, dtype)


@final
class Embedding(Module):
    """Embedding: a row of a table for each index: `i32[...] → f32[..., size]`.

    The table has `count` rows.
    """

    weight: Array

    def __init__(
        self,
        count: int,
        size: int,
        *,
        key: Any,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        initializer = initializer or initializers.normal(1.0)
        self.weight = initializer(key, (count, size), dtype)

    def __call__(self, index: Any, *, key: Any = None) -> Array:
        return rnp.take(self.weight, index, axis=0)


@final
class LayerNorm(Module):
    """Layer normalization of the last axis, then times `scale` plus `bias`.

    `f32[..., size] → f32[..., size]`, see `layer_norm`.
    """

    scale: Array
    bias: Array
    eps: float = field(static=True)

    def __init__(self, size: int, *, eps: float = 1e-5, dtype: Any = "float32") -> None:
        self.scale = rnp.ones((size,), dtype)
        self.bias = rnp.zeros((size,), dtype)
        self.eps = eps

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return layer_norm(x, self.scale, self.bias, eps=self.eps)


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
    inference mode, `nn.inference(model)`, it returns the numbers as they are.

    >>> from rlx import nn
    >>> x = rnp.ones((2, 3))
    >>> y = Dropout(0.5)(x, key=random.key(0))
    >>> nn.inference(Dropout(0.5))(x) is x
    True
    """

    rate: float = field(static=True)
    inference: bool = field(static=True)

    def __init__(self, rate: float = 0.5, *, inference: bool = False) -> None:
        if not 0 <= number("Dropout: the rate", rate) <= 1:
            raise ArgumentError(
                f"Dropout: the rate {rate} is no probability",
                fix="give a rate from 0 to 1",
            )
        self.rate = float(rate)
        self.inference = flag("Dropout: inference", inference)

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
        is_kept = random.bernoulli(key, 1 - self.rate, x.shape)
        return rnp.where(is_kept, x / (1 - self.rate), 0.0)


@final
class Lambda(Module):
    """A `function` as a layer: `f32[...] → f32[...]`, as it maps them."""

    function: Callable[[Any], Any] = field(static=True)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return self.function(x)


@final
class Sequential(Module):
    """Layers, or functions, one after the other; each gets a key of its own."""

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
            # a module need not be callable; __init__ has checked that these are
            x = layer(x, key=None if key is None else random.fold_in(key, i))  # type: ignore[operator]
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

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
