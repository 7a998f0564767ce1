"""Optimizers and learning-rate schedules on pytrees: `rlx.optim.adam(1e-3)`.

An optimizer maps gradients, its state and the parameters to updates and a new state. Read
`optimizer.py` first, then `algorithms.py` and `adaptive.py`.

These parameters mean the same everywhere; g is the gradient, p a parameter, t the step:

- `learning_rate`: a number, or a schedule: a function of the step, from 0 on.
- `b1`, `b2`: how much of the running means of gradients, and of their squares, each step keeps.
- `eps`, `eps_root`: small numbers added to a denominator, and under its root.
- `weight_decay`: that times p is added to g, or for AdamW and its like to the update.
- `mask`, `weight_decay_mask`: which parameters decay: a tree of bools like the parameters, or a
  function of them that returns one. State of modules never does.
- `nesterov`: look one step ahead, as Nesterov's momentum does.
- `params`, `updates`, `tree`: pytrees of arrays.
"""

from ..ir.lazy import listed as _listed
from . import schedules as schedules
from .adaptive import (
    adabelief as adabelief,
    adam as adam,
    adamax as adamax,
    adamaxw as adamaxw,
    adamw as adamw,
    adan as adan,
    ademamix as ademamix,
    adopt as adopt,
    amsgrad as amsgrad,
    lamb as lamb,
    nadam as nadam,
    nadamw as nadamw,
    novograd as novograd,
    radam as radam,
    yogi as yogi,
)
from .algorithms import (
    adadelta as adadelta,
    adafactor as adafactor,
    adagrad as adagrad,
    fromage as fromage,
    lars as lars,
    lbfgs as lbfgs,
    lion as lion,
    muon as muon,
    noisy_sgd as noisy_sgd,
    optimistic_gradient_descent as optimistic_gradient_descent,
    polyak_sgd as polyak_sgd,
    rmsprop as rmsprop,
    rprop as rprop,
    sgd as sgd,
    sign_sgd as sign_sgd,
    signum as signum,
    sm3 as sm3,
)
from .averaged import (
    ScheduleFreeState as ScheduleFreeState,
    schedule_free as schedule_free,
    schedule_free_adamw as schedule_free_adamw,
    schedule_free_eval_params as schedule_free_eval_params,
    schedule_free_sgd as schedule_free_sgd,
)
from .estimated_rates import (
    COCOBState as COCOBState,
    DAdaptAdamWState as DAdaptAdamWState,
    MechanicState as MechanicState,
    ProdigyState as ProdigyState,
    cocob as cocob,
    dadapt_adamw as dadapt_adamw,
    mechanize as mechanize,
    prodigy as prodigy,
    scale_by_cocob as scale_by_cocob,
)
from .factored import (
    FactoredState as FactoredState,
    clip_by_block_rms as clip_by_block_rms,
    scale_by_factored_rms as scale_by_factored_rms,
    scale_by_param_block_rms as scale_by_param_block_rms,
)
from .hyperparameters import (
    InjectHyperparamsState as InjectHyperparamsState,
    inject_hyperparams as inject_hyperparams,
)
from .line_search import (
    ZoomState as ZoomState,
    scale_by_zoom_linesearch as scale_by_zoom_linesearch,
    value_and_grad_from_state as value_and_grad_from_state,
)
from .loss_scale import (
    DynamicLossScale as DynamicLossScale,
    LossScale as LossScale,
    ScaledState as ScaledState,
    StaticLossScale as StaticLossScale,
    all_finite as all_finite,
    choose as choose,
    scaled as scaled,
)
from .moments import (
    AdaDeltaState as AdaDeltaState,
    AdamState as AdamState,
    LionState as LionState,
    RmsState as RmsState,
    scale_by_adadelta as scale_by_adadelta,
    scale_by_adam as scale_by_adam,
    scale_by_adamax as scale_by_adamax,
    scale_by_lion as scale_by_lion,
    scale_by_novograd as scale_by_novograd,
    scale_by_radam as scale_by_radam,
    scale_by_rms as scale_by_rms,
    scale_by_rss as scale_by_rss,
    scale_by_trust_ratio as scale_by_trust_ratio,
)
from .newton_schulz import (
    MuonState as MuonState,
    scale_by_muon as scale_by_muon,
    scale_by_shape as scale_by_shape,
)
from .optimizer import (
    CountState as CountState,
    MomentumState as MomentumState,
    Optimizer as Optimizer,
    adaptive_grad_clip as adaptive_grad_clip,
    add_decay as add_decay,
    add_momentum as add_momentum,
    apply_updates as apply_updates,
    chain as chain,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_value as clip_by_value,
    global_norm as global_norm,
    scale as scale,
    scale_by_learning_rate as scale_by_learning_rate,
    stateless as stateless,
)
from .plateau import (
    ReduceLROnPlateauState as ReduceLROnPlateauState,
    reduce_on_plateau as reduce_on_plateau,
)
from .quasi_newton import LbfgsState as LbfgsState, scale_by_lbfgs as scale_by_lbfgs
from .second_moments import (
    AdanState as AdanState,
    AdemamixState as AdemamixState,
    AmsgradState as AmsgradState,
    StddevState as StddevState,
    scale_by_adan as scale_by_adan,
    scale_by_ademamix as scale_by_ademamix,
    scale_by_adopt as scale_by_adopt,
    scale_by_amsgrad as scale_by_amsgrad,
    scale_by_belief as scale_by_belief,
    scale_by_stddev as scale_by_stddev,
    scale_by_yogi as scale_by_yogi,
)
from .sharpness import SamState as SamState, normalize as normalize, sam as sam
from .steps import (
    NoiseState as NoiseState,
    OptimisticState as OptimisticState,
    RpropState as RpropState,
    Sm3State as Sm3State,
    add_noise as add_noise,
    scale_by_optimistic_gradient as scale_by_optimistic_gradient,
    scale_by_polyak as scale_by_polyak,
    scale_by_rprop as scale_by_rprop,
    scale_by_sign as scale_by_sign,
    scale_by_sm3 as scale_by_sm3,
    set_to_zero as set_to_zero,
)
from .wrappers import (
    EmaState as EmaState,
    LookaheadParams as LookaheadParams,
    LookaheadState as LookaheadState,
    MaskedState as MaskedState,
    MultiStepsState as MultiStepsState,
    PartitionState as PartitionState,
    ema as ema,
    incremental_update as incremental_update,
    lookahead as lookahead,
    masked as masked,
    multi_steps as multi_steps,
    partition as partition,
)

