"""Models that others trained: a file comes in, text or vectors come out.

`load` opens one, `LanguageModel` writes text, `Encoder` makes vectors of it; `llama.py` and
`bert.py` have what they compute, as pure functions over a tree of weights. Read `llama.py` first,
then `steps.py` and `generation.py`.
"""

from ..ir.lazy import listed as _listed
from .encoder import Encoder as Encoder
from .generation import Completion as Completion
from .language import LanguageModel as LanguageModel
from .loading import load as load
from .lora import Adapter as Adapter
from .lora_files import load_adapter as load_adapter
from .parallel import tensor_parallel as tensor_parallel
from .pooled import Pooled as Pooled
from .sampling import Sampling as Sampling

__all__ = [
    "Adapter",
    "Completion",
    "Encoder",
    "LanguageModel",
    "Pooled",
    "Sampling",
    "load",
    "load_adapter",
    "tensor_parallel",
]
__dir__ = _listed(__name__)
