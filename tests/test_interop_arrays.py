"""Arrays to and from PyTorch, JAX and MLX: which share memory, as docs/interop.md says."""

from __future__ import annotations

import numpy as np
import pytest

import rlx

LIBRARIES = {
    "torch": ("torch", "ones", "bfloat16"),
    "jax": ("jax.numpy", "ones", "bfloat16"),
    "mlx": ("mlx.core", "ones", "bfloat16"),
}


def address(array):
    return np.asarray(array).__array_interface__["data"][0]


@pytest.mark.parametrize("name", LIBRARIES)
def test_arguments_of_other_libraries(name):
    module, make, short = LIBRARIES[name]
    library = pytest.importorskip(module)
    x = getattr(library, make)((3, 2))
    assert rlx.jit(lambda x: x.sum())(x) == 6
    assert rlx.jit(lambda tree: tree["x"].sum() + tree["s"])({"x": x, "s": x[0, 0]}) == 7
    half = getattr(library, make)((3,), dtype=getattr(library, short))
    assert rlx.jit(lambda x: x * 2)(half).dtype.name == "bfloat16"
    mine = rlx.asarray(x)
    assert isinstance(mine, rlx.Array)
    assert mine.tolist() == [[1.0, 1.0]] * 3


def test_what_is_an_array_of_rlx_does_not_change():
    torch = pytest.importorskip("torch")
    theirs = torch.ones(3)
    mine = rlx.asarray(theirs)
    theirs[0] = 5
    assert mine.tolist() == [1, 1, 1]


def test_results_share_their_memory():
    torch = pytest.importorskip("torch")
    found = rlx.jit(lambda x: x * 2)(np.ones(100, np.float32))
    assert torch.from_dlpack(found).data_ptr() == address(found)
    assert torch.asarray(found).data_ptr() == address(found)
    assert np.from_dlpack(found).__array_interface__["data"][0] == address(found)


def test_jax_and_mlx_read_results():
    found = rlx.jit(lambda x: x * 2)(np.ones(3, np.float32))
    for module in ("jax.numpy", "mlx.core"):
        library = pytest.importorskip(module)
        assert library.array(found).tolist() == [2, 2, 2]
