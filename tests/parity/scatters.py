"""Random reads and writes at indices inside and outside, many: part of `make interop`."""

from __future__ import annotations

import pytest

from tests.scatter_programs import check


@pytest.mark.parametrize("start", range(0, 2000, 50))
def test_reads_and_writes(start: int) -> None:
    for seed in range(start, start + 50):
        check(seed)
