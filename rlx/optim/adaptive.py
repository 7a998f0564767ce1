"""Adam and optimizers like it, which are chains of steps: `adam(1e-3)`.

They have the names, the parameters and the defaults of optax; `algorithms.py` says what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .moments import (
    scale_by_adam,
    scale_by_adamax,
    scale_by_novograd,
    scale_by_radam,
    scale_by_trust_ratio,
)
from .optimizer import LearningRate, Mask, Optimizer, add_decay, chain, scale_by_learning_rate
from .second_moments import (
    scale_by_adan,
    scale_by_ademamix,
    scale_by_adopt,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_yogi,
)


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
    eps_root: float = 0.0,
    *,
    weight_decay: LearningRate = 1e-4,
    mask: Mask = None,
    nesterov: bool = False,
) -> Optimizer:
    """AdamW: Adam with decoupled weight decay.

    Parameters shrink by `weight_decay`, a number or a schedule, times the learning rate. `mask`, a
    tree of bools like them or a function of them that gives one, tells which do; state of modules
    never does.
    Loshchilov and Hutter, 2017, https://arxiv.org/abs/1711.05101

    >>> from rlx import numpy as rnp
    >>> optimizer = adamw(0.5, weight_decay=1.0)
    >>> params = rnp.array([4.0])
    >>> optimizer.update(rnp.array([0.0]), optimizer.init(params), params)[0]
    Array([-2.], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


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


def nadamw(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    weight_decay: LearningRate = 1e-4,
    mask: Mask = None,
) -> Optimizer:
    """NAdamW: AdamW with the momentum of Nesterov, see `nadam`.

    Loshchilov and Hutter, 2017, https://arxiv.org/abs/1711.05101

    >>> from rlx import numpy as rnp
    >>> optimizer = nadamw(0.5, weight_decay=1.0)
    >>> params = rnp.array([4.0])
    >>> optimizer.update(rnp.array([0.0]), optimizer.init(params), params)[0]
    Array([-2.], dtype=float32)
    """
    more = {"weight_decay": weight_decay, "mask": mask}
    return adamw(learning_rate, b1, b2, eps, eps_root, nesterov=True, **more)


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


def adamaxw(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: LearningRate = 1e-4,
    mask: Mask = None,
) -> Optimizer:
    """AdaMaxW: AdaMax with the decoupled weight decay of `adamw`.

    Loshchilov and Hutter, 2017, https://arxiv.org/abs/1711.05101

    >>> from rlx import numpy as rnp
    >>> optimizer = adamaxw(0.5, weight_decay=1.0)
    >>> params = rnp.array([4.0])
    >>> optimizer.update(rnp.array([0.0]), optimizer.init(params), params)[0]
    Array([-2.], dtype=float32)
    """
    return chain(
        scale_by_adamax(b1, b2, eps),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


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


def amsgrad(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> Optimizer:
    """AMSGrad: Adam whose mean of squares never falls.

    `scale_by_amsgrad` has the formula. Reddi et al., 2018,
    https://openreview.net/forum?id=ryQu7f-RZ

    >>> from rlx import numpy as rnp
    >>> optimizer = amsgrad(0.5)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))
    >>> round(updates.item(), 4)
    -0.5
    """
    return chain(scale_by_amsgrad(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate))


def adabelief(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """AdaBelief: Adam whose steps are large where gradients are as expected.

    `scale_by_belief` has the formula. Zhuang et al., 2020, https://arxiv.org/abs/2010.07468

    >>> from rlx import numpy as rnp
    >>> optimizer = adabelief(0.5)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))
    >>> round(updates.item(), 4)
    -0.5556
    """
    steps = scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov)
    return chain(steps, scale_by_learning_rate(learning_rate))


def yogi(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3
) -> Optimizer:
    """Yogi: Adam whose mean of squares changes slowly.

    `scale_by_yogi` has the formula. Zaheer et al., 2018,
    https://papers.nips.cc/paper/8186-adaptive-methods-for-nonconvex-optimization

    >>> from rlx import numpy as rnp
    >>> optimizer = yogi(0.5)
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(rnp.array([1.0])))
    >>> round(updates.item(), 4)
    -0.4999
    """
    return chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adan(
    learning_rate: LearningRate,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 1e-8,
    weight_decay: LearningRate = 0.0,
    mask: Mask = None,
) -> Optimizer:
    """Adan: Adam with the momentum of Nesterov by differences of gradients.

    `scale_by_adan` has the formula, with `b3` for squares; `mask` is that of `adamw`. Xie et al.,
    2022, https://arxiv.org/abs/2208.06677

    >>> from rlx import numpy as rnp
    >>> optimizer = adan(0.5)
    >>> updates, _ = optimizer.update(
    ...     rnp.array([8.0]), optimizer.init(params := rnp.array([1.0])), params)
    >>> round(updates.item(), 4)
    -0.5
    """
    return chain(
        scale_by_adan(b1, b2, b3, eps, eps_root),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def ademamix(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    b3: LearningRate = 0.9999,
    alpha: LearningRate = 5.0,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    weight_decay: LearningRate = 0.0,
    mask: Mask = None,
) -> Optimizer:
    """AdEMAMix: AdamW with a second mean of gradients, which reaches far back.

    `scale_by_ademamix` has the formula, with `b3` and `alpha` of that mean; `mask` is that of
    `adamw`. For long trainings. Pagliardini et al., 2024, https://arxiv.org/abs/2409.03137

    >>> from rlx import numpy as rnp
    >>> optimizer, params = ademamix(0.5), rnp.array([1.0])
    >>> updates, _ = optimizer.update(rnp.array([8.0]), optimizer.init(params), params)
    >>> round(updates.item(), 4)
    -0.5002
    """
    return chain(
        scale_by_ademamix(b1, b2, b3, alpha, eps, eps_root),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def adopt(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.9999,
    eps: float = 1e-6,
    *,
    nesterov: bool = False,
    use_clipping: bool = True,
    clip_value_fn: Callable[[Any], Any] = lambda count: count**0.25,
) -> Optimizer:
    """ADOPT: Adam that converges whatever `b2` is.

    Gradients are divided by the root of the mean of squares before them; `scale_by_adopt` has the
    formula, with `use_clipping` and `clip_value_fn`. The first step is 0. Taniguchi et al., 2024,
    https://arxiv.org/abs/2411.02853

    >>> from rlx import numpy as rnp
    >>> optimizer = adopt(0.5)
    >>> state = optimizer.init(rnp.array([1.0]))
    >>> for _ in range(2):
    ...     updates, state = optimizer.update(rnp.array([8.0]), state)
    >>> round(updates.item(), 4)
    -0.05
    """
    more: Any = {"use_clipping": use_clipping, "clip_value_fn": clip_value_fn}
    steps = scale_by_adopt(b1, b2, eps, nesterov=nesterov, **more)
    return chain(steps, scale_by_learning_rate(learning_rate))


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
