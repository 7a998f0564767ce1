"""Better machine code for programs that run long: `jit(tier="auto")`."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu import beside, machine
from rlx.runtime.session import default_session
from rlx.transforms import watched
from rlx.transforms.watched import Watched

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
    monkeypatch.setattr(watched, "PAYS_AFTER", 0.0)


def test_programs_get_better_code_while_they_run(soon: None, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    compile_beside = machine.compile_beside

    def compile(text: str, tier: str = "auto"):
        asked.append(tier)
        return compile_beside(text, tier)

    monkeypatch.setattr(beside, "compile_beside", compile)
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
        assert not isinstance(f._fast, Watched)
        into = tuple(np.empty_like(np.asarray(x)) for x in f(X))
        f.run_into(X, out=into)
        assert bits(into) == wanted
        asked.clear()
        assert bits(rlx.jit(program, tier="fast")(X)) == wanted
        assert set(asked) == {"fast"}


def test_short_calls_are_not_timed_for_long():
    f = rlx.jit(lambda x: x * 2 + 17)
    for _ in range(watched.LOOKS + 4):
        f(X[0])
    assert not isinstance(f._fast, Watched)
    assert f._entries.last.compiled.executable.make_better is not None


def test_a_setting_turns_it_off(soon: None):
    with rlx.config.using(swap=False):
        f = rlx.jit(lambda x: x * 3 + 18)
        for _ in range(4):
            f(X)
        assert not f._entries.last.settled.locked()


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
    expected = X @ X + 20
    for _ in range(6):
        np.testing.assert_allclose(np.asarray(f(rlx.array(X))), expected, rtol=1e-4, atol=1e-4)
        wait()
    assert f._entries.last.compiled.executable.make_better is None


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
        f = rlx.jit(program)
        for _ in range(4):
            wanted = bits(f(X))
        wait()
        default_session("cpu").cache.clear()
        again = rlx.jit(program)
        assert bits(again(X)) == wanted
        executable = again._entries.last.compiled.executable
        assert "read" in executable.seconds
        assert executable.make_better is None


def test_a_process_may_end_meanwhile():
    text = """
import numpy as np, rlx, rlx.transforms.watched as watched
watched.PAYS_AFTER = 0.0
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
