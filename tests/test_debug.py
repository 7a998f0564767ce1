"""Settings that are true: what RLX_DEBUG prints, RLX_DUMP writes, RLX_DEVICE chooses."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import builder, parse
from rlx.ir.errors import ConfigError, RlxError, VerifyError
from rlx.ir.graph import Constant
from rlx.ir.interpret import interpret
from rlx.ir.ops.constant import constant

X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)


def curve(x):
    return rnp.tanh(x) * 2.0 + 1.0


def printed(level: int, capfd, times: int = 1) -> str:
    session = rlx.Session("cpu")
    with rlx.debug(level):
        for _ in range(times):
            session.compile(curve, X)
    out, err = capfd.readouterr()
    assert out == ""
    return err


def test_level_0_prints_nothing(capfd):
    assert printed(0, capfd) == ""


def test_level_1_prints_compiles_and_hits(capfd):
    first, second = printed(1, capfd, times=2).splitlines()
    assert first.startswith("rlx: curve(f32[2, 3]), 5 ops: compiled for cpu in ")
    assert second == "rlx: curve(f32[2, 3]), 5 ops: compiled before for cpu"


def test_each_level_prints_more(capfd):
    marks = ["arena", "-- hir", "-- inlined", "-- lir", "-- llvm"]
    for level in range(1, 7):
        text = printed(level, capfd)
        seen = [mark for mark in marks if mark in text]
        # no pass of `curve` is called "inlined": only passes that changed the graph are printed
        expected = [mark for i, mark in enumerate(marks) if i + 2 <= level and i != 2]
        assert seen == expected, (level, text)
    assert "fmul" in text and "-- assembly" in text


def test_level_2_has_a_time_for_each_phase(capfd):
    text = printed(2, capfd)
    for phase in ("lower", "write", "llvm"):
        assert f"{phase} " in text
    assert "ops became" in text


def test_a_report_says_what_became_of_each_op():
    def f(x):
        return rlx.nn.softmax(x + 1.0) + rnp.linalg.svd(x, compute_uv=False)

    lines = rlx.jit(f).lower(np.ones((3, 3), np.float32)).compile().report().splitlines()
    assert "expanded: softmax" in lines and "library: svd" in lines
    (native,) = [line for line in lines if line.startswith("native: ")]
    assert {"add (2)", "div", "exp", "reduce_max"} <= set(
        native.removeprefix("native: ").split(", ")
    )


def test_the_level_is_as_before_after_the_block():
    before = rlx.config.settings
    with pytest.raises(ZeroDivisionError), rlx.debug(3):
        assert rlx.config.debug == 3
        raise ZeroDivisionError
    assert rlx.config.settings == before
    with pytest.raises(ConfigError, match="RLX_DEBUG is '7'"), rlx.debug(7):
        pass


def test_a_dump_has_every_stage_and_parses_back(tmp_path):
    options = rlx.CompileOptions(name="my graph/1")
    with rlx.config.using(dump=tmp_path):
        compiled = rlx.Session("cpu").compile(curve, X, options=options)
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("my_graph_1_")
    names = sorted(p.name for p in folder.iterdir())
    assert names[0] == "00_hir.txt"
    assert [n.split(".")[-1] for n in names[-4:]] == ["ll", "s", "o", "txt"]
    assert len(names) == len(compiled.stages) + 2
    graph = parse((folder / "00_hir.txt").read_text())
    np.testing.assert_array_equal(interpret(graph, [X])[0], np.tanh(X) * 2 + 1)
    assert (folder / names[-4]).read_text() == compiled.stages["llvm"]


def test_a_dump_keeps_large_constants(tmp_path):
    large = np.arange(100, dtype=np.float32)
    with builder.recording("large") as recorder:
        recorder.graph.results = [constant(value=Constant(large))]
    with rlx.config.using(dump=tmp_path):
        rlx.Session("cpu").compile(recorder.graph)
    (file,) = tmp_path.rglob("*.npz")
    graph = parse((file.parent / "00_hir.txt").read_text(), constants=dict(np.load(file)))
    np.testing.assert_array_equal(interpret(graph, [])[0], large)


def test_a_compile_that_fails_leaves_its_graph(tmp_path, monkeypatch):
    session = rlx.Session("cpu")

    def broken(graph, array, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(session.backend, "compile", broken)
    with rlx.config.using(dump=tmp_path), pytest.raises(ZeroDivisionError):
        session.compile(curve, X)
    (file,) = tmp_path.rglob("*.*")
    assert file.name == "00_hir.txt"
    assert "tanh" in file.read_text()


def test_a_dump_that_cannot_be_written_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with rlx.config.using(dump=file), pytest.raises(ConfigError, match="RLX_DUMP is") as caught:
        rlx.Session("cpu").compile(curve, X)
    assert "directory" in caught.value.fix


def test_show_prints_the_graph(capsys):
    rlx.show(curve)(X)
    text = capsys.readouterr().out
    assert text.startswith("graph curve(") and "tanh" in text


def test_check_verifies_each_stage(monkeypatch):
    from rlx.lower import pipeline

    seen = []
    monkeypatch.setattr(pipeline, "verify", lambda graph, level: seen.append(level))
    rlx.Session("cpu").compile(curve, X, options=rlx.CompileOptions(check=False))
    assert not seen
    rlx.Session("cpu").compile(curve, X, options=rlx.CompileOptions(check=True))
    assert seen and set(seen) == {"hir", "mir"}
    seen.clear()
    with rlx.config.using(check=True):
        rlx.Session("cpu").compile(curve, X)
    assert seen


def test_check_finds_a_wrong_graph():
    graph = rlx.make_graph(curve)(X)
    graph.results = [rlx.make_graph(curve)(X).results[0]]
    with pytest.raises(VerifyError):
        rlx.Session("cpu").compile(graph, options=rlx.CompileOptions(check=True))


def test_the_device_setting_is_the_default():
    with rlx.config.using(device="reference"):
        assert rlx.Session().device == "reference"
        compiled = rlx.jit(curve).lower(X).compile()
    assert compiled.report() == "every op: NumPy reference"
    assert rlx.Session().device == "cpu"
    with rlx.config.using(device="cpu"):
        assert rlx.Session("reference").device == "reference"


def test_a_device_setting_that_does_not_exist_names_the_variable():
    with rlx.config.using(device="moon"), pytest.raises(ConfigError) as caught:
        rlx.jit(curve)
    names = ", ".join(rlx.devices())
    assert caught.value.what == "RLX_DEVICE is 'moon'"
    assert caught.value.fix == f"set it to one of {names}"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("RLX_DEBUG", "9", "RLX_DEBUG is '9'"),
        ("RLX_CHECK", "yes", "RLX_CHECK is 'yes'"),
        ("RLX_NUM_THREADS", "-1", "RLX_NUM_THREADS is '-1'"),
        ("RLX_CACHES", "dir", "there is no setting RLX_CACHES"),
        ("RLX_DEVICE", "tpu9", "RLX_DEVICE is 'tpu9'"),
    ],
)
def test_a_wrong_variable_is_an_error_in_a_new_process(variable, value, message):
    done = subprocess.run(
        [sys.executable, "-c", "import rlx; rlx.jit(lambda x: x)"],
        capture_output=True,
        text=True,
        env=os.environ | {variable: value},
    )
    assert done.returncode == 1
    assert message in done.stderr and "  fix    " in done.stderr
    assert "where  <string>:1 in <module>" in done.stderr
    assert "/trace/" not in done.stderr, "which file was being loaded"
    assert issubclass(ConfigError, RlxError)


def test_variables_hold_from_the_start(tmp_path):
    program = "import numpy as np, rlx; rlx.jit(lambda x: x + x)(np.ones(3, 'float32'))"
    environment = {"RLX_DEBUG": "1", "RLX_DUMP": str(tmp_path), "RLX_DEVICE": "reference"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    assert "compiled for reference" in done.stderr
    assert [p.name for p in tmp_path.rglob("*.txt")]


def test_a_slow_compile_says_so_where_somebody_reads_it(capfd, monkeypatch):
    looking = sys.modules["rlx.runtime.debug"]  # `rlx.runtime.debug` is an object
    graph = rlx.make_graph(curve)(X)
    lines = []

    def wait() -> str:
        deadline = time.monotonic() + 30
        while not "".join(lines).endswith("...\n") and time.monotonic() < deadline:
            time.sleep(0.001)
            lines.append(capfd.readouterr().err)
        return "".join(lines)

    monkeypatch.setattr(looking, "SLOW", 0.0)
    with looking.tell_slow("curve", graph, "cpu"):
        time.sleep(0.02)
    assert capfd.readouterr().err == ""  # nobody reads it
    monkeypatch.setattr(looking, "_is_terminal", lambda: True)
    with looking.tell_slow("curve", graph, "cpu"):
        assert wait() == "rlx: curve(f32[2, 3]), 5 ops: compiling for cpu ...\n"
    assert re.fullmatch(r"rlx: curve: done after \d+\.\d s\n", capfd.readouterr().err)
    monkeypatch.setattr(looking, "SLOW", 60.0)
    with looking.tell_slow("curve", graph, "cpu"):
        pass
    assert capfd.readouterr().err == ""
