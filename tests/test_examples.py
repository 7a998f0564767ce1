"""Every example runs, as a user would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MAX_LINES = 80


def run(*command: str | Path) -> str:
    """What a Python command prints; a failure shows all of it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_train_digits(tmp_path: Path):
    text = run("examples/train_digits.py", "--out", tmp_path)
    found = re.search(r"accuracy .*: ([\d.]+)%", text)
    assert found, text
    assert float(found.group(1)) >= 97.0
    for name in ("digits_loss.png", "digits_predictions.png"):
        assert (tmp_path / name).stat().st_size > 5000
        assert str(tmp_path / name) in text


def test_linear_regression():
    text = run("examples/linear_regression.py")
    slope, offset = map(float, re.findall(r"y = ([\d.]+) x \+ ([\d.]+)", text)[0])
    assert slope == pytest.approx(3.0, abs=0.1)
    assert offset == pytest.approx(0.5, abs=0.1)


def test_how_rlx_works():
    text = run("examples/how_rlx_works.py")
    titles = re.findall(r"^(\d+)\. .*\n-+\n(?=.)", text, re.MULTILINE)
    assert titles == [str(i) for i in range(1, 11)]
    assert "graph loss(" in text and "program loss" in text and "ret i32 0" in text
    assert text.endswith("(Array(4.25, dtype=float32), Array([ 3., -4.,  0.], dtype=float32))\n")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_are_short_and_explain_themselves(path: Path):
    assert path.read_text(encoding="utf-8").count("\n") < MAX_LINES
    if "argparse" in path.read_text(encoding="utf-8"):
        assert "usage" in run(path, "--help")
