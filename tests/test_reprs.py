"""What functions and compiled things print: one short line each."""

from __future__ import annotations

import numpy as np
import pytest

import rlx


def loss(x):
    return (x * x).sum()


X = np.ones(3, np.float32)


def test_a_jitted_function_names_itself_its_device_and_its_kinds():
    f = rlx.jit(loss, device="reference")
    assert repr(f) == "<jit(loss) on reference: 0 kinds compiled>"
    f(X)
    assert repr(f) == "<jit(loss) on reference: 1 kind compiled>"


def test_compiled_things_show_their_types():
    f = rlx.jit(loss, device="reference")
    assert repr(f.lower(X)) == "<loss(f32[3]) -> f32[] recorded for reference>"
    compiled = f.lower(X).compile()
    assert repr(compiled) == "<loss(f32[3]) -> f32[] compiled for reference>"
    assert repr(compiled.compiled) == repr(compiled)
    exported = rlx.export(loss, rlx.spec((3,)))
    assert repr(exported) == "<loss(f32[3]) -> f32[] exported>"
    many = rlx.make_graph(lambda xs: xs[0])([X] * 9)
    assert many.signature == "<lambda>(f32[3], f32[3], f32[3], f32[3], 5 more) -> f32[3]"


def test_debug_shows_its_level():
    with rlx.debug(0):
        assert repr(rlx.debug) == "<rlx.debug at level 0>"


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "vmap", "jacfwd", "jacrev", "hessian"])
def test_transforms_say_of_what_they_are(name):
    made = getattr(rlx, name)(loss)
    assert f"<function {name}(loss) at" in repr(made)
    assert made.__name__ == "loss"
    assert f"vmap({name}(loss))" in repr(rlx.vmap(made))
