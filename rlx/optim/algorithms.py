"""Optimizers by name, which are chains of steps: `adam(1e-3)`.

They have the names, the parameters and the defaults of optax. A learning rate is a number, or a
schedule: a function of the number of the step. In the formulas g is the gradient, p the parameter,
t the number of the step, from 1.
"""

from __future__ import annotations

from typing import Any

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import flag
from ..trace.axes import number
from .factored import clip_by_block_rms, scale_by_factored_rms, scale_by_param_block_rms
from .line_search import scale_by_zoom_linesearch
from .moments import (
    scale_by_adadelta,
    scale_by_adam,
    scale_by_lion,
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
from .second_moments import scale_by_stddev
from .steps import (
    add_noise,
    scale_by_optimistic_gradient,
    scale_by_polyak,
    scale_by_rprop,
    scale_by_sign,
    scale_by_sm3,
)
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


def noisy_sgd(
    learning_rate: LearningRate, eta: float = 0.01, gamma: float = 0.55, *, key: Any
) -> Optimizer:
    """Gradient descent with normal noise, by `add_noise`.

    The noise has the variance `eta / t^gamma`. `key` is one of `rlx.random`.
    Neelakantan et al., 2015, https://arxiv.org/abs/1511.06807

    >>> from rlx import numpy as rnp, random
    >>> optimizer = noisy_sgd(0.5, eta=0.0, key=random.key(0))
    >>> optimizer.update(rnp.array([2.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-1.], dtype=float32)
    """
    return chain(add_noise(eta, gamma, key), scale_by_learning_rate(learning_rate))


def optimistic_gradient_descent(
    learning_rate: LearningRate, alpha: float = 1.0, beta: float = 1.0
) -> Optimizer:
    """Optimistic gradient descent, for games: p and its opponent do not circle.

    `p = p - learning_rate ((alpha + beta) g - beta g_before)`. Mokhtari et al., 2019,
    https://arxiv.org/abs/1901.08511

    >>> from rlx import numpy as rnp
    >>> optimizer = optimistic_gradient_descent(0.5)
    >>> optimizer.update(rnp.array([2.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-1.], dtype=float32)
    """
    steps = scale_by_optimistic_gradient(alpha, beta)
    return chain(steps, scale_by_learning_rate(learning_rate))


def polyak_sgd(
    max_learning_rate: float = 1.0,
    scaling: LearningRate = 1.0,
    f_min: float = 0.0,
    eps: float = 0.0,
    variant: str = "sps",
) -> Optimizer:
    """Gradient descent with the steps of Polyak, by the value of the loss.

    `p = p - scaling r g`, where r is by `scale_by_polyak`, of `max_learning_rate`,
    `f_min`, `eps` and `variant`; `update` needs `value=`. Loizou et al.,
    2021, https://arxiv.org/abs/2002.10542

    >>> from rlx import numpy as rnp
    >>> optimizer, params = polyak_sgd(9.0), rnp.array([1.0])
    >>> optimizer.update(rnp.array([2.0]), optimizer.init(params), params, value=6.0)[0]
    Array([-3.], dtype=float32)
    """
    return chain(sgd(scaling), scale_by_polyak(f_min, max_learning_rate, eps, variant))


def rmsprop(
    learning_rate: LearningRate,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
) -> Optimizer:
    """RMSProp: gradients divided by the root of the running mean of their squares.

    `s = decay s + (1 - decay) g²`, from `initial_scale` on, and
    `p = p - learning_rate g / sqrt(s + eps)`, the change with `momentum` if given. `centered` takes
    the standard deviation, as `scale_by_stddev`; PyTorch's has `eps_in_sqrt=False`.
    Tieleman and Hinton, 2012, lecture 6.5 of a course on neural networks.

    >>> from rlx import numpy as rnp
    >>> optimizer = rmsprop(0.5, decay=0.0)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-0.5], dtype=float32)
    """
    scale_by = scale_by_stddev if flag("rmsprop: centered", centered) else scale_by_rms
    steps = [scale_by(decay, eps, initial_scale, eps_in_sqrt)]
    steps += [scale_by_learning_rate(learning_rate)]
    return chain(*steps, *([] if momentum is None else [add_momentum(momentum, nesterov)]))


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
    *,
    weight_decay_rate: LearningRate | None = None,
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


def sm3(learning_rate: LearningRate, momentum: float = 0.9) -> Optimizer:
    """SM3: Adagrad that keeps a sum for each row and each column.

    It needs little memory. `scale_by_sm3` has the formula; `momentum` is its `b1`.
    Anil et al., 2019, https://arxiv.org/abs/1901.11150

    >>> from rlx import numpy as rnp
    >>> optimizer = sm3(0.5, momentum=0.0)
    >>> optimizer.update(rnp.array([2.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-0.5], dtype=float32)
    """
    return chain(scale_by_sm3(momentum), scale_by_learning_rate(learning_rate))


def sign_sgd(learning_rate: LearningRate) -> Optimizer:
    """SignSGD: steps of the learning rate, by the sign of gradients.

    Bernstein et al., 2018, https://arxiv.org/abs/1802.04434

    >>> optimizer = sign_sgd(0.5)
    >>> optimizer.update([2.0], optimizer.init([1.0]))[0][0].item()
    -0.5
    """
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


def signum(learning_rate: LearningRate, beta: float = 0.9) -> Optimizer:
    """Signum: steps of the learning rate, by the sign of a running mean of gradients.

    The mean keeps `beta` of itself. Bernstein et al., 2018, https://arxiv.org/abs/1802.04434

    >>> from rlx import numpy as rnp
    >>> optimizer = signum(0.5)
    >>> optimizer.update(rnp.array([2.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-0.5], dtype=float32)
    """
    return chain(ema(beta, debias=False), scale_by_sign(), scale_by_learning_rate(learning_rate))


def lion(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.99,
    *,
    weight_decay: LearningRate = 1e-3,
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


def rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> Optimizer:
    """Rprop: steps by the sign of gradients alone, of sizes that adapt.

    It is for whole batches. `scale_by_rprop` has the rules, with `eta_minus`, `eta_plus`,
    `min_step_size` and `max_step_size`.
    Riedmiller and Braun, 1993,     https://doi.org/10.1109/ICNN.1993.298623

    >>> from rlx import numpy as rnp
    >>> optimizer = rprop(0.5)
    >>> optimizer.update(rnp.array([2.0]), optimizer.init(rnp.array([1.0])))[0]
    Array([-0.5], dtype=float32)
    """
    steps = scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size)
    return chain(steps, scale(-1.0))


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


def fromage(learning_rate: LearningRate, min_norm: float = 1e-6) -> Optimizer:
    """Fromage: steps of the size of each array, whose length then stays.

    `p = (p - learning_rate u |p| / |u|) / sqrt(1 + learning_rate²)`, where norms are at least
    `min_norm`. Bernstein et al., 2020, https://arxiv.org/abs/2002.03432

    >>> from rlx import numpy as rnp
    >>> optimizer = fromage(0.75)
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(params := rnp.array([1.0])), params)[0]
    Array([-0.8], dtype=float32)
    """

    def shares(rate: Any) -> tuple[Any, Any]:
        """What a step is multiplied by, and what the parameters lose, without cancellation."""
        root = (1 + rate**2) ** 0.5
        return rate / root, -(rate**2) / (root * (1 + root))

    if callable(learning_rate):
        schedule = learning_rate
        rate, decay = lambda n: shares(schedule(n))[0], lambda n: shares(schedule(n))[1]
    else:
        rate, decay = shares(number("fromage: the learning rate", learning_rate))
    steps = scale_by_trust_ratio(min_norm), scale_by_learning_rate(rate)
    return chain(*steps, add_decay(decay))


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
        return pytree.map(lambda x: "muon" if rnp.ndim(x) == 2 else "adam", params)

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
