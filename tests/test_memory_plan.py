"""`rlx.memory_plan`: what a call holds, before it runs, and in errors of missing memory."""

from __future__ import annotations

import inspect
import tracemalloc
import xml.etree.ElementTree as xml

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.runtime import memory
from rlx.ir import interpret

N = 96


def network(x, w):
    h = rnp.tanh(x @ w)
    h = rnp.tanh(h @ w)
    return (h @ w).sum(axis=0)


SPECS = rlx.spec((N, N)), rlx.spec((N, N))


def test_the_plan_is_that_of_the_compiled_program():
    plan = rlx.memory_plan(network)(*SPECS)
    compiled = rlx.jit(network).lower(*SPECS).compile()
    assert plan.arena_bytes == compiled.cost().arena_bytes
    assert plan.peak_bytes == compiled.cost().peak_bytes
    assert compiled.memory_plan() == plan
    assert plan.bytes_of("argument") == 2 * 4 * N * N and plan.bytes_of("result") == 4 * N


def test_blocks_name_the_users_lines():
    plan = rlx.memory_plan(network)(*SPECS)
    blocks = [block for block in plan.blocks if block.kind == "temporary"]
    lines, first = inspect.getsourcelines(network)
    assert all(first < block.source.line < first + len(lines) for block in blocks)
    assert {block.what for block in plan.blocks if block.kind == "argument"} == {"x", "w"}
    text = str(plan)
    assert text.startswith("network on cpu: ") and "h = rnp.tanh(" in text


def test_blocks_that_are_alive_together_do_not_overlap():
    f = rlx.grad(lambda x, w: network(x, w).sum(), argnums=(0, 1))
    plan = rlx.memory_plan(f)(*SPECS)
    blocks = [b for b in plan.blocks if b.kind == "temporary" and b.nbytes]
    assert len(blocks) > 2
    for i, a in enumerate(blocks):
        for b in blocks[:i]:
            # one that begins in the step in which another ends may take over its memory
            alive = a.first < b.last and b.first < a.last
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert apart or not alive
    assert max(plan.live) <= sum(b.nbytes for b in blocks) + 64 * len(blocks)
    assert plan.live[plan.fullest] == max(plan.live)


def test_donated_arguments_count_once():
    def step(x, y):
        return x + y

    plain = rlx.memory_plan(step)(*SPECS)
    donated = rlx.memory_plan(rlx.jit(step, donate_argnames="x"))(*SPECS)
    assert donated.peak_bytes == plain.peak_bytes - 4 * N * N
    assert "- donated 36.9 kB" in str(donated)


def test_nothing_is_allocated():
    plan = rlx.memory_plan(lambda x: (x @ x).sum())(rlx.spec((10**6, 10**6)))
    assert plan.peak_bytes > 4 * 10**12 and "GB" in str(plan)


@pytest.mark.parametrize("device", ["reference", "xla", "mlx"])
def test_other_devices_are_estimates(device):
    if not rlx.Device(device).is_available():
        pytest.skip(f"{device} is not here")
    plan = rlx.memory_plan(rlx.jit(network, device=device))(*SPECS)
    assert plan.is_estimate and f"on {device}: about " in str(plan)


def test_the_picture_has_a_rectangle_for_each_temporary():
    plan = rlx.memory_plan(network)(*SPECS)
    root = xml.fromstring(plan.svg())
    names = "{http://www.w3.org/2000/svg}"
    rectangles = root.findall(f"{names}rect")
    assert len(rectangles) == sum(block.kind == "temporary" for block in plan.blocks)
    titles = [rectangle.find(f"{names}title").text for rectangle in rectangles]
    assert any("h = rnp.tanh(" in title for title in titles)
    wide, high = (float(root.get(side)) for side in ("width", "height"))
    for each in rectangles:
        x, y, width, height = (float(each.get(k)) for k in ("x", "y", "width", "height"))
        assert 0 <= x and x + width <= wide and 0 <= y and y + height <= high
    assert plan._repr_svg_() == plan.svg()


def test_loops_have_memory_of_their_own():
    w = rnp.ones((N, N))

    def f(x):
        return rlx.scan(lambda c, _: (rnp.tanh(w @ c) @ c, None), x, None, length=5)[0]

    plan = rlx.memory_plan(f)(SPECS[0])
    assert any(block.what == "memory of a loop" for block in plan.blocks)


def missing(nbytes: int) -> None:
    """As if the system had no memory left."""
    memory.no_memory(nbytes)


@pytest.mark.parametrize("call", ["jitted", "compiled", "graph"])
def test_errors_of_missing_memory_carry_the_plan(call, monkeypatch):
    def huge(x):
        y = rnp.exp(x[:, None] + x[None, :])  # 4e13 bytes, stored
        return y, y.sum(axis=0)

    x = rnp.ones(10**6 * 3)
    f = rlx.jit(huge)
    if call == "compiled":
        f = f.lower(x).compile()
    elif call == "graph":
        f = rlx.Session("cpu").compile(huge, x)
    with pytest.raises(rlx.DeviceMemoryError) as caught:
        f(x)
    text = str(caught.value)
    assert "memory of huge on cpu: " in text and "rnp.exp(x[:, None]" in text
    assert "result" in text and "  fix    " in text


def test_small_plans():
    empty = rlx.memory_plan(lambda x: x)(rlx.spec((3,)))
    assert empty.arena_bytes == 0 and empty.fullest == 0 and "temporaries 0 bytes" in str(empty)
    xml.fromstring(empty.svg())
    number = rlx.memory_plan(lambda x: x * 2)(np.float32(1.0))
    assert number.peak_bytes == 8


def test_interpreted_graphs_give_back_what_nobody_reads(monkeypatch):
    monkeypatch.setattr(interpret, "LARGE", 0)
    x = np.ones(1 << 20, "float32")

    def chain(x):
        first = x + 1
        for _ in range(8):
            x = rnp.sin(x) + x
        return x, first

    graph = rlx.make_graph(chain)(x)
    tracemalloc.start()
    found = interpret.interpret(graph, [x])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 6 * x.nbytes
    for given, wanted in zip(found, chain(x), strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-6)
