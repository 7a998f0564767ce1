"""A language model on two devices, for tests: how far its logits are, and how it lies there."""

from __future__ import annotations

import json
import os

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
)
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np
from small_served import small_model

import rlx


def main() -> None:
    model, ids = small_model(), [[5, 6, 7, 9]]
    wanted = np.asarray(model(ids))
    with rlx.device("xla"):
        parted = rlx.models.tensor_parallel(model, rlx.Mesh((2,), ("model",)))
        apart = np.abs(np.asarray(parted(ids)) - wanted).max()
        layer = parted.steps()._layers[0]._binding.code
    shapes = {str(x._data.addressable_shards[0].data.shape) for x in layer.executable.held}
    print(json.dumps([float(apart), sorted(shapes)]))


if __name__ == "__main__":
    main()
