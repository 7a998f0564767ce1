"""Random programs: compiled as eager, `cpu` as `reference`, derivatives as JAX's.

Text and files give them back, and every pass of lowering keeps the rules of its level.

A longer run: `RANDOM_PROGRAMS=5000 pytest tests/test_random_programs.py`. A program that fails is
printed as a script.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from programs import OURS, SMOOTH_RULES, Program, programs

import rlx
import rlx.numpy as rnp
from rlx.ir.serialize import dumps, loads
from rlx.ir.text import constants, equal, parse, show

COUNT = int(os.environ.get("RANDOM_PROGRAMS", "0"))
THEIRS = SimpleNamespace(
    np=jnp,
    nn=jax.nn,
    scan=jax.lax.scan,
    cond=jax.lax.cond,
    switch=jax.lax.switch,
    fori_loop=jax.lax.fori_loop,
    while_loop=jax.lax.while_loop,
    jit=jax.jit,
    vmap=jax.vmap,
)
THEIRS.nn = SimpleNamespace(**{n: getattr(jax.nn, n) for n in dir(jax.nn) if n[0] != "_"})
THEIRS.nn.logsumexp = jax.scipy.special.logsumexp


def some(count: int, **options: Any) -> Any:
    """Settings for so many examples, always the same ones unless a longer run is asked for."""
    return settings(
        **options,
        max_examples=COUNT or count,
        derandomize=not COUNT,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def close(ours: Any, theirs: Any, tolerance: float) -> None:
    """Compare arrays; the numbers of a program are at most about a hundred."""
    mine, others = rlx.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(mine) == len(others)
    for a, b in zip(mine, others, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance
        )


@some(120)
@given(programs())
def test_compiled_is_eager_and_cpu_is_reference(program: Program) -> None:
    fn = program.on(OURS)
    eager = fn(*map(rlx.array, program.inputs))
    compiled = rlx.jit(fn)(*program.inputs)
    close(compiled, eager, program.tolerance)
    close(rlx.jit(fn, device="reference")(*program.inputs), eager, program.tolerance)
    assert [x.dtype for x in compiled] == [x.dtype for x in eager]


@some(60)
@given(programs(SMOOTH_RULES, dtype="float32"))
def test_single_precision(program: Program) -> None:
    fn = program.on(OURS)
    exact = fn(*(rlx.array(x.astype(np.float64)) for x in program.inputs))
    close(rlx.jit(fn)(*program.inputs), exact, 2e-3)


@some(80)
@given(programs())
def test_text_and_files_give_a_program_back(program: Program) -> None:
    graph = rlx.make_graph(program.on(OURS))(*program.inputs)
    assert equal(parse(show(graph), constants(graph)), graph)
    assert equal(loads(dumps(graph)), graph)


@some(60)
@given(programs())
def test_every_pass_keeps_the_rules(program: Program) -> None:
    fn = program.on(OURS)
    with rlx.config.using(check=True):
        compiled = rlx.jit(fn)(*program.inputs)
    close(compiled, fn(*map(rlx.array, program.inputs)), program.tolerance)


def derivatives(lib: Any, top: Any, fn: Any, xs: list[Any]) -> Any:
    """Value, gradient, a derivative along the inputs, one of second order, and a batch."""
    np_ = lib.np

    def loss(*xs: Any) -> Any:
        floats = [y for y in fn(*xs) if np_.issubdtype(y.dtype, np_.floating)]
        return sum((np_.sum(np_.sin(y + 0.3)) for y in floats), np_.sum(xs[0]) * 0.1)

    where = tuple(range(len(xs)))
    gradient = top.grad(loss, argnums=where)
    tangents = tuple(np_.cos(x) for x in xs)
    twice = [np_.stack([x, x * 0.7]) for x in xs]
    return (
        top.value_and_grad(loss, argnums=where)(*xs),
        top.jvp(loss, tuple(xs), tangents),
        top.jvp(gradient, tuple(xs), tangents)[1],
        top.vmap(gradient)(*twice),
    )


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@some(40, phases=[Phase.generate])  # JAX takes too long to compile for shrinking
@given(programs(SMOOTH_RULES))
def test_derivatives_are_those_of_jax(program: Program) -> None:
    ours, theirs = program.on(OURS), program.on(THEIRS)
    wanted = jax.jit(lambda *xs: derivatives(THEIRS, jax, theirs, list(xs)))(*program.inputs)
    found = rlx.jit(lambda *xs: derivatives(OURS, rlx, ours, list(xs)))(*program.inputs)
    close(found, wanted, 1e-8)
    close(derivatives(OURS, rlx, ours, list(map(rnp.asarray, program.inputs))), wanted, 1e-8)
