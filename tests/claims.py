"""What each op claims, and which laws hold it to that: read from its type rule and its samples."""

from __future__ import annotations

import laws_of_change
import laws_of_meaning
from audit import Case, is_checked

from rlx.ir.op import Op
from rlx.ir.types import DTYPES

LAWS = [*laws_of_meaning.LAWS, *laws_of_change.LAWS]


def cases_of(op: Op) -> list[Case]:
    """A case for each sample."""
    return [Case(op, sample) for sample in op.sample_list]


def laws_of(op: Op) -> tuple[str, ...]:
    """The names of the laws that say something of at least one sample of an op."""
    cases = cases_of(op)
    kept = [law for law in LAWS if any(is_checked(law, case) for case in cases)]
    return tuple(law.__name__.removeprefix("law_") for law in kept)


def dtypes_of(op: Op) -> tuple[str, ...]:
    """The dtypes an op claims: those in which its type rule takes one of its samples."""
    cases = cases_of(op)
    return tuple(name for name in DTYPES if any(case.in_dtype(name) for case in cases))
