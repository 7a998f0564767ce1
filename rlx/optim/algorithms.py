"""Optimizers by name, which are chains of steps: `adam(1e-3)`.

They have the names, the parameters and the defaults of optax. A learning rate is a number, or a
schedule: a function of the number of the step. In the formulas g is the gradient, p the parameter,
t the number of the step, from 1.
"""

from __future__ import annotations

from typing import Any

from ..trace import pytree
from ..trace.arguments import flag
from .factored import clip_by_block_rms, scale_by_factored_rms, scale_by_param_block_rms
from .line_search import scale_by_zoom_linesearch
from .moments import (
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
from .newton_schulz import COEFFICIENTS, Coefficients, scale_by_muon, scale_by_shape
from .optimizer import (
    LearningRate,
    Mask,
    Optimizer,
    add_decay,
    add_momentum,
    chain,
    scale,
    scale_by_learning_rate,
)
from .quasi_newton import scale_by_lbfgs
from .wrappers import ema, masked, partition


def sgd(
    learning_rate: LearningRate, momentum: float | None = None, nesterov: bool = False
) -> Optimizer:
    """Stochastic gradient descent, with momentum if given.

    `p = p - learning_rate g`; with momentum g becomes `v = momentum v + g`, and with `nesterov`
    `g + momentum v`. Sutskever et al., 2013, https://proceedings.mlr.press/v28/sutskever13.html

    >>> optimizer = sgd(0.5)
    >>> optimizer.update([2.0], optimizer.init([1.0]))[0]
    [-1.0]
    """
    rate = scale_by_learning_rate(learning_rate)
    return rate if momentum is None else chain(add_momentum(momentum, nesterov), rate)


def adam(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam: steps of about the learning rate, independent of the gradient's size.

    This holds for each parameter by itself. `scale_by_adam` has the formula, with running means
    of gradients, `b1`, and of their squares, `b2`. Kingma and Ba, 2014,
    https://arxiv.org/abs/1412.6980

    >>> from rlx import numpy as rnp
    >>> params = {"w": rnp.array([1.0, -1.0])}
    >>> optimizer = adam(0.5)
    >>> updates, state = optimizer.update({"w": rnp.array([8.0, -2.0])}, optimizer.init(params))
    >>> [round(x, 4) for x in updates["w"].tolist()]
    [-0.5, 0.5]
    """
    steps = scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov)
    return chain(steps, scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
    mask: Mask = None,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """AdamW: Adam with decoupled weight decay.

    They shrink by `weight_decay` times the learning rate. `mask`, a tree of bools like the
    parameters or a function of them that gives one, tells which do; state of modules never does.
    Loshchilov and Hutter, 2017, https://arxiv.org/abs/1711.05101

    >>> from rlx import numpy as rnp
    >>> optimizer = adamw(0.5, weight_decay=1.0)
    >>> params = rnp.array([4.0])
    >>> optimizer.update(rnp.array([0.0]), optimizer.init(params), params)[0]
    Array([-2.], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, nesterov=nesterov),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: LearningRate,
    decay: float = 0.9,
    eps: float = 1e-8,
    momentum: float | None = None,
) -> Optimizer:
    """RMSProp: gradients divided by the root of the running mean of their squares.

    `s = decay s + (1 - decay) g²` and `p = p - learning_rate g / sqrt(s + eps)`, the change with
    `momentum` if given. Tieleman and Hinton, 2012, lecture 6.5 of a course on neural networks.

    >>> from rlx import numpy as rnp
    >>> optimizer = rmsprop(0.5, decay=0.0)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-0.5], dtype=float32)
    """
    steps = [scale_by_rms(decay, eps), scale_by_learning_rate(learning_rate)]
    return chain(*steps, *([] if momentum is None else [add_momentum(momentum)]))


def adagrad(
    learning_rate: LearningRate, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> Optimizer:
    """Adagrad: rates that fall with the sum of all squared gradients.

    `s = s + g²`, which begins as `initial_accumulator_value`, and
    `p = p - learning_rate g / sqrt(s + eps)`. Duchi et al., 2011,
    https://jmlr.org/papers/v12/duchi11a.html

    >>> from rlx import numpy as rnp
    >>> optimizer = adagrad(0.5, initial_accumulator_value=0.0)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-0.5], dtype=float32)
    """
    return chain(
        scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)
    )


def adadelta(
    learning_rate: LearningRate = 1.0,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    weight_decay_mask: Mask = None,
) -> Optimizer:
    """Adadelta: steps of the size of past steps, which need no rate.

    `s = rho s + (1 - rho) g²`, `u = g sqrt(d + eps) / sqrt(s + eps)`,
    `d = rho d + (1 - rho) u²` and `p = p - learning_rate u`; the decay is added to g. Zeiler, 2012,
    https://arxiv.org/abs/1212.5701

    >>> from rlx import numpy as rnp
    >>> optimizer = adadelta(eps=1.0)
    >>> optimizer.update(rnp.array([0.0]), optimizer.init(params := rnp.ones(1)), params)[0]
    Array([-0.], dtype=float32)
    """
    return chain(
        add_decay(weight_decay, weight_decay_mask),
        scale_by_adadelta(rho, eps),
        scale_by_learning_rate(learning_rate),
    )


def adafactor(
    learning_rate: LearningRate | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    weight_decay_rate: float | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: Mask = None,
) -> Optimizer:
    """Adafactor: RMSProp whose squares of a matrix are kept as a row and a column.

    Arrays with two axes of `min_dim_size_to_factor` or more are kept so, if `factored`;
    `scale_by_factored_rms` has the formula, with `decay_rate`, and `decay_offset` for its
    `step_offset`. The root of an update's mean square is at most `clipping_threshold`, and then
    multiplied by that of the parameter, if `multiply_by_parameter_scale`. `momentum` averages
    updates, and `weight_decay_rate` times the parameter is added to them. Shazeer and Stern, 2018,
    https://arxiv.org/abs/1804.04235

    >>> from rlx import numpy as rnp
    >>> optimizer = adafactor(0.5)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(params := rnp.array([2.0])), params)[0]
    Array([-1.], dtype=float32)
    """
    steps = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        steps.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        steps += [scale_by_learning_rate(learning_rate), scale(-1.0)]
    if flag("adafactor: multiply_by_parameter_scale", multiply_by_parameter_scale):
        steps.append(scale_by_param_block_rms())
    if momentum is not None:
        steps.append(ema(momentum, debias=False))
    if weight_decay_rate is not None:
        steps.append(add_decay(weight_decay_rate, weight_decay_mask))
    return chain(*steps, scale(-1.0))


def adamax(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """AdaMax: Adam by the greatest size of gradients, not their mean square.

    `m = b1 m + (1 - b1) g`, `u = max(|g| + eps, b2 u)`, and
    `p = p - learning_rate m / (1 - b1^t) / u`.
    Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980

    >>> from rlx import numpy as rnp
    >>> optimizer = adamax(0.5)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))
    >>> round(updates.item(), 4)
    -0.5
    """
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def nadam(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> Optimizer:
    """NAdam: Adam with the momentum of Nesterov.

    The mean of gradients is taken one step ahead,
    `b1 m / (1 - b1^(t + 1)) + (1 - b1) g / (1 - b1^t)`.
    Dozat, 2016, https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ

    >>> from rlx import numpy as rnp
    >>> optimizer = nadam(0.5)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))
    >>> round(updates.item(), 4)
    -0.7368
    """
    return adam(learning_rate, b1, b2, eps, eps_root, nesterov=True)


def radam(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """RAdam: Adam that warms up by itself.

    `scale_by_radam` has the formula: up to the `threshold` steps are those of momentum. Liu et al.,
    2020, https://arxiv.org/abs/1908.03265

    >>> from rlx import numpy as rnp
    >>> optimizer = radam(0.5)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))
    >>> round(updates.item(), 4)
    -4.0
    """
    return chain(
        scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def lamb(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mask: Mask = None,
) -> Optimizer:
    """LAMB: Adam whose update of an array has the size of the array.

    It is for large batches. With Adam's step u and the decay, `p = p - learning_rate u |p| / |u|`.
    You et al., 2020, https://arxiv.org/abs/1904.00962

    >>> from rlx import numpy as rnp
    >>> optimizer = lamb(0.5)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(params := rnp.array([4.0])), params)[0]
    Array([-2.], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decay(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


def lars(
    learning_rate: LearningRate,
    weight_decay: float = 0.0,
    weight_decay_mask: Mask = True,
    trust_coefficient: float = 0.001,
    eps: float = 0.0,
    trust_ratio_mask: Mask = True,
    momentum: float = 0.9,
    nesterov: bool = False,
) -> Optimizer:
    """LARS: momentum whose update of an array has the size of the array.

    It is for large batches. With `u = g + weight_decay p`, where `weight_decay_mask` is true, the
    velocity is `v = momentum v + learning_rate trust_coefficient u |p| / (|u| + eps)`, without the
    ratio where `trust_ratio_mask` is false, and `p = p - v`. You et al., 2017,
    https://arxiv.org/abs/1708.03888

    >>> from rlx import numpy as rnp
    >>> optimizer = lars(0.5, trust_coefficient=1.0)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(params := rnp.array([4.0])), params)[0]
    Array([-2.], dtype=float32)
    """
    return chain(
        add_decay(weight_decay, weight_decay_mask),
        masked(scale_by_trust_ratio(0.0, trust_coefficient, eps), trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        add_momentum(momentum, nesterov),
    )


def lion(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.99,
    weight_decay: float = 1e-3,
    mask: Mask = None,
) -> Optimizer:
    """Lion: steps of the learning rate, by the sign of a mean of gradients.

    `p = p - learning_rate (sign(b1 m + (1 - b1) g) + weight_decay p)` and `m = b2 m + (1 - b2) g`.
    Rates are a third to a tenth of Adam's. Chen et al., 2023, https://arxiv.org/abs/2302.06675

    >>> from rlx import numpy as rnp
    >>> optimizer = lion(0.5, weight_decay=0.0)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(params := rnp.ones(1)), params)[0]
    Array([-0.5], dtype=float32)
    """
    return chain(
        scale_by_lion(b1, b2),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def novograd(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
) -> Optimizer:
    """NovoGrad: momentum of gradients that are divided by their norms.

    `scale_by_novograd` has the formula. Ginsburg et al., 2019, https://arxiv.org/abs/1905.11286

    >>> from rlx import numpy as rnp
    >>> optimizer = novograd(0.5)
    >>> params = rnp.ones(1)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(params), params)
    >>> round(updates.item(), 4)
    -0.5
    """
    return chain(
        scale_by_novograd(b1, b2, eps, eps_root, weight_decay),
        scale_by_learning_rate(learning_rate),
    )


def muon(
    learning_rate: LearningRate,
    ns_coeffs: Coefficients = COEFFICIENTS,
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    weight_decay_mask: Mask = None,
    *,
    nesterov: bool = True,
    adam_b1: float = 0.9,
    adam_b2: float = 0.999,
    adam_eps_root: float = 0.0,
    adam_weight_decay: float = 0.0,
    adam_learning_rate: LearningRate | None = None,
    consistent_rms: float | None = None,
) -> Optimizer:
    """Muon for matrices, AdamW for all other arrays.

    `p = p - learning_rate (u + weight_decay p)`, where u is the mean of gradients with singular
    values of about one, by `scale_by_muon`, of `ns_coeffs`, `ns_steps` and `beta`, times a number
    of its shape, by `scale_by_shape`, of `consistent_rms`. `adam_b1`, `adam_b2`, `adam_eps_root`
    and `adam_weight_decay` are for the other arrays, and so is `adam_learning_rate`, by default the
    learning rate. Jordan et al., 2024, https://kellerjordan.github.io/posts/muon

    >>> from rlx import numpy as rnp
    >>> params = {"w": rnp.ones((2, 2)), "b": rnp.ones(2)}
    >>> optimizer = muon(0.5)
    >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
    >>> [round(x, 4) for x in updates["b"].tolist()]
    [-0.7368, -0.7368]
    """
    matrices = chain(
        scale_by_muon(ns_coeffs, ns_steps, beta, eps, nesterov=nesterov),
        scale_by_shape(consistent_rms),
        add_decay(weight_decay, weight_decay_mask),
        scale_by_learning_rate(learning_rate),
    )
    others = chain(
        scale_by_adam(adam_b1, adam_b2, eps, adam_eps_root, nesterov=nesterov),
        add_decay(adam_weight_decay),
        scale_by_learning_rate(learning_rate if adam_learning_rate is None else adam_learning_rate),
    )

    def labels(params: Any) -> Any:
        return pytree.map(lambda x: "muon" if len(x.shape) == 2 else "adam", params)

    return partition({"muon": matrices, "adam": others}, labels)


ZOOM = scale_by_zoom_linesearch(20, initial_guess_strategy="one")


def lbfgs(
    learning_rate: LearningRate | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: Optimizer | None = ZOOM,
) -> Optimizer:
    """L-BFGS with a line search: for smooth functions without noise.

    `p = p - s learning_rate H g`: `scale_by_lbfgs` has the formula of H, with `memory_size` and
    `scale_init_precond`; `linesearch` is the search of s, `scale_by_zoom_linesearch` if not given.
    `update` then needs `value`, `grad` and `value_fn`, the function of the parameters;
    `value_and_grad_from_state` reads the first two where the last search has left them. Without a
    line search (None) give a learning rate. Liu and Nocedal, 1989,
    https://doi.org/10.1007/BF01589116

    >>> import rlx
    >>> from rlx import numpy as rnp
    >>> def f(x):
    ...     return ((x - rnp.array([1.0, 2.0])) ** 4).sum()
    >>> optimizer, x = lbfgs(), rnp.zeros(2)
    >>> @rlx.jit
    ... def step(x, state):
    ...     value, grad = rlx.optim.value_and_grad_from_state(f)(x, state=state)
    ...     more = {"value": value, "grad": grad, "value_fn": f}
    ...     updates, state = optimizer.update(grad, state, x, **more)
    ...     return rlx.optim.apply_updates(x, updates), state
    >>> state = optimizer.init(x)
    >>> for _ in range(20):
    ...     x, state = step(x, state)
    >>> bool(f(x) < 1e-6)
    True
    """
    way = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    steps = (scale_by_lbfgs(memory_size, scale_init_precond), way)
    return chain(*steps, *(() if linesearch is None else (linesearch,)))
