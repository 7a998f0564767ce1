"""Low-rank adapters: what fine tuning adds to the products of a language model.

"LoRA: Low-Rank Adaptation of Large Language Models", Hu et al., 2021: a product W x becomes
W x + B A x, where A and B are small. Adapters of several kinds stand in stacks, and each token has
the number of its own, so one program computes texts of different adapters, and those without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import nn, numpy as rnp
from ..ir.errors import AttributeValueError, ShapeError, StructureError
from ..ir.record import record

if TYPE_CHECKING:
    from .llama import Llama

Pair = tuple[Any, Any]  # f32[in, rank] and f32[rank, out]; or stacks of these
Stack = Mapping[str, Pair]  # of a layer: by the names of its products


@record(eq=False)
class Adapter:
    """What an adapter adds to the products of each layer.

    `layers` has a dict for each layer of the model, by the names of its products, `q`, `k`, `v`,
    `o`, `gate`, `up`, `down`: pairs of arrays f[in, rank] and f[rank, out], whose product is added
    to that of the weights. `rlx.models.load_adapter` reads one from a file.

    >>> down, up = np.ones((8, 2), "float32"), np.ones((2, 4), "float32")
    >>> Adapter([{"q": (down, up)}, {}])
    Adapter(2 layers, rank 2)
    """

    layers: Sequence[Stack]

    @property
    def rank(self) -> int:
        """The greatest rank of its pairs."""
        return max((down.shape[1] for x in self.layers for down, _ in x.values()), default=0)

    def __repr__(self) -> str:
        return f"Adapter({len(self.layers)} layers, rank {self.rank})"


class Adapted(NamedTuple):
    """Weights of a product, and what adapters add to it."""

    weights: Any
    down: Any  # f32[adapters, in, rank]
    up: Any  # f32[adapters, rank, out]
    chosen: Any  # i32[tokens]: the adapter of each, negative for none

    def change(self, x: Any) -> Any:
        """What is added to the products of rows: f32[tokens, in] gives f32[tokens, out]."""
        return nn.segmented_dot(nn.segmented_dot(x, self.down, self.chosen), self.up, self.chosen)


def adapted(layer: Mapping[str, Any], stack: Stack | None, chosen: Any) -> Mapping[str, Any]:
    """A layer whose products have for each token what its adapter adds."""
    return {
        **layer,
        **{name: Adapted(layer[name], *x, chosen) for name, x in (stack or {}).items()},
    }


def product_sizes(model: Llama) -> dict[str, tuple[int, int]]:
    """How many inputs and outputs the products have that adapters change."""
    size, queries, keys = (
        model.size,
        model.heads * model.head_size,
        model.kv_heads * model.head_size,
    )
    return {
        **{"q": (size, queries), "k": (size, keys), "v": (size, keys), "o": (queries, size)},
        **dict.fromkeys(("gate", "up"), (size, model.hidden)),
        "down": (model.hidden, size),
    }


def stacked(model: Llama, adapters: Sequence[Adapter | None], rank: int) -> list[Stack]:
    """The stacks of each layer, with room for `rank`; None leaves a place empty."""
    return [
        {
            name: _pair(sizes, [x and x.layers[layer].get(name) for x in adapters], rank)
            for name, sizes in product_sizes(model).items()
        }
        for layer in range(model.layers)
    ]


def _pair(sizes: tuple[int, int], given: Sequence[Pair | None], rank: int) -> Pair:
    down = np.zeros((len(given), sizes[0], rank), np.float32)
    up = np.zeros((len(given), rank, sizes[1]), np.float32)
    for place, pair in enumerate(given):
        if pair is not None:
            own = pair[0].shape[1]
            down[place, :, :own], up[place, :own] = (np.asarray(x) for x in pair)
    return rnp.asarray(down), rnp.asarray(up)


def check_adapter(model: Llama, adapter: Adapter, rank: int) -> None:
    """Refuse an adapter that is of another model, or of a rank above `rank`.

    Raises a `StructureError`, `ShapeError` or `AttributeValueError`.
    """
    if len(adapter.layers) != model.layers:
        raise StructureError(
            f"the adapter has {len(adapter.layers)} layers, the model {model.layers}",
            fix="give one that was trained for this model",
        )
    sizes = product_sizes(model)
    for number, layer in enumerate(adapter.layers):
        for name, (down, up) in layer.items():
            if name not in sizes:
                raise StructureError(
                    f"the adapter changes {name!r} of layer {number}",
                    fix=f"the products are {', '.join(sizes)}",
                )
            shapes, (n, m), own = (tuple(down.shape), tuple(up.shape)), sizes[name], down.shape[-1]
            if shapes != ((n, own), (own, m)):
                raise ShapeError(
                    f"the adapter has {shapes[0]} and {shapes[1]} for {name!r} of layer {number}",
                    fix=f"this model needs ({n}, rank) and (rank, {m})",
                )
    if adapter.rank > rank:
        raise AttributeValueError(
            f"the adapter has the rank {adapter.rank}, there is room for {rank}",
            fix=f"make the engine with adapter_rank={adapter.rank}",
        )
