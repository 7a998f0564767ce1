"""The Python array API standard, 2024.12: names, signatures, dtypes, creation, methods.

The tables say what the standard says; `test_array_api_functions.py` has what functions give,
`test_array_api_special.py` the special cases.
"""

from __future__ import annotations

import inspect
import math
import operator
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import BoundsError, RlxError

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
SIGNED = ("int8", "int16", "int32", "int64")
REAL, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (*REAL, *COMPLEX)
NUMERIC = (*INTEGERS, *FLOATS)
DTYPES = ("bool", *NUMERIC)
DEFAULT_INT, DEFAULT_FLOAT, INDEX = "int32", "float32", "int32"

# -- names and signatures -------------------------------------------------------------------------

ONE = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag "
    "isfinite isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal round "
    "sign signbit sin sinh sqrt square tan tanh trunc matrix_transpose nonzero "
    "unique_all unique_counts unique_inverse unique_values linalg.det linalg.eigh linalg.eigvalsh "
    "linalg.inv linalg.matrix_transpose linalg.slogdet linalg.svdvals finfo iinfo"
)
TWO = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and "
    "logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract "
    "matmul linalg.matmul linalg.outer linalg.solve linalg.matrix_power can_cast tile"
)
OTHERS = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing="xy")
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
searchsorted(x1, x2, /, *, side="left", sorter=None)
where(condition, x1, x2, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.diagonal(x, /, *, offset=0)
linalg.matrix_norm(x, /, *, keepdims=False, ord="fro")
linalg.matrix_rank(x, /, *, rtol=None)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode="reduced")
linalg.svd(x, /, *, full_matrices=True)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm="backward")
fft.ifft(x, /, *, n=None, axis=-1, norm="backward")
fft.fftn(x, /, *, s=None, axes=None, norm="backward")
fft.ifftn(x, /, *, s=None, axes=None, norm="backward")
fft.rfft(x, /, *, n=None, axis=-1, norm="backward")
fft.irfft(x, /, *, n=None, axis=-1, norm="backward")
fft.rfftn(x, /, *, s=None, axes=None, norm="backward")
fft.irfftn(x, /, *, s=None, axes=None, norm="backward")
fft.hfft(x, /, *, n=None, axis=-1, norm="backward")
fft.ihfft(x, /, *, n=None, axis=-1, norm="backward")
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
__array_namespace_info__()
"""
METHODS = """
__array_namespace__(*, api_version=None)
__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)
__dlpack_device__()
__getitem__(key, /)
__setitem__(key, value, /)
to_device(device, /, *, stream=None)
"""
OF_ARRAYS = (
    "abs bool complex float index int invert neg pos "
    "add and eq floordiv ge gt le lshift lt matmul mod mul ne or pow rshift sub truediv xor"
)
FUNCTIONS = [
    *(f"{name}(x, /)" for name in ONE.split()),
    *(f"{name}(x1, x2, /)" for name in TWO.split()),
    *OTHERS.split("\n")[1:-1],
]
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parse(line: str) -> tuple[str, inspect.Signature]:
    """The name and the signature of a line of the tables."""
    name, parameters = line[: line.index("(")], line[line.index("(") :]
    made: dict[str, Any] = {}
    exec(f"def function{parameters}: ...", made)
    return name, inspect.signature(made["function"])


def check_signature(found: inspect.Signature, wanted: inspect.Signature) -> None:
    """Every argument the standard lists is there, in its place and under its name."""
    places = list(found.parameters.values())
    for i, parameter in enumerate(wanted.parameters.values()):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            assert found.parameters[parameter.name].kind in KEYWORD
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            assert places[i].kind in POSITIONAL
        else:
            assert places[i].kind is parameter.kind
            assert parameter.kind is not POSITIONAL[1] or places[i].name == parameter.name


@pytest.mark.parametrize("line", FUNCTIONS)
def test_signatures_of_functions(line: str):
    name, wanted = parse(line)
    check_signature(inspect.signature(operator.attrgetter(name)(rnp)), wanted)


@pytest.mark.parametrize("line", METHODS.split("\n")[1:-1])
def test_signatures_of_methods(line: str):
    name, wanted = parse(line)
    check_signature(inspect.signature(getattr(rnp.ones((1, 1)), name)), wanted)


def test_names_of_arrays():
    x = rnp.ones((2, 3))
    assert all(hasattr(x, f"__{name}__") for name in OF_ARRAYS.split())
    assert (x.ndim, x.size, x.shape, x.dtype, x.device) == (2, 6, (2, 3), "float32", "cpu")
    assert x.T.shape == x.mT.shape == (3, 2)
    assert x.to_device("cpu", stream=None).tolist() == x.tolist()


def test_constants():
    for name in ("e", "inf", "nan", "pi"):
        assert isinstance(getattr(rnp, name), float)
    assert rnp.newaxis is None


# -- what the namespace says of itself ------------------------------------------------------------


def test_info():
    assert rnp.__array_api_version__ == "2024.12"
    for version in (None, "2021.12", "2024.12"):
        assert rnp.ones(1).__array_namespace__(api_version=version) is rnp
    with pytest.raises(ValueError, match=r"does not follow version '2031.12'"):
        rnp.ones(1).__array_namespace__(api_version="2031.12")
    info = rnp.__array_namespace_info__()
    told = {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.capabilities() == told
    assert info.default_device() in info.devices()
    assert tuple(sorted(info.dtypes())) == tuple(sorted(DTYPES))
    assert info.dtypes(kind=("bool", "signed integer")).keys() == {"bool", *SIGNED}
    with pytest.raises(RlxError, match="there is no device 'moon'"):
        info.dtypes(device="moon")


def test_info_tells_the_true_defaults():
    defaults = rnp.__array_namespace_info__().default_dtypes(device="cpu")
    made = {"integral": 1, "real floating": 1.0, "complex floating": 1j}
    assert {kind: rnp.asarray(number).dtype for kind, number in made.items()} == {
        kind: defaults[kind] for kind in made
    }
    x = rnp.asarray([2.0, 0.0, 1.0])
    for places in (rnp.argmax(x), rnp.argsort(x), rnp.nonzero(x)[0], rnp.searchsorted(x, x)):
        assert places.dtype == defaults["indexing"]
    assert rnp.unique_all(x).inverse_indices.dtype == rnp.count_nonzero(x).dtype == INDEX


# -- dtypes ---------------------------------------------------------------------------------------

KINDS = {
    "bool": ("bool",),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGERS,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": NUMERIC,
}


def test_dtypes_are_equal_to_themselves_only():
    for name in DTYPES:
        dtype = getattr(rnp, name)
        same = [other for other in DTYPES if dtype == getattr(rnp, other)]
        assert same == [name] and {dtype: name}[rnp.ones(1, dtype=name).dtype] == name
        assert not operator.eq(dtype, None)


def test_isdtype():
    for name in DTYPES:
        for kind, members in KINDS.items():
            assert rnp.isdtype(getattr(rnp, name), kind) is (name in members)
    assert rnp.isdtype(rnp.int8, ("bool", rnp.int8)) and not rnp.isdtype(rnp.int8, rnp.uint8)


def promoted(first: str, second: str) -> str | None:
    """The standard's table of promotion, or None where it says nothing."""
    for kind in (("bool",), SIGNED, UNSIGNED, REAL, COMPLEX):
        if first in kind and second in kind:
            return max(first, second, key=kind.index)
    signed, unsigned = (first, second) if first in SIGNED else (second, first)
    if signed not in SIGNED or unsigned not in UNSIGNED[:3]:
        return None
    return SIGNED[max(SIGNED.index(signed), UNSIGNED.index(unsigned) + 1)]


