"""Results as text, as JSON, as Markdown, and in the README."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .cases import CASES
from .libraries import PEERS
from .result import OURS, SLOW, Result, geometric_mean, slower, speedups

BEGIN, END = "<!-- benchmarks -->", "<!-- end of benchmarks -->"
PACKAGES = ("rlx", "jax", "torch", "mlx", "onnxruntime", "numpy", "llvmlite")
Row = list[str]


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **versions,
    }


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine(told: dict[str, Any]) -> str:
    """The machine and the versions that `environment` told, in a sentence."""
    versions = [
        f"{PEERS[name].title} {told[name]}"
        for name in ("jax", "torch", "mlx", "onnxruntime", "numpy")
        if told[name] != "not installed"
    ]
    return (
        f"{told['processor']}, {told['cores']} cores, Python {told['python']}, "
        f"{', '.join(versions)}"
    )


def as_json(results: Sequence[Result], peaks: dict[str, float], told: dict[str, Any]) -> str:
    """All numbers, every round."""
    cases = [
        {
            "case": r.case.name,
            "group": r.case.group,
            "title": r.case.title,
            "flops": r.case.flops,
            "bytes": r.case.nbytes,
            "floor_seconds": r.floor,
            "best_peer": r.best_peer,
            "speedup": r.speedup(),
            "speedup_spread": r.speedup_spread,
            "median_seconds": {name: r.median(name) for name in r.seconds},
            "spread": {name: r.spread(name) for name in r.seconds},
            "speedups": {peer: r.speedup(peer) for peer in r.peers},
            "rounds": r.seconds,
            "failed": r.failed,
            "lacking": r.lacking,
            "wrong": r.wrong,
            "starts": r.starts,
        }
        for r in results
    ]
    return json.dumps({"environment": told, "peak_flops": peaks, "cases": cases}, indent=1)


def read_json(path: Path) -> tuple[list[Result], dict[str, float], dict[str, Any]]:
    """What `as_json` wrote, of the cases there still are."""
    told = json.loads(path.read_text(encoding="utf-8"))
    rows = [row for row in told["cases"] if row["case"] in CASES]
    results = [
        Result(
            CASES[row["case"]],
            row["rounds"],
            row["failed"],
            row["lacking"],
            row["wrong"],
            row["starts"],
            row["floor_seconds"],
        )
        for row in rows
    ]
    return results, told["peak_flops"], told["environment"]


# -- cells ----------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def time_cell(result: Result, name: str) -> str:
    """The time of a library, or why there is none."""
    if name in result.seconds:
        return duration(result.median(name)) + (" (wrong)" if name in result.wrong else "")
    if name in result.failed:
        return "failed"
    return "-"


def ratio_cell(ratio: float | None) -> str:
    """A speed-up as 1.23x."""
    return "" if ratio is None else f"{ratio:.2f}x"


def libraries_of(results: Sequence[Result]) -> list[str]:
    """Those that any result knows of, ours first."""
    known = {name for r in results for name in (*r.seconds, *r.failed, *r.lacking)}
    return [name for name in PEERS if name in known]


def row_of(result: Result, names: Sequence[str]) -> Row:
    """Title, times, the best peer, the speed-up against it, its spread, and the floor."""
    spread, share = result.speedup_spread, result.over_floor
    return [
        result.case.title,
        *(time_cell(result, name) for name in names),
        PEERS[result.best_peer].title if result.best_peer else "",
        ratio_cell(result.speedup()),
        f"{spread[0]:.2f}-{spread[1]:.2f}" if spread else "",
        f"{share:.1f}" if share else "",
    ]


def head_of(names: Sequence[str]) -> Row:
    """The names of the columns of `row_of`."""
    titles = [PEERS[name].title for name in names]
    return ["case", *titles, "best peer", "speed-up", "middle half", "time / floor"]


def summary_rows(results: Sequence[Result]) -> list[Row]:
    """For each group and for all: how many cases, the mean speed-ups, how many are slower."""
    groups = list(dict.fromkeys(r.case.group for r in results))
    peers = [name for name in libraries_of(results) if name != OURS]
    rows = []
    for group in [*groups, "all"]:
        some = [r for r in results if group in (r.case.group, "all")]
        means = [speedups(some, peer) for peer in peers]
        rows.append(
            [
                group,
                str(len(some)),
                ratio_cell(geometric_mean(speedups(some))),
                *(ratio_cell(geometric_mean(found)) if found else "-" for found in means),
                str(len(slower(some))),
            ]
        )
    return rows


def summary_head(results: Sequence[Result]) -> Row:
    """The names of the columns of `summary_rows`."""
    peers = [PEERS[name].title for name in libraries_of(results) if name != OURS]
    return ["group", "cases", "best peer", *peers, f"below {SLOW}x"]


def start_rows(results: Sequence[Result]) -> list[Row]:
    """For each case and library: compiling, starting again, and memory."""
    rows = []
    for result in results:
        for name, found in result.starts.items():
            if "failed" in found:
                rows.append([result.case.title, PEERS[name].title, "failed", "", "", ""])
                continue
            memory = found["peak_megabytes"]
            keys = ("import_seconds", "compile_seconds", "second_start_seconds")
            cells = [duration(found[key]) for key in keys]
            told = "" if memory is None else f"{memory:.0f}"
            rows.append([result.case.title, PEERS[name].title, *cells, told])
    return rows


START_HEAD = [
    "case",
    "library",
    "import",
    "compile",
    "compile in a second process",
    "memory, MB",
]


def problems(results: Sequence[Result]) -> list[str]:
    """What is wrong and what failed, a line each."""
    found = [("WRONG", r, r.wrong) for r in results] + [("failed", r, r.failed) for r in results]
    found += [("failed to start", r, failed_starts(r)) for r in results]
    return [
        f"{what}: {result.case.title}, {PEERS[name].title if name in PEERS else name}: {why}"
        for what, result, reasons in found
        for name, why in reasons.items()
    ]


def failed_starts(result: Result) -> dict[str, str]:
    """The libraries whose fresh processes failed."""
    return {name: found["failed"] for name, found in result.starts.items() if "failed" in found}


def left_out(results: Sequence[Result]) -> list[str]:
    """What libraries lack, with the cases that need it."""
    cases: dict[str, list[str]] = {}
    for result in results:
        for why in result.lacking.values():
            cases.setdefault(why, []).append(result.case.title)
    return [f"{why}: {', '.join(titles)}" for why, titles in cases.items()]


# -- tables ---------------------------------------------------------------------------------------


def as_text(head: Row, rows: Sequence[Row]) -> str:
    """A table for a terminal."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_markdown(head: Row, rows: Sequence[Row]) -> str:
    """A table in Markdown, numbers on the right."""
    marks = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, marks, *rows])


def tables(results: Sequence[Result]) -> dict[str, tuple[Row, list[Row]]]:
    """All tables by their titles: the summary, the groups, and starts."""
    names = libraries_of(results)
    made = {"Summary": (summary_head(results), summary_rows(results))}
    for group in dict.fromkeys(r.case.group for r in results):
        some = [r for r in results if r.case.group == group]
        head, rows = head_of(names), [row_of(r, names) for r in some]
        if any(r.case.kind == "eager" for r in some):
            head.append("over JAX or PyTorch")
            for row, result in zip(rows, some, strict=True):
                row.append(ratio_cell(result.rival_speedup))
        made[group.capitalize()] = (head, rows)
    if starts := start_rows(results):
        made["Compiling and memory"] = (START_HEAD, starts)
    return made


def put_into_readme(path: Path, table: str) -> None:
    """Replace what stands between the markers."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path} has no markers {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
