"""Layers against those of PyTorch with the same weights: outputs, all gradients and new state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import nn, numpy as rnp, random
from rlx.ir.errors import RlxError

torch = pytest.importorskip("torch")
KEY = random.key(0)
F64: Any = {"key": KEY, "dtype": "float64"}
TOLERANCE = 1e-12  # of sums of some hundred numbers in float64, with room


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def same(got: Any, wanted: Any) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype == np.float64
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    np.testing.assert_allclose(got, wanted, 0, TOLERANCE * scale)


def features_last(x: Any) -> np.ndarray:
    x = x.detach().numpy()
    return np.moveaxis(x, 1, -1) if x.ndim > 2 else x


def features_second(x: np.ndarray) -> Any:
    return torch.tensor(np.ascontiguousarray(np.moveaxis(x, -1, 1) if x.ndim > 2 else x))


# -- how PyTorch keeps weights ---------------------------------------------------------------------


def plain(weight: np.ndarray) -> np.ndarray:
    return weight


def transposed(weight: np.ndarray) -> np.ndarray:
    """Of linear layers, and of convolutions: outputs and inputs come first."""
    return np.transpose(weight, (*range(2, weight.ndim), 1, 0))


def of_groups(groups: int) -> Callable[[np.ndarray], np.ndarray]:
    """Of transposed convolutions: (in, out / groups, *kernel), for a kernel that is flipped."""

    def change(weight: np.ndarray) -> np.ndarray:
        inputs, outs, *kernel = weight.shape
        n = len(kernel)
        parts = weight.reshape(groups, inputs // groups, outs, *kernel)
        parts = np.transpose(parts, (*range(3, 3 + n), 1, 0, 2))
        return np.flip(parts.reshape(*kernel, inputs // groups, groups * outs), tuple(range(n)))

    return change


def compare(mine: Any, theirs: Any, x: np.ndarray, names: dict[str, tuple[str, Any]]) -> None:
    """A layer with the weights of PyTorch's: its output, and the gradients of all weights and x.

    `names` gives for each parameter of PyTorch's the field, and the way to its layout.
    """
    theirs = theirs.double()
    known = dict(theirs.named_parameters())
    assert set(known) == set(names)
    with torch.no_grad():
        for i, value in enumerate(known.values()):
            value.copy_(torch.tensor(normal(*value.shape, seed=i + 1)))
    changes = {
        field: layout(known[name].detach().numpy()) for name, (field, layout) in names.items()
    }
    mine = mine.replace(**{field: rlx.asarray(value) for field, value in changes.items()})
    their_x = features_second(x).requires_grad_()
    theirs.zero_grad()
    their_y = theirs(their_x)
    ct = normal(*their_y.shape, seed=99)
    (their_y * torch.tensor(ct)).sum().backward()
    our_ct = np.moveaxis(ct, 1, -1) if ct.ndim > 2 else ct

    def loss(layer: Any, x: Any) -> Any:
        y = layer(x)
        return rnp.sum(y * our_ct), y

    (_, y), (slope, x_slope) = rlx.jit(rlx.value_and_grad(loss, (0, 1), has_aux=True))(mine, x)
    same(y, features_last(their_y))
    same(mine(x), features_last(their_y))
    same(x_slope, features_last(their_x.grad))
    for name, (field, layout) in names.items():
        same(getattr(slope, field), layout(known[name].grad.numpy()))


WEIGHT = {"weight": ("weight", transposed), "bias": ("bias", plain)}
SCALE = {"weight": ("scale", plain), "bias": ("bias", plain)}
SIZES = (7, 6, 5)


# -- convolutions ----------------------------------------------------------------------------------


KERNELS = {
    (3,): {"padding": (2,)},
    (3, 2): {"padding": (2, 1), "stride": (2, 1)},
    (2, 3): {"padding": (1, 2), "dilation": (1, 2), "groups": 2},
    (2, 3, 2): {"padding": (1, 2, 1), "stride": (1, 2, 2)},
}
MODES = ["reflect", "replicate", "circular"]


@pytest.mark.parametrize(
    ("kernel", "mode"),
    [*((k, "zeros") for k in KERNELS), *(((2, 3), mode) for mode in MODES), ((3,), "reflect")],
)
def test_convolutions(kernel: tuple[int, ...], mode: str):
    count, options = len(kernel), KERNELS[kernel]
    mine = nn.Conv(4, 6, kernel, padding_mode=mode, **options, **F64)
    kind = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[count - 1]
    theirs = kind(4, 6, kernel, padding_mode=mode, **options)
    compare(mine, theirs, normal(2, *SIZES[:count], 4), WEIGHT)


def test_padding_modes_pad_as_much_as_zeros():
    x = normal(2, 7, 6, 3)
    for padding in ("SAME", "SAME_LOWER", "VALID", [(1, 2), 0]):
        options = {"padding": padding, "stride": (2, 1), "dilation": (1, 2)}
        layer = nn.Conv(3, 4, (3, 2), **options, **F64)
        around = nn.Conv(3, 4, (3, 2), padding_mode="circular", **options, **F64)
        assert layer(x).shape == around(x).shape
        same(layer(x)[:, 1:2, 2:3], around(x)[:, 1:2, 2:3])  # no padding is seen there


@pytest.mark.parametrize(
    ("kernel", "groups", "options"),
    [
        ((3,), 1, {"stride": (2,), "padding": (1,)}),
        ((3, 2), 2, {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2)}),
        ((2, 3), 4, {"dilation": (2, 1)}),
        ((2, 2, 3), 1, {"stride": (1, 2, 1)}),
    ],
)
def test_transposed_convolutions(kernel: tuple[int, ...], groups: int, options: dict[str, Any]):
    count = len(kernel)
    dilation = options.get("dilation", (1,) * count)
    widest = [(n - 1) * d for n, d in zip(kernel, dilation, strict=True)]
    low = [n - p for n, p in zip(widest, options.get("padding", (0,) * count), strict=True)]
    more = options.get("output_padding", (0,) * count)
    pads = [(n, n + extra) for n, extra in zip(low, more, strict=True)]
    mine = nn.ConvTranspose(
        4,
        8,
        kernel,
        stride=options.get("stride", 1),
        padding=pads,
        dilation=dilation,
        groups=groups,
        **F64,
    )
    kind = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)[count - 1]
    names = {"weight": ("weight", of_groups(groups)), "bias": ("bias", plain)}
    theirs = kind(4, 8, kernel, groups=groups, **options)
    compare(mine, theirs, normal(2, *SIZES[:count], 4), names)


# -- pooling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_pooling(count: int):
    x = normal(2, *SIZES[:count], 3)
    window, stride, pad = (3, 2, 2)[:count], (2, 1, 3)[:count], (1, 1, 0)[:count]
    options = {"kernel_size": window, "stride": stride, "padding": pad}
    theirs = getattr(torch.nn, f"MaxPool{count}d")(**options)
    compare(nn.MaxPool(window, stride, pad), theirs, x, {})
    for counted in (False, True):
        theirs = getattr(torch.nn, f"AvgPool{count}d")(**options, count_include_pad=counted)
        compare(nn.AvgPool(window, stride, pad, counted), theirs, x, {})


@pytest.mark.parametrize(
    "sizes", [(3,), (7,), (9,), (1, 1), (3, 4), (None, 4), (7, None), (4, 3, 2), (7, 9, 5)]
)
@pytest.mark.parametrize("kind", ["Avg", "Max"])
def test_adaptive_pooling(kind: str, sizes: tuple[int | None, ...]):
    count = len(sizes)
    theirs = getattr(torch.nn, f"Adaptive{kind}Pool{count}d")(sizes)
    x = normal(2, *SIZES[:count], 3)
    compare(getattr(nn, f"Adaptive{kind}Pool")(sizes), theirs, x, {})


@pytest.mark.parametrize("p", [1, 2, 3.5])
@pytest.mark.parametrize("count", [1, 2])
def test_power_average_pooling(count: int, p: float):
    window, stride = (3, 2)[:count], (2, 1)[:count]
    kind = getattr(torch.nn, f"LPPool{count}d")
    sizes = (window, stride) if count > 1 else (*window, *stride)
    x = np.abs(normal(2, *SIZES[:count], 3))  # PyTorch's has no absolute value
    if p > 1:  # else it has a corner at zero
        x[:, :4] = 0  # a window without gradient
    compare(nn.LPPool(p, window, stride), kind(p, *sizes), x, {})
    compare(nn.LPPool(2, window, stride), kind(2, *sizes), -x, {})


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_local_response_normalization(size: int):
    theirs = torch.nn.LocalResponseNorm(size, 0.3, 0.6, 2.0)
    compare(nn.LocalResponseNorm(size, 0.3, 0.6, 2.0), theirs, 2 * normal(2, 4, 5, 6), {})


@pytest.mark.parametrize(
    "window, stride, pad, apart",
    [
        ((2, 3), (1, 1), (0, 0), (1, 1)),
        ((3, 2), (2, 1), (1, 2), (1, 2)),
        ((1, 1), (3, 2), (0, 0), (1, 1)),
    ],
)
def test_windows_as_features(window: Any, stride: Any, pad: Any, apart: Any):
    """In PyTorch windows are one axis, the last."""
    x, options = normal(2, *SIZES[:2], 3), {"stride": stride, "padding": pad, "dilation": apart}
    theirs = torch.nn.functional.unfold(features_second(x), window, **options)
    layer = nn.Unfold(window, **options)
    y = layer(x)
    same(y.reshape(2, -1, y.shape[-1]).swapaxes(1, 2), theirs.numpy())
    z = normal(*y.shape)
    back = torch.tensor(z.reshape(2, -1, y.shape[-1]).swapaxes(1, 2))
    theirs = torch.nn.functional.fold(back, SIZES[:2], window, **options)
    folded = nn.Fold(SIZES[:2], window, **options)(z)
    same(folded, features_last(theirs))
    (pulled,) = rlx.vjp(layer, x)[1](z)  # folding is the transpose of unfolding
    same(pulled, folded)
    same(rlx.vmap(layer)(x), y)
    assert nn.Unfold(window, stride=2, padding="SAME")(x).shape[1:3] == (4, 3)


def test_adaptive_pooling_sees_no_number_beside_its_window():
    x = np.arange(5.0)[:, None]
    x[2] = np.inf
    assert nn.adaptive_avg_pool(x, 3)[:, 0].tolist() == [0.5, np.inf, 3.5]
    assert nn.adaptive_max_pool(-x, 3)[:, 0].tolist() == [0.0, -1.0, -3.0]
    assert nn.adaptive_avg_pool(np.arange(4)[:, None], 2).tolist() == [[0.5], [2.5]]
    half = np.full((300, 1), 300.0, np.float16)  # the sum is too large for float16
    assert nn.adaptive_avg_pool(half, 7).tolist() == [[300.0]] * 7


def test_global_pooling_is_adaptive_pooling_to_one_place():
    x = normal(2, 7, 6, 3)
    same(nn.global_avg_pool(x, keepdims=True), nn.adaptive_avg_pool(x, (1, 1)))
    same(nn.global_max_pool(x), nn.adaptive_max_pool(x, (1, 1))[:, 0, 0])
    of_open = rlx.jit(nn.global_avg_pool, dynamic={"x": {1: "h"}})
    same(of_open(x), x.mean((1, 2)))
    to_one = rlx.jit(lambda x: nn.adaptive_max_pool(x, (1, None)), dynamic={"x": {1: "h", 2: "w"}})
    same(to_one(x), x.max(1, keepdims=True))


# -- places ----------------------------------------------------------------------------------------


def test_pixel_shuffle():
    compare(nn.PixelShuffle(3), torch.nn.PixelShuffle(3), normal(2, 4, 5, 18), {})
    compare(nn.PixelUnshuffle(2), torch.nn.PixelUnshuffle(2), normal(2, 4, 6, 3), {})
    x = normal(3, 2, 4, 6, 5)
    same(nn.pixel_shuffle(nn.pixel_unshuffle(x, 2), 2), x)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_upsampling(count: int):
    x, scale = normal(2, *SIZES[:count], 3), (2, 3, 2)[:count]
    linear = ("linear", "bilinear", "trilinear")[count - 1]
    for mine, theirs in (("nearest", "nearest"), ("linear", linear)):
        compare(nn.Upsample(scale, method=mine), torch.nn.Upsample(None, scale, theirs), x, {})
    compare(nn.Upsample(2), torch.nn.Upsample(None, 2), x, {})


# -- of features -----------------------------------------------------------------------------------


class FeaturesLast(torch.nn.Module):
    """A layer that takes its features last, for `compare`, which gives them second."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x.movedim(1, -1)).movedim(-1, 1)


