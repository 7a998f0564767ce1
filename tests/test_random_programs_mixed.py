"""Random programs over inputs of several dtypes, and batches of random programs."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import opinions
import pytest
from hypothesis import given, strategies as st
from libraries import OURS
from programs import Program, any_program, mixed_programs, programs, same, some

import rlx


@some(40)
@given(mixed_programs())
def test_compiled_is_eager_and_cpu_is_reference(program: Program) -> None:
    fn = program.on(OURS)
    eager = fn(*map(rlx.array, program.inputs))
    same(rlx.jit(fn)(*program.inputs), eager, program)
    same(rlx.jit(fn, device="reference")(*program.inputs), eager, program)


@some(24)
@given(programs() | mixed_programs(), st.lists(st.sampled_from([0, 0, -1, None]), min_size=3))
def test_a_batch_is_a_loop_over_its_rows(program: Program, places: list[int | None]) -> None:
    fn = program.on(OURS)
    axes = (0, *places[1 : len(program.inputs)])
    batch = [
        x if axis is None else np.stack([x, x[::-1] if x.ndim else x, x], axis)
        for x, axis in zip(program.inputs, axes, strict=True)
    ]
    rows = [
        [x if axis is None else np.take(x, i, axis) for x, axis in zip(batch, axes, strict=True)]
        for i in range(3)
    ]
    wanted = [
        np.stack(items) for items in zip(*(fn(*map(rlx.array, r)) for r in rows), strict=True)
    ]
    same(rlx.vmap(fn, axes)(*map(rlx.array, batch)), wanted, program)
    same(rlx.jit(rlx.vmap(fn, axes))(*batch), wanted, program)


@some(4)
@given(mixed_programs())
def test_a_program_is_printed_as_a_script_that_runs(program: Program) -> None:
    scope: dict = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(repr(program), scope)
    assert "reference" in printed.getvalue()
    for x, y in zip(scope["inputs"], program.inputs, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    xs = list(map(rlx.array, program.inputs))
    same(scope["program"](OURS, *xs), program.on(OURS)(*xs), program)


def test_a_program_that_fails_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is left is what fails, and it still runs."""
    monkeypatch.setattr(opinions, "verdict", lambda p: "lib.np.sin(" in p.source and "wrong")
    failing = [p for p in map(any_program, range(24)) if opinions.verdict(p)]
    assert failing
    for program in failing:
        small = opinions.shrunk(program)
        assert opinions.verdict(small)
        assert len(small.lines) <= len(program.lines)
        assert len(small.results) == 1
        small.on(OURS)(*map(rlx.array, small.inputs))
    assert min(len(opinions.shrunk(p).lines) for p in failing) <= 2
