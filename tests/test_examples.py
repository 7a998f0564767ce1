"""Every example runs, as a user would run it."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from real_models import smollm_path

import rlx
from rlx import nn

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TWINS = sorted((ROOT / "tests" / "twins").glob("*.py"))
MAX_LINES = 120


class Example(NamedTuple):
    """A short run of an example: what it prints, and what holds of the numbers in that."""

    options: str
    pattern: str
    holds: Callable[..., bool]


NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
SHORT_RUNS = {  # each draws out/NAME.png
    "vae": Example("--steps 300", rf"loss {NUMBER} -> {NUMBER}", lambda a, b: b < 28 < 44 < a),
    "cnn": Example("--steps 60", rf"digits: {NUMBER}%", lambda right: right >= 90),
    "char_gpt": Example(
        "--steps 30", rf"loss {NUMBER}, after 30 steps {NUMBER}", lambda a, b: b < 3.6 < 4 < a
    ),
    "finetune_lora": Example(
        "--steps 150", rf"{NUMBER}% are read at first, {NUMBER}%", lambda a, b: a < 50 < 75 < b
    ),
    "serve_http": Example("--steps 100", rf"accuracy: {NUMBER}%", lambda right: right >= 80),
    "diffusion": Example("--steps 500", rf"asked for: {NUMBER}%", lambda read: read >= 60),
    "neural_ode": Example("--steps 150", rf"loss {NUMBER} -> {NUMBER}", lambda a, b: b < a / 10),
    "physics": Example(
        "--steps 100",
        rf"velocity: {NUMBER}, {NUMBER} .*loss {NUMBER} -> {NUMBER}",
        lambda x, y, a, b: abs(x - 0.466) < 5e-3 > abs(y - 0.432) and b < a / 30,
    ),
    "hmc": Example(
        "--draws 200",
        rf"R-hat: {NUMBER}.* most {NUMBER} .* are {NUMBER} to {NUMBER}",
        lambda r_hat, off, low, high: r_hat < 1.05 and off < 0.1 and 0.9 < low < high < 1.1,
    ),
    "fluid": Example("--steps 30 --size 32", rf"loss {NUMBER} -> {NUMBER}", lambda a, b: b < a / 4),
    "ray_marcher": Example(
        "--steps 80 --size 24", rf"loss {NUMBER} -> {NUMBER}", lambda a, b: b < a / 20
    ),
    "policy_gradient": Example(
        "--steps 40", rf"return: {NUMBER} -> {NUMBER}", lambda first, last: last > 5 * first
    ),
}


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


def run_here(path: Path, monkeypatch: pytest.MonkeyPatch, *options: str | Path) -> None:
    """Run a program in this process: to import its libraries again takes longer than it."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [*map(str, (path, *options))])
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("name", SHORT_RUNS)
def test_short_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    options, pattern, holds = SHORT_RUNS[name]
    run_here(ROOT / "examples" / f"{name}.py", monkeypatch, *options.split(), "--out", tmp_path)
    text = capsys.readouterr().out
    found = re.search(pattern, text, re.DOTALL)
    assert found and holds(*map(float, found.groups())), text
    assert (tmp_path / f"{name}.png").stat().st_size > 20_000
    assert f"wrote {tmp_path / name}.png" in text


def test_a_language_model_answers(monkeypatch: pytest.MonkeyPatch, capsys):
    path = smollm_path()
    run_here(ROOT / "examples" / "chat.py", monkeypatch, path, "--tokens", "8")
    assert "The capital of France is Paris." in capsys.readouterr().out


def test_the_gradient_through_the_solver(monkeypatch: pytest.MonkeyPatch):
    neural_ode = example("neural_ode", monkeypatch)
    model = nn.MLP([2, 8, 2], key=rlx.random.key(0), activation=nn.tanh, dtype="float64")
    windows = rlx.random.normal(rlx.random.key(1), (3, neural_ode.WINDOW + 1, 2), "float64")
    weights = rlx.tree.leaves(model)

    def loss(*weights: rlx.Array) -> rlx.Array:
        return neural_ode.loss_of(rlx.tree.unflatten(rlx.tree.structure(model), weights), windows)

    rlx.testing.check_grads(loss, weights, modes="rev")


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An example as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module(name)


def test_a_gpt_writes_with_its_cache_what_it_writes_without(monkeypatch: pytest.MonkeyPatch):
    gpt = example("char_gpt", monkeypatch)
    model = gpt.GPT(11, 16, 2, 2, key=rlx.random.key(0))
    prompt, count, key = np.array([1, 2, 3], "int32"), 12, rlx.random.key(1)
    found = rlx.jit(gpt.sample, static_argnames="count")(model, prompt, key, count=count)
    text = list(prompt)
    for each in rlx.random.split(key, count):
        logits = model(np.array([text], "int32"))[0, -1]
        text.append(int(rlx.random.categorical(each, logits)))
    assert found.tolist() == text[3:] and len(set(text)) > 5


def test_a_server_answers_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("fastapi", reason='needs fastapi: pip install "rlx[examples]"')
    httpx = pytest.importorskip("httpx", reason='needs httpx: pip install "rlx[examples]"')
    server = example("serve_http", monkeypatch)
    images = np.random.default_rng(0).uniform(size=(64, 64)).astype("float32")
    server.export(tmp_path / "digits.rlx", images, np.arange(64, dtype="int32") % 10, 3)
    predict = server.load(tmp_path / "digits.rlx")
    wanted = predict(images).argmax(-1).tolist()
    places = [slice(i, i + 1 + i % 3) for i in range(38)]
    wrong = [{}, {"images": []}, {"images": [[1.0]]}, {"images": "x"}]

    async def ask() -> None:
        transport = httpx.ASGITransport(app=server.application(predict))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            assert (await client.get("/health")).json() == {"status": "ok"}
            queries = [{"images": images[place].tolist()} for place in places] + wrong
            asked = [client.post("/predict", json=query) for query in queries]
            answers = await asyncio.gather(*asked)
            for answer, place in zip(answers[:38], places, strict=True):
                assert answer.json()["digits"] == wanted[place]
            assert [answer.status_code for answer in answers[38:]] == [422] * 4

    asyncio.run(ask())


def test_train_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run_here(ROOT / "examples" / "train_digits.py", monkeypatch, "--out", tmp_path)
    text = capsys.readouterr().out
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
def test_examples_are_short_and_explain_themselves(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert path.read_text(encoding="utf-8").count("\n") < MAX_LINES
    if path.stem not in SHORT_RUNS and "argparse" in path.read_text(encoding="utf-8"):
        with pytest.raises(SystemExit):
            run_here(path, monkeypatch, "--help")
        assert "usage" in capsys.readouterr().out


def lines_of(path: Path) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("twin", TWINS, ids=lambda p: p.stem)
def test_examples_are_no_longer_than_with_jax(twin: Path):
    assert lines_of(ROOT / "examples" / twin.name) <= lines_of(twin)
