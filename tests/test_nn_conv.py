"""Convolutions and pooling of `rlx.nn`: the layers, and what they refuse."""

from __future__ import annotations

from typing import Any

import jax
import jax.lax
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import RlxError

KEY = rlx.random.key(0)


def assert_close(ours: Any, theirs: Any, tolerance: float) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((3,), {}),
        ((3,), {"stride": 2, "padding": "VALID"}),
        ((3, 2), {"stride": (2, 1), "padding": 1}),
        ((3, 3), {"dilation": 2, "groups": 2, "use_bias": False}),
        ((2, 3), {"padding": [(1, 0), 2]}),
        ((2, 2, 3), {"padding": "same_lower"}),
    ],
)
def test_a_layer_is_a_convolution_with_features_last(kernel: Any, options: dict[str, Any]):
    layer = nn.Conv(4, 6, kernel, key=KEY, **options)
    count = layer.weight.ndim - 2
    x = np.random.default_rng(0).normal(size=(2, 3, *(7, 6, 5)[:count], 4)).astype("float32")
    axes = "DHW"[:count]
    padding = {"1": [(1, 1)] * 2, "[(1, 0), 2]": [(1, 0), (2, 2)]}.get(
        str(options.get("padding")), options.get("padding", "SAME")
    )
    stride, dilation = (
        (n,) * count if isinstance(n := options.get(word, 1), int) else n
        for word in ("stride", "dilation")
    )
    wanted = jax.lax.conv_general_dilated(
        x.reshape(6, *x.shape[2:]),
        np.asarray(layer.weight),
        stride,
        padding,
        rhs_dilation=dilation,
        dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
        feature_group_count=options.get("groups", 1),
    )
    assert_close(layer(x), wanted.reshape(2, 3, *wanted.shape[1:]), 2e-5)
    assert_close(rlx.jit(lambda layer, x: layer(x))(layer, x[0, 0]), layer(x)[0, 0], 2e-5)


def test_the_bias_is_added_and_trained():
    layer = nn.Conv(1, 2, (2, 2), key=KEY, padding="VALID")
    layer = layer.replace(bias=rnp.array([1.0, -1.0]))
    x = np.ones((1, 3, 3, 1), "float32")
    plain = layer.replace(bias=None)(x)
    assert_close(layer(x), np.asarray(plain) + np.array([1.0, -1.0], "float32"), 1e-6)
    gradient = rlx.grad(lambda layer: layer(x).sum())(layer)
    assert gradient.weight.shape == (2, 2, 1, 2)
    np.testing.assert_array_equal(gradient.bias, [4.0, 4.0])


def test_a_transposed_layer_makes_its_input_larger():
    layer = nn.ConvTranspose(3, 5, (3, 2), key=KEY, stride=2)
    x = np.random.default_rng(0).normal(size=(2, 4, 5, 3)).astype("float32")
    wanted = jax.lax.conv_transpose(x, np.asarray(layer.weight), (2, 2), "SAME")
    assert_close(layer(x), wanted, 2e-5)
    assert layer(x).shape == (2, 8, 10, 5)
    assert nn.ConvTranspose(3, 5, 4, key=KEY, stride=2, padding=[(1, 1)])(x[0, 0]).shape == (8, 5)


def test_pooling():
    x = np.arange(24.0, dtype="float32").reshape(1, 4, 6, 1)
    np.testing.assert_array_equal(nn.max_pool(x, (2, 3))[0, :, :, 0], [[8, 11], [20, 23]])
    np.testing.assert_array_equal(nn.min_pool(x, (2, 3))[0, :, :, 0], [[0, 3], [12, 15]])
    np.testing.assert_array_equal(nn.avg_pool(x, (4, 3))[0, :, :, 0], [[10, 13]])
    assert nn.max_pool(x, (2, 2), strides=1).shape == (1, 3, 5, 1)
    assert nn.MaxPool((2, 2), stride=(1, 2), padding=1)(x).shape == (1, 5, 4, 1)
    ones = np.ones((3, 1), "int32")
    np.testing.assert_allclose(nn.avg_pool(ones, 3, 1, "SAME")[:, 0], [2 / 3, 1, 2 / 3])
    np.testing.assert_array_equal(nn.AvgPool(3, 1, "SAME", count_include_pad=False)(ones)[:, 0], 1)
    assert nn.max_pool(ones, 3, 1, "SAME").dtype.name == "int32"
    assert nn.MaxPool(2, dilation=2)(np.ones((2, 5, 1), "float16")).dtype.name == "float16"


