"""Kernels that differ in their buffers only are compiled once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu import program
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.loops.kernels import buffers_of
from rlx.backends.cpu.program import ProgramWriter
from rlx.backends.registry import get
from rlx.ir.interpret import interpret
from rlx.ir.types import Type
from rlx.lower.lir.canonical import canonical
from rlx.lower.lir.expr import accumulated, apply, const, guard, index_value, load, reduce
from rlx.lower.lir.index import Variable, as_index
from rlx.lower.lir.program import Buffer, Contraction, Kernel, RowGroup, Store
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


def step(**changed: Any) -> RowGroup:
    """A step with something of everything; `changed` names what is not as usual."""
    is_ = {
        "extent": 8, "outer": 4, "dtype": "f4", "stored": "temporary", "number": 0.0, "stride": 8,
        "shift": 0, "instruction": "add", "combine": "add", "init": 0.0, "low": 1, "step": 2,
        "divisor": 3, "shared": False, "offset": 64, "local": 64, "value": "i4", "place": 0,
        "swapped": False,
    } | changed  # fmt: skip
    i, j, k = Variable(is_["outer"]), Variable(is_["extent"]), Variable(5)
    dtype = np.dtype(is_["dtype"])
    type = Type(dtype, (64,))
    x = Buffer("x", type, "input")
    y = x if is_["shared"] else Buffer("y", type, "input")
    out = Buffer("out", type, is_["stored"], is_["place"])
    passed = Buffer("passed", type, "local", is_["offset"])
    index = i * is_["stride"] + j + is_["shift"]
    numbers = [load(x, index), load(y, index // is_["divisor"])]
    total = reduce(is_["combine"], (k,), const(dtype, is_["init"]), load(x, as_index(k)))
    inside = apply(is_["instruction"], dtype, *(numbers[::-1] if is_["swapped"] else numbers))
    guarded = guard(
        [(as_index(j), is_["low"], 7)], [(as_index(j), is_["step"])], inside,
        const(dtype, is_["number"]),
    )  # fmt: skip
    where = apply("convert", dtype, index_value(as_index(j), np.dtype(is_["value"])))
    first = Kernel((j,), (Store(passed, as_index(j), apply("mul", dtype, guarded, where)),))
    loaded = load(passed, as_index(j))
    second = Kernel((j,), (Store(out, index, apply("max", dtype, loaded, total)),))
    return RowGroup((i,), (first, second), (passed,), is_["local"])


DIFFERENT = [
    {"extent": 6}, {"outer": 5}, {"dtype": "f8"}, {"stored": "output"}, {"number": -0.0},
    {"number": float("nan")}, {"stride": 9}, {"shift": 1}, {"instruction": "sub"}, {"init": 1.0},
    {"combine": "max"}, {"low": 2}, {"step": 3}, {"divisor": 4}, {"shared": True}, {"offset": 0},
    {"local": 128}, {"value": "i8"}, {"swapped": True},
]  # fmt: skip


def test_keys_of_steps_differ_where_they_do_something_else():
    keys = [canonical(step(**changed))[0] for changed in ({}, *DIFFERENT)]
    assert len(set(keys)) == len(keys)


def test_keys_of_steps_do_not_depend_on_names_and_places():
    (key, ours), (other, theirs) = canonical(step()), canonical(step(place=128))
    assert key == other
    assert [b.name for b in ours] == [b.name for b in theirs]
    assert not {*ours} & {*theirs}
    product = {"row": 4, "column": 8, "depth": 8}
    assert canonical(contraction(**product))[0] == canonical(contraction(**product))[0]
    joined = replace(contraction(**product), joins=True)
    assert canonical(contraction(**product))[0] == canonical(joined)[0]


def test_keys_of_products_differ_where_they_do_something_else():
    usual = {"row": 4, "column": 8, "depth": 8, "dtype": "f4", "is_packed": False}
    others = [{"row": 5}, {"column": 4}, {"depth": 4}, {"dtype": "f8"}, {"is_packed": True}]
    keys = [canonical(contraction(**usual | other))[0] for other in ({}, *others)]
    assert len(set(keys)) == len(keys)


def contraction(row: int, column: int, depth: int, dtype: str = "f4", is_packed: bool = False):
    a, b, c, panels = (Buffer(n, Type(np.dtype("f4"), (64,)), "temporary") for n in "abcp")
    i, j, k = Variable(row), Variable(column), Variable(depth)
    store = Store(c, i * 8 + j, accumulated(np.dtype("f4")))
    operands = load(a, i * 8 + k), load(b, k * 8 + j)
    given = panels if is_packed else None
    return Contraction((), i, j, k, *operands, np.dtype(dtype), (store,), rhs_panels=given)


def test_equal_steps_are_written_once(monkeypatch):
    written = []
    for kind, emit in list(program.LOOP_WRITERS.items()):
        noted = lambda *a, emit=emit: written.append(a) or emit(*a)  # noqa: E731
        monkeypatch.setitem(program.LOOP_WRITERS, kind, noted)
    counts = []
    for layers in (4, 9):
        written.clear()
        run, given = network(layers)
        functions(rlx.make_graph(run)(*given))
        counts.append(len(written))
    assert counts[0] == counts[1] > 0


def test_buffers_of_a_kernel_stand_in_the_order_of_their_names() -> None:
    """Wherever they lie in this process, the text that is compiled is the same."""
    type = Type(np.dtype("float32"), (SIZE,))
    buffers = [Buffer(f"b{number}", type, "input") for number in range(9)]
    loads = [load(b, as_index(0)) for b in reversed(buffers)]
    total = loads[0]
    for each in loads[1:]:
        total = apply("add", type.dtype, total, each)
    assert buffers_of([total, loads[3]]) == buffers
