"""`x += v` and its like: NumPy's results, in the dtype and shape of x."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ConcretizationError, DtypeError, ShapeError

X = np.ones(3, "float32")

IN_PLACE = {
    "+=": ("float32", "int8", "uint64", "complex64"), "-=": ("float32", "int32", "complex64"),
    "*=": ("float64", "int16", "uint8"), "/=": ("float32", "complex64"),
    "//=": ("float32", "int32"), "%=": ("float32", "int32"), "**=": ("float32", "int32"),
    "&=": ("bool", "int32"), "|=": ("bool", "uint8"), "^=": ("bool", "int64"),
    "<<=": ("int32", "uint8"), ">>=": ("int32", "uint8"), "@=": ("float32", "int32"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "dtype"), [(name, d) for name, dtypes in IN_PLACE.items() for d in dtypes]
)
def test_operators_in_place_are_numpys(operator, dtype):
    def program(x: Any, y: Any) -> Any:
        names = {"x": x.copy(), "y": y}
        exec(f"x {operator} y", names)
        if operator != "@=":
            exec(f"x[0] {operator} y[1]", names)
        return names["x"]

    x, y = np.array([[3, 1], [1, 2]]).astype(dtype), np.array([[1, 2], [3, 1]]).astype(dtype)
    expected = program(x, y)
    found = program(rlx.array(x), rlx.array(y))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(rlx.jit(program)(x, y), expected)


def test_in_place_keeps_dtype_and_shape_as_numpy_does():
    x = rlx.array([1.0, 2.0])
    x += np.array([0.5, 0.5])
    assert x.dtype.name == "float32" and x.tolist() == [1.5, 2.5]
    with pytest.raises(DtypeError, match="true_divide in place gives float32"):
        n = rlx.array([1, 2])
        n /= 2
    with pytest.raises(DtypeError, match="complex64, which does not fit the array of float32"):
        x *= 1j
    with pytest.raises(DtypeError, match="int16, which does not fit the array of uint8"):
        byte = rlx.array([1], "uint8")
        byte += rlx.array([1], "int8")
    with pytest.raises(ShapeError, match="x = x \\+ v, which may give x another shape"):
        x += rnp.ones((3, 2))
    with pytest.raises(TypeError):
        x += "text"


def _masked(x: Any) -> Any:
    rows = x[:, 0] < 0
    x[x > 2] *= 2
    x[x < 0] -= x[0, 1]
    x[rows] += x[0]
    x[rows, 1:] //= 3
    x[..., x[0] > -9] %= 5
    x[x == 0] **= 2
    return x


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_elements_under_a_mask_that_is_not_known_are_changed_in_place(dtype):
    x = np.arange(-6, 6).reshape(3, 4).astype(dtype)
    expected = _masked(x.copy())
    np.testing.assert_array_equal(rlx.jit(lambda x: _masked(x * 1))(x), expected)
    np.testing.assert_array_equal(_masked(rlx.array(x)), expected)
    many = rlx.vmap(lambda x: _masked(x * 1))(np.stack([x, x]))
    np.testing.assert_array_equal(many, [expected, expected])


def test_a_slope_through_a_change_under_a_mask():
    def f(x: Any) -> Any:
        y, x = rnp.zeros(3), x * 1
        x[x > 1] *= x[2]
        y[x > 1] += x[0]
        return (x + y).sum()

    for wrap in (lambda f: f, rlx.jit):
        assert wrap(rlx.grad(f))(rlx.array([0.5, 2.0, 3.0])).tolist() == [3.0, 3.0, 8.0]


USES = {
    "result": lambda x: x[x > 1], "method": lambda x: x[x > 1].sum(),
    "operator": lambda x: x[x > 1] * 2, "function": lambda x: rnp.exp(x[x > 1]),
    "size": lambda x: len(x[x > 1]), "number": lambda x: float(x[x > 1]),
    "assigned elsewhere": lambda x: x.copy().__setitem__(0, x[x > 1]),
    "assigned to": lambda x: x[x > 1].__setitem__(0, 1.0), "truth": lambda x: bool(x[x > 1]),
    "changed twice": lambda x: operator.iadd(operator.iadd(x[x > 1], 1), 1),
    "argument": lambda x: rlx.jit(lambda y: y)(x[x > 1]),
    "update": lambda x: x[x > 1].at[0].set(1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_elements_under_such_a_mask_have_no_other_use(name):
    with pytest.raises(ConcretizationError, match="a number of elements that is not known"):
        rlx.jit(USES[name])(np.ones(3, "float32"))


def test_a_change_under_a_mask_has_to_fit():
    def f(v: Any) -> Any:
        x = rnp.arange(3) + v.astype("int32")
        x[x > 0] *= v
        return x

    with pytest.raises(DtypeError, match="float32 values do not fit an array of int32"):
        rlx.jit(f)(1.5)
    with pytest.raises(ShapeError, match="takes one value for all places"):
        rlx.jit(lambda x: operator.setitem(y := x * 1, m := x > 0, operator.imul(y[m], x)))(X)
