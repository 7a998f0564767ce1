"""Neural networks: modules as pytrees, layers, losses, initial values.

Enters: keys, sizes, arrays. Leaves: modules, whose fields are their parameters, and arrays.
Knows no device. Read `module.py`, then `layers.py`; convolutions and pooling are in `conv.py`.
"""

from . import functional, initializers, losses
from .conv import AvgPool, Conv, ConvTranspose, MaxPool, avg_pool, max_pool, min_pool
from .functional import (
    celu,
    dot_product_attention,
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
from .quantization import dequantize, fake_quantize, quantization_scale, quantize
