"""Profiles as text: a table of kernels, and the source with each line's cost."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence

from ..ir.lazy import late
from .profile import (
    BEGIN,
    END,
    PROGRAM,
    THREAD,
    LineTime,
    Profile,
    bytes_text,
    place_text,
    rate_text,
    seconds_text,
)

HEAD = ("time", "%", "runs", "each", "FLOP/s", "bytes/s", "line", "kernel")
LEFT = 2  # of the last columns, that begin at their left
MOST = 30  # kernels in a table
NEAR = 12  # lines between two that cost something, which are shown, too
_console = late("rich.console")
_table = late("rich.table")


def table(profile: Profile) -> str:
    """The summary, and the kernels in columns."""
    rows = [HEAD, *_rows(profile)]
    wide = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i >= len(HEAD) - LEFT else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, wide, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*summary(profile), *lines, *_left_out(profile)])


def show(profile: Profile) -> None:
    """Print the table and the source, in colors where that can be."""
    text = annotated(profile)
    if sys.stdout.isatty() and _has_rich():
        console, made = _console.Console(), _table.Table(box=None, header_style="bold")
        for i, name in enumerate(HEAD):
            made.add_column(name, justify="left" if i >= len(HEAD) - LEFT else "right")
        for row in _rows(profile):
            made.add_row(*row)
        console.print("\n".join(summary(profile)), highlight=False, markup=False)
        console.print(made)
        console.print("\n".join((*_left_out(profile), text)), highlight=False, markup=False)
    else:
        print("\n\n".join(filter(None, (str(profile), text))))


def _has_rich() -> bool:
    try:
        return _console.Console is not None
    except ImportError:
        return False


def summary(profile: Profile) -> Iterator[str]:
    """Lines about the whole block."""
    calls, compiles = len(profile.calls), len(profile.recording.compiles)
    if not calls:
        yield f"no compiled function was called in {seconds_text(profile.seconds)}"
        yield "what was compiled by f.lower(x).compile() before the block is not timed"
        return
    yield (
        f"{_many(calls, 'call')} of {_many(len(profile.programs), 'program')}: "
        f"{seconds_text(profile.call_seconds)} of {seconds_text(profile.seconds)}; "
        f"{_many(compiles, 'compile')}: {seconds_text(profile.compile_seconds)}"
    )
    busy = busy_threads(profile)
    if busy:
        names = [f"{name} {share:.0%}" for name, share in busy]
        yield f"threads, of the time of calls: {', '.join(names)}"
    peak = max(p.nbytes + p.arena_bytes for p in profile.programs)
    yield f"memory of the largest call: {bytes_text(peak)}, of that temporaries " + bytes_text(
        max(p.arena_bytes for p in profile.programs)
    )
    if profile.dropped:
        yield f"{profile.dropped} events found no room in the trace; the table has them"


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def busy_threads(profile: Profile) -> list[tuple[str, float]]:
    """The threads that compute, and for which share of the time of all calls."""
    from .chrome_trace import thread_names

    whole, names = profile.call_seconds * 1e9, thread_names(profile)
    callers = {call.thread for call in profile.calls}
    parts = [
        e
        for e in profile.all_events
        if e[THREAD] in profile.devices or (not e[PROGRAM] and e[THREAD] not in callers)
    ]
    spent = dict.fromkeys(names, 0)
    for call in profile.calls:
        spent[call.thread] += call.end - call.begin
    for event in parts:
        spent[event[THREAD]] += event[END] - event[BEGIN]
    return [(names[thread], time / whole) for thread, time in spent.items() if time]


def _rows(profile: Profile) -> Iterator[tuple[str, ...]]:
    whole = sum(row.seconds for row in profile.kernels) or 1.0
    many = len(profile.programs) > 1
    for row in profile.kernels[:MOST]:
        where = f"{row.program}: " if many else ""
        yield (
            seconds_text(row.seconds),
            f"{100 * row.seconds / whole:.1f}",
            str(row.count),
            seconds_text(row.seconds / row.count),
            rate_text(row.flops_per_second, "FLOP/s"),
            rate_text(row.bytes_per_second, "B/s"),
            place_text(row.source),
            where + row.name + ("" if row.device == "cpu" else f" on {row.device}"),
        )


def _left_out(profile: Profile) -> Iterator[str]:
    rest = profile.kernels[MOST:]
    if rest:
        yield f"{len(rest)} more: {seconds_text(sum(row.seconds for row in rest))}"


def annotated(profile: Profile) -> str:
    """The source around the lines that took time, each with what it took."""
    files: dict[str, list[LineTime]] = {}
    for row in profile.lines:
        files.setdefault(row.file, []).append(row)
    whole = sum(row.seconds for row in profile.kernels) or 1.0
    parts = [_annotated(file, rows, whole) for file, rows in files.items()]
    return "\n\n".join(parts)


def _annotated(file: str, rows: Sequence[LineTime], whole: float) -> str:
    by_line: dict[int, list[LineTime]] = {}
    for row in rows:
        by_line.setdefault(row.line, []).append(row)
    lines = [file, f"{'time':>8} {'%':>5} {'FLOP/s':>12} {'bytes':>8}  line"]
    before = None
    for number in sorted(by_line):
        if before is not None and number - before > NEAR:
            lines.append(f"{'':37} ...")
        elif before is not None:
            lines += [_line(file, n) for n in range(before + 1, number)]
        found, before = by_line[number], number
        seconds = sum(row.seconds for row in found)
        flops, nbytes = sum(row.flops for row in found), sum(row.nbytes for row in found)
        rate = rate_text(flops / seconds, "FLOP/s") if seconds else ""
        cells = f"{seconds_text(seconds):>8} {100 * seconds / whole:>5.1f} {rate:>12}"
        lines.append(_line(file, number, f"{cells} {bytes_text(nbytes):>8}"))
    return "\n".join(lines)


def _line(file: str, number: int, cells: str = "") -> str:
    return f"{cells:36}  {number:>4} {linecache.getline(file, number).rstrip()}".rstrip()
