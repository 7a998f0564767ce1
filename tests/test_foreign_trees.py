"""Trees of arrays of other libraries as arguments of `jit`."""

import numpy as np
import pytest

import rlx


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_trees_with_scalars(library):
    """A call path is written for such a tree, too: it is no static argument."""
    make = pytest.importorskip(library).asarray
    f = rlx.jit(lambda tree, n: tree["a"] * n + tree["b"], static_argnums=1)
    for number in (1.0, 2.0):
        tree = {"a": make(np.float32(number)), "b": make(np.ones(3, np.float32))}
        for n in (1, 2):
            assert f(tree, n).tolist() == [number * n + 1] * 3
