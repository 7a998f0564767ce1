"""What work and memory grow with: counted, not timed."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.backend import Executable
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.llvm.machine import Library
from rlx.backends.cpu.program import ProgramWriter
from rlx.backends.registry import get
from rlx.ir.errors import RecompileError
from rlx.ir.fingerprint import fingerprint
from rlx.ir.graph import Graph
from rlx.ir.source import PACKAGE
from rlx.lower.pipeline import lower
from rlx.lower.schedule.plan_memory import Arena

W = np.eye(4, dtype=np.float32) * 0.5
X = np.ones((2, 4), np.float32)


def steps(n: int) -> Callable[..., Any]:
    def loss(w: Any, x: Any) -> Any:
        for _ in range(n):
            x = rnp.tanh(x @ w) + x
        return x.sum()

    return loss


def lines_of(fn: Callable[[], Any]) -> Counter[CodeType]:
    """How many lines of each function of rlx run."""
    count: Counter[CodeType] = Counter()

    def line(frame: Any, event: str, arg: Any) -> Any:
        count[frame.f_code] += 1
        return line

    def call(frame: Any, event: str, arg: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        fn()
    finally:
        sys.settrace(before)
    return count


def compile_all(n: int, transform: Callable[..., Any]) -> ProgramWriter:
    graph = rlx.make_graph(transform(steps(n)))(W, X)
    fingerprint(graph)
    writer = ProgramWriter(host())
    writer.write(lower(graph, get("cpu").target).program)
    return writer


@pytest.mark.parametrize("transform", [lambda fn: fn, rlx.grad], ids=["value", "gradient"])
def test_work_to_compile_is_linear_in_the_steps(transform):
    """Every function of every pass: four times the steps, four times the lines.

    A pass that looks at all steps for each step would run sixteen times the lines.
    """
    compile_all(2, transform)  # what is made once
    few = lines_of(lambda: compile_all(8, transform))
    many = lines_of(lambda: compile_all(32, transform))
    grown = {
        f"{code.co_filename.removeprefix(PACKAGE)} {code.co_qualname}": (few[code], count)
        for code, count in many.items()
        if count > 7 * few[code] + 200
    }
    assert not grown
    assert many.total() < 4.5 * few.total()


def test_code_and_memory_are_linear_in_the_steps():
    few, many = (compile_all(n, rlx.grad) for n in (8, 32))
    assert len(many.module.text) < 4.5 * len(few.module.text)
    arenas = [
        rlx.Session("cpu").compile(rlx.make_graph(rlx.grad(steps(n)))(W, X)).cost().arena_bytes
        for n in (8, 32)
    ]
    assert arenas[1] < 4.5 * arenas[0]


def test_the_arena_keeps_no_more_gaps_than_there_are():
    arena = Arena()
    places = [arena.take(64) for _ in range(100)]
    assert places == list(range(0, 6400, 64)) and arena.end == 6400
    for place in places[1:-1:2]:
        arena.free(place, 64)
    assert arena.take(64) == 64 and arena.take(128) == 6400
    for place in places[2:-1:2]:
        arena.free(place, 64)
    assert arena.take(1024) == 128  # the gaps have become one
    arena.free(6400, 128)
    assert arena.end == 6400


# -- what is kept ---------------------------------------------------------------------------------


def alive(*kinds: type) -> list[int]:
    gc.collect()
    things = gc.get_objects()
    return [sum(type(x) is kind for x in things) for kind in kinds]


def test_what_is_forgotten_is_freed(monkeypatch):
    """Machine code, graphs and interned types of forgotten programs do not stay."""
    monkeypatch.setattr(sys.modules["rlx.transforms.jit.jitted"], "KEPT", 4)
    session = rlx.runtime.default_session("cpu")
    monkeypatch.setattr(session.cache, "capacity", 4)
    fn = rlx.jit(lambda x: rnp.tanh(x * 1.0625) + x.sum())

    def call(first: int, last: int) -> list[int]:
        for n in range(first, last):
            fn(np.zeros(n, np.float32))
        return [*alive(Library, Executable, Graph), len(gc.get_objects())]

    before = call(100, 110)
    after = call(110, 130)
    # what other tests left may go meanwhile
    assert all(x <= y for x, y in zip(after[:3], before[:3], strict=True))
    assert after[3] <= before[3] + 20 * 10  # less than ten objects for each program
    assert fn.cache_info().entries == 4


def test_python_functions_of_forgotten_programs_are_freed(monkeypatch):
    monkeypatch.setattr(rlx.runtime.default_session("cpu").cache, "capacity", 2)

    def call() -> weakref.ref:
        def seen(x: Any) -> None:
            pass

        fn = rlx.jit(lambda x: (rlx.debug.callback(seen, x), x + 1.0)[1])
        fn(X)
        return weakref.ref(seen)

    made = [call() for _ in range(8)]
    gc.collect()
    gc.collect()
    assert sum(ref() is not None for ref in made) <= 2


def test_equal_functions_share_a_program():
    session = rlx.runtime.default_session("cpu")

    def fn(x: Any) -> Any:
        rlx.check(x > 0, "negative")
        return x

    rlx.jit(fn)(X)
    before = session.cache.stats.misses
    rlx.jit(fn)(X)
    assert session.cache.stats.misses == before


def test_scalars_are_one_kind():
    fn = rlx.jit(lambda x, s: x * s)
    for n in range(10_000):
        fn(X, n + 0.5)
    assert fn.cache_info().entries == fn.cache_info().compiles == 1


def test_what_is_kept_is_bounded_by_bytes():
    fn = rlx.jit(lambda x: x + 1.0)
    fn(np.zeros(1, np.float32))
    one = fn.cache_info().bytes
    assert one > 0
    with rlx.config.using(cache_bytes=int(3.5 * one)):
        for n in range(2, 8):
            fn(np.zeros(n, np.float32))
        info = fn.cache_info()
        assert info.entries == 3 and info.bytes <= info.bytes_limit == int(3.5 * one)
        session = rlx.Session("cpu")
        for n in range(2, 8):
            session.compile(lambda x: x + 1.0, np.zeros(n, np.float32))
        assert session.cache.stats.entries == 3 and session.cache.stats.bytes <= 3.5 * one
        fn(np.zeros(1, np.float32))
        text = "it was compiled for such arguments and forgotten since: 512 kinds or "
        assert fn.cache_info().reason.startswith(text)
        with rlx.no_recompile(), pytest.raises(RecompileError, match="forgotten since"):
            fn(np.zeros(2, np.float32))
        with rlx.config.using(cache_bytes=0):
            fn(np.zeros(9, np.float32))
            assert fn.cache_info().entries == 1
