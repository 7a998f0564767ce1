"""The Python array API standard, 2024.12: dtypes, shapes and orders that functions give."""

from __future__ import annotations

import math

import pytest

import rlx.numpy as rnp
from rlx.ir.errors import RlxError

NUMERIC = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
REAL_OF = {"complex64": "float32", "complex128": "float64"}
COMPLEX_OF = {real: complex for complex, real in REAL_OF.items()}
FLOATS = (*COMPLEX_OF, *REAL_OF)


def test_axes_outside_are_index_errors():
    with pytest.raises(IndexError):
        rnp.expand_dims(rnp.ones((2, 2)), axis=3)
    with pytest.raises(ValueError, match="squeeze"):
        rnp.squeeze(rnp.ones((2, 1)), 0)
    x = rnp.ones((2, 2))
    assert rnp.reshape(x, (2, 2), copy=False) is x


def test_sums_take_the_default_dtype():
    wide = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
    for dtype in NUMERIC:
        x = rnp.ones((2, 3), dtype=dtype)
        wanted = wide.get(dtype, dtype)
        for name in ("sum", "prod"):
            assert getattr(rnp, name)(x).dtype == wanted
            assert getattr(rnp, name)(rnp.zeros((0,), dtype=dtype)).dtype == wanted
        for name in ("cumulative_sum", "cumulative_prod"):
            summed = getattr(rnp, name)(x, axis=1, include_initial=True)
            assert (summed.dtype, summed.shape) == (wanted, (2, 4))
        assert rnp.linalg.trace(x).dtype == wanted
        assert rnp.sum(x, dtype=dtype).dtype == rnp.sum(x, dtype=dtype, axis=()).dtype == dtype


def test_sort_is_stable_both_ways():
    x = rnp.asarray([2, 1, 2, 1])
    assert rnp.argsort(x).tolist() == [1, 3, 0, 2]
    assert rnp.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
    assert rnp.sort(x, descending=True, stable=False).tolist() == [2, 2, 1, 1]
    order = rnp.argsort(x)
    assert rnp.searchsorted(x, rnp.asarray([1, 2]), side="right", sorter=order).tolist() == [2, 4]


def test_each_nan_is_unique():
    x = rnp.asarray([math.nan, 1.0, math.nan, 1.0])
    found = rnp.unique_all(x)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    assert found.counts.tolist() == [2, 1, 1] and found.indices.tolist()[0] == 1
    assert rnp.unique_counts(x)._fields == ("values", "counts")
    inverse = rnp.unique_inverse(rnp.reshape(x, (2, 2)))
    assert inverse._fields == ("values", "inverse_indices")
    assert inverse.inverse_indices.shape == (2, 2)
    assert rnp.isnan(rnp.unique_values(x)).tolist() == [False, True, True]


def test_take_and_diff():
    x = rnp.asarray([[1, 5, 2], [4, 3, 9]])
    assert rnp.take(x, rnp.asarray([2, -3]), axis=1).tolist() == [[2, 1], [9, 4]]
    places = rnp.argsort(x, axis=1)
    assert rnp.take_along_axis(x, places, axis=1).tolist() == [[1, 2, 5], [3, 4, 9]]
    assert rnp.diff(x, axis=1, prepend=rnp.zeros((2, 1), dtype="int32")).tolist() == [
        [1, 4, -3],
        [4, -1, 6],
    ]
    assert rnp.diff(x, n=0, append=x) is x
    assert [y.shape for y in rnp.unstack(x, axis=1)] == [(2,)] * 3


# -- the extensions -------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [(), (2,), (0,)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_linalg_names_dtypes_shapes(dtype: str, stack: tuple[int, ...]):
    real = REAL_OF.get(dtype, dtype)
    x = rnp.broadcast_to(rnp.astype(2 * rnp.eye(3), dtype), (*stack, 3, 3))
    wide = x[..., :2, :]
    made = {
        "eigh": (x, {"eigenvalues": (real, (3,)), "eigenvectors": (dtype, (3, 3))}),
        "qr": (wide, {"Q": (dtype, (2, 2)), "R": (dtype, (2, 3))}),
        "slogdet": (x, {"sign": (dtype, ()), "logabsdet": (real, ())}),
        "svd": (wide, {"U": (dtype, (2, 2)), "S": (real, (2,)), "Vh": (dtype, (3, 3))}),
    }
    for name, (given, parts) in made.items():
        found = getattr(rnp.linalg, name)(given)
        assert found._fields == tuple(parts), name
        for part, (kind, shape) in zip(found, parts.values(), strict=True):
            assert (part.dtype, part.shape) == (kind, stack + shape), name
    for name in ("matrix_norm", "det", "matrix_rank"):
        assert getattr(rnp.linalg, name)(x).shape == stack
    assert rnp.linalg.matrix_norm(x).dtype == rnp.linalg.svdvals(x).dtype == real
    assert rnp.linalg.solve(x, rnp.ones((3,), dtype=dtype)).shape == (*stack, 3)
    assert rnp.linalg.pinv(wide, rtol=0.1).shape == (*stack, 3, 2)


def test_vecdot_wants_equal_sizes():
    x = rnp.asarray([1j, 2.0])
    assert complex(rnp.vecdot(x, x)) == 5.0
    assert rnp.vecdot(rnp.ones((4, 1, 2)), rnp.ones((3, 2))).shape == (4, 3)
    with pytest.raises(RlxError, match="sizes 2 and 1"):
        rnp.vecdot(rnp.ones((3, 2)), rnp.ones((3, 1)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_fft_dtypes_and_shapes(dtype: str):
    x, fft = rnp.ones((2, 6), dtype=dtype), rnp.fft
    if dtype in COMPLEX_OF:
        for name in ("rfft", "ihfft", "rfftn"):
            found = getattr(fft, name)(x)
            assert (found.dtype, found.shape) == (COMPLEX_OF[dtype], (2, 4)), name
        assert fft.fftfreq(6, d=0.5, dtype=dtype, device="cpu").dtype == dtype
        assert fft.rfftfreq(6, dtype=dtype).shape == (4,)
        return
    for name in ("fft", "ifft", "fftn", "ifftn", "fftshift", "ifftshift"):
        found = getattr(fft, name)(x)
        assert (found.dtype, found.shape) == (dtype, (2, 6)), name
    for name in ("irfft", "hfft", "irfftn"):
        found = getattr(fft, name)(x)
        assert (found.dtype, found.shape) == (REAL_OF[dtype], (2, 10)), name
