"""`rlx.quantize`: weights and products of functions and modules in few bits."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.quantization import Scheme

X = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)


def model() -> nn.MLP:
    return nn.MLP([32, 64, 4], key=rlx.random.key(0))


def decibels(right: object, given: object) -> float:
    right, given = np.asarray(right, np.float64), np.asarray(given, np.float64)
    return 10 * np.log10((right**2).sum() / max(((right - given) ** 2).sum(), 1e-30))


# -- what schemes give -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "least"),
    [
        ("w8", 40),
        ("w4", 17),
        ("w8a8", 33),
        ("w8a8_dynamic", 33),
        (Scheme(granularity="tensor"), 30),
        (Scheme(granularity="channel", symmetric_weights=False), 38),
        (Scheme(weights=4, granularity=32), 15),
        (Scheme(activations="static", symmetric_activations=True), 30),
        (Scheme(activations="static", activation_ranges="mse", weight_ranges="mse"), 33),
        (Scheme(activations="static", activation_ranges="percentile"), 25),
        (Scheme(activations="static", granularity="tensor", smoothing=None), 30),
        (Scheme(weight_ranges="percentile", percentile=99.9), 25),
    ],
    ids=str,
)
def test_results_are_near_to_those_of_floats(scheme, least):
    m = model()
    q = rlx.quantize(m, [X], scheme=scheme)
    assert decibels(m(X), q(X)) > least
    assert q(X[0]).shape == (4,)
    assert decibels(q(X)[0], q(X[0])) > 100
    assert len(q.report().layers) == 2
    assert all(layer.after < layer.before / 2 for layer in q.report().layers)


@pytest.mark.parametrize("group", [32, 64, 128])
def test_groups_share_a_scale_of_their_own(group):
    w = np.random.default_rng(1).standard_normal((128, 3)).astype(np.float32)
    w[:group] *= 100
    q = rlx.quantize(lambda x: x @ w, [rlx.spec((2, 128))], scheme=Scheme(4, granularity=group))
    x = np.eye(128, dtype=np.float32)
    steps = np.abs(w.reshape(-1, group, 3)).max(1) / 7
    off = np.abs(np.asarray(q(x)) - w).reshape(-1, group, 3).max(1)
    assert (off <= steps * 0.52).all()  # half a step, whose float16 is rounded
    assert (off > steps * 0.4).all()


def test_int8_products_are_those_of_the_codes():
    """Of whole numbers whose ranges are those of the codes nothing is rounded."""
    rng = np.random.default_rng(2)
    w = rng.integers(-127, 128, (8, 5)).astype(np.float32)
    x = rng.integers(-128, 128, (6, 8)).astype(np.float32)
    w[0], x[0, :2] = 127, [-128, 127]
    scheme = Scheme(activations="static", smoothing=None)
    q = rlx.quantize(lambda x: x @ w, [x], scheme=scheme)
    for device in ("cpu", "reference"):
        assert np.array_equal(rlx.jit(q, device=device)(x), x @ w)


def test_weights_are_found_through_what_makes_them():
    """A weight may be transposed, the product of others, or used twice."""
    a, b = (np.random.default_rng(i).standard_normal((32, 32)).astype(np.float32) for i in (3, 4))

    def f(weights, x):
        wide = rlx.jit(lambda a, b: a @ b)(weights["a"], weights["b"])
        return rnp.tanh(weights["a"].T @ x) + (x.T @ wide).T

    part = functools.partial(f, {"a": a, "b": b})
    q = rlx.quantize(part, [X.T])
    assert sorted(q.weights) == ['[0]["a"]', '[0]["a"]#2']
    assert not q.kept
    assert decibels(part(X.T), q(X.T)) > 25


def test_codes_go_through_what_only_chooses_and_moves():
    """Between two products there is no float but in the epilogue of the first."""
    keys = rlx.random.split(rlx.random.key(0), 2)
    w, v = (rlx.random.normal(key, (32, 32)) for key in keys)

    def f(x):
        y = rnp.clip(nn.relu(x @ w), 0, 3).reshape(4, 4, 32).transpose(1, 0, 2)
        return rnp.concatenate([y, y[::-1]], 1).max(0) @ v

    q = rlx.quantize(f, [X], scheme=Scheme(activations="static", smoothing=None))
    text = str(rlx.make_graph(q)(X))
    for op in ("max", "reshape", "transpose", "concat", "reduce_max"):
        types = re.findall(rf": (\w+)\[.*\] = {op} ", text)
        assert types and set(types) == {"i8"}, (op, types)
    assert decibels(f(X), q(X)) > 30


def test_results_are_the_same_in_every_transform(tmp_path):
    q = rlx.quantize(model(), [X])
    y = np.asarray(q(X))
    assert np.array_equal(rlx.jit(q)(X), y)
    assert np.allclose(rlx.vmap(q)(X), y, atol=1e-5)
    assert np.array_equal(rlx.jit(lambda q, x: q(x))(rlx.tree.map(lambda x: x, q), X), y)
    assert np.allclose(rlx.jit(lambda x: q(x), dynamic={"x": {0: "n"}})(X[:3]), y[:3], atol=1e-5)
    rlx.save(tmp_path / "q.npz", q)
    blank = rlx.tree.map(lambda x: 0 * x, q)
    assert np.array_equal(rlx.load(tmp_path / "q.npz", like=blank)(X), y)
    exported = rlx.load_exported(rlx.export(q, X).serialize())
    assert np.allclose(exported(X), y, atol=1e-5)
