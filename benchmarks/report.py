"""Results as JSON, as a Markdown table, as a chart, and in the README."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import matplotlib

from .harness import Result

matplotlib.use("Agg")  # draws into files, needs no screen
import matplotlib.pyplot as plt

BEGIN, END = "<!-- benchmarks -->", "<!-- end of benchmarks -->"
PEERS = ("jax", "numpy")
NAMES = {"jax": "JAX", "numpy": "NumPy"}


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {}
    for package in ("rlx", "jax", "numpy", "llvmlite"):
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


def as_json(results: Sequence[Result], peak: float) -> str:
    """All numbers, every round."""
    cases = [
        {
            "case": r.name,
            "floor_seconds": r.floor,
            "median_seconds": {name: r.median(name) for name in r.seconds},
            "spread": {name: r.spread(name) for name in r.seconds},
            "ratio": {peer: r.ratio(peer) for peer in PEERS if peer in r.seconds},
            "rounds": r.seconds,
        }
        for r in results
    ]
    return json.dumps({"environment": environment(), "peak_flops": peak, "cases": cases}, indent=1)


def as_table(results: Sequence[Result], peak: float) -> str:
    """A Markdown table; a ratio below 1 means that rlx is faster."""
    head = "| case | rlx | JAX | NumPy | rlx / JAX | rlx / NumPy | rlx / floor |"
    rows = [head, "| --- | --: | --: | --: | --: | --: | --: |"]
    for r in results:
        times = [_time(r, name) for name in ("rlx", *PEERS)]
        ratios = [f"{r.ratio(peer):.2f}" if peer in r.seconds else "" for peer in PEERS]
        floor = f"{r.median('rlx') / r.floor:.1f}" if r.floor else ""
        rows.append(f"| {' | '.join([r.name, *times, *ratios, floor])} |")
    told = environment()
    rows.append("")
    rows.append(
        f"Medians ± half the spread of the middle rounds, float32, on {told['processor']}, "
        f"{told['cores']} cores, Python {told['python']}, JAX {told['jax']}, "
        f"NumPy {told['numpy']}. The floor is the best matrix product of this run "
        f"({peak / 1e9:.0f} GFLOP/s), or a NumPy copy of as many bytes on all cores."
    )
    return "\n".join(rows)


def _time(result: Result, name: str) -> str:
    if name not in result.seconds:
        return ""
    seconds, share = result.median(name), result.spread(name) / 2
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit} ± {share:.0%}"
    return f"{seconds / 1e-9:.3g} ns ± {share:.0%}"


def draw(results: Sequence[Result], path: Path) -> None:
    """A chart of how long the peers take for what takes rlx one unit of time."""
    figure, axes = plt.subplots(figsize=(8, 0.45 * len(results) + 1.5))
    for offset, peer in zip((-0.2, 0.2), PEERS, strict=True):
        rows = [i for i, r in enumerate(results) if peer in r.seconds]
        lengths = [1 / results[i].ratio(peer) - 1 for i in rows]
        places = [i + offset for i in rows]
        axes.barh(places, lengths, left=1, height=0.38, label=NAMES[peer])
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(results)), [r.name for r in results])
    axes.invert_yaxis()
    axes.set_xlabel("time of the peer / time of rlx (right of the line rlx is faster)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def put_into_readme(path: Path, table: str) -> None:
    """Replace what stands between the markers."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{path} has no markers {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
