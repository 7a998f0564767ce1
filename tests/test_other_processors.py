"""Code for processors other than this one: that of ARM is read, that of older x86 runs."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("other_processors.py")
ULPS = 40  # of the largest number: sums of 70 products, functions of a few units


def found(processor: str) -> dict[str, Any]:
    """What the script says of each program."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), processor], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def innermost(text: str, name: str) -> list[str]:
    """The instructions of the loop with the most of one kind."""
    loops = re.findall(r"^(\.LBB\w+):\n((?:(?!^\.?\w+:).*\n)*?.*\1\n)", text, re.MULTILINE)
    bodies = [body.splitlines() for _, body in loops]
    return max(bodies, key=lambda lines: sum(name in line for line in lines))


def test_code_for_neon_keeps_the_sums_of_a_product_in_registers():
    texts = found("neon")
    assert texts.pop("vector_bytes") == 16
    loop = innermost(texts["product"], "fmla")
    sums = {line.split()[1] for line in loop if "fmla" in line}
    assert len(sums) >= 20 and all(".4s" in register for register in sums)
    assert not [line for line in loop if "[sp" in line]
    assert re.search(r"fmla\s+v\d+\.2d", texts["product of doubles"])
    for name in ("softmax", "functions", "complex numbers", "halves"):
        assert re.search(r"fmla\s+v\d+\.4s", texts[name]), name
    assert not any("x86" in text for text in texts.values())


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="this is no x86")
def test_an_older_x86_computes_the_same():
    errors = found("avx2")
    assert errors.pop("vector_bytes") == 32
    assert {name: error for name, error in errors.items() if not error <= ULPS} == {}