PROMOTIONS = [(a, b, promoted(a, b)) for a in DTYPES for b in DTYPES if promoted(a, b)]


def test_promotion():
    assert len(PROMOTIONS) == 1 + 16 + 16 + 24 + 4 + 4
    for first, second, wanted in PROMOTIONS:
        x, y = rnp.ones(2, dtype=first), rnp.ones((), dtype=second)
        assert rnp.result_type(first, y) == rnp.result_type(x, y) == wanted
        assert rnp.where(True, x, y).dtype == rnp.concat([x, y[None]]).dtype == wanted
        assert rnp.can_cast(x, second) is (wanted == second)
        if first != "bool":
            assert (x + y).dtype == rnp.multiply(x, y).dtype == wanted


def python_numbers(dtype: str) -> tuple[Any, ...]:
    """The Python numbers that may meet an array."""
    if dtype == "bool":
        return (True,)
    return (1,) if dtype in INTEGERS else (1, 1.0) if dtype in REAL else (1, 1.0, 1j)


OPERATORS = {
    **dict.fromkeys(("add", "sub", "mul", "pow", "eq", "ne"), NUMERIC),
    **dict.fromkeys(("floordiv", "mod", "lt", "le", "gt", "ge"), (*INTEGERS, *REAL)),
    **dict.fromkeys(("and_", "or_", "xor"), ("bool", *INTEGERS)),
    **dict.fromkeys(("lshift", "rshift"), INTEGERS),
    "truediv": FLOATS,
}


COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


@pytest.mark.parametrize("name", OPERATORS)
def test_python_numbers_take_the_dtype(name: str):
    function = getattr(operator, name)
    for dtype in OPERATORS[name]:
        x = rnp.ones((2, 1), dtype=dtype)
        wanted = "bool" if name in COMPARISONS else dtype
        for number in python_numbers(dtype):
            for result in (function(x, number), function(number, x)):
                assert (result.dtype, result.shape) == (wanted, (2, 1))


def test_operators_in_place_keep_the_dtype():
    for name in OPERATORS.keys() - COMPARISONS:
        in_place = getattr(operator, f"i{name.strip('_')}")
        for dtype in OPERATORS[name]:
            x, y = rnp.ones((2, 1), dtype=dtype), rnp.ones((1, 1), dtype=dtype)
            found = in_place(rnp.asarray(x, copy=True), y)
            assert (found.dtype, found.shape) == (dtype, (2, 1))
            assert bool(rnp.all(found == getattr(operator, name)(x, y)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_finfo(dtype: str):
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    for given in (getattr(rnp, dtype), rnp.ones(2, dtype=dtype)):
        info, wanted = rnp.finfo(given), np.finfo(real)
        assert (info.bits, info.dtype) == (wanted.bits, real)
        for name in ("eps", "max", "min", "smallest_normal"):
            assert type(getattr(info, name)) is float
            assert getattr(info, name) == float(getattr(wanted, name))
    assert f"finfo(dtype={real}" in repr(info)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_iinfo(dtype: str):
    for given in (getattr(rnp, dtype), rnp.ones(2, dtype=dtype)):
        info, wanted = rnp.iinfo(given), np.iinfo(dtype)
        assert (info.bits, info.min, info.max) == (wanted.bits, wanted.min, wanted.max)
        assert info.dtype == dtype and type(info.max) is int


def test_astype_copies_unless_told():
    x = rnp.asarray([1.5, -2.5])
    assert rnp.astype(x, "float32", copy=False) is x
    assert rnp.astype(x, "int8", device="cpu").tolist() == [1, -2]
    assert rnp.astype(rnp.asarray([0.0, math.nan]), "bool").tolist() == [False, True]


# -- creation -------------------------------------------------------------------------------------


def test_default_dtypes_of_creation():
    for made in (rnp.zeros(2), rnp.ones(2), rnp.empty(2), rnp.eye(2), rnp.linspace(0, 1, 3)):
        assert made.dtype == DEFAULT_FLOAT
    for number, dtype in ((True, "bool"), (1, "int32"), (1.0, "float32"), (1j, "complex64")):
        assert rnp.asarray(number).dtype == rnp.full((), number).dtype == dtype
        assert rnp.asarray([[number]]).dtype == dtype
    assert rnp.arange(3).dtype == DEFAULT_INT and rnp.arange(3.0).dtype == DEFAULT_FLOAT


@pytest.mark.parametrize("dtype", DTYPES)
def test_creation_on_a_device(dtype: str):
    given: dict[str, Any] = {"dtype": getattr(rnp, dtype), "device": "cpu"}
    like = rnp.zeros((2, 2), dtype="int8")
    made = [
        *(f((2, 2), **given) for f in (rnp.zeros, rnp.ones, rnp.empty)),
        *(f(like, **given) for f in (rnp.zeros_like, rnp.ones_like, rnp.empty_like)),
        rnp.full((2, 2), 1, **given),
        rnp.full_like(like, 1, **given),
        rnp.eye(2, **given),
        rnp.asarray([[1, 0], [1, 1]], **given),
    ]
    for x in made:
        assert (x.dtype, x.shape, x.device) == (dtype, (2, 2), "cpu")
    assert rnp.arange(0, 2, dtype=dtype, device="cpu").dtype == dtype


def test_an_unknown_device_is_an_error():
    with pytest.raises(RlxError, match="moon"):
        rnp.ones(2, device="moon")


def test_asarray_and_copies():
    x = rnp.asarray([1.0, 2.0])
    assert rnp.asarray(x) is x and rnp.asarray(x, copy=False) is x
    assert rnp.asarray(x, dtype="int32").tolist() == [1, 2]
    for given in ([1.0], np.ones(2), 1.0):
        with pytest.raises(ValueError, match="no array can be made of this without a copy"):
            rnp.asarray(given, copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        rnp.asarray(x, dtype="float64", copy=False)


def test_great_integers_stay_exact():
    great = [2**63 + 1, 0, 2**64 - 1]
    assert rnp.asarray(great, dtype="uint64").tolist() == great
    assert rnp.asarray([2**63 + 1, 2**63 + 3]).tolist() == [2**63 + 1, 2**63 + 3]


def test_linspace_is_exact_at_its_ends():
    third = rnp.linspace(0.1, 16777217.0, 4, dtype="float64")
    assert (float(third[0]), float(third[-1])) == (0.1, 16777217.0)
    open_ended = rnp.linspace(0, 1, 4, endpoint=False)
    assert open_ended.tolist() == rnp.linspace(0, 1, 5)[:-1].tolist()


def test_triangles_keep_the_dtype():
    for dtype in DTYPES:
        x = rnp.ones((2, 2), dtype=dtype)
        assert rnp.tril(x).dtype == rnp.triu(x).dtype == dtype
        assert rnp.astype(rnp.tril(x), "int32").tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0)])
