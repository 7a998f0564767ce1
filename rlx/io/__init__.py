"""Trees of arrays in files, and checkpoints of training.

A tree becomes arrays by dotted name, and back: in safetensors, in NumPy's format; PyTorch's is
read. No file can run code. Read `files.py` first; `contents.py` is what every format gives.
"""

from ..ir.lazy import listed as _listed
from .checkpoints import Checkpoints as Checkpoints
from .files import (
    ArrayFile as ArrayFile,
    from_bytes as from_bytes,
    load as load,
    open as open,
    save as save,
    to_bytes as to_bytes,
)
from .filling import LoadReport as LoadReport
from .template import ChatTemplate as ChatTemplate
from .tokenizer import Tokenizer as Tokenizer
from .torch_files import load_torch as load_torch

__all__ = [
    "ArrayFile",
    "ChatTemplate",
    "Checkpoints",
    "LoadReport",
    "Tokenizer",
    "from_bytes",
    "load",
    "load_torch",
    "open",
    "save",
    "to_bytes",
]
__dir__ = _listed(__name__)
