"""The table of docs/differences.md: where rlx differs from JAX on purpose."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from .engine import Case, Check

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
MOST = 25


@dataclass(frozen=True)
class Row:
    """A difference: of which functions or expressions, under which laws."""

    where: tuple[str, ...]  # `numpy.sign`, or an expression as `numpy: sign(c)`
    laws: tuple[str, ...]
    reason: str

    def holds(self, span: str, case: Case, law: str) -> bool:
        """Whether one of its places is a law of a case."""
        known = span in (case.function, f"{case.module}: {case.text}".lstrip(": "))
        return known and law.split(" ")[0] in self.laws


@functools.cache
def rows() -> tuple[Row, ...]:
    """The rows of the table."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and "`" in cells[0]:
            where = tuple(re.findall(r"`([^`]+)`", cells[0]))
            found.append(Row(where, tuple(cells[1].split(", ")), cells[3]))
    return tuple(found)


def unlisted(case: Case, checks: list[Check]) -> list[str]:
    """The differences of a case that the table does not list."""
    return [
        f"{case.module}: {check.case}  [{check.law}]\n  {check.said}"
        for check in checks
        if check.said
        and not any(row.holds(span, case, check.law) for row in rows() for span in row.where)
    ]


def outlived(cases: list[Case], checks: dict[Case, list[Check]]) -> list[str]:
    """The places and laws of the table that name these cases, where nothing differs."""
    found = []
    for row in rows():
        for span in row.where:
            for law in row.laws:
                held = [
                    check
                    for case in cases
                    for check in checks[case]
                    if Row((span,), (law,), "").holds(span, case, check.law)
                ]
                if held and not any(check.said for check in held):
                    found.append(f"{span} [{law}] is in {PAGE.name}, but does not differ")
    return found
