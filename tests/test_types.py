"""Laws of dtypes, promotion and symbolic sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rlx.ir.dims import Dim, dim
from rlx.ir.errors import DtypeError
from rlx.ir.ops.convert import holds
from rlx.ir.types import DTYPES, SHORT, Type, as_dtype, promote, type_of

ALL = list(DTYPES.values())
PAIRS = list(itertools.combinations_with_replacement(ALL, 2))


def kind(dtype: np.dtype) -> int:
    return ["bool", "int", "float", "complex"].index(
        next(k for k in ("bool", "int", "float", "complex") if k in dtype.name)
    )


def test_promotion_is_commutative_and_idempotent():
    for a, b in PAIRS:
        assert promote(a, b) == promote(b, a)
        assert promote(a, a) == a


def test_promotion_is_associative():
    for a, b, c in itertools.product(ALL, repeat=3):
        assert promote(promote(a, b), c) == promote(a, promote(b, c)) == promote(a, b, c), (a, b, c)


def test_promotion_never_lowers_the_kind():
    for a, b in PAIRS:
        assert kind(promote(a, b)) == max(kind(a), kind(b))


def test_promotion_within_a_kind_loses_nothing():
    for a, b in PAIRS:
        nothing_is_wide_enough = "uint64" in (a.name, b.name) and "i" in (a.kind, b.kind)
        if kind(a) == kind(b) and not nothing_is_wide_enough:
            assert holds(promote(a, b), a), (a, b)
            assert holds(promote(a, b), b), (a, b)


def test_integer_with_float_gives_that_float():
    for a, b in itertools.product(ALL, ALL):
        if kind(a) <= 1 and kind(b) == 2:
            assert promote(a, b) == b


def test_every_name_of_a_dtype_is_understood():
    for name, short in SHORT.items():
        assert as_dtype(name) == as_dtype(short) == as_dtype(DTYPES[name]) == DTYPES[name]
        assert as_dtype(DTYPES[name].type) == DTYPES[name]
    assert as_dtype(float).name == "float32"
    assert as_dtype(int).name == "int32"
    assert as_dtype(complex).name == "complex64"
    assert as_dtype(bool).name == "bool"


@pytest.mark.parametrize(
    "wrong", ["f31", "f4,=", "object", object, np.dtype("S3"), "datetime64[s]"]
)
def test_other_dtypes_are_refused(wrong):
    with pytest.raises(DtypeError, match="no dtype"):
        as_dtype(wrong)


def test_types_print_and_measure():
    type = Type(as_dtype("bf16"), (3, 4))
    assert str(type) == "bf16[3, 4]"
    assert (type.rank, type.size, type.nbytes) == (2, 12, 24)
    assert type.is_static
    assert str(type_of(np.zeros((2, 3)))) == "f64[2, 3]"
    assert str(type_of(3)) == "i32[]"
    assert str(type_of(True)) == "bool[]"


# -- symbolic sizes -------------------------------------------------------------------------------

SYMBOLS = [dim("a", 1, 9), dim("b", 2, 7), dim("c", 3)]
VALUES = {"a": 4, "b": 5, "c": 6}
sizes = st.recursive(
    st.integers(-4, 4) | st.sampled_from(SYMBOLS),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner).map(
        lambda t: t[1] + t[2] if t[0] == "+" else t[1] - t[2] if t[0] == "-" else t[1] * t[2]
    ),
    max_leaves=6,
)


def number(size: Dim | int) -> int:
    found = size.substitute(VALUES) if isinstance(size, Dim) else size
    assert isinstance(found, int)
    return found


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, sizes)
def test_sizes_obey_the_laws_of_integers(x, y, z):
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) + z == x + (y + z)
    assert x * (y + z) == x * y + x * z
    assert x - x == 0
    assert x + 0 == x
    assert x * 1 == x
    assert x * 0 == 0
    assert number(x * y + z) == number(x) * number(y) + number(z)
    assert hash(x + y) == hash(y + x)


@settings(max_examples=60, deadline=None)
@given(sizes)
def test_bounds_hold(x):
    if isinstance(x, Dim):
        assert x.low is None or x.low <= number(x)
        assert x.high is None or number(x) <= x.high


def test_sizes_print():
    a, b, _ = SYMBOLS
    assert str(2 * a + b - 1) == "2*a + b - 1"
    assert str(1 - a) == "-a + 1"
    assert str(a * b * a) == "a*a*b"
    assert str(Type(as_dtype("f32"), (a, 2))) == "f32[a, 2]"
    assert not Type(as_dtype("f32"), (a, 2)).is_static
