"""Programs that give one stored value in several ways: whole, as a view, and computed on."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from audit import COMPLETE

import rlx
import rlx.numpy as rnp

PRODUCERS: dict[str, Callable] = {
    "dot": lambda x: x @ x.T,
    "row times matrix": lambda x: x[:1] @ x.T,
    "matrix times vector": lambda x: x @ x[0],
    "batched": lambda x: x.reshape(2, 3, 4) @ x.reshape(2, 4, 3),
    "outer": lambda x: rnp.outer(x, x[0]),
    "reduction": lambda x: x.sum(1),
    "scan": lambda x: rnp.cumsum(x, 0),
    "sort": lambda x: rnp.sort(x, 0),
    "gather": lambda x: x[np.array([1, 0, 3])],
    "concat": lambda x: rnp.concatenate([x, x * 2]),
    "scatter": lambda x: x.at[np.array([0, 0])].add(1.0),
    "cond": lambda x: rlx.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x * 2, x),
    "loop": lambda x: rlx.while_loop(lambda s: s[0, 0] < 10, lambda s: s + 1, x),
    "pointwise": lambda x: x * 2 + 1,
}
USES: dict[str, Callable] = {
    "itself": lambda y: y,
    "row": lambda y: y[0],
    "flat": lambda y: y.reshape(-1),
    "wider": lambda y: y[None],
    "transposed": lambda y: y.T,
    "reversed": lambda y: y.reshape(-1)[::-1],
    "epilogue": lambda y: rnp.maximum(y, 0) + 1,
    "epilogue of the flat": lambda y: y.reshape(-1) * 2 + y.reshape(-1)[0],
    "sum": lambda y: y.sum(),
}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_pair_of_uses(producer):
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    y = PRODUCERS[producer](rlx.array(x))
    pairs = itertools.permutations(USES, 2) if COMPLETE else itertools.combinations(USES, 2)
    for first, second in pairs:

        def fn(x, uses=(USES[first], USES[second])):
            y = PRODUCERS[producer](x)
            return [use(y) for use in uses]

        for found, use in zip(rlx.jit(fn)(x), (first, second), strict=True):
            message = f"{producer}: {use} beside {first}, {second}"
            wanted = np.asarray(USES[use](y))
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=message)