def inner(names: dict[str, Any]) -> dict[str, Any]:
    return {f"layer.{name}": value for name, value in names.items()}


def test_layers_of_the_last_axis():
    x = normal(4, 5, 6)
    layers = torch.nn
    compare(nn.Linear(6, 3, **F64), FeaturesLast(layers.Linear(6, 3)), x, inner(WEIGHT))
    norm = nn.LayerNorm(6, dtype="float64")
    compare(norm, FeaturesLast(layers.LayerNorm(6)), x, inner(SCALE))
    half = nn.LayerNorm(6, use_bias=False, dtype="float64")
    only = {"layer.weight": ("scale", plain)}
    compare(half, FeaturesLast(layers.LayerNorm(6, bias=False)), x, only)
    bare = nn.LayerNorm(6, use_scale=False, use_bias=False)
    compare(bare, FeaturesLast(layers.LayerNorm(6, elementwise_affine=False)), x, {})
    rms = nn.RMSNorm(6, eps=1e-3, dtype="float64")
    compare(rms, FeaturesLast(layers.RMSNorm(6, eps=1e-3)), x, only)
    slope = {"weight": ("slope", plain)}
    for size in (1, 6):
        compare(nn.PReLU(size, dtype="float64"), layers.PReLU(size), x, slope)


