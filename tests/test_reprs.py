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


def test_what_holds_much_shows_little():
    compiled = rlx.jit(loss).lower(X).compile()
    executable = repr(compiled.compiled.executable)
    assert executable.startswith("<executable of ") and len(executable) < 80
    graph = rlx.make_graph(loss)(X)
    assert repr(graph) == "<graph loss(f32[3]) -> f32[]: 2 nodes>"
    assert repr(rlx.Graph("empty")) == "<graph empty() -> nothing: 0 nodes>"
    session = rlx.Session("reference")
    session.compile(loss, X)
    assert repr(session) == "<session on reference: 1 programs>"


def test_optimizers_name_their_steps():
    adam = rlx.optim.adam(1e-3)
    assert repr(adam) == "<optimizer chain(scale_by_adam, scale)>"
    assert repr(rlx.optim.clip_by_value(1.0)) == "<optimizer clip_by_value>"
    assert repr(rlx.optim.chain(rlx.optim.scale(2.0))) == "<optimizer chain(scale)>"
    assert "scale_by_zoom_linesearch" in repr(rlx.optim.lbfgs())
    own = rlx.optim.Optimizer(lambda params: (), lambda grads, state, params=None: (grads, state))
    assert repr(own) == "<optimizer test_optimizers_name_their_steps>"


def test_schedules_and_initializers_print_as_the_calls_that_made_them():
    schedules, initializers = rlx.optim.schedules, rlx.nn.initializers
    rising = schedules.warmup(10, schedules.cosine(1.0, 100, end=0.1))
    assert repr(rising) == "warmup(10, cosine(1.0, 100, end=0.1))"
    many = schedules.piecewise(1.0, dict.fromkeys(range(99), 0.5))
    assert repr(many) == "piecewise(1.0, {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5, 4: 0...)"
    own = schedules.join_schedules([loss, schedules.constant(1.0)], [5])
    assert repr(schedules.warmup(3, loss)) == "warmup(3, loss)"
    assert repr(own).startswith("join_schedules([<function loss at ") and len(repr(own)) < 70
    assert repr(initializers.normal(0.02)) == "normal(0.02)"
    assert repr(initializers.he_normal(dtype=np.float32)) == "he_normal(dtype=float32)"
    jitted = rlx.jit(lambda x: rising(x))
    assert jitted(5).item() == rising(5).item()


def test_streams_name_their_seed():
    assert repr(rlx.random.stream(7)) == "<stream of the seed 7>"
    assert repr(rlx.random.stream(rlx.random.key(7))) == "<stream of a key>"


def test_functions_with_rules_and_of_jax_name_themselves():
    assert repr(rlx.custom_jvp(loss)) == "<custom_jvp(loss)>"
    assert repr(rlx.custom_vjp(loss)) == "<custom_vjp(loss)>"
    pytest.importorskip("jax")
    assert repr(rlx.from_jax(loss)) == "<from_jax(loss)>"


def test_debug_shows_its_level():
    with rlx.debug(0):
        assert repr(rlx.debug) == "<rlx.debug at level 0>"


TRANSFORMS = (
    "grad value_and_grad vmap jacfwd jacrev hessian checkpoint nan_check verify show named_call"
)


@pytest.mark.parametrize("name", TRANSFORMS.split())
def test_transforms_say_of_what_they_are(name):
    made = getattr(rlx, name)(loss)
    assert f"<function {name}(loss) at" in repr(made)
    assert made.__name__ == "loss"
    assert f"vmap({name}(loss))" in repr(rlx.vmap(made))
