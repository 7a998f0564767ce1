"""The matrix of ops is complete, true and up to date; smooth ops have third derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from audit import like, pick
from claims import cases_of, laws_of
from device_page import cell as cell_of_device
from laws_of_change import FORWARD_ONLY, REVERSE_ONLY, assert_slopes, pushed, slopes
from op_matrix import COLUMNS, PAGE, REASONS, YES, cell, ours, page

from rlx.ir.interpret import interpret

OPS = ours()
SMOOTH = [name for name, op in OPS.items() if "jvp_is_the_slope" in laws_of(op)]
# the third derivatives of series take seconds
LONG = {"random_gamma_grad", "igamma_grad_a", "igamma", "igammac", "expn", "zeta", "betaln", "det"}


def test_the_page_is_what_make_pages_writes():
    assert PAGE.read_text(encoding="utf-8") == page(), "run make pages"


def test_what_runs_where_names_the_dtypes_on_the_host():
    def told(*on_host: str) -> tuple[str, str]:
        names = ["int32", "float32", "float64", "complex64", "complex128"]
        common = {"absent": "", "gap": "", "fault": ""}
        rows = [{"dtype": name, "on_host": name in on_host, **common} for name in names]
        return cell_of_device(rows), cell_of_device([*rows, {**rows[0], "on_host": False}])

    assert told() == ("✓", "✓")
    assert told("complex64", "complex128") == ("h complex", "h complex")
    assert told("complex128", "float32", "float64") == ("h float complex128",) * 2
    everything = ("int32", "float32", "float64", "complex64", "complex128")
    assert told(*everything) == ("h", "h some")


def test_every_cell_says_yes_or_why_not():
    empty = [(name, c) for name, op in OPS.items() for c in COLUMNS if not cell(op, c)]
    assert not empty, f"no law speaks of these, and no reason is given: {empty}"


def test_reasons_are_needed():
    for name in REASONS:
        assert name in OPS, f"there is no op {name}"
        assert any(cell(OPS[name], column) != YES for column in COLUMNS), f"{name} needs no reason"


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_that_are_checked_are_not_all_flat(name):
    """A ✓ is no accident: some sample has a finite slope that differs from zero."""
    for case in cases_of(OPS[name]):
        if not case.is_smooth:
            continue
        graph, arrays = case.graph, case.arrays()
        found = slopes(graph, arrays, case.active, like(pick(arrays, case.active), 1))
        if any((np.isfinite(s) & (s != 0)).any() for s in found):
            return
    raise AssertionError(f"no sample of {name} has a slope that could be wrong")


@pytest.mark.parametrize("name", [n for n in SMOOTH if n not in LONG | FORWARD_ONLY | REVERSE_ONLY])
def test_third_derivatives_are_slopes_of_second(name):
    case = next(case for case in cases_of(OPS[name]) if case.is_smooth)
    graph, arrays, moving = case.graph, case.arrays(), case.active
    points, active = list(arrays), list(moving)
    for seed in (1, 2):
        directions = like(pick(arrays, moving), seed)
        graph = pushed(graph, active)
        points, active = [*points, *directions], [*active, *[False] * len(directions)]
    directions = like(pick(arrays, moving), 3)
    got = interpret(pushed(graph, active), [*points, *directions])
    assert_slopes(got, slopes(graph, points, active, directions), 3e-4, "third derivative")
