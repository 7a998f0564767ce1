"""Every law for every sample of every op: no op needs a test file of its own."""

from __future__ import annotations

from typing import Any

import laws_of_change
import laws_of_meaning
import pytest
from audit import Case

from rlx.ir.graph import OPS

LAWS = [*laws_of_meaning.LAWS, *laws_of_change.LAWS]
# made by the derivative of custom_vjp_call alone, whose audit runs it
WITHOUT_SAMPLES = {"custom_pullback"}
CASES = [
    pytest.param(Case(op, sample), id=f"{op.name}-{number}")
    for op in OPS.values()
    for number, sample in enumerate(op.sample_list)
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("law_"))
@pytest.mark.parametrize("case", CASES)
def test_every_op_keeps_every_law(case: Case, law: Any) -> None:
    law(case)


def test_every_op_has_a_sample() -> None:
    assert {name for name, op in OPS.items() if not op.sample_list} == WITHOUT_SAMPLES
