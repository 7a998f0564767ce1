"""The text of errors, word for word: what, where in the user's code, how to fix it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import errors


def text_of(kind: type[Exception], fn: Callable[..., Any], *args: Any) -> str:
    """The error's text with the line numbers of this file taken out."""
    with pytest.raises(kind) as caught:
        fn(*args)
    lines = str(caught.value).splitlines()
    return "\n".join(
        line.split("test_errors.py:")[0] + "test_errors.py in " + line.split(" in ", 1)[1]
        if "test_errors.py:" in line
        else line
        for line in lines
    )


def test_unknown_device():
    assert text_of(errors.UnknownDeviceError, lambda: rlx.jit(lambda x: x, device="cpuu")) == (
        "there is no device 'cpuu'\n  fix    did you mean 'cpu'? the devices are cpu, reference"
    )


def test_unhashable_static_argument():
    f = rlx.jit(lambda x, n: x, static_argnames="n")
    assert text_of(errors.StaticArgumentError, f, rlx.array([1.0]), [3]) == (
        "the static argument 'n' of <lambda> is a list, which cannot be hashed\n"
        "  fix    pass a hashable value (a tuple for a list), or make the argument not static"
    )


def test_value_dependent_if_names_the_line_and_offers_cond():
    @rlx.jit
    def f(x):
        if x > 0:
            return x
        return -x

    text = text_of(errors.ConcretizationError, f, 1.0)
    assert "test_errors.py in f" in text
    assert "if x > 0:" in text
    assert "rlx.cond" in text


def test_matmul_shape_mismatch_names_the_pytree_path():
    @rlx.jit
    def loss(x, params):
        return x @ params["head"]["w"]

    text = text_of(errors.ShapeError, loss, rnp.zeros((3, 4)), {"head": {"w": rnp.zeros((5, 2))}})
    assert "4 and 5" in text
    assert 'params["head"]["w"]' in text
    assert "test_errors.py in loss" in text
    assert "fix" in text


def test_leaked_tracer_names_its_line_and_holder():
    held = []

    @rlx.jit
    def f(x):
        held.append(x * 2)
        return x

    f(1.0)
    text = text_of(errors.LeakedTracerError, lambda: held[0] + 1)
    assert "held.append(x * 2)" in text


def test_non_scalar_grad():
    text = text_of(errors.GradientError, rlx.grad(lambda x: x * 2), rlx.array([1.0, 2.0]))
    assert "f32[2]" in text
    assert "rlx.jacrev" in text


def test_bad_axis():
    text = text_of(errors.AxisError, lambda: rnp.sum(rnp.zeros((2, 3)), axis=5))
    assert "axis 5" in text
    assert "test_errors.py" in text


def test_unsupported_dtype():
    text = text_of(errors.DtypeError, rlx.array, ["a", "b"])
    assert "fix" in text
