"""Recurrent layers against PyTorch in float64: outputs, states and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import nn, numpy as rnp, random
from rlx.ir.errors import RlxError

KEY = random.key(0)
X = np.random.default_rng(0).normal(size=(3, 6, 4))
LENGTHS = np.array([6, 2, 4])
CELLS = {"SimpleRNNCell": nn.SimpleRNNCell, "LSTMCell": nn.LSTMCell, "GRUCell": nn.GRUCell}


def torch() -> Any:
    return pytest.importorskip("torch")


def fill(layer: Any, cell: Any, suffix: str) -> None:
    """Give a layer of PyTorch the weights of a cell."""
    names = {"weight_ih": "weight", "weight_hh": "state_weight"}
    names |= {"bias_ih": "bias", "bias_hh": "state_bias"}
    with torch().no_grad():
        for theirs, mine in names.items():
            value = np.asarray(getattr(cell, mine)).T.copy()
            getattr(layer, theirs + suffix).copy_(torch().tensor(value))


def slopes_of(layer: Any, suffix: str) -> list[np.ndarray]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(layer, name + suffix).grad.numpy().T for name in names]


def weights_of(cell: Any) -> list[Any]:
    return [cell.weight, cell.state_weight, cell.bias, cell.state_bias]


def same(got: Any, wanted: Any) -> None:
    wanted = wanted.detach().numpy() if hasattr(wanted, "detach") else wanted
    np.testing.assert_allclose(got, wanted, 1e-10, 1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_cells_and_scans_are_those_of_torch(name: str):
    cell = CELLS[name](4, 5, key=KEY, dtype="float64")
    theirs = getattr(torch().nn, {"SimpleRNNCell": "RNN"}.get(name, name[:-4]))(
        4, 5, batch_first=True, dtype=torch().float64
    )
    fill(theirs, cell, "_l0")
    start = np.random.default_rng(1).normal(size=(3, 5))
    state = (start, start + 1) if name == "LSTMCell" else start
    tensors = [torch().tensor(s)[None] for s in (state if name == "LSTMCell" else (state,))]
    x = torch().tensor(X, requires_grad=True)
    wanted, last = theirs(x, tuple(tensors) if name == "LSTMCell" else tensors[0])
    wanted.square().sum().backward()

    def loss(layer: Any, x: Any) -> Any:
        y, after = layer(x, state)
        return rnp.sum(rnp.square(y)), (y, after)

    run = rlx.jit(rlx.value_and_grad(loss, (0, 1), has_aux=True))
    (_, (y, after)), (slope, x_slope) = run(nn.RNN(cell), X)
    same(y, wanted)
    for mine, other in zip(rlx.tree.leaves(after), rlx.tree.leaves(last), strict=True):
        same(mine, other[0].detach().numpy())
    same(x_slope, x.grad)
    for mine, other in zip(weights_of(slope.cell), slopes_of(theirs, "_l0"), strict=True):
        same(mine, other)
    one, _ = cell(state, X[:, 0])
    same(rlx.tree.leaves(one)[0], wanted[:, 0])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_two_bidirectional_layers_of_lengths_are_those_of_torch(kind: str):
    mine = getattr(nn, kind)(4, 5, key=KEY, layers=2, bidirectional=True, dtype="float64")
    theirs = getattr(torch().nn, kind)(
        4, 5, 2, batch_first=True, bidirectional=True, dtype=torch().float64
    )
    for i, layer in enumerate(mine.layers):
        fill(theirs, layer.forward.cell, f"_l{i}")
        fill(theirs, layer.backward.cell, f"_l{i}_reverse")
    packing = torch().nn.utils.rnn
    x = torch().tensor(X, requires_grad=True)
    packed = packing.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    made, last = theirs(packed)
    wanted = packing.pad_packed_sequence(made, batch_first=True)[0]
    wanted.square().sum().backward()

    def loss(layer: Any, x: Any) -> Any:
        y, states = layer(x, lengths=LENGTHS)
        return rnp.sum(rnp.square(y)), (y, states)

    run = rlx.jit(rlx.value_and_grad(loss, (0, 1), has_aux=True))
    (_, (y, states)), (slope, x_slope) = run(mine, X)
    same(y, wanted)
    same(x_slope, x.grad)
    hidden = last[0] if kind == "LSTM" else last
    found = [s[0] if kind == "LSTM" else s for pair in states for s in pair]
    same(np.stack(found), hidden)
    if kind == "LSTM":
        same(np.stack([s[1] for pair in states for s in pair]), last[1])
    for i, layer in enumerate(slope.layers):
        for way, suffix in ((layer.forward, ""), (layer.backward, "_reverse")):
            wanted = slopes_of(theirs, f"_l{i}{suffix}")
            for mine, other in zip(weights_of(way.cell), wanted, strict=True):
                same(mine, other)


def test_a_sequence_in_two_parts_is_the_whole():
    layer = nn.LSTM(4, 5, key=KEY, layers=2)
    x = X.astype(np.float32)
    whole, states = layer(x)
    first, half = layer(x[:, :2])
    second, after = layer(x[:, 2:], half)
    np.testing.assert_allclose(whole, np.concatenate([first, second], 1), 1e-5, 1e-6)
    for a, b in zip(rlx.tree.leaves(states), rlx.tree.leaves(after), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_a_reversed_scan_keeps_places():
    cell = nn.GRUCell(4, 5, key=KEY, dtype="float64")
    y, state = nn.RNN(cell, reverse=True)(X)
    wanted, _ = nn.RNN(cell)(X[:, ::-1])
    same(y, np.asarray(wanted)[:, ::-1])
    same(state, y[:, 0])


def test_any_axes_of_batches_and_vmap():
    layer = nn.RNN(nn.LSTMCell(4, 5, key=KEY, dtype="float64"))
    y, _ = layer(X)
    same(layer(X[0])[0], y[0])
    same(layer(X[None])[0], y[None])
    same(rlx.vmap(lambda x: layer(x)[0])(X), y)


def test_dropout_between_layers_needs_a_key_in_training():
    layer = nn.LSTM(4, 5, key=KEY, layers=2, dropout=0.5)
    with pytest.raises(RlxError, match="was given no key"):
        layer(X)
    y, _ = layer(X, key=KEY)
    assert (y != nn.inference(layer)(X)[0]).any()


@pytest.mark.parametrize("name", CELLS)
def test_no_times_and_lengths_of_zero(name: str):
    layer = nn.RNN(CELLS[name](4, 5, key=KEY, dtype="float64"))
    start = rlx.tree.map(lambda x: x + 0.5, layer.cell.initial_state((3,)))
    y, state = layer(X[:, :0], start)
    assert y.shape == (3, 0, 5)
    for mine, wanted in zip(rlx.tree.leaves(state), rlx.tree.leaves(start), strict=True):
        same(mine, wanted)
    for reverse in (False, True):
        found, after = layer.replace(reverse=reverse)(X, start, lengths=[0, 6, 0])
        assert not found[0].any() and found[1].all()
        for mine, wanted in zip(rlx.tree.leaves(after), rlx.tree.leaves(start), strict=True):
            same(mine[::2], wanted[::2])


def test_states_of_another_dtype_meet_the_inputs():
    layer = nn.RNN(nn.LSTMCell(4, 5, key=KEY, dtype="bfloat16"))
    x = rnp.asarray(X, "bfloat16")
    y, (h, c) = layer(x)
    assert {str(a.dtype) for a in (y, h, c)} == {"bfloat16"}
    y, (h, c) = layer(x, (rnp.zeros((3, 5)), rnp.zeros((3, 5), "bfloat16")))
    assert {str(a.dtype) for a in (y, h, c)} == {"float32"}


def test_wrong_arguments_say_what_to_do():
    layer = nn.RNN(nn.GRUCell(4, 5, key=KEY))
    for wrong in (
        lambda: layer(X[..., :3]),
        lambda: layer(X[0, 0]),
        lambda: layer(X, np.zeros((2, 5))),
        lambda: layer(X, lengths=[1, 2]),
        lambda: layer(X, lengths=[1, 2, 7]),
        lambda: layer(X, lengths=[1, 2, -1]),
        lambda: nn.GRUCell(4, 5, key=KEY)(None, X[:, 0]),
        lambda: nn.LSTMCell(4, 5, key=KEY)(np.zeros((3, 5)), X[:, 0]),
        lambda: nn.GRU(4, 5, key=KEY, bidirectional=True)(X, (np.zeros((3, 5)),)),
        lambda: nn.GRU(4, 5, key=KEY)(X, 3),
        lambda: nn.RNN(nn.Linear(4, 5, key=KEY)),
        lambda: nn.LSTMCell(0, 5, key=KEY),
        lambda: nn.LSTM(4, 5, key=KEY, layers=0),
        lambda: nn.GRU(4, 5, key=KEY)(X, (None, None)),
    ):
        with pytest.raises(RlxError) as error:
            wrong()
        assert error.value.fix
