"""The benchmarks run, and their arithmetic is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command, floors, pages, report
from benchmarks.case import build, disagreement, placed
from benchmarks.cases import CASES
from benchmarks.client import Client, Failure
from benchmarks.libraries import Lacks, is_installed, opened
from benchmarks.result import Result, geometric_mean, quartiles, slower
from benchmarks.trees import first_leaf, leaves, tree_map


def result_of(name: str, **seconds: list[float]) -> Result:
    return Result(CASES[name], seconds)


def test_arithmetic_by_hand():
    result = result_of("matmul64", rlx=[1.0, 2.0, 4.0], jax=[2.0, 6.0, 4.0], numpy=[9.0, 9.0, 9.0])
    assert result.best_peer == "jax"
    assert result.ratios("jax") == [2.0, 3.0, 1.0]
    assert result.speedup() == 2.0
    assert result.speedup("numpy") == 4.5
    assert result.speedup_spread == (1.5, 2.5)
    assert result.spread("rlx") == (3.0 - 1.5) / 2.0
    result.floor = 0.5
    assert result.over_floor == 4.0
    assert quartiles([5.0]) == (5.0, 5.0, 5.0)


def test_means_and_slower():
    fast = result_of("matmul64", rlx=[1.0], jax=[4.0])
    slow = result_of("softmax", rlx=[1.0], jax=[0.25], numpy=[1.0])
    even = result_of("sum0", rlx=[1.0], jax=[0.96])
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1.0)
    assert slower([fast, slow, even]) == [slow]
    rows = report.summary_rows([fast, slow])
    assert rows == [
        ["products", "1", "4.00x", "4.00x", "-", "0"],
        ["layers", "1", "0.25x", "0.25x", "1.00x", "1"],
        ["all", "2", "1.00x", "1.00x", "1.00x", "1"],
    ]
    assert "1.00 times as fast (geometric mean of 2 cases); 1 cases" in pages.conclusion(
        [fast, slow]
    )


def test_wrong_peers_are_not_the_best():
    result = result_of("softmax", rlx=[1.0], jax=[0.1], numpy=[3.0])
    result.wrong["jax"] = "result 0 is off"
    assert result.best_peer == "numpy"
    assert report.problems([result])[0].startswith("WRONG: softmax")
    assert report.time_cell(result, "jax") == "100 ms (wrong)"


def test_disagreement():
    case = CASES["matmul64"]
    right = np.ones((2, 2))
    assert disagreement(case, [np.ones((2, 2), np.float32)], [right]) is None
    assert "off by 0.5" in (disagreement(case, [right * 0.5], [right]) or "")
    assert "shape" in (disagreement(case, [right[0]], [right]) or "")
    assert "off by nan" in (disagreement(case, [right * np.nan], [right]) or "")
    integers = np.arange(3)
    assert "1 integers" in (disagreement(case, [integers], [np.array([0, 1, 3])]) or "")


def test_eager_cases_are_called_as_they_are():
    numpy = opened("numpy")
    work = build(CASES["eager-add"], numpy, placed(CASES["eager-add"], numpy))
    assert work.names["f"] is np.add
    if is_installed("torch-compiled"):
        import torch

        with torch.enable_grad(), pytest.raises(Lacks):  # the library is opened without
            opened("torch-compiled").eager(np.add)


def test_single_operations_are_told_against_jax_or_pytorch_and_against_numpy():
    fast = result_of("eager-sin", rlx=[1.0], jax=[4.0], torch=[2.0], numpy=[0.5])
    slow = result_of("eager-add", rlx=[1.0], jax=[1.0], torch=[8.0], numpy=[0.1])
    assert fast.rival_speedup == 2.0
    told = pages.terminal_page([fast, slow], {})
    assert "over JAX or PyTorch" in told
    assert "1.41 times as fast as the better of JAX and PyTorch" in told
    assert (
        "Of 2 small elementwise ones 1 take at most 2.5 times the time of NumPy, 1 at most 0.5"
        in told
    )
    assert result_of("eager-sin", rlx=[1.0], numpy=[0.5]).rival_speedup is None


def test_floors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(floors, "numpy_peak", lambda: 1e9)
    monkeypatch.setattr(floors, "copy_seconds", lambda nbytes: nbytes / 1e9)
    product = result_of("matmul512", rlx=[0.5, 0.25], jax=[0.125])  # 2 * 512^3 flop
    total = result_of("sum0", rlx=[1.0])  # 2^24 bytes
    peaks = floors.add_floors([product, total])
    assert peaks == {"float32": 2**28 / 0.125}
    assert product.floor == 0.125
    assert total.floor == 2**24 / 1e9


def test_trees():
    tree = {"b": (1, 2), "a": [3, None]}
    assert leaves(tree) == [3, 1, 2]
    assert tree_map(lambda x, y: x + y, tree, tree) == {"b": (2, 4), "a": [6, None]}
    assert first_leaf(([{"w": 1}], 2)) == "[0][0]['w']"


def test_a_worker_that_dies_is_told():
    client = Client("no such library")
    with pytest.raises(Failure, match="died with code 1: KeyError"):
        client.ask("drop")
    client.close()


def test_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- benchmarks -->\nold\n<!-- end of benchmarks -->\nafter\n")
    paths = {name: tmp_path / f"made.{name}" for name in ("json", "markdown", "svg")}
    monkeypatch.setattr("benchmarks.session.REFERENCE", ("numpy",))
    monkeypatch.setattr(
        sys, "argv",
        ["benchmarks", "--cases", "dispatch,matmul64", "--peers", "numpy", "--quick",
         "--rounds", "2", "--json", str(paths["json"]), "--markdown", str(paths["markdown"]),
         "--chart", str(paths["svg"]), "--readme", str(readme),
         "--readme-chart", str(tmp_path / "short.svg")],
    )  # fmt: skip
    command.main()
    assert "matmul 64" in capsys.readouterr().out
    cases = json.loads(paths["json"].read_text())["cases"]
    assert [c["case"] for c in cases] == ["dispatch", "matmul64"]
    assert all(len(rounds) == 2 for c in cases for rounds in c["rounds"].values())
    assert not any(c["wrong"] or c["failed"] or c["lacking"] for c in cases)
    assert all(path.stat().st_size > 500 for path in paths.values())
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "](short.svg)" in text and (tmp_path / "short.svg").stat().st_size > 500

    known = {"import_seconds": 0.5, "compile_seconds": 0.25, "second_start_seconds": 0.125}
    known |= {"warm_seconds": 1.0, "peak_megabytes": 87.3}
    monkeypatch.setattr(command, "in_fresh_processes", lambda name, case: known)
    before = report.environment()
    monkeypatch.setattr(report, "environment", lambda: {**before, "numpy": "9.9"})  # since then
    sys.argv += ["--only-starts"]
    command.main()
    told = json.loads(paths["json"].read_text())
    again = told["cases"]
    assert [c["rounds"] for c in again] == [c["rounds"] for c in cases]
    (start,) = again[0]["starts"].values()
    assert start == {**known, "measured_on": report.machine(report.environment())}
    assert told["environment"] == before
    page = paths["markdown"].read_text()
    assert "250 ms | 125 ms | 87" in page
    timed, _, compiled = page.partition("## Compiling")
    assert report.machine(before) in timed and "NumPy 9.9" not in timed + readme.read_text()
    assert "NumPy 9.9" in compiled


def test_starts_by_hand():
    result = result_of("train-mlp", rlx=[1.0], jax=[2.0])
    found = {"import_seconds": 0.5, "compile_seconds": 0.25, "second_start_seconds": 0.125}
    result.starts = {
        "rlx": {**found, "warm_seconds": 1.0, "peak_megabytes": 87.3},
        "jax": {"failed": "took over 900 s"},
    }
    title = "MLP of the demo, batch of 64"
    assert report.start_rows([result]) == [
        [title, "rlx", "500 ms", "250 ms", "125 ms", "87"],
        [title, "JAX", "failed", "", "", ""],
    ]
    assert "took over 900 s" in report.problems([result])[0]
