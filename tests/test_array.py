"""Concrete arrays: memory of their own, exchangeable, converted from what users write."""

import copy
import pickle

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import Absent, DeviceMismatchError, DtypeError, ImmutableError, ShapeError
from rlx.ir.types import as_dtype
from rlx.trace.apply import apply
from rlx.trace.array import Array
from rlx.trace.operators import Operators


def test_slots_are_the_contract_with_machine_code():
    assert set(Operators.__slots__) == {"_first", "_second", "_ties", "__weakref__"}
    assert (Array.__slots__, Array._data, Array._device) == ((), Array._first, Array._second)
    assert not hasattr(rnp.array(1.0), "__dict__")
    made = Array.__new__(Array)
    made._data, made._device = np.zeros(2, "float32"), None
    assert made.shape == (2,) and float((made + 1).sum()) == 2.0
    assert Array._data.__get__(made, Array) is made._data


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (1.5, "float32"),
        (3, "int32"),
        (True, "bool"),
        (1j, "complex64"),
        ([1, 2], "int32"),
        ([1, 2.5], "float32"),
        ([[True], [False]], "bool"),
        ([], "float32"),
        (np.float64(1), "float64"),
        (np.ones(2), "float64"),
        ([np.float64(1)], "float64"),
        (np.ones(2, ">f4"), "float32"),
        (np.arange(3, dtype=">i8"), "int64"),
        (range(3), "int32"),
    ],
)
def test_default_dtypes(x, dtype):
    made = rnp.array(x)
    assert made.dtype == dtype and made.dtype.isnative
    np.testing.assert_array_equal(made, np.asarray(x))


@pytest.mark.parametrize("x", ["text", ["a"], [object()], np.array("2020", "M8[Y]"), [[1], [1, 2]]])
def test_what_is_no_array_is_an_error_with_a_fix(x):
    with pytest.raises(DtypeError, match="fix"):
        rnp.array(x)


def test_integers_must_fit():
    with pytest.raises(DtypeError, match=r"do not fit|does not fit"):
        rnp.array(2**40)
    with pytest.raises(DtypeError, match="300 does not fit uint8"):
        rnp.array([1], "uint8") + 300
    assert rnp.array(2**40, "int64").item() == 2**40


def test_memory_is_its_own_and_read_only():
    source = np.ones(3, "float32")
    made = rnp.array(source)
    same = rnp.reshape(source, (3, 1))
    source[0] = 7
    assert made.tolist() == [1, 1, 1] and same.tolist() == [[1], [1], [1]]
    view = np.asarray(made)
    assert np.shares_memory(view, made._data)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    made[0] = 2
    assert view.tolist() == [1, 1, 1] and made.tolist() == [2, 1, 1]
    assert np.array(made).flags.writeable
    assert rnp.transpose(rnp.ones((2, 3)))._data.flags.c_contiguous


def test_exchange():
    x = rnp.array([[1.0, 2.0]])
    assert np.from_dlpack(x).tolist() == [[1, 2]]
    assert x.__dlpack_device__() == (1, 0)
    assert x.__array_namespace__() is rnp
    back = pickle.loads(pickle.dumps(x))
    assert back.dtype == x.dtype and back.tolist() == x.tolist()
    half = rnp.ones(2, "bfloat16")
    assert pickle.loads(pickle.dumps(half)).dtype.name == "bfloat16"
    assert copy.copy(x)._data is x._data and copy.deepcopy({"a": x})["a"]._data is x._data


def test_python_numbers():
    one = rnp.array([[2]])
    assert (int(one), float(one), complex(one), bool(one)) == (2, 2.0, 2 + 0j, True)
    assert [10, 20, 30][rnp.array(1)] == 20 and f"{rnp.array(1.5):.2f}" == "1.50"
    with pytest.raises(ShapeError, match=r"x\.any"):
        bool(rnp.ones(2))
    with pytest.raises(DtypeError, match="index"):
        [1, 2][rnp.array(1.0)]
    with pytest.raises(ShapeError, match="len"):
        len(rnp.array(1.0))
    assert [float(row.sum()) for row in rnp.ones((2, 3))] == [3.0, 3.0]
    assert len(rnp.ones((2, 3))) == 2


def test_operators_with_numpy_on_the_left():
    x = rnp.array([1.0, 2.0])
    assert isinstance(np.ones(2, "float32") + x, Array)
    assert isinstance(np.float32(2) * x, Array)
    assert (np.ones(2, "float32") @ x).item() == 3.0
    assert isinstance(np.add(np.ones(2), x), Array)
    with pytest.raises(TypeError):
        x + "text"
    assert (x == "text") is False


def test_hash_is_identity():
    x, y = rnp.ones(2), rnp.ones(2)
    assert {x: 1, y: 2}[x] == 1 and hash(x) == hash(x)
    assert (x == y).all()


