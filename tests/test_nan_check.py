"""The first NaN is found: its op, its line, its place."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import NanError

X = np.array([[1.0, 4.0], [-1.0, 9.0]], np.float32)


def test_the_op_the_line_and_the_place_are_named():
    def loss(x):
        y = x * 2.0
        z = rnp.log(y)
        return rnp.sum(z)

    with pytest.raises(NanError) as caught:
        rlx.nan_check(loss)(X)
    text = str(caught.value)
    assert text.startswith("log gives nan at [1, 0] of f32[2, 2]\n")
    assert "test_nan_check.py" in text and "z = rnp.log(y)" in text and "in loss" in text
    assert "operand 0: f32[2, 2], -2.0 at [1, 0]" in text
    assert issubclass(NanError, FloatingPointError)


def test_what_has_no_nan_gives_its_result():
    result = rlx.nan_check(lambda x, y: {"sum": x + y, "n": rnp.argmax(x)})(X, 1.0)
    np.testing.assert_array_equal(result["sum"], X + 1)
    assert int(result["n"]) == 3


def test_a_nan_in_a_derivative_is_found():
    """A function that is flat at 0, whose derivative is 0 times infinity there."""

    def flat(x):
        return rnp.sum(rnp.exp(-1.0 / x**2))

    zero = np.zeros(3, np.float32)
    assert float(rlx.nan_check(flat)(zero)) == 0
    with pytest.raises(NanError, match="gives nan at"):
        rlx.nan_check(rlx.grad(flat))(zero)


def test_inside_of_jitted_functions():
    inner = rlx.jit(lambda x: rnp.sqrt(x))
    with pytest.raises(NanError, match=r"sqrt gives nan at \[1, 0\]") as caught:
        rlx.nan_check(rlx.jit(lambda x: inner(x) + 1.0))(X)
    assert "inner = rlx.jit" in str(caught.value)


def test_inside_of_a_loop_the_loop_is_named():
    with pytest.raises(NanError, match="gives nan at"):
        rlx.nan_check(lambda x: rlx.fori_loop(0, 3, lambda i, c: rnp.log(c), x))(X)


def test_an_argument_with_a_nan_is_named():
    with pytest.raises(NanError, match=r"argument 0 of <lambda>, x is nan at \[1\]"):
        rlx.nan_check(lambda x: x + 1.0)(np.array([0, np.nan], np.float32))


def test_infinities_count_only_if_asked():
    masked = lambda x: rnp.exp(rnp.where(x > 0, x, -np.inf))  # noqa: E731
    rlx.nan_check(masked)(X)
    rlx.nan_check(lambda x: 1.0 / (x - x))(X)
    with pytest.raises(NanError, match=r"div gives inf at \[0, 0\]"):
        rlx.nan_check(lambda x: 1.0 / (x - x), infinities=True)(X)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64"])
def test_every_kind_of_number_is_looked_at(dtype):
    x = rnp.zeros(2, dtype)
    with pytest.raises(NanError, match="div gives"):
        rlx.nan_check(lambda x: x / x)(x)