@pytest.mark.parametrize("shape", [(6, 4), (3, 5, 4), (2, 3, 5, 4)])
def test_norms(shape: tuple[int, ...]):
    x = normal(*shape) * 3 + 1
    compare(nn.GroupNorm(4, 2, dtype="float64"), torch.nn.GroupNorm(2, 4), x, SCALE)
    if len(shape) > 2:
        theirs = getattr(torch.nn, f"InstanceNorm{len(shape) - 2}d")(4, affine=True)
        compare(nn.InstanceNorm(4, dtype="float64"), theirs, x, SCALE)
    batch = getattr(torch.nn, f"BatchNorm{max(1, len(shape) - 2)}d")(4, momentum=0.3)
    mine = nn.BatchNorm(4, momentum=0.7, dtype="float64")
    for _ in range(2):  # the second batch meets the state that the first has left
        compare_training(mine, batch.double(), x)
        _, mine = nn.with_state(mine)(x)
        same(mine.mean, batch.running_mean.numpy())
        same(mine.var, batch.running_var.numpy())
    compare(nn.inference(mine), batch.eval(), x, SCALE)


def compare_training(mine: Any, theirs: Any, x: np.ndarray) -> None:
    """The result and the gradients of a BatchNorm in training mode."""
    their_x = features_second(x).requires_grad_()
    theirs.zero_grad()
    their_y = theirs(their_x)
    their_y.pow(3).sum().backward()

    def loss(layer: Any, x: Any) -> Any:
        y, _ = nn.with_state(layer)(x)
        return rnp.sum(y**3), y

    (_, y), (slope, x_slope) = rlx.value_and_grad(loss, (0, 1), has_aux=True)(mine, x)
    same(y, features_last(their_y))
    same(x_slope, features_last(their_x.grad))
    same(slope.scale, theirs.weight.grad.numpy())
    same(slope.bias, theirs.bias.grad.numpy())
    assert not slope.mean.any()


