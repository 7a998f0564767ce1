"""`x += v` and its like: NumPy's results, in the dtype and shape of x."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import DtypeError, ShapeError

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