from typing import TYPE_CHECKING  # isort: skip

from ..ir.errors import with_advice as _with_advice  # isort: skip

__dir__ = _listed(__name__, "schedules")

if not TYPE_CHECKING:  # which would take every name for one of the module
    __getattr__ = _with_advice(
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
            "Adagrad": "use optim.adagrad, a function",
            "add_decayed_weights": "use optim.add_decay",
            "apply_every": "use optim.multi_steps, which gives means of gradients",
            "apply_if_finite": "use optim.scaled, which leaves out steps that are not finite",
            "clip": "use optim.clip_by_value",
            "trace": "use optim.add_momentum",
            "scale_by_schedule": "use optim.scale_by_learning_rate, which turns the sign",
            "named_chain": "use optim.chain",
            "normalize_by_update_norm": "use optim.normalize",
            "ReduceLROnPlateau": "put optim.reduce_on_plateau at the end of optim.chain",
            **{
                name: f"use optim.schedules.{ours}"
                for name, ours in {
                    "constant_schedule": "constant",
                    "linear_schedule": "linear",
                    "polynomial_schedule": "polynomial",
                    "exponential_decay": "exponential",
                    "cosine_decay_schedule": "cosine",
                    "piecewise_constant_schedule": "piecewise",
                    "warmup_cosine_decay_schedule": "warmup_cosine",
                    "warmup_exponential_decay_schedule": "warmup_exponential",
                    "warmup_constant_schedule": "linear, which stays at its end",
                    "sgdr_schedule": "join_schedules, of some warmup_cosine",
                    "join_schedules": "join_schedules",
                }.items()
            },
            "softmax_cross_entropy_with_integer_labels": "use rlx.nn.losses.cross_entropy",
        },
    )
