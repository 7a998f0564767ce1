"""A part of the parity suite: one case in ten, under values and one more law, from a record."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from .differences import MOST, rows, unlisted
from .engine import check_recorded
from .record import recorded, sample
from .tables import by_function, cases

PARTS = 8


@functools.cache
def answers() -> dict[str, list[Any] | None]:
    """What JAX said."""
    return recorded()


@pytest.mark.parametrize("part", range(PARTS))
def test_one_case_in_ten(part: int):
    said = []
    for case, laws in sample()[part::PARTS]:
        said += unlisted(case, list(check_recorded(case, laws, answers())))
    assert not said, "\n\n".join(said)


def test_the_record_is_of_the_sample():
    known = {f"{case.module}: {case.text} [value]" for case, _ in sample()}
    assert known == {key for key in answers() if key.endswith(" [value]")}


def test_the_tables_are_wide():
    assert len(by_function()) >= 600
    assert len(set(cases())) == len(cases())


def test_the_table_of_differences_is_short_and_has_reasons():
    assert 0 < len(rows()) <= MOST
    assert all(row.where and row.laws and len(row.reason) > 20 for row in rows())


def test_the_table_names_what_is_tested():
    known = {case.function for case in cases()}
    known |= {f"{case.module}: {case.text}".lstrip(": ") for case in cases()}
    for row in rows():
        if not {"signature", "name"} & set(row.laws):
            assert set(row.where) <= known, set(row.where) - known
