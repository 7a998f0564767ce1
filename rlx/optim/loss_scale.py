"""Loss scaling, so that half-precision gradients neither vanish nor overflow.

A loss is multiplied by a scale before its gradient is taken, and the gradient divided by it: small
gradients are then not lost in float16, whose least number is 6e-8.

    scale = rlx.optim.DynamicLossScale()
    loss, grads = rlx.value_and_grad(lambda p: scale.scale(loss_of(p)))(params)
    grads = scale.unscale(grads)
    finite = rlx.optim.all_finite(grads)
    updates, after = optimizer.update(grads, state, params)
    params = rlx.optim.choose(finite, rlx.optim.apply_updates(params, updates), params)
    state, scale = rlx.optim.choose(finite, after, state), scale.adjust(finite)

`scaled` makes an optimizer that does all but the first two lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .. import numpy as rnp
from ..ir.errors import AttributeValueError
from ..ir.record import record, replace
from ..ir.types import is_inexact
from ..trace import pytree
from ..trace.array import Array
from ..trace.attributes import register_attributes
from ..trace.axes import number
from .optimizer import Optimizer, Tree, first_step


class LossScale(Protocol):
    """A loss scale, which may change from step to step.

    A protocol, without a constructor that takes `args` or `kwargs`: `StaticLossScale` and
    `DynamicLossScale` have it.
    """

    def scale(self, tree: Tree) -> Tree:
        """Return losses, a `tree` of arrays, multiplied by the scale."""
        ...

    def unscale(self, tree: Tree) -> Tree:
        """Return gradients, a `tree`, divided by the scale; halves become float32."""
        ...

    def adjust(self, is_finite: Any) -> Any:
        """The scale of the next step; `is_finite` says whether the gradients were."""
        ...


def all_finite(tree: Any) -> Array:
    """Whether no number of a tree, float or complex, is infinite or NaN.

    >>> all_finite({"w": rnp.array([1.0, 2.0]), "n": rnp.array(3)}).item()
    True
    """
    arrays = [rnp.asarray(x) for x in pytree.leaves(tree)]
    each = [rnp.all(rnp.isfinite(x)) for x in arrays if is_inexact(x.dtype)]
    return rnp.all(rnp.stack(each)) if each else rnp.asarray(True)


def choose(condition: Any, yes: Tree, no: Any) -> Tree:
    """Choose one of two trees: `yes` if `condition` holds, else `no`.

    The condition is a boolean array; returns a tree of arrays.

    >>> choose(rnp.asarray(False), {"w": 1.0}, {"w": 2.0})["w"].item()
    2.0
    """
    return pytree.map(lambda a, b: rnp.where(condition, a, b), yes, no)


class _Scaling:
    """What loss scales do with their `value`."""

    value: Any

    def scale(self, tree: Tree) -> Tree:
        """The losses, multiplied."""

        def multiply(x: Any) -> Any:
            x = rnp.asarray(x)
            return x * self.value.astype(x.dtype) if is_inexact(x.dtype) else x

        return pytree.map(multiply, tree)

    def unscale(self, tree: Tree) -> Tree:
        """The gradients, divided; halves become float32."""

        def divide(x: Any) -> Any:
            x = rnp.asarray(x)
            if not is_inexact(x.dtype):
                return x
            return (x.astype("float32") if x.dtype.itemsize < 4 else x) / self.value

        return pytree.map(divide, tree)


@record
class StaticLossScale(_Scaling):
    """A constant loss scale.

    >>> scale = StaticLossScale(8.0)
    >>> scale.scale(rnp.array(0.5)).item(), scale.unscale(rnp.array(4.0)).item()
    (4.0, 0.5)
    """

    value: Any

    def __post_init__(self) -> None:
        if isinstance(self.value, int | float):
            _check("StaticLossScale: the scale", self.value, 0.0)
            object.__setattr__(self, "value", rnp.asarray(float(self.value)))

    def adjust(self, is_finite: Any) -> StaticLossScale:
        """The same scale, whatever `is_finite` says."""
        return self


@record
class DynamicLossScale(_Scaling):
    """A loss scale that grows while gradients are finite, and shrinks otherwise.

    After `period` finite steps it is multiplied by `factor`; after one that is not finite divided
    by it, down to `least`. The update of such a step should be left out.

    >>> scale = DynamicLossScale(16.0, period=2)
    >>> [(scale := scale.adjust(ok)).value.item() for ok in (True, True, True, False)]
    [16.0, 32.0, 32.0, 16.0]
    """

    value: Any = 2.0**15
    count: Any = None  # finite steps since the last change
    period: int = 2000
    factor: float = 2.0
    least: float = 1.0

    def __post_init__(self) -> None:
        if self.count is None:
            _check("DynamicLossScale: the scale", self.value, 0.0)
            _check("DynamicLossScale: the period", self.period, 0)
            _check("DynamicLossScale: the factor", self.factor, 1.0)
            object.__setattr__(self, "value", rnp.asarray(float(self.value)))
            object.__setattr__(self, "count", first_step())

    def adjust(self, is_finite: Any) -> DynamicLossScale:
        """The scale of the next step; `is_finite` says whether the gradients were."""
        is_due = self.count + 1 >= self.period
        grown = self.value * self.factor
        grown = rnp.where(rnp.isfinite(grown), grown, self.value)
        higher = rnp.where(is_due, grown, self.value)
        lower = rnp.maximum(self.value / self.factor, self.least)
        count = rnp.where(is_due, 0, self.count + 1)
        return replace(
            self,
            value=rnp.where(is_finite, higher, lower),
            count=rnp.where(is_finite, count, 0),
        )


def _check(what: str, given: float, bound: float) -> None:
    if not number(what, given) > bound:
        raise AttributeValueError(f"{what} is {given}", fix=f"use a number above {bound}")


class ScaledState(NamedTuple):
    """The state of an optimizer of scaled losses."""

    scale: Any  # the loss scale
    inner: Any  # the state of the optimizer
    skipped: Any  # how many steps were left out


def scaled(optimizer: Optimizer, loss_scale: LossScale) -> Optimizer:
    """Wrap an `optimizer` for scaled losses; it skips steps that overflow.

    Returns an optimizer. The loss is `state.scale.scale(loss)`, which begins as `loss_scale`;
    gradients are divided, and where one is not finite the updates are zero, the state stays, and
    the scale shrinks.
    """

    def init(params: Any) -> ScaledState:
        return ScaledState(loss_scale, optimizer.init(params), first_step(params))

    def update(
        grads: Any, state: ScaledState, params: Any = None, **more: Any
    ) -> tuple[Any, ScaledState]:
        grads = state.scale.unscale(grads)
        is_finite = all_finite(grads)
        updates, after = optimizer.update(grads, state.inner, params, **more)
        updates = pytree.map(lambda u: rnp.where(is_finite, u, rnp.zeros_like(u)), updates)
        inner = choose(is_finite, after, state.inner)
        skipped = state.skipped + rnp.where(is_finite, 0, 1)
        return updates, ScaledState(state.scale.adjust(is_finite), inner, skipped)

    return Optimizer(init, update)


register_attributes(StaticLossScale, ("value",))
register_attributes(DynamicLossScale, ("value", "count"), ("period", "factor", "least"))
