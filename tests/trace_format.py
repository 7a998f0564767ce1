"""A checker of traces in Chrome's Trace Event Format, as far as `rlx.profile` writes it.

    python tests/trace_format.py trace.json

says what is wrong with a file, and how much time it holds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import Any

FIELDS = {"X": {"name", "cat", "ts", "dur", "tid", "args"}, "C": {"name", "ts", "args"}}
KINDS = ("call", "compile", "kernel", "part")


def problems(trace: dict[str, Any]) -> list[str]:
    """What is wrong: missing fields, times, nesting, threads without names, counters."""
    found: list[str] = []
    events = trace.get("traceEvents")
    if not isinstance(events, list):
        return ["there are no traceEvents"]
    named, spans = set(), defaultdict(list)
    last = 0.0
    for number, event in enumerate(events):
        phase, place = event.get("ph"), f"event {number} ({event.get('name')})"
        if phase == "M":
            named |= {event["tid"]} if event["name"] == "thread_name" else set()
            continue
        missing = (FIELDS.get(phase, set()) | {"pid"}) - event.keys()
        if phase not in FIELDS or missing:
            found.append(f"{place}: phase {phase!r} without {sorted(missing)}")
            continue
        if not event["ts"] >= 0 or event["ts"] < last:
            found.append(f"{place}: it begins at {event['ts']}, before an earlier event")
        last = event["ts"]
        if phase == "C":
            amounts = event["args"].values()
            if not amounts or not all(isinstance(x, int) and x >= 0 for x in amounts):
                found.append(f"{place}: a counter of {event['args']}")
        else:
            spans[event["tid"]].append(event)
            if not event["dur"] >= 0 or event["cat"] not in KINDS:
                found.append(f"{place}: {event['dur']} us of {event['cat']!r}")
    found += [f"thread {tid} has no name" for tid in spans.keys() - named]
    return found + [line for each in spans.values() for line in _crossing(each)]


def _crossing(spans: list[dict[str, Any]]) -> list[str]:
    """Spans of a thread that begin within another and end after it."""
    found, stack = [], []
    for span in spans:
        begin, end = span["ts"], span["ts"] + span["dur"]
        while stack and stack[-1][1] <= begin + 1e-3:
            stack.pop()
        if stack and end > stack[-1][1] + 1e-3:
            found.append(f"{span['name']} ends at {end}, {stack[-1][0]} around it before")
        stack.append((span["name"], end))
    return found


def seconds(trace: dict[str, Any], kind: str) -> float:
    """The time of all spans of a kind."""
    spans = (e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == kind)
    return sum(span["dur"] for span in spans) / 1e6


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        given = json.load(file)
    print("\n".join(problems(given)) or "the trace is well formed")
    for kind in KINDS:
        print(f"{kind:8} {seconds(given, kind) * 1e3:.3f} ms")
