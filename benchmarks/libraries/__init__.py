"""The libraries that are measured, each loaded in a process of its own: `opened("jax")`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import NamedTuple

from .library import Lacks, Laid, Library

__all__ = ["PEERS", "Lacks", "Laid", "Library", "Peer", "is_installed", "opened"]


class Peer(NamedTuple):
    """A library as tables name it, and how to install it."""

    title: str
    module: str
    kind: str
    install: str


PEERS = {
    "rlx": Peer("rlx", "rlx", "Rlx", "pip install -e ."),
    "jax": Peer("JAX", "jax", "Jax", 'pip install "rlx[bench]"'),
    "torch": Peer("PyTorch", "torch", "Torch", 'pip install "rlx[bench-torch]"'),
    "torch-compiled": Peer("torch.compile", "torch", "Torch", 'pip install "rlx[bench-torch]"'),
    "mlx": Peer("MLX", "mlx", "Mlx", 'pip install "rlx[bench]"'),
    "onnxruntime": Peer(
        "ONNX Runtime", "onnxruntime", "Onnxruntime", "pip install onnx onnxruntime"
    ),
    "numpy": Peer("NumPy", "numpy", "Numpy", "pip install numpy"),
}


def is_installed(name: str) -> bool:
    """Whether the library could be opened here."""
    return importlib.util.find_spec(PEERS[name].module) is not None


def opened(name: str, precise: bool = False) -> Library:
    """The library of that name; `precise` computes in float64."""
    peer = PEERS[name]
    kind = getattr(importlib.import_module(f"{__name__}.on_{peer.module}"), peer.kind)
    made = kind(name == "torch-compiled") if peer.kind == "Torch" else kind()
    made.precise = precise
    made.wide(False)
    return made
