"""Trees of arrays in files, and checkpoints of training.

A tree becomes arrays by dotted name, and back: in safetensors, in NumPy's format; PyTorch's is
read. No file can run code. Read `files.py` first; `contents.py` is what every format gives.
"""

from .checkpoints import Checkpoints
from .files import ArrayFile, from_bytes, load, open, save, to_bytes
from .filling import LoadReport
from .torch_files import load_torch

__all__ = [
    "ArrayFile",
    "Checkpoints",
    "LoadReport",
    "from_bytes",
    "load",
    "load_torch",
    "open",
    "save",
    "to_bytes",
]
