"""A language model whose products are parted among the devices of a mesh."""

from __future__ import annotations

from typing import Any

from ..ir.errors import AttributeValueError
from ..ir.sharding import Mesh, NamedSharding, PartitionSpec
from ..nn.blocks import BlockArray
from ..runtime.devices import device_put
from .language import LanguageModel

ROWS = ("q", "k", "v", "gate", "up", "head", "embedding")  # each device makes some features
COLUMNS = ("o", "down")  # each takes the features that it made; their sums are added up


def tensor_parallel(model: LanguageModel, mesh: Mesh, axis: str = "model") -> LanguageModel:
    """The same `model` with weights parted along an `axis` of a `mesh`, as numbers.

    Each device has some heads and some of the hidden features, and one sum for all devices ends the
    attention and the net of a layer: "Megatron-LM", Shoeybi et al., 2019. Embeddings are parted by
    tokens if their number can be. Use it where the mesh is the default device. Raises an
    `AttributeValueError` if heads or hidden features cannot be parted evenly.

    >>> import rlx
    >>> rlx.models.tensor_parallel(
    ...     rlx.models.load("model.gguf"), rlx.Mesh((2,), ("model",))
    ... )  # doctest: +SKIP
    """
    count, c = mesh.size_of(axis), model.config
    for name, size in (("heads", c.heads), ("kv_heads", c.kv_heads), ("hidden", c.hidden)):
        if size % count:
            raise AttributeValueError(
                f"tensor_parallel: {name}={size} of the model cannot be parted among {count}",
                fix="give a mesh whose axis divides heads, kv_heads and hidden",
            )

    def placed(name: str, x: Any) -> Any:
        whole = x.dequantize() if isinstance(x, BlockArray) else x
        product, _, kind = name.partition("_")
        is_bias = kind == "bias" and product in ROWS
        if (name in ROWS or is_bias) and whole.shape[0] % count == 0:
            spec = PartitionSpec(axis)
        else:
            spec = PartitionSpec(None, axis) if name in COLUMNS else PartitionSpec()
        return device_put(whole, NamedSharding(mesh, spec))

    weights = {name: placed(name, x) for name, x in model.weights.items() if name != "layers"}
    weights["layers"] = [
        {name: placed(name, x) for name, x in layer.items()} for layer in model.weights["layers"]
    ]
    return LanguageModel(c, weights, model.tokenizer, model.template, model.ends)