# -- bags ------------------------------------------------------------------------------------------

INDEX = np.array([1, 3, 3, 0, 5, 2, 1, 4])
OFFSETS = np.array([0, 3, 3, 6])  # the second bag is empty


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_bags(mode: str, padding: int | None, is_weighted: bool):
    if is_weighted and mode != "sum":
        with pytest.raises(RlxError, match='weights are for the mode "sum"'):
            nn.EmbeddingBag(6, 4, mode=mode, **F64)(INDEX, OFFSETS, weights=normal(8))
        return
    mine = nn.EmbeddingBag(6, 4, mode=mode, padding_index=padding, **F64)
    theirs = torch.nn.EmbeddingBag(6, 4, mode=mode, padding_idx=padding).double()
    for index, offsets in ((INDEX, OFFSETS), (INDEX.reshape(2, 4), None)):
        with torch.no_grad():
            theirs.weight.copy_(torch.tensor(np.array(mine.weight)))
        factors = normal(*index.shape, seed=3) if is_weighted else None
        tensors = [None if a is None else torch.tensor(a) for a in (index, offsets, factors)]
        given: Any = None if tensors[2] is None else tensors[2].requires_grad_()
        theirs.zero_grad()
        their_y = theirs(tensors[0], tensors[1], given)
        their_y.pow(2).sum().backward()

        def loss(layer: Any, factors: Any, index: Any = index, offsets: Any = offsets) -> Any:
            y = layer(index, offsets, weights=factors)
            return rnp.sum(y**2), y

        taken = (0, 1) if is_weighted else 0
        run = rlx.jit(rlx.value_and_grad(loss, taken, has_aux=True))
        (_, y), slope = run(mine, factors)
        slope, by_factor = slope if is_weighted else (slope, None)
        same(y, their_y.detach().numpy())
        same(slope.weight, theirs.weight.grad.numpy())
        if is_weighted:
            same(by_factor, given.grad.numpy())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_lengths_are_those_of_offsets(mode: str):
    layer = nn.EmbeddingBag(6, 4, mode=mode, **F64)
    rows = np.array([[1, 3, 3], [9, 9, 9], [0, 5, 2], [1, 4, -7]])  # what is not there is not read
    same(layer(rows, lengths=[3, 0, 3, 2]), layer(INDEX, OFFSETS))
    same(
        rlx.vmap(lambda row, n: layer(row, lengths=n))(rows, np.array([3, 0, 3, 2])),
        layer(INDEX, OFFSETS),
    )
    assert layer.replace(weight=layer.weight.astype("bfloat16"))(rows[:1]).dtype == "bfloat16"


