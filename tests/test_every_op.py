"""Every law of `audit.py` for every sample of every op: no op needs a test file of its own."""

from __future__ import annotations

from typing import Any

import audit
import pytest
from audit import Case

from rlx.ir.graph import OPS

LAWS = [law for name, law in vars(audit).items() if name.startswith("law_")]


def all_cases() -> list[Any]:
    return [
        pytest.param(Case(op, sample), id=f"{op.name}-{number}")
        for op in OPS.values()
        for number, sample in enumerate(op.sample_list)
    ]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("law_"))
@pytest.mark.parametrize("case", all_cases())
def test_every_op_keeps_every_law(case: Case, law: Any) -> None:
    if not (case.op.is_constant or not case.sample.args) or "batch" not in law.__name__:
        law(case)


def test_every_op_has_a_sample() -> None:
    assert {name for name, op in OPS.items() if not op.sample_list} == audit.WITHOUT_SAMPLES
