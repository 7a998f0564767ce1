"""Better machine code for programs that run long: `jit(tier="auto")`."""

import gc
import subprocess
import sys
import threading
import time
import weakref
import zlib
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.llvm import compiling, machine
from rlx.runtime.session import default_session
from rlx.transforms.jit import compiled
from rlx.transforms.jit.compiled import TimedPath

rng = np.random.default_rng(0)
X = rng.standard_normal((64, 64)).astype(np.float32)


def program(x):
    def body(c, row):
        return rnp.tanh(c * row) + c, c.sum()

    return rlx.lax.scan(body, x[0], x)


def wait():
    """Until no thread makes better code any more."""
    for thread in threading.enumerate():
        if thread.name == "rlx improves":
            thread.join()


def bits(results) -> bytes:
    return b"".join(np.asarray(x).tobytes() for x in results)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call through a path pays, however short."""
    monkeypatch.setattr(compiled, "PAYS_AFTER", 0.0)


def test_programs_get_better_code_while_they_run(soon: None, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    compile_beside = machine.compile_beside

    def compile(text: str, tier: str = "auto"):
        asked.append(tier)
        return compile_beside(text, tier)

    monkeypatch.setattr(compiling, "compile_beside", compile)
    with rlx.config.using(cache=False):
        f = rlx.jit(program)
        wanted = bits(f(X))
        assert set(asked) == {"auto"}
        for _ in range(4):
            assert bits(f(X)) == wanted
        wait()
        assert set(asked) == {"auto", "better"}
        for _ in range(3):
            assert bits(f(X)) == wanted
        assert not isinstance(f._fast, TimedPath)
        into = tuple(np.empty_like(np.asarray(x)) for x in f(X))
        f.run_into(X, out=into)
        assert bits(into) == wanted
        asked.clear()
        assert bits(rlx.jit(program, tier="fast")(X)) == wanted
        assert set(asked) == {"fast"}


def test_short_calls_are_not_timed_for_long():
    f = rlx.jit(lambda x: x * 2 + 17)
    for _ in range(compiled.LOOKS + 4):
        f(X[0])
    assert not isinstance(f._fast, TimedPath)
    assert f._entries.last.executable.make_tier_up is not None


def test_a_setting_turns_it_off(soon: None):
    with rlx.config.using(swap=False):
        f = rlx.jit(lambda x: x * 3 + 18)
        for _ in range(4):
            f(X)
        assert not f._entries.last.settled.locked()
    f = rlx.jit(lambda x: x * 3 + 24)
    f(X)
    with rlx.config.using(swap=False):
        for _ in range(4):
            f(X)
    wait()
    assert f._entries.last.executable.make_tier_up is not None


def test_threads_call_while_the_code_changes(soon: None):
    f = rlx.jit(lambda x: (rnp.cumsum(x @ x, axis=0) + 19,))
    wanted, found = bits(f(X)), []
    threads = [
        threading.Thread(target=lambda: found.extend(bits(f(X)) for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait()
    assert len(found) == 200
    assert {*found, bits(f(X))} == {wanted}


def test_donated_arrays_and_closed_over_ones(soon: None):
    w = rlx.array(X)
    f = rlx.jit(lambda x: x @ w + 20, donate_argnames=("x",))
    wanted = bits((f(rlx.array(X)),))
    for _ in range(6):
        assert bits((f(rlx.array(X)),)) == wanted
        wait()
    assert f._entries.last.executable.make_tier_up is None


def test_code_stays_where_better_code_fails(
    soon: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(packed: bytes) -> None:
        raise MemoryError("no memory for it")

    monkeypatch.setattr("rlx.backends.cpu.backend.compiled_again", fail)
    with rlx.config.using(cache=False, debug=1):
        f = rlx.jit(lambda x: (x * 4 + 21,))
        wanted = bits(f(X))
        for _ in range(3):
            f(X)
        wait()
        assert bits(f(X)) == wanted
    assert "no better code: no memory for it" in capsys.readouterr().err


def test_later_processes_find_the_better_code(soon: None, tmp_path: Path):
    with rlx.config.using(cache=tmp_path):
        default_session("cpu").cache.clear()  # of other tests, which kept it nowhere
        wanted = bits(rlx.jit(program)(X))
        default_session("cpu").cache.clear()
        second = rlx.jit(program)  # not recorded again
        for _ in range(4):
            assert bits(second(X)) == wanted
        wait()
        default_session("cpu").cache.clear()
        third = rlx.jit(program)
        assert bits(third(X)) == wanted
        executable = third._entries.last.executable
        assert "read" in executable.seconds
        assert executable.make_tier_up is None


def test_code_that_gets_better_during_a_call():
    calls = []

    def swap(x):
        calls.append(x)
        if len(calls) == 2:  # the call that finds the path
            f._entries.last.improve()
            f._settle(f._entries.last)
        return x

    f = rlx.jit(lambda x: (rlx.pure_callback(swap, rlx.spec((64,)), x) + 22,))
    for _ in range(4):
        f(X[0])
    assert f._fast in f._paths.values()


def test_old_code_goes_and_equal_functions_get_the_better():
    with rlx.config.using(cache=False, precision="mixed_bf16"):
        f, g = (rlx.jit(lambda x: (rnp.cumsum(x @ x, axis=0) + 23,)) for _ in range(2))
        wanted = bits(f(X))
        f(X)
        entry = f._entries.last
        old = weakref.ref(entry.executable.prepare.__self__.library)
        entry.improve()
        f._settle(entry)
        assert bits(f(X)) == wanted
        gc.collect()
        assert old() is None
        assert bits(g(X)) == wanted
        assert g._entries.last.executable.make_tier_up is None


def test_better_code_has_the_guards_of_what_it_replaces():
    with rlx.config.using(guards=True):
        f = rlx.jit(lambda x: (x * 5 + 25,))
        f(X)
        entry = f._entries.last
    guarded = type(entry.executable.entry)
    entry.improve()
    assert type(entry.executable.entry) is guarded


def test_forks_and_the_end_come_between_two_texts(monkeypatch: pytest.MonkeyPatch):
    begun, made = threading.Event(), []

    def compile(text: str, tier: str):
        begun.set()
        time.sleep(0.005)
        made.append(text)
        return b"", ()

    monkeypatch.setattr(compiling, "compile_beside", compile)
    packed = zlib.compress(compiling.END.join("a" * 40).encode())
    thread = threading.Thread(target=compiling.compiled_again, args=(packed,))
    thread.start()
    begun.wait()
    with compiling.llvm_turn:
        count = len(made)
    thread.join()
    assert (count < 20, len(made)) == (True, 40)


def test_a_process_may_end_meanwhile():
    text = """
import numpy as np, rlx
from rlx.transforms.jit import compiled
compiled.PAYS_AFTER = 0.0
f = rlx.jit(lambda x: rlx.numpy.sort(x @ x, axis=0))
for _ in range(3): f(np.ones((64, 64), np.float32))
print("done")
"""
    code = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert (code.returncode, code.stdout, code.stderr) == (0, "done\n", "")
