"""A Python number keeps all its digits beside an array of float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

POINT = np.array([0.3, 0.1, 0.7, -1.3])
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "searchsorted": lambda np_, x: np_.searchsorted(np_.sort(x), 0.3),
    "isin": lambda np_, x: np_.isin(x, 0.3),
    "append": lambda np_, x: np_.append(x, 0.3),
    "insert": lambda np_, x: np_.insert(x, 1, 0.3),
    "pad": lambda np_, x: np_.pad(x, 1, constant_values=0.3),
    "interp": lambda np_, x: np_.interp(0.3, np_.arange(4.0), x),
    "select": lambda np_, x: np_.select([x > 0.2], [x], 0.3),
    "choose": lambda np_, x: np_.choose(np_.asarray([0, 1, 0, 1]), [x, 0.3]),
    "piecewise": lambda np_, x: np_.piecewise(x, [x > 0.2], [0.3, 0.1]),
    "gradient": lambda np_, x: np_.gradient(x, 0.3),
    "diff": lambda np_, x: np_.diff(x, prepend=0.3, append=0.1),
    "outer": lambda np_, x: np_.outer(x, 0.3),
    "stack": lambda np_, x: np_.stack([x[0], 0.3]),
    "hstack": lambda np_, x: np_.hstack([x, 0.3]),
    "quantile": lambda np_, x: np_.quantile(x, 0.3),
    "percentile": lambda np_, x: np_.percentile(x, 33.3),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_python_number_is_no_float32(name: str) -> None:
    wanted = CALLS[name](np, POINT)
    for found in (
        CALLS[name](rnp, rlx.array(POINT)),
        rlx.jit(lambda x: CALLS[name](rnp, x))(POINT),
    ):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    "write", [lambda at: at.set(0.3), lambda at: at.add(0.3), lambda at: at.multiply(0.3)]
)
def test_a_number_written_keeps_its_digits(write: Callable[[Any], Any]) -> None:
    for index in (0, np.array([0, 2])):
        found = np.asarray(write(rlx.array(np.ones(3)).at[index]))
        assert found[0] in (0.3, 1.3)


def test_a_number_beside_a_small_integer_takes_its_dtype_in_a_loop() -> None:
    x = np.array([9, 4], np.uint8)
    assert rlx.jit(lambda x: rnp.gcd(x, 6))(x).dtype == np.uint8
