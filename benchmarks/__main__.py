"""Measure: `python -m benchmarks --case 'matmul*' --json out/benchmarks.json`."""

from __future__ import annotations

import argparse
import fnmatch
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from . import report
from .cases import CASES
from .harness import Result, add_floors, measure

ROUNDS, ROUNDS_ONCE = 15, 7


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--case",
        action="append",
        metavar="NAME",
        help=f"measure only these; * stands for anything. All: {', '.join(CASES)}",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each candidate")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the chart goes")
    parser.add_argument("--json", type=Path, help="where all numbers go")
    parser.add_argument("--readme", type=Path, help="a file whose marked table is replaced")
    return parser.parse_args()


def chosen(patterns: list[str] | None) -> list[str]:
    """The names of the cases to measure."""
    names = [n for n in CASES if any(fnmatch.fnmatch(n, p) for p in patterns or ["*"])]
    if not names:
        raise SystemExit(f"no case fits; the cases are {', '.join(CASES)}")
    return names


def measure_all(names: list[str], rounds: int) -> list[Result]:
    """Measure cases under a progress bar."""
    results = []
    with Progress(console=Console(stderr=True)) as progress:
        for name in names:
            case = CASES[name]()
            turns = min(rounds, ROUNDS_ONCE) if case.once else rounds
            bar = progress.add_task(case.name, total=turns)
            results.append(measure(case, turns, lambda bar=bar: progress.advance(bar)))
    return results


def main() -> None:
    """Measure, then write the table, the numbers and the chart."""
    asked = arguments()
    results = measure_all(chosen(asked.case), asked.rounds)
    peak = add_floors(results)
    table = report.as_table(results, peak)
    print(table)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "benchmarks.md").write_text(table + "\n", encoding="utf-8")
    numbers = asked.json or asked.out / "benchmarks.json"
    numbers.write_text(report.as_json(results, peak), encoding="utf-8")
    report.draw(results, asked.out / "benchmarks.png")
    print(f"\nwrote {asked.out / 'benchmarks.md'}, {numbers}, {asked.out / 'benchmarks.png'}")
    if asked.readme:
        report.put_into_readme(asked.readme, table)
        print(f"replaced the table in {asked.readme}")


if __name__ == "__main__":
    main()
