"""A Python loop that is recorded round by round is told of once, and nothing else is."""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import builder
from rlx.ir.errors import UnrolledLoopWarning

X = np.ones(2, np.float32)
LIMIT = 8


@pytest.fixture(autouse=True)
def low_limit(monkeypatch):
    monkeypatch.setattr(builder, "_told", set())
    with rlx.config.using(unroll_limit=LIMIT):
        yield


def told(fn, *args) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fn(*args)
    assert all(each.category is UnrolledLoopWarning for each in caught)
    return [re.sub(r"(test_unrolled\.py):\d+", r"\1:N", str(each.message)) for each in caught]


def rounds(x, n):
    for _ in range(n):
        x = rnp.tanh(x * 2.0) + x
    return x.sum()


def test_the_text():
    (text,) = told(rlx.jit(lambda x: rounds(x, 20)), X)
    assert text == inspect.cleandoc("""
        <lambda> records a line 20 times: a Python loop is unrolled
          where  test_unrolled.py:N in rounds      x = rnp.tanh(x * 2.0) + x
          fix    rlx.scan or rlx.fori_loop compiles one round; """
        """a larger rlx.config.unroll_limit (0: none) silences this
        """)  # fmt: skip


def test_a_line_is_told_of_once():
    assert len(told(rlx.make_graph(lambda x: rounds(x, 20)), X)) == 1
    assert not told(rlx.make_graph(lambda x: rounds(x, 30)), X)


@pytest.mark.parametrize("n", [1, LIMIT])
def test_short_loops_are_fine(n):
    assert not told(rlx.make_graph(lambda x: rounds(x, n)), X)


def test_loops_in_transforms_and_loop_bodies():
    def body(total, x):
        return total + rounds(x, 20), None

    for fn in (
        rlx.jit(rlx.grad(lambda x: rounds(x, 20))),
        rlx.jit(lambda x: rlx.scan(body, 0.0, x)[0]),
        rlx.jit(rlx.vmap(lambda x: rounds(x, 20))),
    ):
        builder._told.clear()
        assert len(told(fn, X)) == 1
    assert not told(rlx.grad(lambda x: rounds(x, 20)), X)  # not compiled


def test_the_loop_may_be_outside_of_the_line():
    def double(x):
        return x * 2.0

    def calls(x):
        for _ in range(20):
            x = double(x)
        return x

    (text,) = told(rlx.make_graph(calls), X)
    assert "calls records a line 20 times" in text and "in double" in text
    assert len(told(rlx.make_graph(lambda x: [x * i for i in range(20)]), X)) == 1


def test_loops_of_rlx_are_no_loops_of_the_user():
    layers = rlx.nn.Sequential([rlx.nn.Linear(2, 2, key=rlx.random.key(i)) for i in range(20)])
    state = {i: X for i in range(20)}
    for fn in (
        lambda x: layers(x),
        lambda x: rlx.tree.map(lambda p: p * 2.0, state | {0: x}),
        lambda x: rlx.scan(lambda c, _: (c * 2.0, None), x, None, 20, unroll=20)[0],
        lambda x: rnp.polyval(np.ones(20, np.float32), x),
    ):
        assert not told(rlx.make_graph(fn), X)


def test_it_can_be_turned_off():
    with rlx.config.using(unroll_limit=0):
        assert not told(rlx.make_graph(lambda x: rounds(x, 20)), X)


def test_eager_loops_are_no_matter():
    assert not told(lambda x: rounds(x, 20), rlx.array(X))