def test_dlpack(copy: bool | None, version: tuple[int, int] | None):
    x = rnp.asarray([1.0, 2.0])
    x.__dlpack__(copy=copy, max_version=version, dl_device=(1, 0), stream=None)
    assert x.__dlpack_device__() == (1, 0)
    assert rnp.from_dlpack(x, copy=copy, device="cpu").tolist() == [1.0, 2.0]
    assert np.from_dlpack(x, copy=copy).tolist() == [1.0, 2.0]


# -- methods --------------------------------------------------------------------------------------


def test_arrays_of_one_number_convert():
    for dtype in DTYPES:
        x = rnp.ones((), dtype=dtype)
        assert x.__bool__() is True and x.__complex__() == 1 + 0j
        if dtype in COMPLEX:
            for name in ("__int__", "__float__"):
                with pytest.raises(TypeError, match="complex"):
                    getattr(x, name)()
        else:
            assert x.__int__() == 1 and type(x.__float__()) is float
        if dtype in INTEGERS:
            assert [10, 20][x] == 20
        else:
            with pytest.raises(TypeError, match="index"):
                x.__index__()
    assert math.isnan(float(rnp.asarray(math.nan)))
    with pytest.raises(TypeError):
        bool(rnp.ones(2))


def test_truths_as_indices():
    x = rnp.asarray([[1, 2], [3, 4]])
    assert x[rnp.asarray(True)].shape == (1, 2, 2) and x[rnp.asarray(False)].shape == (0, 2, 2)
    assert x[x > 2].tolist() == [3, 4] and x[rnp.asarray([True, False])].tolist() == [[1, 2]]
    assert x[rnp.zeros((0,), dtype="bool")].shape == (0, 2)
    with pytest.raises(BoundsError):
        x[rnp.ones(3, dtype="bool")]


def test_creation_in_compiled_functions_takes_a_device():
    def function(x: Any) -> Any:
        xp = x.__array_namespace__()
        made = xp.zeros_like(x, device="cpu") + xp.ones(2, device=x.device)
        return xp.astype(made, "int32", device=x.device).to_device("cpu")

    assert rlx.jit(function)(rnp.zeros(2)).tolist() == [1, 1]
