"""Corners of symbolic sizes, and of what threads share, that a review found wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import entries
from rlx.backends.backend import MISS
from rlx.ir.dims import dim, quotient
from rlx.ir.errors import ShapeError, SymbolicSizeError
from rlx.ir.types import Type
from rlx.lower.lir.index import Index, Quotient, Variable


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


# -- sizes ----------------------------------------------------------------------------------------


def test_a_size_of_zero_is_not_divided_by() -> None:
    padded = rlx.jit(
        lambda x: rnp.pad(x.T.reshape(-1), (2, 2)), dynamic={"x": {0: rlx.dim("n", min=0)}}
    )
    assert padded(ones(4, 3)).tolist() == [0.0] * 2 + [1.0] * 12 + [0.0] * 2
    assert padded(ones(0, 3)).tolist() == [0.0] * 4


def test_a_size_that_no_number_makes_is_an_error() -> None:
    f = rlx.jit(lambda x: x + 1, dynamic={"x": {0: rlx.dim("n") * 2}})
    assert f(ones(4)).shape == (4,)
    with pytest.raises(SymbolicSizeError, match="is 3, but it is 2\\*n"):
        f(ones(3))


def test_a_loop_goes_over_a_part_of_symbolic_size() -> None:
    f = rlx.jit(
        lambda x: rlx.lax.scan(lambda c, row: (c + row.sum(), c), 0.0, x[1:]),
        dynamic={"x": {0: rlx.dim("n", min=2)}},
    )
    for n in (2, 5):
        total, before = f(ones(n, 3))
        assert float(total) == 3.0 * (n - 1)
        assert before.tolist() == [3.0 * i for i in range(n - 1)]


def test_a_quotient_of_polynomials_leaves_no_rest() -> None:
    n, m = dim("n"), dim("m")
    assert quotient((n + 1) * (m - 2) * 3, n + 1) == 3 * (m - 2)
    assert quotient(12 * n + 12, n + 1) == 12
    assert quotient(n * n + 1, n + 1) is None
    assert quotient(7, n + 1) is None
    assert quotient(0, n + 1) == 0
    assert quotient(6 * n, 4) is None


def test_a_transposed_array_is_reshaped() -> None:
    f = rlx.jit(
        lambda x: rnp.cumsum(x.T.reshape(x.shape), 0), dynamic={"x": {0: rlx.dim("n", min=2)}}
    )
    for n in (2, 3, 7):
        x = np.arange(5.0 * n, dtype="float32").reshape(n, 5)
        assert f(x).tolist() == np.cumsum(x.T.reshape(n, 5), 0).tolist()


def test_the_floor_of_a_negative_index_is_negative() -> None:
    n, i = dim("n", min=2), Variable(3)
    low = Quotient(Index(((i, 1),), -1), n)  # -1 // n = -1
    assert low.low <= -1
    below = Quotient(Index(((i, 1),), -9), n)  # -7 // n may be -1
    assert below.high >= -1


def test_sizes_that_may_be_too_small_are_checked_in_each_call() -> None:
    f = rlx.jit(lambda x: rnp.pad(x[3:].T.reshape(-1), 1), dynamic={"x": {0: "n"}})
    for n in (3, 4, 7):
        x = np.arange(5.0 * n, dtype="float32").reshape(n, 5)
        assert f(x).tolist() == np.pad(x[3:].T.reshape(-1), 1).tolist()
    with pytest.raises(ShapeError, match="in this call n = 2"):
        f(ones(2, 5))


# -- calls of Python ------------------------------------------------------------------------------


def test_a_callback_knows_the_sizes_in_its_attributes() -> None:
    def f(x, y):
        sort = lambda x: rlx.pure_callback(np.sort, rlx.spec(x.shape, x.dtype), x)  # noqa: E731
        return rlx.lax.cond(y.sum() > 4, sort, lambda x: x, x)

    g = rlx.jit(f, dynamic={"x": {0: "n"}, "y": {0: "m"}})
    x = np.array([3.0, 1.0, 2.0], "float32")
    assert g(x, ones(5)).tolist() == [1.0, 2.0, 3.0]
    assert g(x[:2].copy(), ones(5)).tolist() == [1.0, 3.0]
    assert g(x, ones(3)).tolist() == x.tolist()


def test_a_product_of_symbolic_sizes_does_not_warn() -> None:
    f = rlx.jit(lambda x, w: x @ w, dynamic={"x": {1: "n"}, "w": {0: "n"}})
    assert np.isnan(np.asarray(f(ones(2, 3) * np.inf, ones(3, 2) * 0))).all()


# -- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"specialize": True}, {"buckets": {"n": (8,)}}])
def test_an_argument_is_named_in_a_later_call(options) -> None:
    f = rlx.jit(lambda x: x + 1, dynamic={"x": {0: "n"}}, **options)
    assert f(ones(3)).tolist() == f(x=ones(3)).tolist() == [2.0] * 3


# -- threads --------------------------------------------------------------------------------------


def test_a_sized_entry_keeps_to_the_shapes_of_its_own_call(monkeypatch) -> None:
    """Between any two lines of one call, another thread may make calls of other sizes."""
    monkeypatch.setattr(entries, "KEPT", 1)
    types = [Type(np.dtype("float32"), (dim("n"),))]

    def make(sizes):
        return lambda x: sizes["n"] if x.shape == (sizes["n"],) else MISS

    entry = entries.sized_entry(types, make)

    def between(frame, event, argument):
        if frame.f_code is not entry.__code__:
            return None
        sys.settrace(None)
        assert [entry(ones(n)) for n in (3, 4)] == [3, 4]
        sys.settrace(between)
        return between

    before = sys.gettrace()
    sys.settrace(between)
    try:
        found = [entry(ones(n)) for n in (2, 2, 5)]
    finally:
        sys.settrace(before)
    assert found == [2, 2, 5]
