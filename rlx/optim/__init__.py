"""Optimizers and learning-rate schedules on pytrees: `rlx.optim.adam(1e-3)`.

An optimizer maps gradients, its state and the parameters to updates and a new state. Read
`optimizer.py` first, then `algorithms.py`.
"""

from ..ir.lazy import listed as _listed
from . import schedules
from .algorithms import (
    adadelta,
    adafactor,
    adagrad,
    adam,
    adamax,
    adamw,
    lamb,
    lars,
    lbfgs,
    lion,
    muon,
    nadam,
    novograd,
    radam,
    rmsprop,
    sgd,
)
from .factored import (
    FactoredState,
    clip_by_block_rms,
    scale_by_factored_rms,
    scale_by_param_block_rms,
)
from .line_search import ZoomState, scale_by_zoom_linesearch, value_and_grad_from_state
from .loss_scale import (
    DynamicLossScale,
    LossScale,
    ScaledState,
    StaticLossScale,
    all_finite,
    choose,
    scaled,
)
from .moments import (
    AdaDeltaState,
    AdamState,
    LionState,
    RmsState,
    scale_by_adadelta,
    scale_by_adam,
    scale_by_adamax,
    scale_by_lion,
    scale_by_novograd,
    scale_by_radam,
    scale_by_rms,
    scale_by_rss,
    scale_by_trust_ratio,
)
from .newton_schulz import MuonState, scale_by_muon, scale_by_shape
from .optimizer import (
    CountState,
    MomentumState,
    Optimizer,
    add_decay,
    add_momentum,
    apply_updates,
    chain,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
    scale,
    scale_by_learning_rate,
    stateless,
)
from .quasi_newton import LbfgsState, scale_by_lbfgs
from .wrappers import (
    EmaState,
    LookaheadParams,
    LookaheadState,
    MaskedState,
    MultiStepsState,
    PartitionState,
    ema,
    incremental_update,
    lookahead,
    masked,
    multi_steps,
    partition,
)

from ..ir.errors import with_advice  # isort: skip

__dir__ = _listed(__name__, "schedules")

__getattr__ = with_advice(
    "rlx.optim",
    {
        "Adam": "use optim.adam, a function",
        "AdamW": "use optim.adamw, a function",
        "SGD": "use optim.sgd, a function",
        "RMSprop": "use optim.rmsprop, a function",
        "LBFGS": "use optim.lbfgs, a function",
        "MultiSteps": "use optim.multi_steps, a function",
        "multi_transform": "use optim.partition, as optax calls it now",
        "lr_scheduler": "give an optimizer a function of optim.schedules for its rate",
    },
)
