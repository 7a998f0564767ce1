"""Every case of the tables under every law: `make parity`, some minutes.

The default suite has a part of it in `test_sample.py`.
"""

from __future__ import annotations

import pytest

from .differences import outlived, unlisted
from .engine import Case, check
from .tables import by_function

CASES = by_function()


@pytest.mark.parametrize("name", CASES)
def test_function(name: str, record_property):
    cases: list[Case] = CASES[name]
    checks = {case: list(check(case)) for case in cases}
    laws = [found.law.split(" ")[0] for found_all in checks.values() for found in found_all]
    record_property("parity", [name, len(laws), "second" in laws])
    said = [text for case in cases for text in unlisted(case, checks[case])]
    said += outlived(cases, checks)
    assert not said, "\n\n".join(said)
