"""Open sizes in Jacobians, splits, and parts of arguments: one program for all of them."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.ir.errors import ShapeError

N = {"x": {0: "n"}}


def cube(x):
    return x**3 + x[0] * x.sum()


def compare(fn, dynamic, sizes, device="cpu"):
    """The compiled function against the one with known sizes; one compile for all sizes."""
    opened = rlx.jit(fn, dynamic=dynamic, device=device)
    for n in sizes:
        x = np.linspace(-1, 2, n, dtype=np.float32)
        for found, wanted in zip(
            rlx.tree.leaves(opened(x)), rlx.tree.leaves(rlx.jit(fn)(x)), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert opened.cache_info().compiles == 1


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("of", [rlx.jacfwd, rlx.jacrev])
def test_jacobians(of, device):
    compare(lambda x: of(cube)(x), N, (1, 2, 5), device)


def test_hessians_and_jacobians_of_several_arguments():
    compare(lambda x: rlx.hessian(lambda y: cube(y).sum())(x), N, (1, 4))
    both = rlx.jacfwd(lambda x, y: x * y[::-1] + x.sum(), argnums=(0, 1))
    compare(lambda x: both(x, rnp.cos(x)), N, (1, 3))
    compare(lambda x: rlx.jacrev(lambda y: rnp.outer(y, y))(x), N, (2, 3))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("split", [rnp.split, rnp.array_split])
def test_splits_that_divide(split, count):
    size = {"x": {0: count * rlx.dim("n")}}
    compare(lambda x: split(x, count), size, (count, 4 * count))
    with pytest.raises(ShapeError, match="the open size n") as caught:
        rlx.jit(lambda x: split(x, 2), dynamic=N)(np.ones(4, np.float32))
    assert "2 * rlx.dim('n')" in caught.value.fix and "test_open_sizes.py" in str(caught.value)


@pytest.mark.parametrize(
    "dynamic",
    [
        {"batch": {"x": {0: "n"}, "more": {1: {0: "n"}}}},
        {'batch["x"]': {0: "n"}, "batch": {"more": {1: {-1: "n"}}}},
        {'batch["x"]': {0: "n"}, 'batch["more"][1]': {0: "n"}},
    ],
)
def test_parts_of_an_argument(dynamic):
    f = rlx.jit(
        lambda batch: batch["x"] + batch["more"][1] + batch["more"][0].sum(), dynamic=dynamic
    )
    for n in (2, 3):
        x = np.ones(n, np.float32)
        assert f({"x": x, "more": [np.ones(4, np.float32), x]}).tolist() == [6.0] * n
    assert f.cache_info().compiles == 1


def test_parts_that_are_not_there():
    f = rlx.jit(lambda batch: batch["x"], dynamic={"batch": {"y": {0: "n"}}})
    with pytest.raises(rlx.StaticArgumentError, match="without the dynamic argument") as caught:
        f({"x": np.ones(2, np.float32)})
    assert 'batch["x"]' in caught.value.fix
    with pytest.raises(rlx.StaticArgumentError, match="the dynamic axes of"):
        rlx.jit(lambda batch: batch, dynamic={"batch": {"y": {0: "n"}, "x": 3}})  # type: ignore


BLOCK = {"x": {0: "n"}, "y": {0: "m"}}


def read(x, y, i):
    return lax.dynamic_slice(x, (i, 1), (y.shape[0], 2))


def write(x, y, i):
    return lax.dynamic_update_slice_in_dim(x[:, :2], read(x, y, i) + y, i - 1, 0)


def gradients(x, y, i):
    loss = lambda x, y: (rnp.sin(read(x, y, i)) * y).sum() + (write(x, y, i) ** 2).sum()  # noqa: E731
    return rlx.grad(loss, argnums=(0, 1))(x, y)


def members(x, y, i):
    starts, pairs = rnp.stack([i, i + 2, i + 9]), rnp.stack([y, 2 * y])
    rows = rnp.concatenate([x, -x], 1).reshape(-1, 2, 4).swapaxes(0, 1)
    of_starts = rlx.vmap(lambda i: (read(x, y, i), write(x, y, i)))(starts)
    return of_starts, rlx.vmap(lambda y, x: write(x, y, i))(pairs, rows)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("fn", [read, write, gradients, members])
def test_blocks_of_open_sizes(fn, device):
    opened, x = rlx.jit(fn, dynamic=BLOCK, device=device), np.arange(24, dtype=np.float32) / 7
    for n, m, i in ((6, 2, 1), (3, 3, 5), (5, 1, -2)):
        given = x.reshape(6, 4)[:n], np.cos(x[: 2 * m]).reshape(m, 2), np.int32(i)
        for found, wanted in zip(
            rlx.tree.leaves(opened(*given)), rlx.tree.leaves(rlx.jit(fn)(*given)), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert opened.cache_info().compiles == 1
    with pytest.raises(ShapeError, match="of size 6 does not fit in axis 0"):
        opened(x.reshape(6, 4)[:2], np.ones((6, 2), np.float32), np.int32(0))
