"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import laws_of_change
import laws_of_meaning
import pytest
from audit import Case

from rlx.ir.graph import OPS
from rlx.ir.op import Op

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
LAWS = [*laws_of_meaning.LAWS, *laws_of_change.LAWS]
IMPORTS = """
from __future__ import annotations

import math

import numpy as np

from rlx.ir.graph import Value
from rlx.ir.op import ALIGNED, define
from rlx.ir.ops.arithmetic import abs, add, mul, sub
from rlx.ir.ops.exponential import exp, log1p
from rlx.ir.ops.families import check_kind
from rlx.ir.ops.trigonometric import tanh
from rlx.ir.types import Type

"""


@pytest.fixture(scope="module")
def log_cosh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Op]:
    """The op of the worked example, for as long as the tests of this file run."""
    before = dict(OPS), dict(OPS.defined)
    found = re.search(r"```python\n(@define.*?)```", TEXT, re.DOTALL)
    assert found
    path = tmp_path_factory.mktemp("room") / "room_of_the_example.py"
    path.write_text(IMPORTS + found.group(1))
    spec = importlib.util.spec_from_file_location("room_of_the_example", path)
    assert spec and spec.loader
    room = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(room)
    yield room.log_cosh
    for table, whole in zip((OPS, OPS.defined), before, strict=True):
        dict.clear(table)
        table.update(whole)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("law_"))
@pytest.mark.parametrize("number", [0, 1])
def test_the_op_of_the_example_keeps_every_law(log_cosh: Op, law: Any, number: int):
    law(Case(log_cosh, log_cosh.sample_list[number]))