def test_a_single_number_is_for_one_axis():
    x = np.ones((2, 5, 8, 3), "float32")
    assert nn.Conv(3, 4, (3,), key=KEY)(x).shape == (2, 5, 8, 4)
    assert nn.MaxPool((2,))(x).shape == (2, 5, 4, 3)
    assert nn.Conv(3, 4, 3, key=KEY)(x[0]).shape == (5, 8, 4)
    rows = rlx.vmap(nn.Conv(3, 4, 3, key=KEY))(x)
    assert rows.shape == (2, 5, 8, 4)


BAD_LAYERS = {
    "nn.Conv(3, 4, (3, 3), key=KEY, groups=2)": "do not part in 2 groups",
    "nn.Conv(3, 0, (3, 3), key=KEY)": "a number of features is 0",
    "nn.Conv(3, 4, (3, -3), key=KEY)": "the kernel size is (3, -3)",
    "nn.Conv(3, 4, (), key=KEY)": "a kernel of 0 axes",
    "nn.Conv(3, 4, (3, 3), key=KEY, stride=(1, 1, 1))": "for each of 2 axes",
    'nn.Conv(3, 4, (3, 3), key=KEY, padding="full")': "there is no padding 'full'",
    "nn.Conv(3, 4, (3, 3), key=KEY, padding=[1])": "for each of 2 axes",
    "nn.Conv(3, 4, (3, 3), key=KEY, padding=1.5)": "not an integer",
    "nn.Conv(3, 4, (3, 3), key=KEY)(np.ones((4, 3)))": "which has not 2 axes and features",
    "nn.Conv(3, 4, (3, 3), key=KEY)(np.ones((4, 4, 2)))": "takes 3 features",
    "nn.max_pool(np.ones((4, 1)), (2, 2))": "which has not 2 axes and features",
    "nn.max_pool(np.ones((4, 1)), 0)": "the window is 0",
    'nn.avg_pool(np.ones((4, 1)), "ab")': "not an integer",
    "nn.Conv(3, 4, 3, key=KEY)(np.ones((2, 8, 8, 3)))": "write (3, 3) for 2 axes, as of images",
    "nn.ConvTranspose(3, 4, 3, key=KEY)(np.ones((2, 8, 8, 3)))": "the kernel size is 3, a number",
    "nn.MaxPool(2)(np.ones((2, 8, 8, 3)))": "write (2, 2) for 2 axes, as of images",
    "nn.avg_pool(np.ones((2, 8, 8, 3)), 2)": "or (2,) for 1 axis and batches of 2",
    "nn.AdaptiveAvgPool(1)(np.ones((2, 8, 8, 3)))": "the output size is 1, a number for 1 axis",
    "nn.unfold(np.ones((2, 8, 8, 3)), 2)": "the window is 2, a number for 1 axis",
    "nn.unfold(np.ones((2, 3)), 4)": "the windows (4,) are larger than the (2,) places",
    "nn.fold(np.ones((3, 3)), 4, 2)": "give an array of shape (..., 3, size * 2)",
    "nn.fold(np.ones((4, 4)), 4, 2)": "give an array of shape (..., 3, size * 2)",
    "nn.lp_pool(np.ones((4, 1)), 0.5, 2)": "norm_type is 0.5",
    "nn.LPPool(0, 2)": "norm_type is 0",
    "nn.LocalResponseNorm(0)": "size is 0",
    "nn.local_response_norm(1.0, 3)": "has no features",
}


@pytest.mark.parametrize("expression", BAD_LAYERS)
def test_bad_layers_say_what_and_how_to_mend_it(expression: str):
    with pytest.raises(RlxError) as caught:
        eval(expression, {"nn": nn, "np": np, "KEY": KEY})
    assert BAD_LAYERS[expression] in str(caught.value)
    assert caught.value.fix and caught.value.where
