"""`rlx.config.show()`: all settings, where each comes from, and what computes here."""

import os
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest

import rlx
from rlx.ir.config import Config, Settings, from_environment


def rows(capsys: pytest.CaptureFixture) -> dict[str, str]:
    rlx.config.show()
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line}


def test_every_setting_is_shown_with_its_origin(capsys):
    before = rows(capsys)
    assert {field.name for field in fields(Settings)} <= set(before)
    with rlx.config.using(debug_nans=True, precision="bf16", unroll_limit=7):
        shown = rows(capsys)
        assert shown["debug_nans"].split() == ["True", "program"]
        assert shown["precision"].split() == ["always_bf16", "program"]
        assert shown["unroll_limit"].split() == ["7", "program"]
    assert rows(capsys) == before


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_origins(name):
    text = {"device": "cpu", "dump": "/d", "traceback": "full", "precision": "f16"}.get(name, "1")
    environment = {f"RLX_{name.upper()}": text, "HOME": "/"}
    made = Config(from_environment(environment), environment)
    for field in fields(Settings):
        expected = f"environment, RLX_{name.upper()}" if field.name == name else "default"
        assert made._origin(field.name, getattr(made.settings, field.name)) == expected


def test_what_computes_here(capsys):
    shown = rows(capsys)
    assert shown["numpy"].startswith(f"{np.__version__}: ")
    assert shown["LLVM"][0].isdigit() and "llvmlite" in shown["LLVM"]
    assert int(shown["threads"].partition(":")[0]) > 0 and shown["features"] and shown["processor"]


def test_the_environment_is_read_when_rlx_is_imported():
    script = "import rlx; rlx.config.show()"
    environment = {**os.environ, "RLX_UNROLL_LIMIT": "9", "RLX_NUM_THREADS": "3"}
    command = [sys.executable, "-c", script]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (line,) = [line for line in out.stdout.splitlines() if line.startswith("unroll_limit")]
    assert line.split() == ["unroll_limit", "9", "environment,", "RLX_UNROLL_LIMIT"]
    assert "threads           3: " in out.stdout
