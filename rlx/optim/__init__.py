"""Optimizers and learning-rate schedules on pytrees: `rlx.optim.adam(1e-3)`.

An optimizer maps gradients, its state and the parameters to updates and a new state. Read
`optimizer.py` first.
"""

from ..ir.lazy import listed as _listed
from . import schedules
from .loss_scale import (
    DynamicLossScale,
    LossScale,
    ScaledState,
    StaticLossScale,
    all_finite,
    choose,
    scaled,
)
from .optimizer import (
    AdamState,
    CountState,
    MomentumState,
    Optimizer,
    RmsState,
    adam,
    adamw,
    add_decay,
    add_momentum,
    apply_updates,
    chain,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
    rmsprop,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_rms,
    sgd,
    stateless,
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
        "lr_scheduler": "give an optimizer a function of optim.schedules for its rate",
    },
)
