"""The counts of `make parity`, after its last line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import pytest

_finished = itertools.count(1)


@pytest.fixture(autouse=True)
def old_programs_go() -> Iterator[None]:
    """Let JAX forget its programs now and then: XLA crashes with too many in one process."""
    yield
    if next(_finished) % 25 == 0:
        jax.clear_caches()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many functions and checks there were."""
    found = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for key, value in getattr(report, "user_properties", [])
        if key == "parity" and report.when == "call"
    ]
    if found:
        second = len([name for name, _, has_second in found if has_second])
        checks = sum(count for _, count, _ in found)
        terminalreporter.write_line(
            f"parity: {len(found)} functions, {second} of them to the second order, {checks} checks"
        )
