"""`rlx.profile`: times of kernels that add up, with the user's lines, and traces of them."""

from __future__ import annotations

import inspect
import json
import math
import threading
from pathlib import Path

import numpy as np
import pytest
import trace_format

import rlx
import rlx.numpy as rnp
from rlx.backends import disk
from rlx.backends.cpu.runtime import clock
from rlx.viz import profile_table

RNG = np.random.default_rng(26)
X, W, V = (
    rlx.array(RNG.normal(size=shape).astype("f4")) for shape in ((256, 256), (256, 256), (256, 64))
)


def network(x, w, v):
    h = rnp.tanh(x @ w)
    h = h * rnp.exp(h).sum(axis=1)[:, None]
    return ((h @ v) ** 2).mean()


def line_of(fn, text: str) -> int:
    """The number of the line of a function that has a text."""
    lines, first = inspect.getsourcelines(fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.fixture(scope="module")
def profiled() -> rlx.Profile:
    step = rlx.jit(rlx.grad(network, argnums=(1, 2)))
    with rlx.profile() as p:
        for _ in range(4):
            step(X, W, V)
    return p


def test_kernels_and_calls_add_up(profiled):
    assert len(profiled.calls) == 4 and len(profiled.recording.compiles) == 1
    assert all(row.count == 4 for row in profiled.kernels)
    spent = sum(row.seconds for row in profiled.kernels)
    assert 0 < spent <= profiled.call_seconds <= profiled.seconds
    lines = sum(row.seconds for row in profiled.lines)
    assert math.isclose(lines, spent, rel_tol=1e-6)


def test_products_count_their_work(profiled):
    work = {row.flops / row.count for row in profiled.kernels if "dot_general" in row.name}
    assert any(2 * 256**3 <= flops <= 2.2 * 256**3 for flops in work)


def test_lines_are_the_users(profiled):
    found = {row.line: row for row in profiled.lines}
    wanted = [line_of(network, text) for text in ("x @ w", "rnp.exp", "h @ v")]
    assert set(found) == set(wanted)
    assert {row.function for row in profiled.lines} == {"network"}
    assert all(Path(row.file) == Path(__file__) for row in profiled.lines)
    shown = profiled.source().splitlines()
    for number in wanted:
        (line,) = [x for x in shown if f" {number} " in x]
        assert inspect.getsource(network).splitlines()[number - wanted[0] + 1] in line


def test_the_table_has_a_row_for_each_kernel(profiled):
    text = str(profiled)
    for row in profiled.kernels:
        assert row.name in text and f"test_profile.py:{row.source.line}" in text
    assert text.startswith("4 calls of 1 program: ")


def test_the_trace_is_well_formed_and_sums_to_the_same(profiled, tmp_path):
    profiled.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace_format.problems(trace) == []
    kernels = sum(row.seconds for row in profiled.kernels)
    assert math.isclose(trace_format.seconds(trace, "kernel"), kernels, rel_tol=1e-6)
    assert math.isclose(trace_format.seconds(trace, "call"), profiled.call_seconds, rel_tol=1e-6)
    counters = [e["args"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert any(c["temporaries"] for c in counters)
    assert counters[-1] == {"arguments and results": 0, "temporaries": 0}
    args = [e["args"] for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    assert any("x @ w" in a["source"] for a in args)


def broken(change) -> list[str]:
    """What the checker says of a trace that was changed."""
    span = {"name": "a", "cat": "call", "ph": "X", "ts": 1.0, "dur": 5.0, "tid": 1, "pid": 1}
    inner = {**span, "name": "b", "cat": "kernel", "ts": 2.0, "dur": 2.0, "args": {}}
    head = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}}
    counter = {"name": "m", "ph": "C", "ts": 3.0, "pid": 1, "args": {"bytes": 1}}
    events = [head, {**span, "args": {}}, inner, counter]
    change(events)
    return trace_format.problems({"traceEvents": events})


@pytest.mark.parametrize(
    "change",
    [
        lambda events: events.pop(0),
        lambda events: events[1].pop("dur"),
        lambda events: events[2].update(dur=9.0),
        lambda events: events[2].update(dur=-1.0),
        lambda events: events[2].update(ts=0.5),
        lambda events: events[1].update(ts=-1.0),
        lambda events: events[1].update(cat="other"),
        lambda events: events[3].update(args={"bytes": -1}),
        lambda events: events[3].update(args={}),
        lambda events: events[3].update(ph="Z"),
    ],
)
def test_the_checker_finds_what_is_wrong(change):
    assert broken(lambda events: None) == []
    assert broken(change)


def test_results_and_code_stay_as_they_are():
    f = rlx.jit(lambda x: rnp.sin(x @ x))
    before = f(X)
    entry = f._entries.last.executable
    with rlx.profile() as p:
        inside = f(X)
    assert len(p.calls) == 1
    assert np.array_equal(np.asarray(before), np.asarray(inside))
    assert f(X).tolist() == before.tolist() and len(p.calls) == 1
    assert "rlx_step" not in f.lower(X).compile().stages["llvm"]
    assert f._find_path((X,), {}) is not None and entry.timers is None


def test_rounds_of_loops_are_timed_if_they_take_long():
    def long(c, _):
        return rnp.tanh(W @ c), None

    def short(c, _):
        return c * 0.5 + 1.0, None

    f = rlx.jit(lambda x: rlx.scan(long, x, None, length=7)[0])
    g = rlx.jit(lambda x: rlx.scan(short, x, None, length=7)[0])
    with rlx.profile() as p:
        f(X), g(X[:1])
    product = next(row for row in p.kernels if "dot_general" in row.name)
    assert product.count == 7 and product.source.line == line_of(long, "W @ c")
    (loop,) = [row for row in p.kernels if row.source.line == line_of(short, "0.5")]
    assert loop.count == 1 and loop.name == "loop scan"
    assert sum(row.seconds for row in p.kernels) <= p.call_seconds
    outer, inner = (
        next(f for f, _ in p.steps if f.kind == kind) for kind in ("loop", "contraction")
    )
    assert outer.parent is None and p.programs[0].steps[inner.parent] == outer


def test_parts_of_threads_are_in_the_trace():
    f = rlx.jit(lambda x: x @ x)
    with rlx.profile() as p:
        f(rnp.ones((400, 400)))
    events = p.all_events
    own = [e for e in events if not e[0]]
    steps = [e for e in events if e[0]]
    for part in own:  # each lies within a step of its caller
        assert any(s[2] <= part[2] and part[3] <= s[3] and s[4] == part[5] for s in steps)
    busy = dict(profile_table.busy_threads(p))
    assert busy["MainThread"] == 1.0 and all(0 < share <= 1 for share in busy.values())


def test_threads_have_their_own_rows():
    f = rlx.jit(lambda x: rnp.sin(x).sum())
    with rlx.profile() as p:
        threads = [threading.Thread(target=f, args=(X,), name=f"mine {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        f(X)
    assert len(p.calls) == 4 and len({call.thread for call in p.calls}) >= 1
    assert trace_format.problems({"traceEvents": rlx.viz.chrome_trace.trace(p)}) == []


@pytest.mark.parametrize("device", ["reference", "xla", "mlx"])
def test_other_devices_time_whole_calls(device):
    if not rlx.Device(device).is_available():
        pytest.skip(f"{device} is not here")
    f = rlx.jit(lambda x: rnp.sin(x @ x), device=device)
    with rlx.profile() as p:
        for _ in range(2):
            f(X)
    (row,) = p.kernels
    assert (row.name, row.device, row.count) == ("call", device, 2)
    assert math.isclose(row.seconds, p.call_seconds, rel_tol=1e-9)
    assert f"call on {device}" in str(p)


@pytest.mark.parametrize("device", ["opencl", "webgpu"])
def test_devices_with_timers_time_each_step(device, tmp_path):
    if not rlx.Device(device).is_available():
        pytest.skip(f"{device} is not here")

    def f(x, w, v):
        x = rlx.scan(lambda c, _: (rnp.tanh(c @ w), None), x, None, length=3)[0]
        return network(x, w, v)

    step = rlx.jit(f, device=device)
    with rlx.profile(tmp_path / "trace.json") as p:
        for _ in range(2):
            found = step(X, W, V)
    assert math.isclose(found.item(), f(X, W, V).item(), rel_tol=1e-3)
    rows = {row.source.line: row for row in p.kernels}
    assert rows[line_of(f, "c @ w")].count == 6 and rows[line_of(network, "h @ v")].count == 2
    spent = sum(row.seconds for row in p.kernels)
    assert 0 < spent < p.call_seconds and all(row.seconds > 0 for row in p.kernels)
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace_format.problems(trace) == []
    assert math.isclose(trace_format.seconds(trace, "kernel"), spent, rel_tol=1e-6)
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["MainThread", device]
    assert dict(profile_table.busy_threads(p))[device] == pytest.approx(spent / p.call_seconds)


def test_one_profile_at_a_time():
    with rlx.profile():
        with pytest.raises(rlx.ArgumentError, match="open already"):
            with rlx.profile():
                pass
    assert rlx.config.profile is False
    with rlx.profile() as p:
        pass
    assert str(p).startswith("no compiled function was called")
    assert p.source() == "" and p.memory == []


def test_calls_of_a_sequence_are_recorded():
    x = rlx.array(np.ones((16, 16), np.float32))
    with rlx.profile() as p:
        layer = rlx.jit(lambda x: rnp.tanh(x @ x)).lower(x).compile()
        rlx.sequence(lambda call, x: call(layer, call(layer, x)), x)(x)
    assert len(p.calls) == 2 and p.kernels[0].count == 2


def test_what_is_no_path_is_refused_before_the_block():
    with pytest.raises(rlx.ArgumentError, match="named by a text"), rlx.profile(3):  # type: ignore[arg-type]
        pytest.fail("the block was entered")


def test_errors_end_the_block():
    with pytest.raises(ZeroDivisionError):
        with rlx.profile() as p:
            rlx.jit(lambda x: x + 1)(X)
            1 / 0  # noqa: B018
    assert len(p.calls) == 1 and rlx.config.profile is False


def test_facts_come_from_disk_too(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "IMPORTED", math.inf)
    with rlx.config.using(cache=tmp_path / "cache"):
        found = []
        for expected in ("written to", "read from"):
            with rlx.profile() as p:
                f = rlx.jit(network)
                f(X, W, V)
                assert f"{expected} the cache on disk" in f._entries.last.report()
            found.append(sorted((row.name, str(row.lines), row.flops) for row in p.kernels))
            rlx.clear_caches()
        assert found[0] == found[1]


@pytest.mark.parametrize("is_cleared", [False, True])
def test_lines_that_moved_are_told(is_cleared, tmp_path, monkeypatch):
    """Code is found by what it computes, wherever that was written; not that with timers."""
    monkeypatch.setattr(disk, "IMPORTED", math.inf)
    with rlx.config.using(cache=tmp_path / "cache"):
        for above in (0, 3):
            text, names = "\n" * above + "def f(x):\n    return rnp.sin(x) * 2\n", {"rnp": rnp}
            exec(compile(text, "moved.py", "exec"), names)
            with rlx.profile() as p:
                rlx.jit(names["f"])(X)
            assert {row.line for row in p.lines} == {2 + above}
            if is_cleared:
                rlx.clear_caches()


def test_a_log_that_is_full_keeps_totals(monkeypatch):
    monkeypatch.setattr(clock, "MOST_EVENTS", 3)
    f = rlx.jit(lambda x: rnp.sin(x).sum())
    with rlx.profile() as p:
        for _ in range(5):
            f(X)
    assert len(p.events) == 3 and p.dropped >= 5 * len(p.kernels) - 3 > 0
    assert all(row.count == 5 for row in p.kernels)
    assert f"{p.dropped} events found no room" in str(p)


def test_shown_in_colors_where_there_are_any(monkeypatch, capsys, profiled):
    profiled.show()
    plain = capsys.readouterr().out
    assert "kernel" in plain and "x @ w" in plain
    monkeypatch.setattr(profile_table.sys.stdout, "isatty", lambda: True)
    profiled.show()
    assert "x @ w" in capsys.readouterr().out
