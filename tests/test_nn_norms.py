"""Normalization layers against NumPy in float64, and against PyTorch if it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import RlxError, ShapeError
from rlx.nn.norms import moments

RANDOM = np.random.default_rng(0)
SHAPES = [(6, 5), (4, 7, 5), (3, 4, 4, 5), (2, 3, 3, 2, 5)]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def close(got: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    wanted = np.asarray(wanted)
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(np.asarray(got, np.float64), wanted, tolerance, tolerance * scale)


def to_torch(x: Any) -> Any:
    """Features second, in float64."""
    torch = pytest.importorskip("torch")
    return torch.tensor(np.moveaxis(np.array(x, np.float64), -1, 1))


def from_torch(x: Any) -> np.ndarray:
    return np.moveaxis(x.detach().numpy(), 1, -1)


def filled(norm: Any) -> Any:
    """The norm with a scale and a bias that differ between features."""
    n = norm.scale.shape[0]
    return norm.replace(
        scale=rlx.asarray(1 + normal(n, seed=1)), bias=rlx.asarray(normal(n, seed=2))
    )


def trained(norm: Any, x: np.ndarray, ct: np.ndarray) -> tuple[Any, Any, Any, Any]:
    """The result, the gradients of the norm and of x, and the norm with its new state."""

    @rlx.jit
    def run(norm, x):
        def loss(norm, x):
            y, new = nn.with_state(norm)(x)
            return rnp.sum(y * ct), (y, new)

        return rlx.value_and_grad(loss, (0, 1), has_aux=True)(norm, x)

    (_, (y, new)), (slope, x_slope) = run(norm, x)
    return y, slope, x_slope, new


# -- BatchNorm -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_by_its_formula(shape: tuple[int, ...]):
    x, axes = normal(*shape).astype(np.float64) * 3 + 1, tuple(range(len(shape) - 1))
    norm = filled(nn.BatchNorm(5, momentum=0.8, eps=1e-3))
    y, new = nn.with_state(norm)(x.astype(np.float32))
    mean, var, count = x.mean(axes), x.var(axes), x.size // 5
    close(y, (x - mean) / np.sqrt(var + 1e-3) * norm.scale + norm.bias)
    close(new.mean, 0.2 * mean)
    close(new.var, 0.8 + 0.2 * var * count / (count - 1))
    ready = nn.inference(new)
    close(
        ready(x.astype(np.float32)),
        (x - new.mean) / np.sqrt(new.var + 1e-3) * norm.scale + norm.bias,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_is_that_of_torch(shape: tuple[int, ...]):
    torch = pytest.importorskip("torch")
    x, ct = normal(*shape) * 3 + 1, normal(*shape, seed=3)
    norm = filled(nn.BatchNorm(5, momentum=0.9))
    classes = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}
    theirs = classes.get(len(shape), torch.nn.BatchNorm3d)(5, momentum=0.1).double()
    theirs.weight.data, theirs.bias.data = to_torch_vector(norm.scale), to_torch_vector(norm.bias)
    for _ in range(2):
        their_x = to_torch(x).requires_grad_()
        theirs.zero_grad()
        their_y = theirs(their_x)
        (their_y * to_torch(ct)).sum().backward()
        y, slope, x_slope, norm = trained(norm, x, ct)
        close(y, from_torch(their_y))
        close(x_slope, from_torch(their_x.grad))
        close(slope.scale, theirs.weight.grad.numpy())
        close(slope.bias, theirs.bias.grad.numpy())
        close(norm.mean, theirs.running_mean.numpy())
        close(norm.var, theirs.running_var.numpy())
    close(nn.inference(norm)(x), from_torch(theirs.eval()(to_torch(x))))


def to_torch_vector(x: Any) -> Any:
    import torch

    return torch.tensor(np.array(x, np.float64))


def test_second_derivatives_of_batch_norm():
    x, direction = normal(6, 5), normal(6, 5, seed=1)

    def total(x):
        return rnp.sum(rnp.sin(nn.with_state(filled(nn.BatchNorm(5, eps=0.1)))(x)[0]))

    _, found = rlx.jvp(rlx.grad(total), (x,), (direction,))
    step = 1e-2 * direction
    expected = (
        np.asarray(rlx.grad(total)(x + step)) - np.asarray(rlx.grad(total)(x - step))
    ) / 2e-2
    close(found, expected, 2e-3)
    _, slope = rlx.jvp(total, (x,), (direction,))
    close(slope, np.sum(np.asarray(rlx.grad(total)(x)) * direction), 1e-4)


def test_batch_norm_without_scale_and_bias():
    norm = nn.BatchNorm(5, use_scale=False, use_bias=False)
    assert rlx.tree.leaves(nn.inference(norm)) == [norm.mean, norm.var]
    y, _ = nn.with_state(norm)(normal(9, 5))
    close(np.mean(y, 0), np.zeros(5))


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e3, 1e5])
@pytest.mark.parametrize("odd", [False, True])
def test_moments_of_numbers_far_from_zero(mean: float, odd: bool):
    x = RANDOM.normal(size=(64, 14, 14, 3)) + mean
    if odd:
        x[0] = 0.0  # the part that tells where the numbers lie is wrong
    x = x.astype(np.float32)
    found = rlx.jit(moments, static_argnums=1)(x, (0, 1, 2))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found[0].ravel(), wide.mean((0, 1, 2)), 1e-6, 1e-6)
    np.testing.assert_allclose(found[1].ravel(), wide.var((0, 1, 2)), 1e-5)


def test_the_variance_of_equal_numbers_is_zero():
    assert moments(rnp.full((40, 3), 1e6 / 3), (0,))[1].tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_batch_norm_of_halves(dtype: Any):
    x = (normal(64, 5) * 2 + 30).astype(dtype)
    norm = nn.BatchNorm(5, dtype=dtype)
    y, new = nn.with_state(norm)(x)
    assert y.dtype == dtype
    assert (new.scale.dtype, new.mean.dtype, new.var.dtype) == (dtype, np.float32, np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    close(y, expected, 4 * float(ml_dtypes.finfo(dtype).eps))
    close(new.mean, 0.01 * wide.mean(0))
    mixed, _ = nn.with_state(nn.BatchNorm(5))(x)
    assert mixed.dtype == np.float32


def test_batch_norm_of_an_open_batch():
    @rlx.jit(dynamic={"x": {0: "n"}})
    def run(norm, x):
        return nn.with_state(norm)(x)

    for n in (4, 70):
        x = normal(n, 5)
        y, new = run(nn.BatchNorm(5), x)
        wanted, expected = nn.with_state(nn.BatchNorm(5))(x)
        close(y, wanted)
        close(new.var, expected.var)
    assert run.cache_size() == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.BatchNorm(5)(normal(4, 3)), "no last axis of 5 features"),
        (lambda: nn.BatchNorm(5)(normal(5)), "no last axis of 5 features"),
        (lambda: nn.with_state(nn.BatchNorm(5))(normal(1, 5)), "one number for each feature"),
        (lambda: nn.BatchNorm(0), "the size is 0"),
        (lambda: nn.BatchNorm(3, momentum="a"), "the momentum"),
    ],
)
def test_batch_norm_errors(call: Callable[[], Any], text: str):
    with pytest.raises(RlxError, match=text):
        call()


def test_the_error_of_one_row_names_both_ways():
    with pytest.raises(ShapeError, match=r"batches of 2 or more, or use nn\.inference\(model\)"):
        nn.with_state(nn.BatchNorm(5))(normal(1, 5))


# -- norms of samples ------------------------------------------------------------------------------


def of_sample(norm: Any, x: np.ndarray, ct: np.ndarray) -> tuple[Any, Any, Any]:
    """The result, and the gradients of the norm and of x."""

    def loss(norm, x):
        y = norm(x)
        return rnp.sum(y * ct), y

    (_, y), (slope, x_slope) = rlx.jit(rlx.value_and_grad(loss, (0, 1), has_aux=True))(norm, x)
    return y, slope, x_slope


@pytest.mark.parametrize("shape", [(4, 6), (3, 5, 6), (2, 3, 4, 6)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_is_that_of_torch(shape: tuple[int, ...], groups: int):
    torch = pytest.importorskip("torch")
    if groups == 6 and len(shape) == 2:
        groups = 3  # one number has no variance
    x, ct = normal(*shape) * 3 + 1, normal(*shape, seed=3)
    norm, theirs = filled(nn.GroupNorm(6, groups)), torch.nn.GroupNorm(groups, 6).double()
    compare_with_torch(norm, theirs, x, ct)


@pytest.mark.parametrize("shape", [(3, 5, 6), (2, 3, 4, 6), (2, 3, 2, 3, 6)])
def test_instance_norm_is_that_of_torch(shape: tuple[int, ...]):
    torch = pytest.importorskip("torch")
    kind = (torch.nn.InstanceNorm1d, torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d)
    x, ct = normal(*shape) * 3 + 1, normal(*shape, seed=3)
    norm = filled(nn.InstanceNorm(6))
    compare_with_torch(norm, kind[len(shape) - 3](6, affine=True).double(), x, ct)


def compare_with_torch(norm: Any, theirs: Any, x: np.ndarray, ct: np.ndarray) -> None:
    theirs.weight.data, theirs.bias.data = to_torch_vector(norm.scale), to_torch_vector(norm.bias)
    their_x = to_torch(x).requires_grad_()
    their_y = theirs(their_x)
    (their_y * to_torch(ct)).sum().backward()
    y, slope, x_slope = of_sample(norm, x, ct)
    close(y, from_torch(their_y))
    close(x_slope, from_torch(their_x.grad), 5e-5)
    close(slope.scale, theirs.weight.grad.numpy())
    close(slope.bias, theirs.bias.grad.numpy())


def test_norms_of_samples_by_their_formulas():
    x = normal(3, 4, 5, 6) * 2 + 1
    wide = x.astype(np.float64)
    parts = wide.reshape(3, 4, 5, 2, 3)
    mean, var = (f((1, 2, 4), keepdims=True) for f in (parts.mean, parts.var))
    close(nn.GroupNorm(6, 2, eps=1e-3)(x), ((parts - mean) / np.sqrt(var + 1e-3)).reshape(x.shape))
    mean, var = (f((1, 2), keepdims=True) for f in (wide.mean, wide.var))
    close(nn.InstanceNorm(6)(x), (wide - mean) / np.sqrt(var + 1e-5))
    bare = {"use_scale": False, "use_bias": False}
    for norm, without in (
        (nn.GroupNorm(6, 3), nn.GroupNorm(6, 3, **bare)),
        (nn.InstanceNorm(6), nn.InstanceNorm(6, **bare)),
    ):
        assert rlx.tree.leaves(without) == []
        close(without(x), norm(x))
        half = norm.replace(scale=norm.scale.astype("bfloat16"), bias=norm.bias.astype("bfloat16"))
        assert half(x.astype(ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.GroupNorm(6, 4), "6 features cannot be parted into 4 equal groups"),
        (lambda: nn.GroupNorm(6, 0), "groups is 0"),
        (lambda: nn.GroupNorm(6, 2)(normal(3, 5)), "GroupNorm: .* no last axis of 6 features"),
        (lambda: nn.InstanceNorm(6)(normal(3, 6)), "has no places between"),
    ],
)
def test_errors_of_norms_of_samples(call: Callable[[], Any], text: str):
    with pytest.raises(RlxError, match=text):
        call()
