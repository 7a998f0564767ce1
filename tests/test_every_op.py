"""Every law for every sample of every op: no op needs a test file of its own."""

from __future__ import annotations

import pytest
from audit import Case
from claims import LAWS, dtypes_of, laws_of

from rlx.ir.graph import OPS

# made by the derivative of custom_vjp_call alone, whose audit runs it
WITHOUT_SAMPLES = {"custom_pullback"}
CASES = [
    pytest.param(Case(op, sample), id=f"{op.name}-{number}")
    for op in OPS.values()
    for number, sample in enumerate(op.sample_list)
]


@pytest.mark.parametrize("case", CASES)
def test_every_op_keeps_every_law(case: Case) -> None:
    broken = []
    for law in LAWS:
        try:
            law(case)
        except Exception as error:  # the other laws are heard too
            error.add_note(f"breaks the law: {law.__doc__}")
            broken.append(error)
    if broken:
        raise ExceptionGroup(f"{case.op.name} breaks {len(broken)} laws", broken)


def test_every_op_has_a_sample() -> None:
    without = {name for name, op in OPS.items() if not op.sample_list}
    # other tests define ops as users do
    assert {name for name in without if not OPS[name].rules.of_user} == WITHOUT_SAMPLES


@pytest.mark.parametrize("name", [name for name in OPS if name not in WITHOUT_SAMPLES])
def test_claims_are_read_from_the_room(name: str) -> None:
    """Whatever an op claims, some law speaks of it; one with a derivative is held to it."""
    op = OPS[name]
    assert dtypes_of(op) or not any(sample.args for sample in op.sample_list)
    assert "program_is_the_reference" in laws_of(op)
