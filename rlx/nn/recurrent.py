"""Recurrent layers: cells that take one time, and their scans over sequences.

Sequences are `f32[batch, time, features]`; the batch may have any axes, or none. Read `_Gates`,
then a cell, then `RNN`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from .. import lax, numpy as rnp, random
from ..ir.errors import ArgumentError, ShapeError
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.arguments import callable_of, count_of, flag, members, pair
from ..trace.array import Array
from ..trace.promotion import convert
from .arguments import lengths_of
from .functional import sigmoid, tanh
from .layers import Dropout
from .module import Module, field

Gates = tuple[Array, Array, Array | None, Array | None]


def _gates(
    name: str, in_size: int, size: int, count: int, key: Any, use_bias: bool, dtype: Any
) -> Gates:
    """Weights of inputs and of states, and two biases, of `count` gates side by side.

    All are drawn from -1 / sqrt(size) to 1 / sqrt(size), as PyTorch's.
    """
    in_size = count_of(f"{name}: in_size", in_size, 1)
    size = count_of(f"{name}: size", size, 1)
    bound = 1 / math.sqrt(size)
    keys = random.split(key, 4)

    def drawn(i: int, *shape: int) -> Any:
        return random.uniform(keys[i], shape, dtype, -bound, bound)

    has_bias = flag(f"{name}: use_bias", use_bias)
    return (
        drawn(0, in_size, count * size),
        drawn(1, size, count * size),
        drawn(2, count * size) if has_bias else None,
        drawn(3, count * size) if has_bias else None,
    )


def _times(x: Any, weight: Any, bias: Any) -> Array:
    y = rnp.matmul(x, weight)
    return y if bias is None else y + bias


def _check_input(name: str, x: Any, wanted: int) -> Array:
    x = as_tensor(x)
    if x.ndim == 0 or x.shape[-1] != wanted:
        raise ShapeError(
            f"{name}: the layer takes {wanted} features, the input is {x.type}",
            fix=f"give an array whose last axis is {wanted} long",
        )
    return x


def _zeros(cell: Any, shape: Sequence[int]) -> Array:
    return rnp.zeros((*shape, cell.state_weight.shape[0]), cell.state_weight.dtype)


# -- cells: `state, y = cell.step(state, cell.project(x))` -----------------------------------------
#
# `project` is what does not depend on the state; over a whole sequence it is one product.


@final
class SimpleRNNCell(Module):
    """Elman's cell: `activation(x @ weight + state @ state_weight + both biases)`.

    `f32[..., size], f32[..., in] → f32[..., size], f32[..., size]`: called with the state and an
    input, it returns the new state, and an output that is the same. `weight` is f32[in, size],
    `state_weight` f32[size, size]: PyTorch's `weight_ih.T` and `weight_hh.T`; `bias` is `bias_ih`,
    `state_bias` is `bias_hh`. From "Finding Structure in Time", Elman, 1990.

    >>> cell = SimpleRNNCell(3, 4, key=random.key(0))
    >>> state, y = cell(cell.initial_state((2,)), rnp.ones((2, 3)))
    >>> y.shape
    (2, 4)
    """

    weight: Array
    state_weight: Array
    bias: Array | None
    state_bias: Array | None
    activation: Callable[[Any], Any] = field(static=True)

    def __init__(
        self,
        in_size: int,
        size: int,
        *,
        key: Any,
        activation: Callable[[Any], Any] = tanh,
        use_bias: bool = True,
        dtype: Any = "float32",
    ) -> None:
        made = _gates("SimpleRNNCell", in_size, size, 1, key, use_bias, dtype)
        self.weight, self.state_weight, self.bias, self.state_bias = made
        self.activation = callable_of("SimpleRNNCell: activation", activation)

    def __call__(self, state: Any, x: Any, *, key: Any = None) -> tuple[Array, Array]:
        x = _check_input("SimpleRNNCell", x, self.weight.shape[0])
        projected = self.project(x)
        state = _checked_state("SimpleRNNCell", self, state, x.shape[:-1], projected.dtype)
        return self.step(state, projected)

    def initial_state(self, batch: Sequence[int] = ()) -> Array:
        """Zeros: `f32[*batch, size]`."""
        return _zeros(self, batch)

    def project(self, x: Any) -> Array:
        """What inputs add: `x` of `f32[..., in] → f32[..., size]`."""
        return _times(x, self.weight, self.bias)

    def step(self, state: Any, projected: Any) -> tuple[Array, Array]:
        """The new state, and the output, of `state` and `projected`.

        The latter is what `project` gave.
        """
        new = self.activation(projected + _times(state, self.state_weight, self.state_bias))
        return new, new


@final
class LSTMCell(Module):
    """Long short-term memory: a cell with an input, a forget and an output gate.

    `(f32[..., size], f32[..., size]), f32[..., in] → (state, cell), f32[..., size]`. The state is
    the output h and the memory c. `weight` is f32[in, 4 size], with the gates i, f, g, o side by
    side: PyTorch's `weight_ih.T`; `state_weight`, f32[size, 4 size], is `weight_hh.T`; `bias` is
    `bias_ih`, `state_bias` is `bias_hh`. From "Long Short-Term Memory", Hochreiter and Schmidhuber,
    1997.

    >>> cell = LSTMCell(3, 4, key=random.key(0))
    >>> (h, c), y = cell(cell.initial_state((2,)), rnp.ones((2, 3)))
    >>> h.shape, c.shape, y.shape
    ((2, 4), (2, 4), (2, 4))
    """

    weight: Array
    state_weight: Array
    bias: Array | None
    state_bias: Array | None

    def __init__(
        self, in_size: int, size: int, *, key: Any, use_bias: bool = True, dtype: Any = "float32"
    ) -> None:
        made = _gates("LSTMCell", in_size, size, 4, key, use_bias, dtype)
        self.weight, self.state_weight, self.bias, self.state_bias = made

    def __call__(self, state: Any, x: Any, *, key: Any = None) -> tuple[tuple[Array, Array], Array]:
        x = _check_input("LSTMCell", x, self.weight.shape[0])
        projected = self.project(x)
        state = _checked_state("LSTMCell", self, state, x.shape[:-1], projected.dtype)
        return self.step(state, projected)

    def initial_state(self, batch: Sequence[int] = ()) -> tuple[Array, Array]:
        """Zeros: `(f32[*batch, size], f32[*batch, size])`."""
        return _zeros(self, batch), _zeros(self, batch)

    def project(self, x: Any) -> Array:
        """What inputs add: `x` of `f32[..., in] → f32[..., 4 size]`."""
        return _times(x, self.weight, self.bias)

    def step(self, state: Any, projected: Any) -> tuple[tuple[Array, Array], Array]:
        """The new state, and the output, of `state` and `projected`.

        The latter is what `project` gave.
        """
        h, c = state
        gates = projected + _times(h, self.state_weight, self.state_bias)
        i, f, g, o = rnp.split(gates, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        return (h, c), h


@final
class GRUCell(Module):
    """Gated recurrent unit: a cell with a reset and an update gate.

    `f32[..., size], f32[..., in] → f32[..., size], f32[..., size]`. `weight` is f32[in, 3 size],
    with the gates r, z, n side by side: PyTorch's `weight_ih.T`; `state_weight`, f32[size, 3 size],
    is `weight_hh.T`; `bias` is `bias_ih`, `state_bias` is `bias_hh`. The reset gate multiplies what
    the state adds, its bias included. From "Learning Phrase Representations using RNN
    Encoder-Decoder", Cho et al., 2014.

    >>> cell = GRUCell(3, 4, key=random.key(0))
    >>> state, y = cell(cell.initial_state((2,)), rnp.ones((2, 3)))
    >>> y.shape
    (2, 4)
    """

    weight: Array
    state_weight: Array
    bias: Array | None
    state_bias: Array | None

    def __init__(
        self, in_size: int, size: int, *, key: Any, use_bias: bool = True, dtype: Any = "float32"
    ) -> None:
        made = _gates("GRUCell", in_size, size, 3, key, use_bias, dtype)
        self.weight, self.state_weight, self.bias, self.state_bias = made

    def __call__(self, state: Any, x: Any, *, key: Any = None) -> tuple[Array, Array]:
        x = _check_input("GRUCell", x, self.weight.shape[0])
        projected = self.project(x)
        state = _checked_state("GRUCell", self, state, x.shape[:-1], projected.dtype)
        return self.step(state, projected)

    def initial_state(self, batch: Sequence[int] = ()) -> Array:
        """Zeros: `f32[*batch, size]`."""
        return _zeros(self, batch)

    def project(self, x: Any) -> Array:
        """What inputs add: `x` of `f32[..., in] → f32[..., 3 size]`."""
        return _times(x, self.weight, self.bias)

    def step(self, state: Any, projected: Any) -> tuple[Array, Array]:
        """The new state, and the output, of `state` and `projected`.

        The latter is what `project` gave.
        """
        r, z, n = rnp.split(projected, 3, axis=-1)
        state_r, state_z, state_n = rnp.split(
            _times(state, self.state_weight, self.state_bias), 3, axis=-1
        )
        z = sigmoid(z + state_z)
        n = tanh(n + sigmoid(r + state_r) * state_n)
        new = n + z * (state - n)
        return new, new


# -- over sequences --------------------------------------------------------------------------------


@final
class RNN(Module):
    """A `cell` over a sequence: `f32[..., time, in] → f32[..., time, size], state`.

    Returns the outputs of all times, and the last state. `state` is the first one, zeros if not
    given. With `reverse` the cell starts at the end; outputs stay at the place of their inputs.
    `lengths`, i32[...], says how many times of each member of the batch are there: the state stays
    as it is at others, and outputs there are 0. A cell is any module with the methods of `GRUCell`,
    else it is an `ArgumentError`.

    >>> layer = RNN(GRUCell(3, 4, key=random.key(0)))
    >>> y, state = layer(rnp.ones((2, 5, 3)), lengths=rnp.array([5, 2]))
    >>> y.shape, state.shape, y[1, 2:].any().item()
    ((2, 5, 4), (2, 4), False)
    """

    cell: Any
    reverse: bool = field(static=True)

    def __init__(self, cell: Any, *, reverse: bool = False) -> None:
        for name in ("initial_state", "project", "step"):
            if not callable(getattr(cell, name, None)):
                raise ArgumentError(
                    f"RNN: the cell {type(cell).__name__} has no method {name}",
                    fix="pass nn.LSTMCell(...), or a module with its methods",
                )
        self.cell = cell
        self.reverse = flag("RNN: reverse", reverse)

    def __call__(
        self, x: Any, state: Any = None, *, lengths: Any = None, key: Any = None
    ) -> tuple[Array, ...]:
        x = _sequence("RNN", x, self.cell)
        batch = x.shape[:-2]
        state = self.cell.initial_state(batch) if state is None else state
        projected = rnp.moveaxis(self.cell.project(x), -2, 0)
        state = _checked_state("RNN", self.cell, state, batch, projected.dtype)
        there = None if lengths is None else _there(lengths, x)

        def step(state: Any, now: Any) -> tuple[Any, Any]:
            projected, is_there = now
            new, y = self.cell.step(state, projected)
            if is_there is None:
                return new, y
            kept = pytree.map(lambda a, b: rnp.where(is_there, a, b), new, state)
            return kept, rnp.where(is_there, y, 0.0)

        state, y = lax.scan(step, state, (projected, there), reverse=self.reverse)
        return rnp.moveaxis(y, 0, -2), state


@final
class Bidirectional(Module):
    """Two scans of a sequence, one from each end, their outputs side by side.

    `f32[..., time, in] → f32[..., time, sizes of both], (state, state)`. `forward` and `backward`
    are cells. `state` is a pair, or None. From "Bidirectional Recurrent Neural Networks", Schuster
    and Paliwal, 1997.

    >>> one, other = (LSTMCell(3, 4, key=random.key(i)) for i in range(2))
    >>> y, (forward, backward) = Bidirectional(one, other)(rnp.ones((2, 5, 3)))
    >>> y.shape
    (2, 5, 8)
    """

    forward: RNN
    backward: RNN

    def __init__(self, forward: Any, backward: Any) -> None:
        self.forward = RNN(forward)
        self.backward = RNN(backward, reverse=True)

    def __call__(
        self, x: Any, state: Any = None, *, lengths: Any = None, key: Any = None
    ) -> tuple[Array, tuple[Any, Any]]:
        first, second = (None, None) if state is None else pair("Bidirectional: state", state)
        one, first = self.forward(x, first, lengths=lengths)
        other, second = self.backward(x, second, lengths=lengths)
        return rnp.concatenate([one, other], axis=-1), (first, second)


def _stack(
    name: str, cell: Callable[..., Any], sizes: tuple[int, int], layers: int, both: bool, key: Any
) -> tuple[Any, ...]:
    """Layers one above the other; `cell(in_size, size, key=key)` makes a cell."""
    in_size, size = sizes
    count = count_of(f"{name}: layers", layers, 1)
    is_double = flag(f"{name}: bidirectional", both)
    made: list[Any] = []
    for k in random.split(key, count):
        if is_double:
            one, other = (cell(in_size, size, key=half) for half in random.split(k, 2))
            made.append(Bidirectional(one, other))
        else:
            made.append(RNN(cell(in_size, size, key=k)))
        in_size = size * (2 if is_double else 1)
    return tuple(made)


class _Stacked(Module):
    """Recurrent layers one above the other, with dropout between them."""

    layers: tuple[Any, ...]
    dropout: Dropout

    def __call__(
        self, x: Any, state: Any = None, *, lengths: Any = None, key: Any = None
    ) -> tuple[Any, Any]:
        given = (None,) * len(self.layers) if state is None else members("the states", state)
        if len(given) != len(self.layers):
            raise ArgumentError(
                f"{len(given)} states for {len(self.layers)} layers",
                fix="give one state for each layer, as the result has them",
            )
        states: list[Any] = []
        for i, (layer, before) in enumerate(zip(self.layers, given, strict=True)):
            if i:
                x = self.dropout(x, key=None if key is None else random.fold_in(key, i))
            x, after = layer(x, before, lengths=lengths)
            states.append(after)
        return x, tuple(states)


@final
class LSTM(_Stacked):
    """Long short-term memory over sequences.

    `f32[..., time, in] → f32[..., time, size], states`. `layers` lie one above the other, with
    `dropout` between them. With `bidirectional` outputs are 2 size long. `states` has one state for
    each layer, (h, c), or a pair of them for both directions; it may be given back as `state`.
    `lengths` is as for `RNN`; `LSTMCell` describes the weights.

    >>> layer = LSTM(3, 4, key=random.key(0))
    >>> y, ((h, c),) = layer(rnp.ones((2, 5, 3)))
    >>> y.shape, bool((y[:, -1] == h).all())
    ((2, 5, 4), True)
    """

    def __init__(
        self,
        in_size: int,
        size: int,
        *,
        key: Any,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        inference: bool = False,
        dtype: Any = "float32",
    ) -> None:
        cell = partial(LSTMCell, use_bias=use_bias, dtype=dtype)
        self.layers = _stack("LSTM", cell, (in_size, size), layers, bidirectional, key)
        self.dropout = Dropout(dropout, inference=inference)


@final
class GRU(_Stacked):
    """Gated recurrent units over sequences.

    `f32[..., time, in] → f32[..., time, size], states`. `layers`, `bidirectional` and `dropout` are
    as for `LSTM`; a state is one array. `GRUCell` describes the weights.

    >>> layer = GRU(3, 4, key=random.key(0), bidirectional=True)
    >>> y, ((forward, backward),) = layer(rnp.ones((2, 5, 3)))
    >>> y.shape, forward.shape
    ((2, 5, 8), (2, 4))
    """

    def __init__(
        self,
        in_size: int,
        size: int,
        *,
        key: Any,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        inference: bool = False,
        dtype: Any = "float32",
    ) -> None:
        cell = partial(GRUCell, use_bias=use_bias, dtype=dtype)
        self.layers = _stack("GRU", cell, (in_size, size), layers, bidirectional, key)
        self.dropout = Dropout(dropout, inference=inference)


# -- checks ----------------------------------------------------------------------------------------


def _sequence(name: str, x: Any, cell: Any) -> Array:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: {x.type} has no axes of times and features",
            fix="give an array of shape (batch, time, features)",
        )
    weight = getattr(cell, "weight", None)
    return x if weight is None else _check_input(name, x, weight.shape[0])


def _checked_state(name: str, cell: Any, state: Any, batch: tuple[Any, ...], dtype: Any) -> Any:
    """The state as arrays of the shapes of the first one, in the dtype of all that comes."""
    wanted, spec = pytree.flatten(cell.initial_state(batch))
    sides = "that of the cell", "the given one"
    given = [as_tensor(x) for x in pytree.flatten_like(spec, state, f"{name}: the state", sides)]
    for x, y in zip(wanted, given, strict=True):
        if y.shape != x.shape:
            raise ShapeError(
                f"{name}: a state is {y.type}, for inputs whose batch is {batch}",
                fix=f"give one of shape {x.shape}, such as those of initial_state({batch})",
            )
    dtype = rnp.result_type(dtype, *(x.dtype for x in given))
    return pytree.unflatten(spec, [convert(x, dtype) for x in given])


def _there(lengths: Any, x: Any) -> Array:
    """Which times are there, times first: `bool[time, ..., 1]`."""
    limits = lengths_of("RNN: the lengths", lengths, x.shape[:-2], x.shape[-2])
    ticks = rnp.arange(x.shape[-2], dtype="int32")
    return rnp.moveaxis(ticks < limits[..., None], -1, 0)[..., None]
