"""`graph.quant`: which values of a graph have few bits, through passes and files."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx import nn
from rlx.ir.serialize import dumps, loads
from rlx.lower.hir import simplify

X = np.linspace(-1, 1, 64, dtype="float32").reshape(1, 64)
W = nn.quantize_blocks(X, "q4_1")


def layers(x, w):
    y = x @ w.dequantize().T
    q = nn.quantize(y, 0.5, bounds=(-8, 7))
    return nn.dequantize(q, 0.5) + nn.linear(x, w, compute="int8") + nn.fake_quantize(y, 0.5)


def test_the_values_of_few_bits_are_listed():
    graph = rlx.make_graph(layers)(X, W)
    schemes = [found.scheme for found in graph.quant.values()]
    assert schemes == ["blocks of q4_1", "int8 from -8 to 7", "int8 for each 16", "int8"]
    x, data = graph.params
    assert graph.quant[data].node.op.name == "dequantize_blocks"
    assert graph.quant[x].name == "%0" and x in graph.quant
    lines = str(graph.quant).splitlines()
    assert lines[0] == "layers: 4 quantized values"
    assert lines[1].startswith(
        "%1: u8[1, 40] argument 1 of layers, w.data   blocks of q4_1, read by"
    )
    assert "test_quantized_values.py" in lines[1]


def test_passes_and_files_keep_them():
    graph = rlx.make_graph(layers)(X, W)
    back = loads(dumps(graph))
    assert [str(q).split("   ")[:2] for q in back.quant.values()] == [
        str(q).split("   ")[:2] for q in graph.quant.values()
    ]
    simple = simplify(graph)
    assert simple.quant[simple.params[1]].node.op.name == "block_dot"


def test_those_of_nested_graphs_are_listed_too():
    def loop(x, w):
        return rlx.scan(lambda x, _: (nn.linear(x, w) * x[:, :1] + 1, None), x, None, length=2)[0]

    w = nn.quantize_blocks(np.ones((64, 64), "float32"), "q8_0")
    (found,) = rlx.make_graph(loop)(X, w).quant.values()
    assert found.scheme == "blocks of q8_0" and found.name.count("%") == 2


def test_a_graph_of_floats_has_none():
    graph = rlx.make_graph(lambda x: x @ x.T)(X)
    assert not graph.quant and len(graph.quant) == 0


@pytest.mark.parametrize("scheme", ["w8a8", "w8a8_dynamic"])
@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_codes_of_quantized_models_are_listed(kind, scheme):
    key = rlx.random.key(0)
    model = nn.Linear(64, 4, key=key) if kind == "linear" else nn.Conv(8, 8, 3, key=key)
    x = X if kind == "linear" else X.reshape(2, 4, 8)
    graph = rlx.make_graph(rlx.quantize(model, [x], scheme=scheme).__call__)(x)
    assert [q.scheme for q in graph.quant.values()] == ["int8 codes"] * 2
    if kind == "linear":
        assert any(value in graph.params for value in graph.quant)
