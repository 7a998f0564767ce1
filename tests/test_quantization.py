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
    assert not q.plan.source.leaves  # floats that nobody needs
    assert np.array_equal(rlx.jit(q)(X), y)
    assert np.allclose(rlx.vmap(q)(X), y, atol=1e-5)
    assert np.array_equal(rlx.jit(lambda q, x: q(x))(rlx.tree.map(lambda x: x, q), X), y)
    assert np.allclose(rlx.jit(lambda x: q(x), dynamic={"x": {0: "n"}})(X[:3]), y[:3], atol=1e-5)
    rlx.save(tmp_path / "q.npz", q)
    blank = rlx.tree.map(lambda x: 0 * x, q)
    assert np.array_equal(rlx.load(tmp_path / "q.npz", like=blank)(X), y)
    exported = rlx.load_exported(rlx.export(q, X).serialize())
    assert np.allclose(exported(X), y, atol=1e-5)


def test_what_is_no_number_is_as_the_page_says():
    """It has the greatest code of a known range, as in PyTorch; else its line is NaN."""
    w = np.random.default_rng(3).standard_normal((32, 4)).astype(np.float32)
    x, top = X.copy(), X.copy()
    x[1, 5], top[1, 5] = np.nan, 1e9
    for scheme in ("w8a8", "w8a8_dynamic", "w8", "w4"):
        q = rlx.quantize(lambda x: x @ w, [X], scheme=scheme)
        for f in (q, rlx.jit(q)):
            y = np.asarray(f(x))
            np.testing.assert_array_equal(y[[0, 2]], np.asarray(f(X))[[0, 2]])
            if scheme == "w8a8":
                np.testing.assert_array_equal(y[1], np.asarray(f(top))[1])
            else:
                assert np.isnan(y[1]).all()


# -- convolutions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"padding": "SAME", "stride": 2},
        {"padding": "SAME", "groups": 4},
        {"padding": ((2, 0), (1, 3)), "dilation": 2},
    ],
    ids=str,
)
def test_convolutions_on_codes(attrs):
    """Zeros around an image are the code of 0, which is another number."""
    key, x = rlx.random.key(0), np.abs(np.random.default_rng(0).standard_normal((2, 8, 9, 8)))
    layer = nn.Conv(8, 12, (3, 3), key=key, **attrs)
    x = x.astype(np.float32)
    for scheme in ("w8a8", "w8a8_dynamic", "w8"):
        q = rlx.quantize(layer, [x], scheme=scheme)
        assert decibels(layer(x), q(x)) > 33
    text = str(rlx.make_graph(rlx.quantize(layer, [x]))(x))
    assert re.search(r"i32\[.*\] = conv_general_dilated", text)


def test_max_pooling_on_codes():
    keys = rlx.random.split(rlx.random.key(0), 2)
    first, last = (nn.Conv(8, 8, (3, 3), padding="SAME", key=key) for key in keys)
    x = np.random.default_rng(0).standard_normal((2, 8, 8, 8)).astype(np.float32)
    net = nn.Sequential([first, nn.relu, lambda x: nn.max_pool(x, (2, 2)), last])
    q = rlx.quantize(net, [x])
    text = str(rlx.make_graph(q)(x))
    assert re.search(r": i8\[.*\] = reduce_max ", text)
    assert not re.search(r": f32\[.*\] = (reduce_max|max|relu|reduce_window_max) ", text)
    assert decibels(net(x), q(x)) > 33


def test_transposed_convolutions_on_codes():
    key, x = rlx.random.key(0), np.abs(np.random.default_rng(0).standard_normal((2, 5, 4)))
    layer = nn.ConvTranspose(4, 6, 3, stride=2, key=key)
    x = x.astype(np.float32)
    assert decibels(layer(x), rlx.quantize(layer, [x])(x)) > 33


# -- training --------------------------------------------------------------------------------------


def test_training_finds_weights_that_bear_rounding():
    """Of 4 bits: what is trained with rounding errs less than what is rounded afterwards."""
    keys = rlx.random.split(rlx.random.key(0), 3)
    teacher = nn.MLP([32, 32, 4], key=keys[0])
    student = nn.MLP([32, 64, 4], key=keys[1])
    x = rlx.random.normal(keys[2], (256, 32))
    y = teacher(x)
    scheme = Scheme(weights=4, granularity=32, symmetric_weights=False)

    def loss(model):
        return ((model(x) - y) ** 2).mean()

    @rlx.jit
    def train(model, rate):
        optimizer = rlx.optim.adam(rlx.optim.schedules.cosine(rate, 150))

        def step(carry, _):
            model, memory = carry
            updates, memory = optimizer.update(rlx.grad(loss)(model), memory, model)
            return (rlx.optim.apply_updates(model, updates), memory), None

        return rlx.scan(step, (model, optimizer.init(model)), length=150)[0][0]

    student = train(student, 1e-2)
    after = rlx.quantize(student, [x], scheme=scheme)
    prepared = rlx.quantize(student, [x], scheme=scheme, train=True)
    assert np.allclose(loss(prepared), loss(after), rtol=0.1)
    trained = train(prepared, 3e-3)
    converted = trained.convert([x])
    assert np.allclose(loss(trained), loss(converted), rtol=0.02)
    assert loss(converted) < loss(after) / 2
    assert loss(converted) < 0.02 * (y**2).mean()
    assert len(converted.report().layers) == 2


