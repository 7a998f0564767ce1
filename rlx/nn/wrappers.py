"""Layers around a layer, or a model, whose weights they compute.

Their `merge()` gives the plain layer back, for use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from .. import numpy as rnp, random
from ..ir.errors import ArgumentError
from ..ir.types import promote
from ..trace import pytree
from ..trace.arguments import callable_of, count_of, flag, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.axes import one_axis
from ..trace.promotion import FLOAT, convert
from ..transforms.custom import stop_gradient
from . import initializers
from .arguments import call_layer
from .filters import tree_at
from .layers import Linear
from .module import Module, field, map_modules
from .state import check_is_held, latest, update_state


def _weight_of(wrapper: str, layer: Any, name: str) -> Array:
    """The array of a layer that a wrapper computes."""
    fields = pytree.fields_of(type(layer)) if isinstance(layer, Module) else None
    if fields is None:
        raise wrong(f"{wrapper}: the layer", layer, "a module", "pass a layer, such as nn.Linear")
    weight = vars(layer)[name] if name in fields.names else None
    if not isinstance(weight, Array) or weight.ndim < 1:
        raise ArgumentError(
            f"{wrapper}: {type(layer).__name__} has no array {name!r}",
            fix=f"pass its name; its arrays are in {', '.join(fields.names) or 'no field'}",
        )
    return weight


def _other_axes(weight: Any, axis: int | None) -> tuple[int, ...]:
    return tuple(i for i in range(weight.ndim) if i != axis)


@final
class WeightNorm(Module):
    """Weight normalization: the layer with the weight `w * (scale / norm(w))`.

    The weight is the field `name` of `layer`; shapes `f32[...] → f32[...]` are those of the layer.
    The norm is that of all numbers that share an index of `axis`, of all with None. Directions and
    lengths are trained apart; at first the layer is what it was. From "Weight Normalization",
    Salimans and Kingma, 2016.

    >>> layer = WeightNorm(Linear(3, 2, key=random.key(0)))
    >>> layer(rnp.ones((4, 3))).shape, layer.scale.shape
    ((4, 2), (1, 2))
    """

    layer: Module
    scale: Array
    name: str = field(static=True)
    axis: int | None = field(static=True)

    def __init__(self, layer: Module, name: str = "weight", *, axis: int | None = -1) -> None:
        weight = _weight_of("WeightNorm", layer, name)
        self.layer, self.name = layer, name
        self.axis = None if axis is None else one_axis("WeightNorm", axis, weight.ndim)
        self.scale = convert(self._norm(weight), weight.dtype)

    def _norm(self, weight: Any) -> Any:
        wide = convert(weight, promote(weight.dtype, FLOAT))
        return rnp.sqrt(rnp.sum(rnp.square(wide), _other_axes(weight, self.axis), keepdims=True))

    def merge(self) -> Any:
        """The layer with its normalized weight."""
        weight = getattr(self.layer, self.name)
        found = weight * (self.scale / self._norm(weight))
        return self.layer.replace(**{self.name: convert(found, weight.dtype)})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_layer(self.merge(), *args, **kwargs)


@final
class SpectralNorm(Module):
    """Spectral normalization: the weight divided by its largest singular value.

    The weight is the field `name` of `layer`; shapes `f32[...] → f32[...]` are those of the layer.
    It counts as a matrix with a row for each index of `axis`. In training mode each call makes
    `steps` of the power iteration that finds the value: `left` and `right` are its state, see
    `nn.with_state`. From "Spectral Normalization", Miyato et al., 2018.

    >>> from rlx import nn
    >>> layer = SpectralNorm(Linear(3, 2, key=random.key(0)), key=random.key(1))
    >>> y, layer = nn.with_state(layer)(rnp.ones((4, 3)))
    >>> float(rnp.linalg.norm(nn.inference(layer).merge().weight, 2))
    1.0...
    """

    layer: Module
    left: Array = field(state=True)
    right: Array = field(state=True)
    name: str = field(static=True)
    axis: int = field(static=True)
    steps: int = field(static=True)
    eps: float = field(static=True)
    inference: bool = field(static=True)

    def __init__(
        self,
        layer: Module,
        name: str = "weight",
        *,
        key: Any,
        axis: int = -1,
        steps: int = 1,
        eps: float = 1e-12,
        inference: bool = False,
    ) -> None:
        weight = _weight_of("SpectralNorm", layer, name)
        self.layer, self.name = layer, name
        self.axis = one_axis("SpectralNorm", axis, weight.ndim)
        self.steps = count_of("SpectralNorm: steps", steps, 1)
        self.eps = known_real("SpectralNorm: eps", eps)
        self.inference = flag("SpectralNorm: inference", inference)
        matrix = self._matrix(weight)
        first = self._unit(random.normal(key, (matrix.shape[0],), matrix.dtype))
        self.left, self.right = first, self._unit(matrix.T @ first)
        self.left, self.right = self._iterated(matrix, self.right, 15)  # as PyTorch begins

    def _matrix(self, weight: Any) -> Any:
        wide = convert(weight, promote(weight.dtype, FLOAT))
        return rnp.reshape(rnp.moveaxis(wide, self.axis, 0), (weight.shape[self.axis], -1))

    def _unit(self, x: Any) -> Any:
        return x / rnp.maximum(rnp.sqrt(rnp.sum(rnp.square(x))), self.eps)

    def _iterated(self, matrix: Any, right: Any, steps: int) -> tuple[Any, Any]:
        left = right
        for _ in range(steps):
            left = self._unit(matrix @ right)
            right = self._unit(matrix.T @ left)
        return left, right

    def merge(self) -> Any:
        """The layer with its normalized weight; no step is made."""
        return self._divided(self.left, self.right)

    def _divided(self, left: Any, right: Any) -> Any:
        weight = getattr(self.layer, self.name)
        largest = rnp.dot(left, self._matrix(weight) @ right)
        return self.layer.replace(**{self.name: convert(weight / largest, weight.dtype)})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.inference:
            return call_layer(self.merge(), *args, **kwargs)
        check_is_held(self)
        matrix = stop_gradient(self._matrix(getattr(self.layer, self.name)))
        left, right = self._iterated(matrix, latest(self).right, self.steps)
        update_state(self, left=left, right=right)
        return call_layer(self._divided(left, right), *args, **kwargs)


@final
class LoRA(Module):
    """Low-rank adaptation: `layer(x) + x @ down @ up * (alpha / rank)`.

    `f32[..., in] → f32[..., out]`. The layer is state, so it stays as it is: only `down`, f32[in,
    rank], and `up`, f32[rank, out], are trained. `up` is zero at first. `alpha` is the rank if not
    given. From "LoRA", Hu et al., 2021.

    >>> from rlx import nn
    >>> model = nn.MLP([4, 8, 2], key=random.key(0))
    >>> tuned = nn.tree_at(
    ...     lambda m: m.layers[0], model, replace_fn=lambda x: LoRA(x, 2, key=random.key(1))
    ... )
    >>> tuned.layers[0].down.shape, tuned.layers[0].merge()
    ((4, 2), Linear(weight=f32[4, 8], bias=f32[8]))
    """

    layer: Linear = field(state=True)
    down: Array
    up: Array
    factor: float = field(static=True)

    def __init__(
        self, layer: Linear, rank: int, *, key: Any, alpha: float | None = None, dtype: Any = None
    ) -> None:
        if not isinstance(layer, Linear):
            raise wrong("LoRA: the layer", layer, "an nn.Linear", "pass a linear layer")
        rank = count_of("LoRA: the rank", rank, 1)
        ins, outs = layer.weight.shape
        dtype = layer.weight.dtype if dtype is None else dtype
        self.layer = layer
        self.down = initializers.lecun_normal()(key, (ins, rank), dtype)
        self.up = rnp.zeros((rank, outs), dtype)
        self.factor = 1.0 if alpha is None else known_real("LoRA: alpha", alpha) / rank

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        y = self.layer(x)
        return y + convert((x @ self.down) @ self.up * self.factor, y.dtype)

    def merge(self) -> Linear:
        """The linear layer with the sum of both for its weight."""
        weight = self.layer.weight
        found = weight + self.down @ self.up * self.factor
        return self.layer.replace(weight=convert(found, weight.dtype))


@final
class Shared(Module):
    """Weight tying: a `model` with one part at two places, trained as one.

    `where` picks the place, as in `nn.tree_at`, and `get` what stands there, computed from the
    rest. The model holds it once, so gradients of both uses add up. It is called as the model is,
    `f32[...] → f32[...]`.

    >>> from rlx import nn
    >>> class Words(nn.Module):
    ...     embedding: nn.Embedding
    ...     head: nn.Linear
    ...     def __call__(self, index):
    ...         return self.head(self.embedding(index))
    >>> keys = random.split(random.key(0))
    >>> words = Words(nn.Embedding(9, 4, key=keys[0]), nn.Linear(4, 9, key=keys[1]))
    >>> model = Shared(words, lambda m: m.head.weight, lambda m: m.embedding.weight.T)
    >>> model(rnp.array([1, 2])).shape, model.model.head
    ((2, 9), Linear(weight=None, bias=f32[9]))
    """

    model: Any
    where: Callable[[Any], Any] = field(static=True)
    get: Callable[[Any], Any] = field(static=True)

    def __init__(self, model: Any, where: Callable[[Any], Any], get: Callable[[Any], Any]) -> None:
        self.where, self.get = callable_of("Shared: where", where), callable_of("Shared: get", get)
        places = where(model)
        nothing = (None,) * len(places) if isinstance(places, tuple) else None
        self.model = tree_at(where, model, nothing)

    def merge(self) -> Any:
        """The model with the part at both places."""
        return tree_at(self.where, self.model, self.get(self.model))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_layer(self.merge(), *args, **kwargs)


WRAPPERS = WeightNorm | SpectralNorm | LoRA | Shared


def merge(model: Any) -> Any:
    """The `model` with the plain layers that its wrappers stand for, ready for use.

    They are `WeightNorm`, `SpectralNorm`, `LoRA` and `Shared`, wherever they are in the tree.

    >>> merge([WeightNorm(Linear(3, 2, key=random.key(0)))])
    [Linear(weight=f32[3, 2], bias=f32[2])]
    """
    return map_modules(lambda x: x.merge() if isinstance(x, WRAPPERS) else x, model)