WRONG = {
    "layer([0.5, 1.0], [0])": "the index is f32[2], not integers",
    "layer(7)": "the index is",
    "layer([[1, 2]], [0])": "the index is",
    "layer([1, 2], [0], lengths=[1])": "the index is",
    "layer([[1, 2]], lengths=[3])": "3 is no length",
    "layer([[1, 2]], lengths=[1, 1])": "lengths is",
    "layer([1, 2], [1])": "offsets do not rise",
    "layer([1, 2, 3], [0, 2, 1])": "offsets do not rise",
    "layer([1, 2], [0, 3])": "offsets do not rise",
    "layer([1, 2], [])": "offsets is",
    "layer([[1, 2]], weights=[1.0])": "the weights are",
    "layer([[1, 6]])": "index 6 is outside axis 0 with size 6",
    "nn.Embedding(6, 4, key=KEY)([5, 6])": "index 6 is outside axis 0 with size 6",
    "nn.Embedding(6, 4, key=KEY)([1.0])": "Embedding: the index is f32[1], not integers",
    "nn.EmbeddingBag(6, 4, padding_index=6, key=KEY)": "padding_index is 6",
    'nn.EmbeddingBag(6, 4, mode="median", key=KEY)': "there is no mode 'median'",
    'nn.Conv(3, 4, 3, padding_mode="wrap", key=KEY)': "there is no padding_mode 'wrap'",
    "nn.AdaptiveAvgPool(0)": "the output size is 0",
    "nn.AdaptiveAvgPool(())": "for no axis",
    "nn.adaptive_avg_pool(np.ones((4, 1)), (2, 2))": "which has not 2 axes and features",
    "nn.adaptive_max_pool(np.ones((0, 1)), 2)": "is empty",
    "nn.global_max_pool(np.ones((4, 1)))": "has no places",
    "nn.pixel_shuffle(np.ones((2, 2, 6)), 2)": "do not make blocks of 2 by 2",
    "nn.pixel_unshuffle(np.ones((2, 3, 6)), 2)": "do not part in blocks of 2 by 2",
    "nn.pixel_shuffle(np.ones((2, 4)), 2)": "has no rows, columns and features",
    "nn.Upsample(0)": "the scale is 0",
    'nn.Upsample(2, method="bilinear")': "there is no method 'bilinear'",
    "nn.Upsample(2)(np.ones((2, 3)))": "has no places",
    "nn.PReLU(3)(np.ones((2, 4)))": "takes 3 features",
    "nn.LayerNorm(3)(np.ones((2, 4)))": "4",
    "nn.Linear(3, 4, key=KEY, initializer=3)": "the initializer is 3, not a function",
    "nn.Linear(3, 4, key=KEY, initializer=lambda *a: np.ones(3))": "not one of (3, 4)",
    "nn.Dropout(0.5, broadcast_dims=5)(np.ones((2, 3)), key=KEY)": "broadcast_dims",
}


@pytest.mark.parametrize("expression", WRONG)
def test_errors_say_what_and_how_to_mend_it(expression: str):
    layer = nn.EmbeddingBag(6, 4, mode="sum", **F64)
    with pytest.raises(RlxError) as caught:
        eval(expression, {"nn": nn, "np": np, "KEY": KEY, "layer": layer})
    assert WRONG[expression] in str(caught.value)
    assert caught.value.fix
