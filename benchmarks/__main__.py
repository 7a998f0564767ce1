"""Measure: `python -m benchmarks --group products --peers jax,numpy --json out/benchmarks.json`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from . import chart, pages, report
from .case import Case
from .cases import CASES, GROUPS
from .floors import add_floors
from .libraries import PEERS, is_installed
from .result import OURS, Result
from .session import Session, Tell
from .start import in_fresh_processes

ROUNDS, ROUNDS_QUICK = 15, 3
COMPILING = ("rlx", "jax", "torch-compiled", "mlx")


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cases", help=f"some of: {', '.join(CASES)}", metavar="A,B")
    parser.add_argument("--group", help=f"some of: {', '.join(GROUPS)}", metavar="A,B")
    parser.add_argument("--rounds", type=int, help=f"turns of each library ({ROUNDS})")
    parser.add_argument("--peers", help=f"some of: {', '.join(PEERS)}", metavar="A,B")
    parser.add_argument("--json", type=Path, help="where all numbers go")
    parser.add_argument("--markdown", type=Path, help="where the page with everything goes")
    parser.add_argument("--chart", type=Path, help="where the chart goes, as .png or .svg")
    parser.add_argument("--readme", type=Path, help="a file whose marked part is replaced")
    parser.add_argument("--readme-chart", type=Path, help="where the chart of that goes")
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing of starts")
    parser.add_argument("--no-starts", action="store_true", help="do not measure compile times")
    parser.add_argument(
        "--only-starts",
        action="store_true",
        help="measure the compile times that the file of --json lacks, and write it anew",
    )
    found = parser.parse_args(given)
    if found.only_starts and not (found.json and found.json.exists()):
        parser.error("--only-starts needs --json with a file that an earlier run wrote")
    return found


def chosen_cases(asked: argparse.Namespace) -> list[Case]:
    """The cases to measure, in the order of the table."""
    names = listed(asked.cases, list(CASES), "case") if asked.cases else list(CASES)
    groups = listed(asked.group, GROUPS, "group") if asked.group else GROUPS
    return [c for c in CASES.values() if c.name in names and c.group in groups]


def listed(text: str, known: list[str], what: str) -> list[str]:
    """Names with commas between them."""
    names = text.split(",")
    for name in names:
        if name not in known:
            raise SystemExit(f"there is no {what} {name}; there are {', '.join(known)}")
    return names


def chosen_libraries(asked: argparse.Namespace) -> list[str]:
    """rlx and the peers that are installed; of others a line tells how to get them."""
    wanted = listed(asked.peers, list(PEERS), "peer") if asked.peers else list(PEERS)
    there = []
    for name in PEERS:
        if name != OURS and name not in wanted:
            continue
        if is_installed(name):
            there.append(name)
        else:
            print(f"{PEERS[name].title} is left out: {PEERS[name].install}", file=sys.stderr)
    return there


def measure_all(
    cases: list[Case], names: list[str], rounds: int, starts: bool, kept: Path | None
) -> list[Result]:
    """Measure cases under a progress bar; what goes wrong is told at once.

    After each case all numbers so far are in the file that is `kept`.
    """
    console, results = Console(stderr=True), []
    with Progress(console=console) as progress:
        bar = progress.add_task("", total=len(cases))

        def tell(text: str) -> None:
            progress.update(bar, description=text)
            if text.startswith("WRONG"):
                console.print(text, style="bold red")

        with Session(names, tell) as session:
            for case in cases:
                result = session.measure(case, rounds)
                for name, why in result.failed.items():
                    console.print(f"failed: {case.title}, {name}: {why}", style="red")
                if not console.is_terminal:
                    print("\t".join(report.row_of(result, names)), file=sys.stderr, flush=True)
                results.append(result)
                progress.advance(bar)
                if kept:
                    kept.write_text(
                        report.as_json(results, {}, report.environment()), encoding="utf-8"
                    )
        if starts:
            add_starts(results, names, tell)
    return results


def add_starts(results: list[Result], names: list[str], tell: Tell) -> None:
    """Measure compiling in fresh processes, of cases that ask for it."""
    for result in results:
        for name in COMPILING if result.case.starts else ():
            if name in names and name in result.seconds and name not in result.starts:
                tell(f"{result.case.title}: {name} starts")
                here = report.machine(report.environment())  # not that of an earlier run
                found = in_fresh_processes(name, result.case.name)
                result.starts[name] = {**found, "measured_on": here}


def write(
    asked: argparse.Namespace,
    results: list[Result],
    peaks: dict[str, float],
    told: dict[str, Any],
) -> None:
    """Write what was asked for; `told` is the environment in which times were measured."""
    if asked.json:
        asked.json.write_text(report.as_json(results, peaks, told), encoding="utf-8")
    if asked.chart:
        chart.draw(results, asked.chart)
    if asked.markdown:
        home = asked.markdown.parent
        drawn = os.path.relpath(asked.chart, home) if asked.chart else None
        asked.markdown.write_text(pages.full_page(results, peaks, drawn, told), encoding="utf-8")
    if asked.readme:
        drawn = None
        if asked.readme_chart:
            chart.draw(pages.standing_for_others(results), asked.readme_chart)
            drawn = os.path.relpath(asked.readme_chart, asked.readme.parent)
        report.put_into_readme(asked.readme, pages.readme_part(results, told, drawn))
    for path in (asked.json, asked.chart, asked.markdown, asked.readme_chart, asked.readme):
        if path:
            print(f"wrote {path}", file=sys.stderr)


def main() -> None:
    """Measure, print, write."""
    asked = arguments()
    cases, names = chosen_cases(asked), chosen_libraries(asked)
    rounds = asked.rounds or (ROUNDS_QUICK if asked.quick else ROUNDS)
    for path in (asked.json, asked.chart, asked.markdown, asked.readme_chart):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
    if asked.only_starts:
        results, peaks, told = report.read_json(asked.json)
        wanted = [r for r in results if r.case in cases]
        add_starts(wanted, names, lambda text: print(text, file=sys.stderr, flush=True))
    else:
        starts = not (asked.quick or asked.no_starts)
        results = measure_all(cases, names, rounds, starts, asked.json)
        peaks, told = add_floors(results), report.environment()
    print(pages.terminal_page(results, peaks))
    write(asked, results, peaks, told)


if __name__ == "__main__":
    main()
