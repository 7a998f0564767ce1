"""Optimizers, and the transformations of gradients that they are made of.

    optimizer = rlx.optim.adam(1e-3)
    state = optimizer.init(params)
    updates, state = optimizer.update(grads, state, params)
    params = rlx.optim.apply_updates(params, updates)

Parameters, gradients, updates and states are pytrees; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, final

from .. import numpy as rnp
from ..ir.errors import ArgumentError, ShapeError, StructureError, with_absent
from ..ir.types import is_float
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.arguments import flag, shown, wrong
from ..trace.array import Array
from ..trace.axes import number

Tree = TypeVar("Tree")
State = TypeVar("State")
Init = Callable[[Any], Any]
Schedule = Callable[[Any], Any]  # of the number of the step
LearningRate = float | Schedule
Mask = Callable[[Any], Any] | Any  # a tree of bools like the parameters, or a function giving one


class Update(Protocol):
    """The type of `update`: updates are like the gradients, a state like the last."""

    def __call__(
        self, grads: Tree, state: State, params: Any = None, **more: Any
    ) -> tuple[Tree, State]: ...


class _Pair(NamedTuple):
    init: Init
    update: Update  # its `__qualname__` begins with the optimizer's name


@final
class Optimizer(_Pair):
    """An optimizer: a function that makes a state, and one that gives updates.

    They are `init(params) -> state` and `update(grads, state, params) -> (updates, state)`. An
    update is added to a parameter. A step of a chain, such as clipping, is an optimizer too.
    """

    __slots__ = ()

    def __new__(cls, init: Init, update: Callable[..., tuple[Any, Any]]) -> Optimizer:
        return super().__new__(cls, init, update)

    def __repr__(self) -> str:
        return f"<optimizer {_name(self.update)}>"


with_absent(
    Optimizer,
    {
        "step": "updates, state = optimizer.update(grads, state, params), then\n"
        "params = rlx.optim.apply_updates(params, updates)",
        "zero_grad": "gradients are values that rlx.grad(loss)(params) returns",
        "state_dict": "the state is a tree: rlx.save(path, state) writes it",
        "load_state_dict": "state = rlx.load(path, like=optimizer.init(params)) reads it",
        "param_groups": "rlx.optim.partition gives groups of parameters optimizers of their own",
    },
)


def _name(update: Callable[..., Any]) -> str:
    return getattr(update, "__qualname__", "of a user").partition(".<locals>")[0]


def of_kind(state: Any, kind: type) -> Any:
    """Give back a state; raise unless it is one that this optimizer made."""
    if isinstance(state, kind):
        return state
    raise StructureError(
        f"update: the state is {shown(state)}, where the optimizer has a {kind.__name__}",
        fix="pass what init(params) or the last update gave",
    )


def check_gradients(grads: Any, like: Any) -> None:
    """Raise unless gradients have the structure of the parameters that a state is for."""
    wanted, given = pytree.structure(like), pytree.structure(grads)
    if wanted != given:
        place = pytree.difference(wanted, given, "", ("the state", "the gradients"))
        raise StructureError(
            f"update: the gradients have another structure than the state: {place}",
            fix="pass gradients of the parameters that init(params) was given",
        )


def apply_updates(params: Tree, updates: Any) -> Tree:
    """Return `params` plus `updates`; the parameters keep their dtypes.

    State of modules stays as it is. An update that would change a shape is a `ShapeError`.

    >>> apply_updates({"w": rnp.array([1.0, 2.0])}, {"w": rnp.array([0.5, 0.0])})
    {'w': Array([1.5, 2. ], dtype=float32)}
    """

    def add(p: Any, u: Any) -> Any:
        before, after = rnp.asarray(p), rnp.add(p, u)
        if after.shape != before.shape:
            raise ShapeError(
                f"apply_updates: an update is {as_tensor(u).type}, its parameter {before.type}",
                fix="give update gradients of the shapes of the parameters",
            )
        return rnp.asarray(after, before.dtype)

    trained = pytree.map(add, pytree.without_state(params), pytree.without_state(updates))
    return pytree.restore_state(trained, params)


def on_parameters(
    init: Init, update: Callable[..., tuple[Any, Any]], is_around: bool = False
) -> Optimizer:
    """The optimizer of two functions that see no state: None is in its place.

    State of modules is what `nn.field(state=True)` says; its updates are its gradients, zeros.
    What `update` is given by keyword is for other steps of a chain, or where it `is_around`
    another optimizer for that one.
    """

    def begin(params: Any) -> Any:
        return init(pytree.without_state(params))

    def step(grads: Any, state: Any, params: Any = None, **more: Any) -> tuple[Any, Any]:
        trained, shown = pytree.without_state(grads), pytree.without_state(params)
        updates, state = update(trained, state, shown, **(more if is_around else {}))
        return pytree.restore_state(updates, grads), state

    step.__qualname__ = _name(update)
    return Optimizer(begin, step)


def chain(*optimizers: Optimizer) -> Optimizer:
    """Chain `optimizers`: gradients pass from left to right.

    Returns an optimizer. What `update` is given by keyword, such as `value` for a line search, goes
    to each of them.

    >>> optimizer = chain(clip_by_value(1.0), scale(-0.5))
    >>> params = rnp.array([3.0])
    >>> optimizer.update(rnp.array([8.0]), optimizer.init(params), params)[0]
    Array([-0.5], dtype=float32)
    """

    for one in optimizers:
        if not callable(getattr(one, "init", None)) or not callable(getattr(one, "update", None)):
            raise wrong("chain: one of the optimizers", one, "an optimizer", "pass sgd(0.1), say")

    def init(params: Any) -> tuple:
        return tuple(optimizer.init(params) for optimizer in optimizers)

    def update(grads: Any, states: tuple, params: Any = None, **more: Any) -> tuple[Any, tuple]:
        after = []
        if not isinstance(states, tuple) or len(states) != len(optimizers):
            raise wrong(
                "update: the state", states, "of this optimizer", "pass what init(params) gave"
            )
        for optimizer, state in zip(optimizers, states, strict=True):
            grads, state = optimizer.update(grads, state, params, **more)
            after.append(state)
        return grads, tuple(after)

    update.__qualname__ = f"chain({', '.join(_name(one.update) for one in optimizers)})"
    return Optimizer(init, update)


def stateless(change: Callable[[Any], Any]) -> Optimizer:
    """An optimizer without state, made of a function of the gradients, `change`.

    >>> stateless(lambda grads: {"w": 2 * grads["w"]}).update({"w": 4.0}, ())[0]
    {'w': 8.0}
    """

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return change(grads), state

    update.__qualname__ = getattr(change, "__qualname__", "stateless")
    return on_parameters(lambda params: (), update)


class CountState(NamedTuple):
    """The number of steps so far."""

    count: Any  # i32[]


def scale(factor: float) -> Optimizer:
    """Multiply gradients by the number `factor`: a step for `chain`.

    >>> scale(-0.5).update({"w": 4.0}, ())[0]
    {'w': -2.0}
    """
    number("scale: the factor", factor)

    def scaled(gradient: Any) -> Any:
        return (gradient if isinstance(gradient, int | float) else as_tensor(gradient)) * factor

    return stateless(lambda grads: pytree.map(scaled, grads))


def scale_by_learning_rate(learning_rate: LearningRate) -> Optimizer:
    """Multiply by minus the learning rate: a number, or a function of the step.

    >>> step = scale_by_learning_rate(lambda count: 1.0 / (count + 1))
    >>> state = step.init(rnp.ones(1))
    >>> for _ in range(2):
    ...     updates, state = step.update(rnp.array([8.0]), state)
    >>> updates
    Array([-4.], dtype=float32)
    """
    if not callable(learning_rate):
        return scale(-number("the learning rate", learning_rate))
    schedule = learning_rate

    def init(params: Any) -> CountState:
        return CountState(first_step(params))

    def update(grads: Any, state: CountState, params: Any = None) -> tuple[Any, CountState]:
        rate = rnp.asarray(schedule(of_kind(state, CountState).count))
        updates = pytree.map(lambda g: g * -rate.astype(g.dtype), grads)
        return updates, CountState(state.count + 1)

    return on_parameters(init, update)


def first_step(params: Any = None) -> Any:
    """The counter of steps at its beginning, beside the parameters.

    It is an int32 array, so that no step compiles anew.
    """
    for leaf in pytree.leaves(params):
        return rnp.zeros_like(leaf, "int32", ())
    return rnp.zeros((), "int32")


def zeros_like(params: Any) -> Any:
    """A tree of zeros like the parameters."""
    return pytree.map(rnp.zeros_like, params)


def zero_beside(params: Any) -> Any:
    """A zero beside the parameters, in their dtype, float32 if that is smaller."""
    for leaf in pytree.leaves(widened(params)):
        return rnp.zeros_like(leaf, shape=())
    return rnp.zeros(())


def square_of(x: Any) -> Any:
    """The square of the size of each number, a real one: `x conj(x)`."""
    return rnp.square(rnp.real(x)) + rnp.square(rnp.imag(x)) if x.dtype.kind == "c" else x * x


def widened(tree: Any) -> Any:
    """A tree with half-size floats as float32.

    A square of theirs, or a number such as 1e-8, would be zero.
    """

    def wide(x: Any) -> Any:
        x = rnp.asarray(x)
        return x.astype("float32") if is_float(x.dtype) and x.dtype.itemsize < 4 else x

    return pytree.map(wide, tree)


def needs_params(name: str, params: Any) -> Any:
    """Give the parameters; raise if `update` was called without them."""
    if params is None:
        raise ArgumentError(
            f"{name} needs the parameters",
            fix="call optimizer.update(grads, state, params)",
        )
    return params


def needs_value(name: str, value: Any) -> Any:
    """Give the value of the loss; raise if `update` was called without it."""
    if value is None:
        raise ArgumentError(
            f"{name} needs the value of the loss",
            fix="call optimizer.update(grads, state, params, value=loss)",
        )
    return value


# -- the steps ----------------------------------------------------------------------------------


class MomentumState(NamedTuple):
    """The running sum of gradients."""

    velocity: Any  # a tree like the parameters


def add_momentum(decay: float, nesterov: bool = False) -> Optimizer:
    """Momentum: add the running sum of past gradients; `nesterov` looks ahead.

    `v = g + decay v`, which is the update; with `nesterov` that is `g + decay v`. Half-size floats
    are accumulated in float32.

    >>> step = add_momentum(0.5)
    >>> state = step.init(rnp.ones(1))
    >>> for _ in range(2):
    ...     updates, state = step.update(rnp.array([8.0]), state)
    >>> updates
    Array([12.], dtype=float32)
    """
    check_numbers(momentum=decay)
    is_ahead = flag("add_momentum: nesterov", nesterov)

    def update(grads: Any, state: MomentumState, params: Any = None) -> tuple[Any, MomentumState]:
        check_gradients(grads, of_kind(state, MomentumState).velocity)
        wide = widened(grads)
        velocity = pytree.map(lambda g, v: g + decay * v, wide, state.velocity)
        ahead = pytree.map(lambda g, v: g + decay * v, wide, velocity) if is_ahead else velocity
        updates = pytree.map(lambda u, g: u.astype(rnp.asarray(g).dtype), ahead, grads)
        return updates, MomentumState(velocity)

    return on_parameters(lambda params: MomentumState(widened(zeros_like(params))), update)


def prefix_of(given: Any, tree: Any) -> Any:
    """What is given for each leaf of a tree.

    It is a tree of such things, which may have one for a whole branch, or a function of the tree
    that gives one.
    """
    # a tree may be a module with bools in its fields, which can be called as well
    is_function = callable(given) and pytree.structure(given).is_leaf()
    prefix = given(tree) if is_function else given
    return pytree.broadcast(pytree.without_state(prefix), tree)


def add_decay(weight_decay: LearningRate, mask: Mask = None) -> Optimizer:
    """Weight decay: add `weight_decay` times the parameters, where the mask is true.

    It is a number, or a function of the step. `mask` is a tree of bools like the parameters, which
    may have one for a whole branch, or a function of the parameters that gives one.

    >>> step, p = add_decay(0.5), rnp.array([4.0])
    >>> step.update(rnp.array([1.0]), step.init(p), p)[0]
    Array([3.], dtype=float32)
    """
    if not callable(weight_decay):
        check_numbers(weight_decay=weight_decay)

    def init(params: Any) -> Any:
        return CountState(first_step(params)) if callable(weight_decay) else ()

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        params, rate, after = needs_params("weight decay", params), weight_decay, state
        if callable(rate):
            count = of_kind(state, CountState).count
            rate, after = rnp.asarray(rate(count)), CountState(count + 1)
        wanted = prefix_of(True if mask is None else mask, params)

        def decayed(g: Any, p: Any, is_wanted: bool) -> Any:
            if not is_wanted:
                return g
            share: Any = rate  # a schedule gives an array, in the dtype that it chose
            return g + (share.astype(p.dtype) if callable(weight_decay) else share) * p

        return pytree.map(decayed, grads, params, wanted), after

    return on_parameters(init, update)


def check_numbers(**given: Any) -> None:
    """Raise unless each of the named values is a number."""
    for name, value in given.items():
        number(name, value)


# -- limits on gradients ---------------------------------------------------------------------------


def global_norm(tree: Any) -> Array:
    """The global norm: that of all leaves but state together, as one vector.

    >>> global_norm({"a": rnp.array([3.0]), "b": rnp.array([4.0])}).item()
    5.0
    """
    leaves = pytree.leaves(widened(pytree.without_state(tree)))
    squares = (rnp.sum(square_of(x)) for x in leaves)
    return rnp.sqrt(sum(squares, start=rnp.zeros(())))


def clip_by_global_norm(limit: float) -> Optimizer:
    """Clip gradients so that their global norm is at most `limit`.

    Returns a step for `chain`; all gradients are multiplied by the same number.

    >>> clip_by_global_norm(1.0).update(rnp.array([0.0, 4.0]), ())[0]
    Array([0., 1.], dtype=float32)
    """
    number("clip_by_global_norm: the limit", limit)

    def clip(grads: Any) -> Any:
        # no gradient is divided by a length of zero
        factor = limit / rnp.maximum(global_norm(grads), limit)
        return pytree.map(lambda g: g * factor.astype(g.dtype), grads)

    return stateless(clip)


def clip_by_value(limit: float) -> Optimizer:
    """Clip each gradient to the range from `-limit` to `limit`.

    Returns a step for `chain`.

    >>> clip_by_value(1.0).update(rnp.array([0.5, 4.0]), ())[0]
    Array([0.5, 1. ], dtype=float32)
    """
    number("clip_by_value: the limit", limit)
    return stateless(lambda grads: pytree.map(lambda g: rnp.clip(g, -limit, limit), grads))


def adaptive_grad_clip(
    clipping: float, eps: float = 1e-3, axis: int | tuple[int, ...] | None = None
) -> Optimizer:
    """Clip gradients so that they are at most a share of their parameters.

    Returns a step for `chain`. The norm of each unit of a gradient is at most `clipping` times that
    of its parameters, or times `eps` if that is larger. A unit is what one output takes: `axis` is
    summed over, by default all axes but the last, and all of a vector. Of kernels with heads, of
    rank 3, it is the first one alone, as in optax. Brock et al., 2021,
    https://arxiv.org/abs/2102.06171

    >>> step, p = adaptive_grad_clip(0.1), rnp.array([3.0, 4.0])
    >>> step.update(rnp.array([0.0, 9.0]), step.init(p), p)[0]
    Array([0. , 0.5], dtype=float32)
    """
    check_numbers(clipping=clipping, eps=eps)

    def norms(x: Any) -> Any:
        over: Any = axis
        if axis is None and sum(n != 1 for n in x.shape) > 1:
            over = 0 if x.ndim == 3 else tuple(range(x.ndim - 1))
        return rnp.sqrt(rnp.sum(square_of(x), over, keepdims=True))

    def clip(g: Any, p: Any) -> Any:
        wide, size = widened(g), norms(widened(g))
        most = clipping * rnp.maximum(norms(widened(p)), eps)
        clipped = wide * (most / rnp.maximum(size, 1e-6))
        return rnp.where(size < most, wide, clipped).astype(g.dtype)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return pytree.map(clip, grads, needs_params("adaptive_grad_clip", params)), state

    return on_parameters(lambda params: (), update)
