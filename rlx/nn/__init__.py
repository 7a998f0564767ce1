"""Neural networks: modules as pytrees, layers, losses, initial values.

A module is a pytree whose fields are its parameters and its state; layers are made of sizes and a
key. Read `module.py`, then `layers.py` and `state.py`; convolutions and pooling are in `conv.py`,
recurrent layers in `recurrent.py`, blocks of transformers in `transformer.py`.
"""

from ..ir.lazy import listed as _listed
from . import functional, initializers, losses
from .attention import dot_product_attention
from .conv import AvgPool, Conv, ConvTranspose, MaxPool, avg_pool, max_pool, min_pool
from .filters import (
    combine,
    filter,
    is_array,
    is_inexact_array,
    is_parameter,
    partition,
    tree_at,
)
from .functional import (
    celu,
    elu,
    gelu,
    get_scaled_dot_general_config,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    layer_norm,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    log_softmax,
    logmeanexp,
    logsumexp,
    mish,
    one_hot,
    relu,
    relu6,
    rms_norm,
    scaled_dot_general,
    scaled_matmul,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    standardize,
    swish,
    tanh,
)
from .layers import MLP, Dropout, Embedding, Lambda, LayerNorm, Linear, RMSNorm, Sequential
from .module import Module, field
from .norms import BatchNorm, GroupNorm, InstanceNorm
from .quantization import dequantize, fake_quantize, quantization_scale, quantize
from .recurrent import GRU, LSTM, RNN, Bidirectional, GRUCell, LSTMCell, SimpleRNNCell
from .state import inference, latest, update_state, with_state
from .text import summary
from .transformer import (
    KVCache,
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    alibi_slopes,
    rotary_embedding,
)
from .wrappers import LoRA, Shared, SpectralNorm, WeightNorm, merge

from ..ir.errors import with_advice  # isort: skip

__dir__ = _listed(__name__, "functional", "initializers", "losses")

_LAST = "with channels last"
__getattr__ = with_advice(
    "rlx.nn",
    {
        **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), f"use nn.Conv, {_LAST}"),
        **dict.fromkeys(("ConvTranspose1d", "ConvTranspose2d"), f"use nn.ConvTranspose, {_LAST}"),
        **dict.fromkeys(("MaxPool1d", "MaxPool2d"), f"use nn.MaxPool, {_LAST}"),
        **dict.fromkeys(("AvgPool1d", "AvgPool2d"), f"use nn.AvgPool, {_LAST}"),
        **dict.fromkeys(("BatchNorm1d", "BatchNorm2d"), f"use nn.BatchNorm, {_LAST}"),
        "Dense": "use nn.Linear",
        "inference_mode": "use nn.inference(model)",
        "make_with_state": "use y, model = nn.with_state(model)(x)",
        "ReLU": "use nn.relu, a function; nn.Sequential takes functions as layers",
        "GELU": "use nn.gelu, a function; nn.Sequential takes functions as layers",
        "CrossEntropyLoss": "use nn.losses.cross_entropy",
        "MSELoss": "use nn.losses.mean_squared_error",
        "CTCLoss": "use nn.losses.ctc",
        "NLLLoss": "use nn.losses.nll",
    },
)