def test_text():
    x = rnp.array([1.0, 2.5])
    assert repr(x) == "Array([1. , 2.5], dtype=float32)"
    assert str(x) == "[1.  2.5]"


class Elsewhere:
    """A device that keeps NumPy arrays."""

    name = "elsewhere"

    def to_host(self, data):
        return data

    def from_host(self, array):
        return array

    def wait(self, data):
        pass


def test_devices_do_not_mix():
    there = rnp.array([1.0, 2.0]).to(Elsewhere())
    assert (there.device, there.to("cpu").tolist()) == ("elsewhere", [1, 2])
    other = rnp.array([1.0, 2.0]).to(Elsewhere())
    with pytest.raises(DeviceMismatchError, match="elsewhere and elsewhere"):
        there + other


def test_errors_of_ops_at_once_name_the_line():
    with pytest.raises(ShapeError) as caught:
        apply("add", rnp.ones(2), rnp.ones(3))
    assert "where  test_array.py" in str(caught.value) and "x: f32[2]" in str(caught.value)


def test_lists_may_hold_arrays():
    made = rnp.array([rnp.array(1.0), [2.0, 3.0][0]])
    assert made.tolist() == [1.0, 2.0]


def test_every_method_has_its_function():
    is_there = [name for name, what in vars(Operators).items() if not isinstance(what, Absent)]
    missing = [name for name in is_there if not name.startswith("_")]
    functions = [n for n in missing if n not in {"type", "shape", "dtype", "ndim", "size"}]
    functions = [n for n in functions if n not in {"itemsize", "nbytes", "T", "mT"}]
    assert [n for n in functions if not hasattr(rnp, n)] == []


def test_numpys_functions_find_the_methods():
    x = rnp.array([[1.0, 2.0], [3.0, 4.0]])
    assert isinstance(np.sum(x), Array) and float(np.mean(x, axis=0)[1]) == 3.0
    with pytest.raises(ImmutableError, match="out"):
        rnp.sum(x, out=np.zeros(()))


NONE = np.zeros(0, np.int32)


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((0,), (NONE,)),
        ((0, 3), (NONE,)),
        ((2, 0), (slice(None), NONE)),
        ((0, 5, 2), (NONE, slice(None), NONE)),
        ((4, 0, 5, 2), (slice(None), NONE, None, slice(None, None, 2))),
        ((5, 2, 4), (slice(None, None, 2), NONE)),
        ((0,), (np.zeros(0, bool),)),
    ],
)
def test_an_index_of_no_places(shape, index):
    x = np.zeros(shape, np.float32)
    for wrap in (lambda fn: fn, rlx.jit):
        assert wrap(lambda x: x[index])(rlx.array(x)).shape == x[index].shape
        assert wrap(lambda x: x.at[index].add(1.0))(rlx.array(x)).shape == shape
        assert wrap(lambda x: x.at[index].set(1.0))(rlx.array(x)).shape == shape


VIEWS = (
    ("int32", (2, 3), "uint8"), ("uint8", (2, 8), "int32"), ("float64", (3,), "bfloat16"),
    ("bool", (2, 4), "uint8"), ("bool", (4,), "int32"), ("uint8", (2, 2), "bool"),
    ("complex64", (2, 3), "float32"), ("complex64", (), "int64"), ("uint8", (16,), "complex64"),
    ("uint8", (2, 0), "int32"), ("uint8", (0, 4), "int32"), ("int8", (3,), None),
)  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape", "wanted"), VIEWS)
def test_a_view_has_the_bits_of_numpys(dtype, shape, wanted):
    x = (np.arange(np.prod(shape)).reshape(shape) % (2 if wanted == "bool" else 100)).astype(dtype)
    expected = x.view() if wanted is None else x.view(as_dtype(wanted))
    for wrap in (lambda fn: fn, rlx.jit):
        found = np.asarray(wrap(lambda x: x.view(wanted))(rlx.array(x)))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(3,), (2, 5), ()])
def test_a_view_needs_an_axis_of_whole_numbers(shape):
    with pytest.raises(ShapeError, match="does not hold whole numbers of int32"):
        rnp.zeros(shape, "uint8").view("int32")


def test_a_view_of_a_symbolic_size():
    split = rlx.jit(lambda x: x.view("uint8"), dynamic={"x": {0: "n"}})
    joined = rlx.jit(lambda x: x.reshape(-1).view("uint16"), dynamic={"x": {0: "n"}})
    for n in (1, 3):
        x = np.arange(2 * n, dtype="uint8")
        assert split(x.view("int16")).tolist() == x.tolist()
        assert joined(x.reshape(n, 2)).tolist() == x.view("uint16").tolist()
