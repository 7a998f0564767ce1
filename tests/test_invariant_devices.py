"""`deterministic="batch"` on devices of kernels: a row's bits do not depend on its batch there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from batch_invariance import families
from cupy_on_host import installed
from test_gguf_files import some_blocks

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends.c_like.cuda_c import CudaC
from rlx.backends.c_like.dialect import Limits
from rlx.backends.c_like.executable import kernel_target
from rlx.backends.c_like.plan import plan
from rlx.ir.record import replace
from rlx.lower.pipeline import lower

RANDOM = np.random.default_rng(0)
FAMILIES = {
    name: family
    for name, family in families(300).items()
    if name not in ("convolutions", "convolutions, channels first", "gradients", "perceptrons")
}
PACKED = some_blocks("q4_1", rows=40, blocks=10)
CUBE = RANDOM.normal(size=(16, 20, 3)).astype("float32")


def sums_then_softmax(x: Any) -> Any:
    """Of many rows a thread computes each sum, of a single row a group does."""
    return nn.softmax((x.reshape(len(x), 4, -1) ** 2).sum(-1))


OTHERS = {
    "packed products": lambda x: nn.linear(x, nn.BlockArray(rnp.asarray(PACKED), "q4_1")),
    "packed products of int8": lambda x: nn.linear(
        x, nn.BlockArray(rnp.asarray(PACKED), "q4_1"), compute="int8"
    ),
    "sums, then softmax": sums_then_softmax,
    "sums of sums": lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1),
    "sums where there are some": lambda x: rnp.where(x[:, :1] > 0, x.sum(-1, keepdims=True), 0),
    "sums of columns": lambda x: x.T.sum(0) * (x * x).T.mean(0),
    "two axes": lambda x: rnp.einsum("bij,jik->bk", x.reshape(-1, 20, 16), CUBE),
}


@pytest.fixture(params=["opencl", "webgpu", "cuda"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device that keeps to one order; of `cuda` a stand-in on the host."""
    if request.param == "cuda":
        for _ in installed(monkeypatch):
            yield "cuda"
        return
    if not rlx.Device(request.param).is_available():
        pytest.skip(f"there is no device {request.param}")
    if rlx.Session(request.param).backend.invariant_target is None:
        pytest.skip(f"the driver of {request.param} adds in another order")
    yield request.param


def test_rows_do_not_depend_on_the_batch(device):
    given = {name: family.arrays("float32", 19) for name, family in FAMILIES.items()}
    x = RANDOM.normal(size=(19, 320)).astype("float32")

    @rlx.jit(device=device, deterministic="batch")
    def every(rows: dict[str, Any], weights: dict[str, Any], x: Any) -> Any:
        found = {name: f.function(rows[name], weights[name]) for name, f in FAMILIES.items()}
        return found, {name: f(x) for name, f in OTHERS.items()}

    weights = {name: w for name, (_, w) in given.items()}

    def of(count: int) -> dict[str, Any]:
        found, others = every(
            {name: r[:count] for name, (r, _) in given.items()}, weights, x[:count]
        )
        leaves = {**found, **others}
        return {name: [np.asarray(y) for y in rlx.tree.leaves(z)] for name, z in leaves.items()}

    whole = of(19)
    for count in (1, 5):
        part = of(count)
        differing = [
            name
            for name, ys in part.items()
            if any(y.tobytes() != z[:count].tobytes() for y, z in zip(ys, whole[name], strict=True))
        ]
        assert differing == []


@pytest.mark.parametrize("lanes", [1, 32])
def test_a_thread_alone_adds_as_a_group_does(lanes):
    target = replace(kernel_target("device"), batch_invariant=True)
    texts = []
    for count in (1, 19):
        graph = rlx.make_graph(sums_then_softmax)(RANDOM.normal(size=(count, 400)))
        dialect = CudaC(Limits(subgroup=lanes, batch_invariant=True))
        texts.append(plan(lower(graph, target).program, dialect).text)
    alone = "double parts0[128];"
    assert alone not in texts[0] and "__shared__" in texts[0] and alone in texts[1]
