"""Neural networks: modules as pytrees, layers, losses, initial values.

A module is a pytree whose fields are its parameters and its state; layers are made of sizes and a
key. Read `module.py`, then `layers.py` and `state.py`; convolutions are in `conv.py`, pooling in
`pooling.py`, recurrent layers in `recurrent.py`, blocks of transformers in `transformer.py`.

These parameters of layers mean the same everywhere:

- `in_size`, `out_size`, `size`: the number of features, which are on the last axis, of the inputs,
  of the outputs, of both.
- `key`: a key of `rlx.random` for the initial weights; in a call, one for dropout.
- `initializer`: makes the weights, see `nn.initializers`; without one the layer chooses.
- `use_bias`, `use_scale`: whether the layer has such parameters.
- `dtype`: that of its parameters.
- `eps`: a small number that is added to a variance or norm before dividing by it.
- `inference`: whether the layer begins in inference mode, see `nn.inference`.

Functions take `x`, an array or number, f32[...] say, and return one of its shape and dtype, or
float32 for integers; those along an `axis` are of the last one if not said otherwise. Arrays of a
wrong shape are a `ShapeError`, those of a wrong dtype a `DtypeError`.
"""

from ..ir.lazy import listed as _listed
from . import (
    functional as functional,
    initializers as initializers,
    losses as losses,
    masks as masks,
)
from .attention import dot_product_attention as dot_product_attention
from .blocks import (
    BlockArray as BlockArray,
    dequantize_blocks as dequantize_blocks,
    linear as linear,
    quantize_blocks as quantize_blocks,
)
from .conv import Conv as Conv, ConvTranspose as ConvTranspose
from .embedding import Embedding as Embedding, EmbeddingBag as EmbeddingBag
from .filters import (
    combine as combine,
    filter as filter,
    is_array as is_array,
    is_inexact_array as is_inexact_array,
    is_parameter as is_parameter,
    partition as partition,
    tree_at as tree_at,
)
from .functional import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    get_scaled_dot_general_config as get_scaled_dot_general_config,
    glu as glu,
    hard_sigmoid as hard_sigmoid,
    hard_silu as hard_silu,
    hard_swish as hard_swish,
    hard_tanh as hard_tanh,
    identity as identity,
    layer_norm as layer_norm,
    leaky_relu as leaky_relu,
    log1mexp as log1mexp,
    log_sigmoid as log_sigmoid,
    log_softmax as log_softmax,
    logmeanexp as logmeanexp,
    logsumexp as logsumexp,
    mish as mish,
    one_hot as one_hot,
    relu as relu,
    relu6 as relu6,
    rms_norm as rms_norm,
    scaled_dot_general as scaled_dot_general,
    scaled_matmul as scaled_matmul,
    segmented_dot as segmented_dot,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    soft_sign as soft_sign,
    softmax as softmax,
    softplus as softplus,
    sparse_plus as sparse_plus,
    sparse_sigmoid as sparse_sigmoid,
    squareplus as squareplus,
    standardize as standardize,
    swish as swish,
    tanh as tanh,
)
from .layers import (
    MLP as MLP,
    Dropout as Dropout,
    Lambda as Lambda,
    LayerNorm as LayerNorm,
    Linear as Linear,
    PReLU as PReLU,
    RMSNorm as RMSNorm,
    Sequential as Sequential,
)
from .masks import alibi_slopes as alibi_slopes
from .module import Module as Module, field as field
from .norms import (
    BatchNorm as BatchNorm,
    GroupNorm as GroupNorm,
    InstanceNorm as InstanceNorm,
    LocalResponseNorm as LocalResponseNorm,
    local_response_norm as local_response_norm,
)
from .paged import (
    KVPages as KVPages,
    empty_pages as empty_pages,
    paged_attention as paged_attention,
    paged_write as paged_write,
)
from .pooling import (
    AdaptiveAvgPool as AdaptiveAvgPool,
    AdaptiveMaxPool as AdaptiveMaxPool,
    AvgPool as AvgPool,
    LPPool as LPPool,
    MaxPool as MaxPool,
    adaptive_avg_pool as adaptive_avg_pool,
    adaptive_max_pool as adaptive_max_pool,
    avg_pool as avg_pool,
    global_avg_pool as global_avg_pool,
    global_max_pool as global_max_pool,
    lp_pool as lp_pool,
    max_pool as max_pool,
    min_pool as min_pool,
)
from .quantization import (
    dequantize as dequantize,
    fake_quantize as fake_quantize,
    quantization_scale as quantization_scale,
    quantize as quantize,
)
from .recurrent import (
    GRU as GRU,
    LSTM as LSTM,
    RNN as RNN,
    Bidirectional as Bidirectional,
    GRUCell as GRUCell,
    LSTMCell as LSTMCell,
    SimpleRNNCell as SimpleRNNCell,
)
from .resizing import (
    Fold as Fold,
    PixelShuffle as PixelShuffle,
    PixelUnshuffle as PixelUnshuffle,
    Unfold as Unfold,
    Upsample as Upsample,
    fold as fold,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    unfold as unfold,
)
from .state import (
    inference as inference,
    latest as latest,
    update_state as update_state,
    with_state as with_state,
)
from .text import summary as summary
from .transformer import (
    KVCache as KVCache,
    MultiHeadAttention as MultiHeadAttention,
    TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerEncoderLayer as TransformerEncoderLayer,
    rotary_embedding as rotary_embedding,
)
from .wrappers import (
    LoRA as LoRA,
    Shared as Shared,
    SpectralNorm as SpectralNorm,
    WeightNorm as WeightNorm,
    merge as merge,
)