def test_training_with_ranges_of_inputs():
    m = model()
    for scheme in ("w8a8", "w8a8_dynamic"):
        q = rlx.quantize(m, [X], scheme=scheme, train=True)
        assert decibels(m(X), q(X)) > 30
        assert decibels(q(X), q.convert()(X)) > 80
        gradient = rlx.grad(lambda q: (q(X) ** 2).sum())(q)
        right = rlx.grad(lambda m: (m(X) ** 2).sum())(m)
        assert decibels(right.layers[0].weight, gradient.kept["layers[0].weight"]) > 20
        assert all(not np.any(x) for x in rlx.tree.leaves(gradient.ranges))


# -- reports and errors ----------------------------------------------------------------------------


def test_report():
    w = np.arange(-64, 64, dtype=np.float32).reshape(32, 4)
    weights = {"first": w, "table": np.ones((16, 32), np.float32), "last": w.T[:, :4] / 4}

    def net(weights, ids):
        x = weights["table"][ids]
        return rnp.tanh(x @ weights["first"] / 512) @ weights["last"] @ weights["last"]

    q = rlx.quantize(functools.partial(net, weights), [np.arange(3)], scheme="w8", skip="*#2")
    text = """
net: w8, 2 products
layer         signal/noise  max error   cosine             bytes
[0]["first"]       46.9 dB       0.25  0.99999    512 B -> 136 B
[0]["last"]        59.9 dB     0.0032  1.00000      64 B -> 32 B
all                77.6 dB      0.015  1.00000  2.6 kB -> 2.3 kB
stayed float
  [0]["last"]#2: it is in skip
  [0]["table"]: used by no product, 2.0 kB
"""
    assert str(q.report()) == text.strip()


ERRORS = {
    "AttributeValueError: quantize: there is no scheme 'int8'": dict(scheme="int8"),
    "ArgumentError: quantize: there is no calibration": dict(calibration=None),
    "ArgumentError: quantize: the calibration is empty": dict(calibration=[]),
    "ArgumentError: quantize: the calibration is 3, not a list of examples": dict(calibration=3),
    "ArgumentError: quantize: example 0 of the calibration has specs, no numbers": dict(
        calibration=[rlx.spec((2, 32))]
    ),
    "ArgumentError: quantize: example 1 of the calibration is empty: there are no inputs": dict(
        calibration=[X, X[:0]]
    ),
    "ArgumentError: quantize: example 1 of the calibration makes numbers that are not finite": dict(
        calibration=[X, X * np.nan]
    ),
    "ArgumentError: quantize: skip names 'layers[2]', which is no layer": dict(skip="layers[2]"),
    "ArgumentError: quantize: only names 'layer', which is no layer": dict(only=["layer"]),
    "ArgumentError: quantize: skip holds 3, which is no path": dict(skip=[3]),
    "ArgumentError: quantize: MLP has no product with a weight to quantize": dict(skip="layers"),
    "ArgumentError: quantize: the weight layers[0].weight has numbers that are not finite": dict(
        f=rlx.tree.map(lambda x: x / 0, model())
    ),
    "ArgumentError: quantize: weights are so large that their range is over float32's": dict(
        f=lambda x: x @ np.full((32, 4), 3e38, "float32")
    ),
}


@pytest.mark.parametrize(("text", "given"), ERRORS.items(), ids=map(str, range(len(ERRORS))))
def test_errors(text, given):
    with pytest.raises(rlx.RlxError) as raised:
        rlx.quantize(**{"f": model(), "calibration": [X], **given})
    assert f"{type(raised.value).__name__}: {raised.value}".startswith(text)
    assert raised.value.fix


def test_errors_of_schemes():
    for wrong in (
        dict(weights=4),
        dict(weights=4, granularity=32, activations="static"),
        dict(symmetric_weights=False, activations="dynamic"),
        dict(granularity=32, symmetric_weights=False),
        dict(percentile=10.0),
        dict(smoothing=2.0),
    ):
        with pytest.raises(rlx.ArgumentError):
            Scheme(**wrong)


def test_errors_of_calls():
    q = rlx.quantize(model(), [X])
    with pytest.raises(rlx.ArgumentError, match="is in few bits already"):
        q.convert()
    with pytest.raises(rlx.ShapeError, match="inner sizes differ"):
        q(X[:, :3])
    with pytest.raises(rlx.ArgumentError, match="missing a required argument"):
        q()
    with pytest.raises(rlx.ArgumentError, match="while a function is traced"):
        rlx.jit(lambda x: rlx.quantize(model(), [x])(x))(X)
    w = rnp.ones((4, 4))
    q = rlx.quantize(lambda x: x @ w if x.ndim == 2 else x @ w @ w, [w])
    with pytest.raises(rlx.StructureError, match="multiplies by 2 weights for these arguments"):
        q(rnp.ones(4))


def test_only_and_skip_take_paths():
    m = nn.MLP([32, 32, 32, 4], key=rlx.random.key(0))
    names = [f"layers[{i}].weight" for i in range(3)]
    for options, left in (
        (dict(skip="layers[1]"), [0, 2]),
        (dict(only=["layers[1]", "layers[2].weight"]), [1, 2]),
        (dict(only="layers[*]", skip=["layers[0].weight"]), [1, 2]),
    ):
        q = rlx.quantize(m, [rlx.spec((1, 32))], scheme="w8", **options)
        assert list(q.weights) == [names[i] for i in left]
        assert q.report().whole is None
    assert "layers[0].weight: it is in skip" in str(q.report())
