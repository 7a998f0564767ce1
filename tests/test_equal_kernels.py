"""Kernels that differ in their buffers only are compiled once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.host import host
from rlx.backends.cpu.program import ProgramWriter
from rlx.backends.registry import get
from rlx.ir.interpret import interpret
from rlx.lower.pipeline import lower

SIZE = 48


def network(layers: int):
    """Layers with a product, a bias, an activation and a normalization of rows."""

    def run(x, weights, biases):
        for i in range(layers):
            y = rnp.tanh(x @ weights[i] + biases[i])
            x = x + (y - y.mean(-1, keepdims=True)) / (y.std(-1, keepdims=True) + 1)
        return (x * x).sum()

    generator = np.random.default_rng(0)
    weights = [generator.standard_normal((SIZE, SIZE)).astype("f4") / SIZE for _ in range(layers)]
    biases = [generator.standard_normal(SIZE).astype("f4") for _ in range(layers)]
    return run, (generator.standard_normal((SIZE, SIZE)).astype("f4"), weights, biases)


def functions(graph) -> dict[str, str]:
    """The LLVM functions of a graph."""
    writer = ProgramWriter(host())
    writer.write(lower(graph, get("cpu").target).program)
    return {name: f.text for name, f in writer.module.functions.items()}


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: rlx.grad(f, argnums=1)])
def test_more_layers_need_no_more_kernels(transform):
    count = {}
    for layers in (4, 9):
        run, given = network(layers)
        graph = rlx.make_graph(transform(run))(*given)
        made = functions(graph)
        assert len(re.findall(r"@kernel_\d+", made["main"])) >= 2 * layers
        count[layers] = len(made)
    assert count[9] <= count[4]


def test_layers_that_share_kernels_have_their_own_numbers():
    run, given = network(5)
    gradient = rlx.make_graph(rlx.grad(run, argnums=1))(*given)
    leaves = rlx.tree.leaves(given)
    found = rlx.Session("cpu").compile(gradient)(*leaves)
    for one, wanted in zip(found, interpret(gradient, leaves), strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(one, wanted, atol=100 * np.finfo("f4").eps * scale, rtol=0)
    assert len({np.asarray(one).tobytes() for one in found}) == len(found)


def test_constants_and_sizes_that_differ_are_other_kernels():
    def run(x, y):
        several = [rnp.exp(x).sum(0), rnp.exp(y).sum(0), rnp.exp(x * 2).sum(0), rnp.exp(x).sum(1)]
        return [*several, rnp.exp(-x).sum(0)]

    x = np.linspace(-1, 1, 64 * 80, dtype="f4").reshape(64, 80)
    y = np.linspace(-1, 1, 64 * 81, dtype="f4").reshape(64, 81)
    found = rlx.jit(run)(x, y)
    wanted = [np.exp(x).sum(0), np.exp(y).sum(0), np.exp(x * 2).sum(0), np.exp(x).sum(1)]
    for one, other in zip(found, [*wanted, np.exp(-x).sum(0)], strict=True):
        np.testing.assert_allclose(one, other, rtol=64 * np.finfo("f4").eps)
