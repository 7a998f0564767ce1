"""Every case of the tables, JAX's function converted by `rlx.from_jax`: `make interop`, minutes.

The environment variable INTEROP_DEVICE names the device, INTEROP_STEP=n takes every n-th function.
On `cpu` the derivatives and batches are compared too.
"""

from __future__ import annotations

import os

import pytest

from .converted import DEVICE, Converted, check_on_device, is_convertible
from .differences import unlisted
from .engine import Case, check
from .tables import by_function

STEP = int(os.environ.get("INTEROP_STEP", "1"))
CASES = dict(list(by_function().items())[::STEP])
LAWS = ("jvp", "vjp", "vmap")


@pytest.mark.parametrize("name", CASES)
def test_converted_function(name: str, record_property):
    cases: list[Case] = [case for case in CASES[name] if is_convertible(case)]
    if not cases:
        pytest.skip("JAX cannot trace it, or it gives no arrays")
    said, count = [], 0
    for case in cases:
        checks = [check_on_device(case, DEVICE)]
        if DEVICE == "cpu":
            checks += check(Converted(case.module, case.text), LAWS)
        said += unlisted(case, checks)
        count += len(checks)
    record_property("parity", [name, count, False])
    assert not said, "\n\n".join(said)