from typing import TYPE_CHECKING  # isort: skip

from ..ir.errors import with_advice as _with_advice  # isort: skip

__dir__ = _listed(__name__, "functional", "initializers", "losses")

_LAST = "with channels last"
_OF_ANY_RANK = (
    "Conv ConvTranspose MaxPool AvgPool LPPool AdaptiveMaxPool AdaptiveAvgPool BatchNorm "
    "InstanceNorm"
).split()
if not TYPE_CHECKING:  # which would take every name for one of the module
    __getattr__ = _with_advice(
        "rlx.nn",
        {
            **{
                f"{name}{n}d": f"use nn.{name}, {_LAST}" for name in _OF_ANY_RANK for n in (1, 2, 3)
            },
            **dict.fromkeys(
                ("Dropout1d", "Dropout2d"), "use nn.Dropout with broadcast_dims=(1, 2)"
            ),
            "Identity": "use nn.identity, a function; nn.Sequential takes functions as layers",
            "Flatten": "use a function: lambda x: x.reshape(len(x), -1)",
            "Embed": "use nn.Embedding",
            "Dense": "use nn.Linear",
            "inference_mode": "use nn.inference(model)",
            "make_with_state": "use y, model = nn.with_state(model)(x)",
            **{
                name: f"use nn.{name.lower()}, a function; nn.Sequential takes functions as layers"
                for name in ("ReLU", "GELU", "ELU", "Softmax", "Softplus")
            },
            **dict.fromkeys(
                ("TransformerEncoder", "TransformerDecoder"),
                "a tuple of nn.TransformerEncoderLayer, or of TransformerDecoderLayer",
            ),
            "MultiheadAttention": "use nn.MultiHeadAttention",
            "BCEWithLogitsLoss": "use nn.losses.binary_cross_entropy",
            "CrossEntropyLoss": "use nn.losses.cross_entropy",
            "MSELoss": "use nn.losses.mean_squared_error",
            "CTCLoss": "use nn.losses.ctc",
            "NLLLoss": "use nn.losses.nll",
            **dict.fromkeys(
                ("Sigmoid", "Tanh", "SiLU"), "use the function: nn.sigmoid, nn.tanh, nn.silu"
            ),
            "Parameter": "declare a field of the class, weight: rlx.Array",
            "ModuleList": "a field may hold a list or a tuple of modules",
            "init": "use nn.initializers",
        },
    )
