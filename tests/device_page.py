"""docs/devices.md: what runs where, op by op and dtype by dtype, with the reason for each gap."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rlx.ir.graph import OPS
from rlx.ir.ops.families import KINDS
from rlx.ir.types import as_dtype

HEAD = """# What runs where

Made by `make test-devices` on one machine; do not edit. Every sample of every op ran on each device
below in all dtypes that the op takes, and its results were compared with the op's NumPy reference,
within a few roundings of the dtype. **dtypes it lacks**: arrays of them can lie there; computing
with one is an error. **gaps**: ops it refuses in dtypes that it has. **host**: the op has
no loops and no row in the device's table, so its reference runs on the host and arrays are copied
there and back, as `report()` says. **gradients**: those of each op with a derivative. **programs**:
random programs of all families. **parity**: one in ten of the functions that JAX has, too, against
what JAX gives. **digits**: the demo after three passes.
"""

UNSEEN = """No GPU was at hand: `cuda` and `rocm` have never been executed. What was checked without
one, and what was not, is in [cuda.md](cuda.md).
"""


def written(results: list[dict[str, Any]]) -> str:
    """The page of some devices' results."""
    is_seen = any(found["device"].startswith(("cuda", "rocm")) for found in results)
    head = [HEAD] if is_seen else [HEAD, UNSEEN]
    return "\n".join([*head, *_summary(results), "", *_reasons(results), "", *_table(results), ""])


def _summary(results: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| device | what ran it | dtypes it lacks | ops, dtypes | wrong | gaps | host | "
        "gradients | programs | parity | digits |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --: | --: | --- |",
    ]
    for found in results:
        absent = sorted({r["absent"] for r in found["ops"] if r["absent"]})
        rows = [r for r in found["ops"] if not r["absent"]]
        gaps = sum(bool(r["gap"]) for r in rows)
        wrong = sum(bool(r["fault"]) for r in rows)
        on_host = sum(r["on_host"] for r in rows)
        parts = [_part(found[name]) for name in ("gradients", "programs", "parity")]
        cells = [
            found["device"],
            found["description"],
            ", ".join(absent) or "none",
            str(len(rows)),
            str(wrong),
            f"{gaps / max(len(rows), 1):.1%}",
            f"{on_host / max(len(rows), 1):.1%}",
            *parts,
            found["digits"]["told"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _part(found: dict[str, Any]) -> str:
    """How many agreed, of how many."""
    left = found["count"] - len(found["gaps"]) - len(found["faults"])
    return f"{left} of {found['count']}"


def _reasons(results: list[dict[str, Any]]) -> list[str]:
    """The reasons for gaps by device, the most frequent first."""
    lines = ["## Why", ""]
    for found in results:
        count: dict[str, set[str]] = defaultdict(set)
        for row in found["ops"]:
            if row["gap"]:
                count[row["gap"]].add(row["op"])
        for reason, ops in sorted(count.items(), key=lambda item: -len(item[1])):
            named = ", ".join(sorted(ops)) if len(ops) <= 6 else f"{len(ops)} ops"
            lines.append(f"- **{found['device']}**: {reason} ({named})")
    return lines if len(lines) > 2 else [*lines, "There are no gaps."]


def _table(results: list[dict[str, Any]]) -> list[str]:
    """A row for each op; a cell names the dtypes that are refused, or is a ✓."""
    devices = [found["device"] for found in results]
    cells: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for found in results:
        for row in found["ops"]:
            cells[row["op"], found["device"]].append(row)
    lines = [
        "## Op by op",
        "",
        "✓: all dtypes that the op takes and the device has (-: none); h: on the host, in the "
        "dtypes named if not in all, and in `some` samples alone; ✗: the dtypes that are refused.",
        "",
        f"| op | {' | '.join(devices)} |",
        f"| --- |{' --- |' * len(devices)}",
    ]
    names = [name for name in sorted(OPS) if any((name, d) in cells for d in devices)]
    for name in names:
        lines.append(f"| {name} | {' | '.join(cell(cells[name, d]) for d in devices)} |")
    return lines


def cell(rows: list[dict[str, Any]]) -> str:
    """What an op's samples came to on a device, in a few letters."""
    rows = [r for r in rows if not r["absent"]]
    if not rows:
        return "-"
    refused = list(dict.fromkeys(r["dtype"] for r in rows if r["gap"]))
    wrong = list(dict.fromkeys(r["dtype"] for r in rows if r["fault"]))
    marks = [f"✗ {' '.join(refused)}"] if refused else []
    marks += [f"wrong {' '.join(wrong)}"] if wrong else []
    marks += _on_host(rows)
    return ", ".join(marks) or "✓"


def _on_host(rows: list[dict[str, Any]]) -> list[str]:
    """The mark of what runs on the host: dtypes by their kinds, where all of a kind do."""
    found = {r["dtype"] for r in rows if r["on_host"]}
    if not found:
        return []
    is_whole = all(r["on_host"] for r in rows if r["dtype"] in found)
    names: list[str] = []
    for kind, of_kind in KINDS.items():
        taken = [d for d in dict.fromkeys(r["dtype"] for r in rows) if of_kind(as_dtype(d))]
        hosted = [d for d in taken if d in found]
        names += [kind] if hosted and hosted == taken else hosted
    is_all = found == {r["dtype"] for r in rows}
    return [" ".join(["h", *([] if is_whole else ["some"]), *([] if is_all else names)])]
