"""Convolutions against `jax.lax`: values, both modes, batches and second order, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
from rlx import lax
from rlx.ir.dims import dim
from rlx.ir.errors import RlxError

TOLERANCE = 1e-11  # sums of up to some hundred products of normal numbers, in float64
AXES = "HWD"


def random_case(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Operands and keywords of a convolution of one to three axes, in any order."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 4))
    groups = int(random.choice([1, 1, 2, 3]))
    kind = random.choice(["feature_group_count", "batch_group_count"])
    features, batches = (groups, 1) if kind == "feature_group_count" else (1, groups)
    inputs, outputs = random.integers(1, 3), groups * random.integers(1, 3)
    sizes = random.integers(1, 4, count)
    strides, spread, dilation = (random.choice([1, 1, 2, 3], count) for _ in range(3))
    lengths = random.integers(2, 8 - count, count)
    reach = (sizes - 1) * dilation + 1
    low = random.integers(-1, 3, count)
    least = np.maximum(reach - (lengths - 1) * spread - 1 - low, -1)  # at least one window
    high = least + random.integers(0, 3, count)
    specs = [
        "".join(random.permutation(list(first + AXES[:count]))) for first in ("NC", "OI", "NC")
    ]
    named = dict(zip(AXES, lengths, strict=False)), dict(zip(AXES, sizes, strict=False))
    named[0].update(N=batches * random.integers(1, 3), C=features * inputs)
    named[1].update(O=outputs, I=inputs)
    # the numbers belong to the axes in the order in which the kernel has them
    order = [AXES.index(c) for c in specs[1] if c in AXES]
    pairs = [(int(low[i]), int(high[i])) for i in order]
    steps = {
        "window_strides": strides,
        "lhs_dilation": spread,
        "rhs_dilation": dilation,
    }
    attrs = {name: [int(numbers[i]) for i in order] for name, numbers in steps.items()}
    attrs |= {"padding": pairs, "dimension_numbers": tuple(specs)}
    attrs |= {"feature_group_count": features, "batch_group_count": batches}
    x, kernel = (
        random.normal(size=[named[k][c] for c in spec]) for k, spec in enumerate(specs[:2])
    )
    return x, kernel, attrs


def assert_close(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def theirs_of(attrs: dict[str, Any]) -> Callable[..., Any]:
    return lambda x, w: jax.lax.conv_general_dilated(x, w, **attrs)


def ours_of(attrs: dict[str, Any]) -> Callable[..., Any]:
    return lambda x, w: lax.conv_general_dilated(x, w, **attrs)


@pytest.mark.parametrize("seed", range(16))
def test_values_and_cotangents(seed: int):
    x, kernel, attrs = random_case(seed)
    ours = ours_of(attrs)
    with jax.enable_x64(True):
        wanted, pull = jax.vjp(theirs_of(attrs), x, kernel)
        weights = np.random.default_rng(seed).normal(size=wanted.shape)
        cotangents = pull(weights)
    assert_close(ours(x, kernel), wanted)

    def value_and_cotangents(x: Any, w: Any, c: Any) -> Any:
        value, pull = rlx.vjp(ours, x, w)
        return value, *pull(c)

    for got, known in zip(
        rlx.jit(value_and_cotangents)(x, kernel, weights), (wanted, *cotangents), strict=True
    ):
        assert_close(got, known)


@pytest.mark.parametrize("seed", range(100, 110))
def test_batches_of_each_operand(seed: int):
    x, kernel, attrs = random_case(seed)
    random = np.random.default_rng(seed)
    many_x = random.normal(size=(3, *x.shape))
    many_kernels = random.normal(size=(*kernel.shape, 3))
    ours = ours_of(attrs)
    for axes in ((0, None), (None, -1), (0, -1)):
        given = [many_x if axes[0] == 0 else x, many_kernels if axes[1] == -1 else kernel]
        members = [
            ours(many_x[i] if axes[0] == 0 else x, many_kernels[..., i] if axes[1] else kernel)
            for i in range(3)
        ]
        assert_close(rlx.vmap(ours, in_axes=axes)(*given), np.stack(members))


@pytest.mark.parametrize("seed", range(200, 204))
def test_tangents_and_second_order(seed: int):
    x, kernel, attrs = random_case(seed)
    random = np.random.default_rng(seed)
    tangents = random.normal(size=x.shape), random.normal(size=kernel.shape)

    def push_of_gradients(library: Any, conv: Any, sin: Any) -> Any:
        gradients = library.grad(lambda x, w: sin(conv(x, w)).sum(), (0, 1))
        return library.jvp(gradients, (x, kernel), tangents)

    with jax.enable_x64(True):
        wanted = jax.jvp(theirs_of(attrs), (x, kernel), tangents)
        second = jax.jit(lambda: push_of_gradients(jax, theirs_of(attrs), jnp.sin))()
    for got, known in zip(rlx.jvp(ours_of(attrs), (x, kernel), tangents), wanted, strict=True):
        assert_close(got, known)
    ours = push_of_gradients(rlx, ours_of(attrs), rlx.numpy.sin)
    for got, known in zip(
        itertools.chain.from_iterable(ours), itertools.chain.from_iterable(second), strict=True
    ):
        assert_close(got, known, 1e-10)


# -- other dtypes, layouts and names ------------------------------------------------------------

IMAGES = np.random.default_rng(0).normal(size=(2, 7, 6, 4)).astype("float32")
KERNEL = np.random.default_rng(1).normal(size=(3, 2, 4, 6)).astype("float32")
FIRST = IMAGES.transpose(0, 3, 1, 2)  # features first
FIRST_KERNEL = KERNEL.transpose(3, 2, 0, 1)
PLACED = np.random.default_rng(2).normal(size=(5, 100, 3, 2)).astype("float32")
SPECS = ("NHWC", "HWIO", "NHWC")
CALLS = """
conv(F, G, (1, 2), "SAME") | conv(F, G, (2, 1), "VALID") | conv(F, G, (2, 3), "SAME_LOWER")
conv_with_general_padding(F, G, (1, 1), [(1, 2), (0, 3)], (2, 1), (1, 2))
conv_with_general_padding(F, G, (1, 1), "SAME", None, None)
conv_general_dilated(X, W, (2, 2), "SAME", dimension_numbers=SPECS)
conv_general_dilated(X, W, (1, 2), "SAME", rhs_dilation=(2, 1), dimension_numbers=SPECS)
conv_transpose(X, W, (2, 3), "SAME") | conv_transpose(X, W, (2, 1), "VALID")
conv_transpose(X, W, (1, 2), [(1, 2), (3, 0)]) | conv_transpose(X, W, (4, 1), "SAME")
conv_transpose(X, W, (2, 2), "VALID", rhs_dilation=(2, 3))
conv_transpose(F, H, (2, 2), "SAME", dimension_numbers=("NCHW", "IOHW", "NCHW"))
conv_transpose(X, V, (2, 3), "SAME", transpose_kernel=True)
conv_transpose(X, W, (2, 3), [(1, 0), (0, 1)], use_consistent_padding=True)
conv_transpose(X, W, (2, 3), "VALID", use_consistent_padding=True)
conv_general_dilated_patches(F, (3, 2), (1, 2), "SAME")
conv_general_dilated_patches(F, (3, 2), (2, 1), [(1, 0), (2, 1)], rhs_dilation=(1, 2))
conv_general_dilated_patches(X, (2, 3), (1, 1), "VALID", dimension_numbers=SPECS)
conv_general_dilated_patches(F, (2, 2), (1, 1), [(0, 0), (1, 1)], (2, 1))
conv_general_dilated_local(F, L, (1, 1), "VALID", (5, 5))
conv_general_dilated_local(X, M, (1, 1), "VALID", (5, 5), dimension_numbers=SPECS)
"""
EXPRESSIONS = [part.strip() for line in CALLS.strip().split("\n") for part in line.split("|")]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_other_forms(expression: str):
    names = {
        "F": FIRST,
        "G": FIRST_KERNEL,
        "H": FIRST_KERNEL.swapaxes(0, 1),
        "X": IMAGES,
        "W": KERNEL,
        "V": KERNEL.swapaxes(2, 3),
        "L": PLACED,
        "M": PLACED.transpose(2, 3, 1, 0),
        "SPECS": SPECS,
    }
    ours, theirs = (
        eval(expression, {**vars(module), **names})  # the texts are above
        for module in (lax, jax.lax)
    )
    assert_close(ours, theirs, 2e-5)


def test_sums_have_the_dtype_asked_for():
    x = np.full((1, 3, 4), 100, np.int8)
    kernel = np.full((2, 3, 2), 100, np.int8)
    wide = lax.conv(x, kernel, (1,), "VALID", preferred_element_type="int32")
    assert wide.dtype.name == "int32" and int(wide[0, 0, 0]) == 60000
    assert lax.conv(x, kernel, (1,), "VALID").dtype.name == "int8"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("spread", [1, 2])
def test_halves_are_summed_in_float32(dtype: str, groups: int, spread: int):
    x = rlx.numpy.full((1, 256, 6), 0.1, dtype)
    kernel = rlx.numpy.full((4, 256 // groups, 5), 0.1, dtype)
    attrs = {"window_strides": (1,), "padding": [(0, 0)]}
    run = ours_of({**attrs, "lhs_dilation": (spread,), "feature_group_count": groups})
    wide = run(x.astype("float64"), kernel.astype("float64"))
    epsilon = float(rlx.numpy.finfo(dtype).eps)
    for ours in (run(x, kernel), rlx.jit(run)(x, kernel)):
        assert ours.dtype.name == dtype
        np.testing.assert_allclose(np.asarray(ours, "float64"), wide, rtol=epsilon)


def test_sizes_of_zero():
    run = ours_of({"window_strides": (1,), "padding": [(0, 0)]})
    gradients = rlx.jit(rlx.grad(lambda x, w: run(x, w).sum(), (0, 1)))
    for shape, kernel in [
        ((0, 2, 5), (3, 2, 2)),
        ((2, 0, 5), (3, 0, 2)),
        ((2, 2, 0), (3, 2, 2)),
        ((2, 2, 5), (0, 2, 2)),
        ((2, 2, 1), (3, 2, 2)),
        ((2, 2, 5), (3, 2, 0)),
    ]:
        x, w = np.ones(shape), np.ones(kernel)
        made = run(x, w)
        assert not np.asarray(made).any()
        assert rlx.jit(run)(x, w).shape == made.shape
        gx, gw = gradients(x, w)
        assert (gx.shape, gw.shape) == (shape, kernel)
        assert not np.asarray(gx).any() and not np.asarray(gw).any()
    assert rlx.vmap(run)(np.ones((0, 2, 2, 5)), np.ones((0, 3, 2, 2))).shape == (0, 2, 3, 4)


def test_named_sizes():
    """A batch of any size, and a length of any size where windows move on by one."""
    image = rlx.spec((dim("batch"), *FIRST.shape[1:]), "float32")
    row = rlx.spec((2, 4, dim("length", min=3)), "float32")
    line = FIRST_KERNEL[..., 0]
    graphs = [
        rlx.make_graph(lambda x: lax.conv(x, FIRST_KERNEL, (2, 1), "SAME"))(image),
        rlx.make_graph(lambda x: lax.conv(x, line, (1,), "VALID"))(row),
        rlx.make_graph(rlx.grad(lambda x: lax.conv(x, line, (1,), "SAME").sum()))(row),
    ]
    wanted = ["f32[batch, 6, 4, 6]", "f32[2, 6, length - 2]", "f32[2, 4, length]"]
    assert [str(g.result_types[0]) for g in graphs] == wanted


# -- bad input ----------------------------------------------------------------------------------

BAD = {
    'conv(F, G.astype("float64"), (1, 1), "SAME")': "the dtypes differ",
    'conv(F > 0, G > 0, (1, 1), "SAME")': "no meaning for bool",
    'conv(F, G[0], (1, 1), "SAME")': "a kernel with 3",
    'conv(F, G, (1,), "SAME")': "has 1 numbers, not 2",
    "conv(F, G, (1, 0), [(0, 0), (0, 0)])": "is not positive",
    'conv(F, G, (1, -1), "SAME")': "is not positive",
    'conv(F, G, (1, 1.5), "SAME")': "not an integer",
    'conv(F, G, (1, 1), "EQUAL")': "there is no padding 'EQUAL'",
    "conv(F, G, (1, 1), [(1, 1)])": "a pair for each of 2 axes",
    "conv(F, G, (1, 1), [(1, 1), 2])": "no sequence of integers",
    "conv(F, G, (1, 1), [(-9, -9), (0, 0)])": "less than nothing",
    'conv(F, G[:, :3], (1, 1), "SAME")': "takes 3 inputs",
    'conv_general_dilated(F, G, (1, 1), "SAME", feature_group_count=3)': "do not part in 3",
    'conv_general_dilated(F, G, (1, 1), "SAME", batch_group_count=4)': "do not part in 4",
    'conv_general_dilated(F, G, (1, 1), "SAME", feature_group_count=0)': "is not positive",
    'conv_general_dilated(F, G, (1, 1), "SAME", feature_group_count=2, batch_group_count=2)': (
        "one kind of groups"
    ),
    'conv_general_dilated(F, G, (1, 1), "SAME", (2, 2))': "with an lhs_dilation",
    'conv_general_dilated(F, G, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO"))': (
        "three strings of 4"
    ),
    'conv_general_dilated(F, G, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIK", "NHWC"))': (
        "do not name the axes"
    ),
    'conv_general_dilated(F, G, (1, 1), "SAME", preferred_element_type="int32")': "holds no sums",
    'conv_general_dilated_patches(F, (3,), (1, 1), "SAME")': "has 1 numbers, not 2",
    "conv_transpose(F, G, (1, 1), [(1, 1)])": "a pair for each of 2 axes",
    'conv_transpose(X[0, 0], W, (1, 1), "SAME")': "a kernel with 4",
}


@pytest.mark.parametrize("expression", BAD)
def test_bad_input_says_what_and_how_to_mend_it(expression: str):
    names = {"F": FIRST, "G": FIRST_KERNEL, "X": IMAGES, "W": KERNEL}
    with pytest.raises(RlxError) as caught:
        eval(expression, {**vars(lax), **names})
    assert BAD[expression] in str(caught.value)
    assert caught.value.fix and caught.value.where
