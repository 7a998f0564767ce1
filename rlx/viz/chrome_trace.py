"""Profiles as traces: the Trace Event Format of Chrome, which Perfetto reads.

Calls, compiles and kernels are complete events (`X`) on the thread that ran them, one inside of the
other; kernels of a device that times them have a row of its own. Memory is a counter (`C`); threads
have names (`M`). Times are microseconds from the beginning of the block. The format: "Trace Event
Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from ..ir.files import write_file
from ..lower.step_facts import StepFacts
from .profile import BEGIN, CALLER, END, PROGRAM, THREAD, Profile, place_text

Event = dict[str, Any]


def write(profile: Profile, path: str | PathLike[str]) -> None:
    """Write the trace of a profile to a file."""
    content = {"traceEvents": trace(profile), "displayTimeUnit": "ns"}
    write_file(path, json.dumps(content).encode())


def trace(profile: Profile) -> list[Event]:
    """The events of a profile, in the order of their beginnings."""
    process = os.getpid()
    names = thread_names(profile)
    heads: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "rlx"}}
    ]
    for order, (thread, name) in enumerate(names.items()):
        head = {"ph": "M", "pid": process, "tid": thread}
        heads.append({**head, "name": "thread_name", "args": {"name": name}})
        heads.append({**head, "name": "thread_sort_index", "args": {"sort_index": order}})
    found = [*_calls(profile), *_steps(profile), *_memory(profile)]
    for event in found:
        event["pid"] = process
        event["ts"] = (event["ts"] - profile.begin) / 1e3
        if "dur" in event:
            event["dur"] /= 1e3
    # an outer event before the inner ones that begin with it
    return [*heads, *sorted(found, key=lambda e: (e["ts"], -e.get("dur", 0.0)))]


def thread_names(profile: Profile) -> dict[int, str]:
    """The threads that computed: callers by their names in Python, then workers."""
    callers = [c.thread for c in profile.calls] + [c.thread for c in profile.recording.compiles]
    others = np.unique(profile.events[:, THREAD]).tolist() if len(profile.events) else []
    found = {t: profile.threads.get(t, f"thread {t}") for t in dict.fromkeys(callers)}
    found |= {t: profile.devices[t] for t in others if t in profile.devices}
    workers = [t for t in others if t not in found]
    return found | {t: f"worker {i}" for i, t in enumerate(workers, start=1)}


def _span(name: str, kind: str, begin: int, end: int, thread: int, **args: Any) -> Event:
    span = {"name": name, "cat": kind, "ph": "X", "ts": begin, "dur": end - begin}
    return {**span, "tid": thread, "args": args}


def _calls(profile: Profile) -> Iterator[Event]:
    for call in profile.calls:
        name, device = call.program.name, call.program.device
        yield _span(name, "call", call.begin, call.end, call.thread, device=device)
    for c in profile.recording.compiles:
        yield _span(f"compile {c.name}", "compile", c.begin, c.end, c.thread, device=c.device)


def _steps(profile: Profile) -> Iterator[Event]:
    """The steps, and the parts of them that other threads did, with the names of the steps."""
    facts_of = {id(event): facts for facts, event in profile.steps}
    open_steps: dict[int, list[tuple[StepFacts, int]]] = {}  # of each caller, the innermost last
    for event in sorted(profile.all_events, key=lambda e: (e[BEGIN], -e[END], not e[PROGRAM])):
        steps = open_steps.setdefault(event[CALLER], [])
        begin, end, thread = event[BEGIN], event[END], event[THREAD]
        while steps and steps[-1][1] <= begin:
            steps.pop()
        facts = facts_of.get(id(event))
        if facts is not None:
            steps.append((facts, end))
            yield _span(facts.name, "kernel", begin, end, thread, **_args(facts, end - begin))
        elif not event[PROGRAM] and thread != event[CALLER] and steps:
            yield _span(steps[-1][0].name, "part", begin, end, thread, **_args(steps[-1][0], 0))


def _args(facts: StepFacts, nanoseconds: int) -> Event:
    source = facts.source
    found: Event = {"flops": facts.flops, "bytes": facts.nbytes}
    if source is not None:
        found |= {"line": place_text(source), "source": source.text, "file": source.file}
    if nanoseconds:
        found["GFLOP/s"] = round(facts.flops / nanoseconds, 3)
    return found


def _memory(profile: Profile) -> Iterator[Event]:
    for seconds, arrays, temporaries in profile.memory:
        amounts = {"arguments and results": arrays, "temporaries": temporaries}
        time = profile.begin + round(seconds * 1e9)
        yield {"name": "memory of calls", "ph": "C", "ts": time, "tid": 0, "args": amounts}
