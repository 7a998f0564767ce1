"""Random programs: compiled as eager, `cpu` as `reference`, derivatives as JAX's.

Text and files give them back, and every pass of lowering keeps the rules of its level.

A longer run: `make laws`, `make programs` and `make nightly`, or of one law
`RANDOM_PROGRAMS=5000 pytest tests/test_random_programs.py -k text`. A program that fails is printed
as a script.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import Phase, given, strategies as st
from libraries import OURS, QUICK, THEIRS
from opinions import derivatives, verdict
from programs import (
    SMOOTH_RULES,
    Program,
    any_program,
    close,
    mixed_programs,
    programs,
    same,
    some,
    wide,
)

import rlx
from rlx.ir.serialize import dumps, loads
from rlx.ir.text import constants, equal, parse, show


@some(48)
@given(programs())
def test_compiled_is_eager_and_cpu_is_reference(program: Program) -> None:
    fn = program.on(OURS)
    eager = fn(*map(rlx.array, program.inputs))
    same(rlx.jit(fn)(*program.inputs), eager, program)
    same(rlx.jit(fn, device="reference")(*program.inputs), eager, program)


@some(30)
@given(programs(SMOOTH_RULES, ["float32"]))
def test_single_precision(program: Program) -> None:
    fn = program.on(OURS)
    exact = fn(*(rlx.array(wide(x)) for x in program.inputs))
    for x, y in zip(rlx.jit(fn)(*program.inputs), exact, strict=True):
        close(x, y, 2e-3)


@some(40)
@given(programs() | mixed_programs())
def test_text_and_files_give_a_program_back(program: Program) -> None:
    graph = rlx.make_graph(program.on(OURS))(*program.inputs)
    assert equal(parse(show(graph), constants(graph)), graph)
    assert equal(loads(dumps(graph)), graph)


@some(30)
@given(programs())
def test_every_pass_keeps_the_rules(program: Program) -> None:
    fn = program.on(OURS)
    with rlx.config.using(check=True):
        compiled = rlx.jit(fn)(*program.inputs)
    same(compiled, fn(*map(rlx.array, program.inputs)), program)


@some(10, phases=[Phase.generate])
@given(st.integers(0, 2**32).map(any_program))
def test_all_opinions_of_programs_of_all_families_are_one(program: Program) -> None:
    assert not verdict(program)


def same_derivatives(found: Any, wanted: Any) -> None:
    """Compare what `derivatives` gives, item by item."""
    assert found.keys() == wanted.keys()
    for name, items in found.items():
        mine, others = rlx.tree.leaves(items), jax.tree.leaves(wanted[name])
        for i, (x, y) in enumerate(zip(mine, others, strict=True)):
            close(x, y, 1e-8, f"{name}, array {i}")


@pytest.fixture(autouse=True)
def settings_of_both():
    """Double precision in JAX, and no notice of the Python loop over the results."""
    with jax.enable_x64(True), rlx.config.using(unroll_limit=0):
        yield


# JAX takes too long to compile for shrinking
@some(4, phases=[Phase.generate])
@given(programs(SMOOTH_RULES))
def test_derivatives_are_those_of_jax(program: Program) -> None:
    ours, theirs = program.on(OURS), program.on(THEIRS)
    # at 0 the slope of `abs` is 0, in JAX 1 (docs/derivatives.md)
    inputs = [np.where(x == 0, x.dtype.type(0.0005), x) for x in program.inputs]
    compiled = jax.jit(lambda *xs: derivatives(THEIRS, jax, theirs, xs), compiler_options=QUICK)
    wanted = compiled(*inputs)
    same_derivatives(rlx.jit(lambda *xs: derivatives(OURS, rlx, ours, xs))(*inputs), wanted)
    eager = derivatives(OURS, rlx, ours, tuple(map(rlx.array, inputs)))
    same_derivatives(eager, wanted)
