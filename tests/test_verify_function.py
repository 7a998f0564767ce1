"""`rlx.verify` agrees where code is right, and finds the op that is wrong."""

from __future__ import annotations

import inspect
import re
from itertools import count

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import parse
from rlx.ir.errors import ArgumentError, DivergenceError
from rlx.ir.graph import OPS
from rlx.ir.interpret import interpret

X = np.array([[0.25, 0.5, 1.0], [1.5, 1.75, 2.0]], np.float32)


def loss(x):
    def step(total, row):
        part = rnp.sinh(row)
        return total + part.sum(), part

    total, parts = rlx.scan(step, 0.0, x)
    return {"total": total * 2.0, "products": rnp.exp(-parts) @ parts.T, "n": rnp.argmax(x)}


def told(fn, *args) -> tuple[str, DivergenceError]:
    with pytest.raises(DivergenceError) as caught:
        rlx.verify(fn)(*args)
    return re.sub(r"(test_verify_function\.py):\d+", r"\1:N", str(caught.value)), caught.value


@pytest.mark.parametrize(
    "fn",
    [
        loss,
        rlx.jit(loss),
        rlx.grad(lambda x: loss(x)["total"]),
        lambda x: rlx.vmap(rlx.jit(rnp.tanh))(x),
        lambda x: rnp.sin(x.astype("bfloat16")) * 3,
        lambda x: rnp.fft.fft(x),
        lambda x: rlx.random.normal(rlx.random.key(1), (8,)) + x[0, 0],
        lambda x: (x[:0], x > 1, rnp.log(x - 1), x / 0.0),
    ],
)
def test_right_code_agrees(fn):
    report = rlx.verify(fn)(X)
    assert list(report.largest) == ["cpu", "reference"]
    assert report.largest["reference"] == 0 and report.largest["cpu"] <= 1


def test_the_report_is_a_line():
    report = rlx.verify(lambda x: (x + 1, x * 2), devices=["cpu"])(X)
    assert str(report) == "<lambda>: results agree (2); largest difference / tolerance: cpu 0"


def test_a_wrong_kernel_is_found(monkeypatch):
    monkeypatch.setattr(OPS["sinh"].rules, "body", OPS["tanh"].rules.body)
    text, error = told(loss, X)
    wanted = """
        sinh on cpu gives 0.7615942 at [2] of f32[3], its reference 1.1752012: N times the tolerance
          where  test_verify_function.py:N in step      part = rnp.sinh(row)
                 operand 0: f32[3], 1.0 at [2], from 0.25 to 1.0

                 graph sinh(%0: f32[3] "x") -> f32[3] {
                   %1: f32[3] = sinh %0
                   return %1
                 }
          fix    correct the room of sinh or the device cpu; error.replay() runs this again
        """
    found = re.sub(r": [\d.e+]+ times", ": N times", text)
    assert [line.rstrip() for line in found.splitlines()] == inspect.cleandoc(wanted).splitlines()
    on_cpu, reference = error.replay()
    np.testing.assert_allclose(on_cpu[0], np.tanh(error.arrays[0]), rtol=1e-5)
    np.testing.assert_array_equal(reference[0], np.sinh(error.arrays[0]))
    graph = parse(
        "\n".join(line[9:] for line in text.splitlines() if line.startswith(" " * 9)).partition(
            "\n\n"
        )[2]
    )
    np.testing.assert_array_equal(interpret(graph, error.arrays)[0], reference[0])


def test_a_jitted_function_and_its_gradient_are_seen_through(monkeypatch):
    monkeypatch.setattr(OPS["cosh"].rules, "body", OPS["sinh"].rules.body)
    for fn in (rlx.jit(rlx.grad(lambda x: loss(x)["total"])), rlx.vmap(rlx.jit(rnp.cosh))):
        text, _ = told(fn, X)
        assert text.startswith("cosh on cpu gives")


def test_a_wrong_rule_is_found_though_the_op_alone_is_right(monkeypatch):
    """A fold rule that forgets an operand where the other one is a constant."""

    def mul_fold(x, y):
        return x if y.node is not None and y.node.op.name == "full" else None

    monkeypatch.setattr(OPS["mul"].rules, "fold", mul_fold)

    def fn(x):
        before = rnp.exp(x)
        wrong = before * 3.0
        return rnp.sqrt(wrong) + 1.0

    text, error = told(fn, X)
    assert text.startswith("mul on cpu gives") and "wrong = before * 3.0" in text
    assert "alone no op differs: look at what merges mul with others" in text
    assert [node.op.name for node in error.graph.nodes][-1] == "mul"
    on_cpu, reference = error.replay()
    np.testing.assert_allclose(on_cpu[0] * 3, reference[0], rtol=1e-5)


def test_integers_must_be_equal(monkeypatch):
    monkeypatch.setattr(OPS["add"].rules, "body", OPS["sub"].rules.body)
    text, _ = told(lambda x: x + 1, np.arange(3))
    assert "inf times the tolerance" in text


def test_tolerances_can_be_given():
    session_error = 1e-3
    rounded = lambda x: rnp.tanh(x)  # noqa: E731
    rlx.verify(rounded, rtol=session_error)(X)
    rlx.verify(rounded, rtol=0.0, atol=session_error)(X)


def test_a_function_that_depends_on_being_recorded():
    calls = count()
    text, _ = told(lambda x: x + next(calls), X)
    assert "<lambda> means something else when it is recorded" in text
    assert "must not depend on being recorded" in text


def test_it_needs_numbers():
    with pytest.raises(ArgumentError, match="verify needs numbers"):
        rlx.jit(rlx.verify(loss))(X)
