"""Branches of `cond` and `switch` whose condition is known: one runs, the others are compared."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.ir.errors import DtypeError, ShapeError, StructureError

X = np.ones((2, 3), np.float32)


def test_branches_are_compared_once():
    seen = []

    def two(x):
        seen.append(x)
        return x, x

    for _ in range(2):
        with pytest.raises(StructureError, match="a tuple in false_fn, a leaf in true_fn"):
            rlx.cond(True, lambda x: x, two, X)
    seen.clear()
    for _ in range(3):
        assert rlx.cond(True, lambda x: x * 2, lambda x: seen.append(x) or x, X).shape == X.shape
    assert len(seen) == 1 and not isinstance(seen[0], np.ndarray)
    # what cannot be recorded is not compared, and functions may call themselves
    assert rlx.cond(True, lambda x: x if float(x) > 0 else -x, lambda x: (x, x), np.float32(1)) == 1
    count = lambda n: rlx.cond(n > 0, lambda: count(n - 1) + 1, lambda: 0)  # noqa: E731
    assert count(3) == 3


def test_types_of_branches_of_a_known_condition():
    with pytest.raises(ShapeError, match="switch: the branches return different types"):
        rlx.switch(0, [lambda x: x, lambda x: x[0]], X)
    with pytest.raises(DtypeError, match="cond: the branches return different types"):
        rlx.cond(True, lambda x: x, lambda x: x.astype("int32"), X)
    assert rlx.cond(True, lambda: 1, lambda: 2.0) == 1  # Python numbers take the other's dtype


def test_comparing_leaves_no_trace():
    outside, key = rlx.array([1.0, 2.0]), rlx.random.key(0)
    assert rlx.cond(True, lambda: outside * 2, lambda: outside).tolist() == [2.0, 4.0]
    outside[0] = 5.0  # no compiled function holds it
    with rlx.config.using(key_reuse=True):
        draws = [lambda: rlx.random.normal(key), lambda: rlx.random.uniform(key)]
        assert rlx.cond(True, *draws).shape == ()
    assert rlx.nan_check(lambda x: rlx.cond(x > 0, lambda: x, lambda: -x))(1.0) == 1.0


def test_operands_of_any_kind_are_taken():
    class Table:
        shape, dtype = [1], {}

    assert float(rlx.cond(True, lambda t: len(t.shape) * 1.0, lambda t: 2.0, Table())) == 1.0
